// What the module dikkat.js exports. Its types and what each call does stand in dikkat.d.ts.

async function bytesAt(source) {
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  const url = source instanceof URL ? source : null;
  if (typeof process !== "undefined" && process.versions?.node && !/^https?:/.test(String(source))) {
    const { readFile } = await import("node:fs/promises");
    return new Uint8Array(await readFile(url ?? String(source)));
  }
  const response = await fetch(source);
  if (!response.ok) throw new Error(`${source}: the model cannot be loaded (${response.status}).`);
  return new Uint8Array(await response.arrayBuffer());
}

async function openModel(source, task, kind, { simd = true } = {}) {
  const bytes = await bytesAt(source);
  const file = readModelFile(isZipped(bytes) ? await unzipped(bytes) : bytes);
  if (file.header.task !== task) throw new Error(`This file holds a ${file.header.task}, not a ${task}.`);
  return new kind(file, await chosenProducts(simd ? bytesOfBase64(CORE) : null));
}

function readWhole(tokenizer, text, longest) {
  const ids = tokenizer.encode(text);
  if (!ids.length) throw new RangeError("There is nothing to read in an empty text.");
  if (ids.length > longest) throw new RangeError(`This text has ${ids.length} tokens, but the model reads at most ${longest} at once.`);
  return ids;
}

// The translation of all lines, scored as if it had been written in one.
function translationOf(model, lines) {
  const results = lines.flatMap(({ pieces }) => pieces).flatMap(({ result }) => result ?? []);
  const { lengthPenalty } = model.header.search;
  const lengths = results.map(({ tokens, finished }) => tokens.length + finished);
  const total = results.reduce((sum, { score }, index) => sum + score * lengths[index] ** lengthPenalty, 0);
  const length = lengths.reduce((sum, own) => sum + own, 0);
  return {
    text: model.joined(lines), score: length ? total / length ** lengthPenalty : 0, finished: results.every(({ finished }) => finished),
    tokens: results.flatMap(({ tokens }) => labelsOf(model.targetTokenizer, tokens)),
  };
}

export class Translator {
  static async load(source, options) {
    return new Translator(await openModel(source, "translator", TranslatorModel, options));
  }

  constructor(model) {
    this.model = model;
    this.engine = model.products.name;
  }

  translate(text, options) {
    const stream = this.stream(text, options);
    for (let next = stream.next(); ; next = stream.next()) if (next.done) return next.value;
  }

  *stream(text, { beamSize = 1, headsOff = [] } = {}) {
    const { model } = this;
    const lines = model.reading.lines(text);
    const search = model.translate(lines, (piece, limits) => model.search(piece.ids, { beamSize, off: setsOf(headsOff), ...limits }));
    let next = search.next();
    for (; !next.done; next = search.next()) yield model.joined(lines, model.targetTokenizer.decode(next.value.best));
    return translationOf(model, lines);
  }

  attend(text, target, { headsOff = [] } = {}) {
    const { model } = this;
    const pieces = model.reading.lines(text).flatMap((line) => line.pieces);
    // a given translation of several sentences is read with all of them at once
    const ids = pieces.length === 1 && pieces[0].ids.length ? pieces[0].ids : readWhole(model.sourceTokenizer, text.trim(), model.header.longest);
    const written = model.targetTokenizer.encode(target.trim());
    const { maps } = model.force(ids, written, { off: setsOf(headsOff) });
    return {
      sourceTokens: labelsOf(model.sourceTokenizer, [...ids, EOS]),
      targetTokens: labelsOf(model.targetTokenizer, [BOS, ...written, EOS]),
      encoder: maps["encoder-self"], decoder: maps["decoder-self"], cross: maps.cross,
    };
  }
}

export class Classifier {
  static async load(source, options) {
    return new Classifier(await openModel(source, "classifier", ClassifierModel, options));
  }

  constructor(model) {
    this.model = model;
    this.engine = model.products.name;
    this.labels = model.header.classifier.labels;
  }

  classify(text) {
    const { model } = this;
    const read = model.read(readWhole(model.tokenizer, text.trim(), model.header.longest));
    const shares = model.probabilities(model.logits(read, text));
    const best = shares.indexOf(Math.max(...shares));
    return { label: this.labels[best], probability: shares[best], probabilities: Object.fromEntries(this.labels.map((label, index) => [label, shares[index]])) };
  }
}

export class Tagger {
  static async load(source, options) {
    return new Tagger(await openModel(source, "tagger", TaggerModel, options));
  }

  constructor(model) {
    this.model = model;
    this.engine = model.products.name;
    this.labels = model.header.classifier.labels;
  }

  tag(text) {
    return this.model.tag(text);
  }
}

export class Regressor {
  static async load(source, options) {
    return new Regressor(await openModel(source, "regressor", RegressorModel, options));
  }

  constructor(model) {
    this.model = model;
    this.engine = model.products.name;
    this.outputs = model.header.classifier.labels;
  }

  predict(text) {
    const { model } = this;
    const numbers = model.logits(model.read(readWhole(model.tokenizer, text.trim(), model.header.longest)), text);
    return Object.fromEntries(this.outputs.map((name, index) => [name, numbers[index]]));
  }
}

export class Generator {
  static async load(source, options) {
    return new Generator(await openModel(source, "lm", LanguageModel, options));
  }

  constructor(model) {
    this.model = model;
    this.engine = model.products.name;
  }

  next(text, { count = 10, ...options } = {}) {
    const logits = this.model.next(this.read(text), this.model.decoder.newCache());
    return taken(sampling(logits, options).choices(), count).map(([probability, id]) => ({ token: labelsOf(this.model.tokenizer, [id])[0], probability }));
  }

  *stream(text, { maxTokens = 60, chat = false, ...options } = {}) {
    const { tokenizer } = this.model;
    if (chat && !this.model.isChat) throw new TypeError("this model has no chat template");
    const ids = chat ? this.model.message(text) : this.read(text);
    const before = tokenizer.decode(ids).length;
    const written = [];
    for (const { id } of this.model.write(ids, { ...options, most: maxTokens })) {
      written.push(id);
      yield tokenizer.decode([...ids, ...written]).slice(before);
    }
  }

  generate(text, options) {
    let written = "";
    for (written of this.stream(text, options));
    return written;
  }

  read(text) {
    return text || this.model.begin === null ? readWhole(this.model.tokenizer, text, this.model.header.longest) : [this.model.begin];
  }
}
