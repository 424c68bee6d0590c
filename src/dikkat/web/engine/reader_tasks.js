// What the pages of a classifier and of a language model ask of the engine.

const MAX_CHOICES = 12;
const NOTHING_WRITTEN = { text: "", tokens: [], wordNumbers: [], words: [] };

TASKS.classify = async (service, question) => readByEncoder(service, question, (model, ids, text, changes) => {
  const { labels } = model.header.classifier;
  const probabilities = model.probabilities(model.logits(ids, text, changes));
  const classes = probabilities.map((share, index) => [labels[index], share, index]).sort((a, b) => b[1] - a[1]);
  return { classes, target: { ...NOTHING_WRITTEN, text: classes[0][0] }, probability: classes[0][1] };
});

// The numbers of a text as [name, number], by an imported model.
TASKS.measure = async (service, question) => readByEncoder(service, question, (model, ids, text, changes) => {
  const numbers = model.logits(ids, text, changes).map((number, index) => [model.header.classifier.labels[index], number]);
  return { numbers, target: NOTHING_WRITTEN };
});

// The marked words of a text, by an imported model.
TASKS.tag = async (service, question) => readByEncoder(service, question, (model, ids, text, changes, placed) => {
  const { frame: [{ length: before }], labels } = model.header.classifier;
  const logits = model.tokenLogits(ids, changes).subarray(before * labels.length);
  return { spans: model.spans(text, placed, logits), target: NOTHING_WRITTEN };
});

// What `answer` says of a text, and how the encoder read it.
function readByEncoder({ model }, { text, ...question }, answer) {
  const started = performance.now();
  const { tokenizer, header } = model;
  const reading = readText(tokenizer, text.trim(), header.longest);
  if (!reading.ids) return reading;
  const ids = model.read(reading.ids);
  const maps = {};
  const source = model.words(ids, reading.text);
  const changes = { ...changesOf({ ...question, ...source }), maps };
  const shown = header.classifier.wordTable ? textWithout(reading.text, source, question.hidden) : reading.text;
  return {
    ...answer(model, ids, shown, changes, tokenizer.placed?.(reading.text)),
    ids, milliseconds: performance.now() - started, isFinished: true, unseen: unseenIn(tokenizer, reading.ids, reading.text), source,
    maps: mapValues(maps, (layers) => layers.map(packedMap)), rollout: { "encoder-self": rolloutOf(maps["encoder-self"]) },
    beam: null, saliency: null, headsOff: [], decisive: null, skipped: reading.ids.length - model.kept(reading.ids).length,
  };
}

// A text without the words of these numbers; special tokens are no words.
function textWithout(text, { words, plain: [first, end] }, hidden = []) {
  return hidden.length ? words.filter((_, number) => number >= first && number < end && !hidden.includes(number)).join(" ") : text;
}

// How much the log-odds of the likeliest class fall without each word, in nats.
TASKS.decisive = async (service, { ids, label, source, ...question }, show, isStale) => {
  const { words, wordNumbers, plain: [first, end] } = source;
  const groups = [];
  wordNumbers.forEach((word, token) => (groups[word] ??= []).push(token));
  const read = words.slice(first, end).join(" "); // of a long text its beginning and its end
  const hide = (number) => textWithout(read, source, [...(question.hidden ?? []), ...(number === null ? [] : [number + first])]);
  const changes = changesOf({ ...question, wordNumbers });
  return service.run(service.model.decisive(ids, groups.slice(first, end), label, hide, changes), isStale, (done) => show({ done, count: end - first }));
};

// Of a text that is longer than the context, the tokens before the caret are read, as many as it holds; a message, whose answer is
// asked for (`chat`), is read whole.
TASKS.foresee = async (service, { text, caret = 0, chat, ...question }) => {
  const started = performance.now();
  const { tokenizer, header } = service.model;
  const longest = shownLength(header);
  if (chat) {
    if (!text.trim()) return { empty: true };
    const ids = service.model.message(text.slice(0, MAX_CHARACTERS));
    if (ids.length > longest) return { tooLong: ids.length, longest, isCut: text.length > MAX_CHARACTERS };
    return foreseen(service, ids, started, question, { text });
  }
  const isLong = text.length > MAX_CHARACTERS || tokenizer.encode(text).length > longest;
  const head = isLong ? text.slice(0, caret || text.length) : text;
  const before = tokenizer.encode(head.slice(-MAX_CHARACTERS));
  if (!before.length && service.model.begin === null) return { empty: true };
  const ids = before.length ? before.slice(-longest) : [service.model.begin];
  return foreseen(service, ids, started, question, {
    text: head, rest: text.slice(head.length), unseen: before.length ? unseenIn(tokenizer, ids, isLong ? tokenizer.decode(ids) : text) : [],
    cut: isLong ? { count: before.length, shown: ids.length, isContext: longest === header.longest } : null,
  });
};

function foreseen(service, ids, started, question, { text, rest = "", unseen = [], cut = null }) {
  const { tokenizer } = service.model;
  const maps = {};
  service.logits = service.model.next(ids, service.model.decoder.newCache(), { ...changesOf(question), maps });
  const next = distribution(service.logits, { temperature: 0 })[0][1];
  return {
    ids, milliseconds: performance.now() - started, isFinished: true, unseen, cut,
    source: { ...NOTHING_WRITTEN, text }, rest, target: wordsOf(tokenizer, [...ids, next], ""),
    maps: mapValues(maps, (layers) => layers.map(packedMap)), rollout: { "decoder-self": rolloutOf(maps["decoder-self"]) },
    beam: null, saliency: null, headsOff: [],
  };
}

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
