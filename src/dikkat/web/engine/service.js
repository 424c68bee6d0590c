// What a page asks of the engine: messages in, messages out, from a worker or, where there is none, beside the page.

const SLICE = 20; // milliseconds of work between two looks at the messages
const MOST_CHARACTERS = 100000;

class Cancelled extends Error {}

class Service {
  constructor(post) {
    this.post = post;
    this.round = 0; // a new sentence makes what was asked about the last one pointless
  }

  // Answers {id, task, ...}: {id, part} as often as there is something to show, then {id, answer} or {id, error}.
  async receive({ id, task, ...question }) {
    if (task === "translate") this.round++;
    const round = this.round;
    const show = (part) => this.post({ id, part });
    try {
      this.post({ id, answer: await this[task](question, show, () => round !== this.round) });
    } catch (error) {
      if (!(error instanceof Cancelled)) this.post({ id, error: error.message });
    }
  }

  async load({ model, core }) {
    const products = await chosenProducts(core && bytesOfBase64(core));
    const bytes = bytesOfBase64(model);
    this.model = new TranslatorModel(readModelFile(isZipped(bytes) ? await unzipped(bytes) : bytes), products);
    const { header, settings } = this.model;
    return {
      longest: header.longest, precision: header.precision, engine: products.name, isCore: products !== SCALAR,
      heads: settings.num_heads, layers: [settings.encoder_layers, settings.decoder_layers],
    };
  }

  async translate({ text, beamSize, off }, show, isStale) {
    const started = performance.now();
    const { sourceTokenizer, targetTokenizer, header } = this.model;
    const written = text.slice(0, MOST_CHARACTERS).trim();
    const ids = sourceTokenizer.encode(written);
    if (!ids.length) return { empty: true };
    if (ids.length > header.longest) return { tooLong: ids.length, longest: header.longest, isCut: text.length > MOST_CHARACTERS };
    const steps = [];
    const result = await this.run(this.model.search(ids, { beamSize, off: setsOf(off) }), isStale, ({ candidates, best }) => {
      steps.push(candidates);
      show({ text: targetTokenizer.decode(best) });
    });
    const found = performance.now() - started;
    const output = targetTokenizer.decode(result.tokens);
    const { maps } = this.model.force(ids, result.tokens, { off: setsOf(off) });
    return {
      ids, tokens: result.tokens, score: result.score, isFinished: result.finished, milliseconds: found, headsOff: null, saliency: null,
      unseen: unseenIn(sourceTokenizer, ids, written),
      source: wordsOf(sourceTokenizer, [...ids, EOS], written),
      target: wordsOf(targetTokenizer, [BOS, ...result.tokens, EOS], output),
      maps: mapValues(maps, (layers) => layers.map(packedMap)),
      rollout: { "encoder-self": rolloutOf(maps["encoder-self"]), "decoder-self": rolloutOf(maps["decoder-self"]) },
      beam: { size: beamSize, path: result.path, steps: labelledSteps(targetTokenizer, steps.slice(0, result.path.length)) },
    };
  }

  // Every head off once: {done, count} as parts, then [kind, layer, head, text, score] of each.
  async heads({ ids, beamSize, off }, show, isStale) {
    const { num_heads: heads, encoder_layers: encoder, decoder_layers: decoder } = this.model.settings;
    const names = [["encoder-self", encoder], ["decoder-self", decoder], ["cross", decoder]].flatMap(([kind, layers]) =>
      Array.from({ length: layers * heads }, (_, number) => [kind, Math.floor(number / heads), number % heads]));
    const results = [];
    for (const name of names) {
      const { tokens, score } = await this.run(this.model.search(ids, { beamSize, off: setsOf([...off, name]) }), isStale);
      results.push([...name, this.model.targetTokenizer.decode(tokens), score]);
      show({ done: results.length, count: names.length });
    }
    return results;
  }

  async occlusion({ ids, tokens }, show, isStale) {
    const count = ids.length + 1;
    const lost = await this.run(this.model.occlusion(ids, tokens), isStale, (s) => show({ done: s + 1, count }));
    return packedMap({ shape: lost.shape, values: sharesOf(lost) });
  }

  // What one head computed for one query, in the order of the computation.
  async cell({ ids, tokens, kind, layer, head, query, off }) {
    const width = this.model.settings.head_dim;
    let cell = null;
    const observe = (name, at, { query: queries, keys, values, count }) => {
      if (name !== kind || at !== layer) return;
      const heads = this.model.settings.num_heads;
      const groups = this.model.settings.num_kv_heads;
      const group = Math.floor((head * groups) / heads) * width;
      const rows = (numbers) => Array.from({ length: count }, (_, s) => Array.from(numbers.subarray(s * groups * width + group, s * groups * width + group + width)));
      cell = { query: Array.from(queries.subarray((query * heads + head) * width, (query * heads + head + 1) * width)), keys: rows(keys), values: rows(values) };
    };
    const { maps } = this.model.force(ids, tokens, { off: setsOf(off), observe });
    const { shape, values } = maps[kind][layer];
    const at = (head * shape[1] + query) * shape[2];
    return { ...cell, weights: Array.from(values.subarray(at, at + shape[2])), beta: this.model.settings.inverse_temperature };
  }

  // Runs a generator to its end, in slices; `note` hears what it yields.
  async run(generator, isStale, note = () => {}) {
    let pausedAt = performance.now();
    for (let next = generator.next(); ; next = generator.next()) {
      if (next.done) return next.value;
      note(next.value);
      if (performance.now() - pausedAt > SLICE) {
        await pause();
        pausedAt = performance.now();
      }
      if (isStale()) throw new Cancelled();
    }
  }
}

// Lets messages in; timers would wait longer.
function pause() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

// [kind, layer, head] triples as kind -> layer -> Set of heads.
function setsOf(names) {
  if (!names?.length) return null;
  const sets = {};
  for (const [kind, layer, head] of names) ((sets[kind] ??= [])[layer] ??= new Set()).add(head);
  return sets;
}

function mapValues(record, change) {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]));
}

// {shape, decoded: one {T, S, values} a head}, as the page draws it.
function packedMap({ shape, values }) {
  const [heads, T, S] = shape;
  return { shape, decoded: Array.from({ length: heads }, (_, head) => ({ T, S, values: values.slice(head * T * S, (head + 1) * T * S) })) };
}

// Attention rollout up to each layer (Abnar and Zuidema 2020, section 3): the product of 0.5 A + 0.5 I, A being the mean
// of the heads.
function rolloutOf(layers) {
  let below = null;
  return layers.map(({ shape: [heads, T], values }) => {
    const mixed = new Float64Array(T * T);
    for (let i = 0; i < values.length; i++) mixed[i % (T * T)] += (0.5 * values[i]) / heads;
    for (let t = 0; t < T; t++) {
      mixed[t * T + t] += 0.5;
      const row = mixed.subarray(t * T, (t + 1) * T);
      const total = row.reduce((a, b) => a + b, 0);
      row.forEach((value, s) => { row[s] = value / total; });
    }
    below = below ? multiplied(mixed, below, T) : mixed;
    return packedMap({ shape: [1, T, T], values: Float32Array.from(below) });
  });
}

function multiplied(a, b, size) {
  const product = new Float64Array(size * size);
  for (let i = 0; i < size; i++) {
    for (let k = 0; k < size; k++) {
      for (let j = 0; j < size; j++) product[i * size + j] += a[i * size + k] * b[k * size + j];
    }
  }
  return product;
}

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

// Characters that no token holds whole, so that training can have seen them hardly ever; of other vocabularies words or
// characters without an entry.
function unseenIn(tokenizer, ids, text) {
  if (tokenizer.isBytes) {
    const split = [...charactersOf(ids.map((id) => tokenizer.bytes(id)))].filter(({ owners }) => owners[0] !== owners.at(-1));
    return [...new Set(split.map((character) => character.text))];
  }
  if (!ids.includes(UNK)) return [];
  const parts = tokenizer.joiner ? text.split(/\p{White_Space}+/u) : [...text];
  return [...new Set(parts.filter((part) => tokenizer.encode(part).includes(UNK)))];
}

// for a page that starts no worker
globalThis.DikkatService = Service;

if (typeof WorkerGlobalScope !== "undefined") {
  const service = new Service((message) => globalThis.postMessage(message));
  globalThis.onmessage = ({ data }) => service.receive(data);
}
