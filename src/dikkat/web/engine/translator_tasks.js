// What the page of a translator asks of the engine.

TASKS.translate = async (service, { text, beamSize, ...question }, show, isStale) => {
  const started = performance.now();
  const { sourceTokenizer, targetTokenizer, header } = service.model;
  const reading = readText(sourceTokenizer, text.trim(), header.longest);
  if (!reading.ids) return reading;
  const { ids, text: written } = reading;
  const steps = [];
  const source = wordsOf(sourceTokenizer, [...ids, EOS], written);
  const changes = changesOf({ ...question, ...source });
  const result = await service.run(service.model.search(ids, { beamSize, ...changes }), isStale, ({ candidates, best }) => {
    steps.push(candidates);
    show({ text: targetTokenizer.decode(best) });
  });
  const milliseconds = performance.now() - started;
  const output = targetTokenizer.decode(result.tokens);
  const { maps } = service.model.force(ids, result.tokens, changes);
  return {
    ids, tokens: result.tokens, score: result.score, isFinished: result.finished, milliseconds, headsOff: null, saliency: null,
    unseen: unseenIn(sourceTokenizer, ids, written),
    source,
    target: wordsOf(targetTokenizer, [BOS, ...result.tokens, EOS], output),
    maps: mapValues(maps, (layers) => layers.map(packedMap)),
    rollout: { "encoder-self": rolloutOf(maps["encoder-self"]), "decoder-self": rolloutOf(maps["decoder-self"]) },
    beam: { size: beamSize, path: result.path, steps: labelledSteps(targetTokenizer, steps.slice(0, result.path.length)) },
  };
};

// Every head off once: {done, count} as parts, then [kind, layer, head, text, score] of each.
TASKS.heads = async (service, { ids, beamSize, ...question }, show, isStale) => {
  const { num_heads: heads, encoder_layers: encoder, decoder_layers: decoder } = service.model.settings;
  const names = [["encoder-self", encoder], ["decoder-self", decoder], ["cross", decoder]].flatMap(([kind, layers]) =>
    Array.from({ length: layers * heads }, (_, number) => [kind, Math.floor(number / heads), number % heads]));
  const results = [];
  for (const name of names) {
    const changes = changesOf({ ...question, off: [...question.off, name] });
    const { tokens, score } = await service.run(service.model.search(ids, { beamSize, ...changes }), isStale);
    results.push([...name, service.model.targetTokenizer.decode(tokens), score]);
    show({ done: results.length, count: names.length });
  }
  return results;
};

TASKS.occlusion = async (service, { ids, tokens, ...question }, show, isStale) => {
  const count = ids.length + 1;
  const lost = await service.run(service.model.occlusion(ids, tokens, changesOf(question)), isStale, (s) => show({ done: s + 1, count }));
  return packedMap({ shape: lost.shape, values: sharesOf(lost) });
};

// Sizes of each row as shares of their sum.
function sharesOf({ shape: [, T, S], values }) {
  const shares = values.map(Math.abs);
  for (let t = 0; t < T; t++) {
    const row = shares.subarray(t * S, (t + 1) * S);
    const total = row.reduce((a, b) => a + b, 0);
    if (total) row.forEach((value, s) => { row[s] = value / total; });
  }
  return shares;
}

// [parent, label, log-probability, score, fate] of each candidate; a label may need the tokens before it.
function labelledSteps(tokenizer, steps) {
  let living = [[]];
  return steps.map((candidates) => {
    const grown = candidates.map(({ parent, token }) => [...living[parent], token]);
    living = grown.filter((_, rank) => candidates[rank].fate === "lives");
    return candidates.map(({ parent, logProbability, score, fate }, rank) =>
      [parent, labelsOf(tokenizer, grown[rank].slice(-4)).at(-1), logProbability, score, fate]);
  });
}
