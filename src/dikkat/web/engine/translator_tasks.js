// What the page of a translator asks of the engine.

const MAX_TEXT_TOKENS = 4000;
const MAX_TEXT_PIECES = 400;
const WINDOW_TOKENS = 1000; // of a longer text as many are read, around the chosen sentence
const WINDOW_PIECES = 100;

// Translates every sentence, and tells all about the one of number `at`, from 0, or where that is null the one at the `caret`,
// and about the `hypothesis` of that rank, from 0, of its search.
TASKS.translate = async (service, { text, at = 0, caret = 0, beamSize, hypothesis = 0, ...question }, show, isStale) => {
  const started = performance.now();
  const { model } = service;
  const { sourceTokenizer, targetTokenizer } = model;
  if (text.length > MAX_CHARACTERS) return { tooLong: 0, longest: MAX_TEXT_TOKENS, isCut: true };
  const readable = (lines) => lines.flatMap((line) => line.pieces).filter(({ ids }) => ids.length);
  const read = (part) => service.run(model.reading.linesOf(part.trim()), isStale);
  const whole = await read(text);
  const all = readable(whole);
  const before = at ?? Math.max(0, (text.slice(caret).trim() ? readable(await read(text.slice(0, caret))) : all).length - 1);
  const [first, last] = windowAround(all, Math.min(before, all.length - 1));
  const pieces = all.slice(first, last);
  const lines = pieces.length === all.length ? whole : whole.map((line) => ({ ...line, pieces: line.pieces.filter((piece) => pieces.includes(piece)) })).filter((line) => line.pieces.length);
  if (!pieces.length) return text.trim() ? { copied: model.joined(lines) } : { empty: true };
  const number = Math.min(before - first, pieces.length - 1);
  const { ids, read: written } = pieces[number];
  const source = wordsOf(sourceTokenizer, [...ids, EOS], written);
  const changes = changesOf({ ...question, ...source });
  const searchFor = (piece, limits) => keptSearch(service, piece, { ...limits, beamSize, ...question, hidden: piece === pieces[number] ? question.hidden : [] }, source);
  await service.run(model.translate(lines, searchFor), isStale, ({ best }) => show({ text: model.joined(lines, targetTokenizer.decode(best)) }));
  const { hypotheses, steps } = pieces[number].result;
  const shown = Math.min(hypothesis, hypotheses.length - 1);
  const { tokens, score, finished } = hypotheses[shown];
  const { maps } = model.force(ids, tokens, changes);
  return {
    ids, tokens, score, isFinished: finished, milliseconds: performance.now() - started, headsOff: null, saliency: null,
    unseen: unseenIn(sourceTokenizer, ids, written),
    translation: shown && all.length === 1 ? targetTokenizer.decode(tokens) : model.joined(lines), at: first + number, first, count: all.length,
    pieces: pieces.map((piece) => ({ source: piece.source, target: model.reading.restored(piece.written, piece.inside, piece.symbols.map((symbol) => symbol.written)) })),
    source,
    target: wordsOf(targetTokenizer, [BOS, ...tokens, EOS], targetTokenizer.decode(tokens)),
    maps: mapValues(maps, (layers) => layers.map(packedMap)),
    rollout: { "encoder-self": rolloutOf(maps["encoder-self"]), "decoder-self": rolloutOf(maps["decoder-self"]) },
    beam: { size: beamSize, shown, hypotheses: hypotheses.map((one) => [targetTokenizer.decode(one.tokens), one.path]), steps: labelledSteps(targetTokenizer, steps) },
  };
};

// The first sentence and the one after the last that are read of a text: all, or as many as fit around the one of `number`.
function windowAround(pieces, number) {
  const tokens = (from, to) => pieces.slice(from, to).reduce((sum, { ids }) => sum + ids.length, 0);
  if (pieces.length <= MAX_TEXT_PIECES && tokens(0, pieces.length) <= MAX_TEXT_TOKENS) return [0, pieces.length];
  // windows lie end to end, so that the next sentence mostly is in the same one
  let first = 0;
  for (let last = 1; last <= pieces.length; last++) {
    if (last < pieces.length && last - first < WINDOW_PIECES && tokens(first, last + 1) <= WINDOW_TOKENS) continue;
    if (number < last) return [first, last];
    first = last;
  }
  return [first, pieces.length];
}

// What search finds for a piece, with its steps; sentences that stand as they were are not translated again.
function* keptSearch(service, { ids }, question, source) {
  const key = JSON.stringify([ids, question]);
  const known = service.kept.get(key);
  if (known) return known;
  const { beamSize, noRepeatNgram } = question;
  const search = service.model.search(ids, { beamSize, noRepeatNgram, nBest: beamSize, ...changesOf({ ...question, ...source }) });
  const steps = [];
  let next = search.next();
  for (; !next.done; next = search.next()) {
    steps.push(next.value.candidates);
    yield next.value;
  }
  if (service.kept.size >= MAX_KEPT) service.kept.delete(service.kept.keys().next().value);
  service.kept.set(key, { ...next.value, steps });
  return service.kept.get(key);
}

// Every head off once: {done, count} as parts, then [kind, layer, head, text, score, log-probability] of each.
TASKS.heads = async (service, { ids, beamSize, ...question }, show, isStale) => {
  const { num_heads: heads, encoder_layers: encoder, decoder_layers: decoder } = service.model.settings;
  const names = [["encoder-self", encoder], ["decoder-self", decoder], ["cross", decoder]].flatMap(([kind, layers]) =>
    Array.from({ length: layers * heads }, (_, number) => [kind, Math.floor(number / heads), number % heads]));
  const results = [];
  for (const name of names) {
    const changes = changesOf({ ...question, off: [...question.off, name] });
    const search = service.model.withoutLoops(ids, (limits) => service.model.search(ids, { beamSize, ...limits, ...changes }));
    const { tokens, score, logProbability } = await service.run(search, isStale);
    results.push([...name, service.model.targetTokenizer.decode(tokens), score, logProbability]);
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
