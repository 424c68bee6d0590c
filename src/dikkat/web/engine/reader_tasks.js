// What the pages of a classifier and of a language model ask of the engine.

const MAX_CHOICES = 12;
const NOTHING_WRITTEN = { text: "", tokens: [], wordNumbers: [], words: [] };

TASKS.classify = async ({ model }, { text, ...question }) => {
  const started = performance.now();
  const { tokenizer, header } = model;
  const reading = readText(tokenizer, text.trim(), header.longest);
  if (!reading.ids) return reading;
  const ids = model.read(reading.ids);
  const maps = {};
  const source = wordsOf(tokenizer, ids, reading.text);
  const probabilities = model.probabilities(model.logits(ids, textWithout(reading.text, source.words, question.hidden), { ...changesOf({ ...question, ...source }), maps }));
  const { labels } = header.classifier;
  const classes = probabilities.map((share, index) => [labels[index], share, index]).sort((a, b) => b[1] - a[1]);
  return {
    ids, classes, milliseconds: performance.now() - started, isFinished: true, unseen: unseenIn(tokenizer, reading.ids, reading.text),
    source, target: { ...NOTHING_WRITTEN, text: classes[0][0] }, probability: classes[0][1],
    maps: mapValues(maps, (layers) => layers.map(packedMap)), rollout: { "encoder-self": rolloutOf(maps["encoder-self"]) },
    beam: null, saliency: null, headsOff: [], decisive: null, skipped: reading.ids.length - (ids.length - 1),
  };
};

// A text without the words of these numbers, the begin mark being number 0.
function textWithout(text, words, hidden = []) {
  return hidden.length ? words.filter((_, number) => number > 0 && !hidden.includes(number)).join(" ") : text;
}

// How much the log-odds of the likeliest class fall without each word, in nats.
TASKS.decisive = async (service, { ids, label, words: written, ...question }, show, isStale) => {
  const groups = [];
  question.wordNumbers.forEach((word, token) => (groups[word] ??= []).push(token));
  // the begin mark is no word
  const words = groups.slice(1);
  const read = written.slice(1).join(" "); // of a long text its beginning and its end
  const hide = (number) => textWithout(read, written, [...(question.hidden ?? []), ...(number === null ? [] : [number + 1])]);
  return service.run(service.model.decisive(ids, words, label, hide, changesOf(question)), isStale, (done) => show({ done, count: words.length }));
};

// Of a text that is longer than the context, the tokens before the caret are read, as many as it holds.
TASKS.foresee = async (service, { text, caret = 0, ...question }) => {
  const started = performance.now();
  const { tokenizer, header } = service.model;
  const longest = shownLength(header);
  const isLong = text.length > MAX_CHARACTERS || tokenizer.encode(text).length > longest;
  const head = isLong ? text.slice(0, caret || text.length) : text;
  const before = tokenizer.encode(head.slice(-MAX_CHARACTERS));
  if (!before.length && service.model.begin === null) return { empty: true };
  const ids = before.length ? before.slice(-longest) : [service.model.begin];
  const maps = {};
  service.logits = service.model.next(ids, service.model.decoder.newCache(), { ...changesOf(question), maps });
  const next = distribution(service.logits, { temperature: 0 })[0][1];
  return {
    ids, milliseconds: performance.now() - started, isFinished: true, unseen: before.length ? unseenIn(tokenizer, ids, isLong ? tokenizer.decode(ids) : text) : [],
    cut: isLong ? { count: before.length, shown: ids.length, isContext: longest === header.longest } : null,
    source: { ...NOTHING_WRITTEN, text: head }, rest: text.slice(head.length), target: wordsOf(tokenizer, [...ids, next], ""),
    maps: mapValues(maps, (layers) => layers.map(packedMap)), rollout: { "decoder-self": rolloutOf(maps["decoder-self"]) },
    beam: null, saliency: null, headsOff: [],
  };
};

const REPEATED = 25; // random tokens that are read twice: what an induction head is for, and nothing else helps with
const SPECIALS = 4;

// What the model would write after each layer, and what its heads do with tokens that come again.
TASKS.parts = async ({ model }, { ids, ...question }) => {
  const lens = model.lens(ids, changesOf(question));
  const [answer] = falling(lens.at(-1));
  const label = (id) => labelsOf(model.tokenizer, [id])[0];
  const layers = lens.map((logits) => {
    const [[share, first]] = sampling(logits).choices();
    return { token: label(first), share, ofAnswer: share * Math.exp(logits[answer] - logits[first]) };
  });
  let state = 1;
  const random = () => (state = (state * 48271) % 2147483647) / 2147483647; // Park and Miller 1988
  const { outputs } = model.output;
  const half = Array.from({ length: Math.max(1, Math.min(REPEATED, Math.floor(model.header.languageModel.context / 2))) }, () => Math.min(SPECIALS, outputs - 1) + Math.floor(random() * Math.max(1, outputs - SPECIALS)));
  const isCausal = model.header.languageModel.objective !== "prefix";
  return { answer: label(answer), layers, heads: isCausal ? model.patterns([...half, ...half]) : [] };
};

// {kept, choices}: how many tokens may follow under these options, and the likeliest as [label, probability].
TASKS.choices = async ({ logits, model }, options) => {
  const { count, choices } = sampling(logits, options);
  return { kept: count, choices: taken(choices(), MAX_CHOICES).map(([share, id]) => [labelsOf(model.tokenizer, [id])[0], share]) };
};

TASKS.write = async (service, { ids, most, temperature, topK, topP, ...question }, show, isStale) => {
  const { tokenizer } = service.model;
  const written = [];
  // a token may hold a part of a character, so the whole is decoded again
  const textOf = () => tokenizer.decode([...ids, ...written]).slice(tokenizer.decode(ids).length);
  await service.run(service.model.write(ids, { most, temperature, topK, topP, ...changesOf(question) }), isStale, ({ id }) => {
    written.push(id);
    show({ text: textOf() });
  });
  return { text: textOf() };
};
