// What a page asks of the engine: messages in, messages out, from a worker or, where there is none, in the page itself.

const SLICE = 20; // milliseconds of work between two looks at the messages
const MAX_CHARACTERS = 100000;
const MAX_KEPT = 500; // translated sentences
const MODELS = { translator: TranslatorModel, classifier: ClassifierModel, tagger: TaggerModel, regressor: RegressorModel, lm: LanguageModel };

class Cancelled extends Error {}

class Service {
  constructor(post) {
    this.post = post;
    this.kept = new Map();
    this.round = 0; // a new sentence makes what was asked about the last one pointless
  }

  // Answers {id, task, isNew, ...}: {id, part} as often as there is something to show, then {id, answer} or {id, error}.
  // isNew tells that the question is about another text than those before.
  async receive({ id, task, isNew, ...question }) {
    if (isNew) this.round++;
    const round = this.round;
    const show = (part) => this.post({ id, part });
    try {
      this.post({ id, answer: await TASKS[task](this, question, show, () => round !== this.round) });
    } catch (error) {
      if (!(error instanceof Cancelled)) this.post({ id, error: error.message });
    }
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

const TASKS = {
  // From `model`, the text of a page, or from `source`, the address of a file or the file itself, which `weights` describes.
  async load(service, { model, source, weights, core }, show) {
    service.products ??= await chosenProducts(core && bytesOfBase64(core));
    const { products } = service;
    const file = source ? await streamedModelFile(await streamOf(source), weights, (read) => show({ read })) : await embeddedFile(model);
    const { header } = file;
    service.model = new MODELS[header.task](file, products);
    const { num_heads: heads, encoder_layers: encoder, decoder_layers: decoder } = header.model;
    return {
      task: header.task, longest: shownLength(header), precision: header.precision, engine: products.name, isCore: products !== SCALAR,
      isChat: service.model.isChat ?? false,
      heads, layers: { "encoder-self": encoder, "decoder-self": decoder, cross: decoder },
    };
  },
};

async function embeddedFile(text) {
  const bytes = bytesOfSevenBits(text);
  return readModelFile(isZipped(bytes) ? await unzipped(bytes) : bytes);
}

async function streamOf(source) {
  if (typeof source !== "string") return source.stream();
  const response = await fetch(source);
  if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
  return response.body;
}

const MAX_MAP_NUMBERS = 1 << 25; // of all layers and heads of a text

// Tokens of a text that a page shows: as many as the model reads, and as there is memory for maps of.
function shownLength({ task, longest, model }) {
  if (task !== "lm") return longest;
  return Math.min(longest, Math.floor(Math.sqrt(MAX_MAP_NUMBERS / (model.decoder_layers * model.num_heads))));
}

// The six steps of one cell of what was read and written.
TASKS.cell = async ({ model }, { ids, tokens, kind, layer, head, query, ...question }) => {
  const cell = { kind, layer, head, query };
  const changes = { ...changesOf(question), cell };
  if (model instanceof TranslatorModel) model.force(ids, tokens, { ...changes, maps: null });
  else if (model instanceof ClassifierModel) model.logits(ids, "", changes);
  else model.next(ids, model.decoder.newCache(), changes);
  return cell.steps;
};

// {rows, values}: what each of the first positions adds to an embedding, none where they add nothing.
TASKS.positions = async ({ model }, { count }) => {
  const stack = model.encoder ?? model.decoder;
  if (!stack.addsPositions) return { rows: 0, values: [] };
  return { rows: count, values: Array.from({ length: count }, (_, position) => Array.from(stack.positionRow(position))).flat() };
};

// {ids, text} of what was typed, or what is wrong with it: {empty}, or {tooLong, longest, isCut}; no text is read in part.
function readText(tokenizer, text, longest) {
  const written = text.slice(0, MAX_CHARACTERS);
  const ids = tokenizer.encode(written);
  const isCut = text.length > MAX_CHARACTERS;
  if (isCut || ids.length > longest) return { tooLong: ids.length, longest, isCut };
  return ids.length ? { ids, text: written } : { empty: true };
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

// What a question changes in the model, as Stack.run takes it: [kind, layer, head] of heads that are off, the factor of every
// score, whether positions are added, and the numbers of words that are hidden, of the word numbers of all tokens.
function changesOf({ off = [], beta = 1, positions = true, hidden = [], wordNumbers = [] }) {
  const mask = hidden.length ? Uint8Array.from(wordNumbers, (word) => (hidden.includes(word) ? 0 : 1)) : null;
  return { off: setsOf(off), beta, positions, mask };
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

// Characters that no token holds whole, so that training can have seen them hardly ever; of other vocabularies words or
// characters without an entry.
function unseenIn(tokenizer, ids, text) {
  if (tokenizer.isBytes) {
    const split = [...charactersOf(ids.map((id) => tokenizer.bytes(id)))].filter(({ owners }) => owners[0] !== owners.at(-1));
    return [...new Set(split.map((character) => character.text))];
  }
  if (!ids.includes(tokenizer.unknown)) return [];
  const parts = tokenizer.joiner ? text.split(/\p{White_Space}+/u) : [...text];
  return [...new Set(parts.filter((part) => tokenizer.encode(part).includes(tokenizer.unknown)))];
}
