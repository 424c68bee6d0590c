// A language model: the start of a text in, what may follow it out.

class LanguageModel {
  constructor(file, products = SCALAR) {
    const { header, tensors } = file;
    [this.header, this.settings, this.products] = [header, header.model, products];
    const embedding = header.model.tie_embeddings ? "output_weight" : "embedding.weight";
    this.decoder = new Stack(file, products, "decoder", header.model.decoder_layers, embedding);
    this.output = new Linear(tensors.get("output_weight"), tensors.get("output_bias")?.values ?? null);
    this.tokenizer = new Tokenizer(header.tokenizers.source, header.sourceLanguage);
    [this.begin, this.end] = [header.languageModel.begin, header.languageModel.end]; // null where there is no such token
  }

  // Whether it has a chat template.
  get isChat() {
    return this.header.languageModel.chat.every((part) => part !== null);
  }

  // Ids of a message, by the chat template, up to where the answer begins.
  message(text) {
    const [before, after] = this.header.languageModel.chat;
    return this.tokenizer.encodeMarked([before, text, after]);
  }

  // Logits of the token after `ids`, which stand after what the cache holds; `changes` may hold off, beta, positions, cell
  // and maps (see Stack.run).
  next(ids, cache, changes = {}) {
    // what a "prefix" model reads in one go is a prefix, each token of which sees all the others
    const causal = this.header.languageModel.objective !== "prefix";
    const states = this.decoder.run(ids, { ...changes, caches: [cache], causal });
    const width = this.settings.model_dim;
    const logits = this.logitsOf(states.slice(states.length - width));
    for (const id of this.header.languageModel.never_written) logits[id] = -Infinity;
    return logits;
  }

  // Logits of one state.
  logitsOf(state) {
    const logits = this.products.linear(this.output, state, 1);
    const { logit_softcap: cap } = this.settings;
    return cap === null ? logits : logits.map((logit) => Math.tanh(logit / cap) * cap);
  }

  // The logit lens (nostalgebraist 2020): logits of the token after `ids` if each layer were the last, the lowest first.
  lens(ids, changes = {}) {
    const streams = [];
    this.next(ids, this.decoder.newCache(), { ...changes, streams });
    const { finalNorm } = this.decoder;
    return streams.map((state) => this.logitsOf(finalNorm ? finalNorm.run(state) : state));
  }

  // For each layer and head the shares of its attention on the token before, on earlier positions of the same token and on
  // the tokens after those, while `ids` are read; the scores of dikkat.explain.head_analysis.circuits.
  patterns(ids) {
    const maps = {};
    this.next(ids, this.decoder.newCache(), { maps });
    return maps["decoder-self"].map(({ shape: [heads, length], values }) => Array.from({ length: heads }, (_, head) => {
      const sums = [0, 0, 0];
      for (let query = 0; query < length; query++) {
        for (let key = 0; key <= query; key++) {
          const weight = values[(head * length + query) * length + key];
          if (key === query - 1) sums[0] += weight;
          if (key < query && ids[key] === ids[query]) sums[1] += weight;
          if (key > 0 && ids[key - 1] === ids[query]) sums[2] += weight;
        }
      }
      return sums.map((sum) => sum / length);
    }));
  }

  // Writes on, a token a step, until the end mark or `most` tokens; yields {id, logits} and returns all ids that it wrote.
  // `random` gives numbers of [0, 1).
  *write(prompt, { most = 60, temperature = 0.8, topK = 0, topP = 1, random = Math.random, ...changes } = {}) {
    const { context } = this.header.languageModel;
    const written = [];
    let [cache, unread] = [this.decoder.newCache(), prompt];
    while (written.length < most) {
      if (cache.length + unread.length > context) {
        // the older half goes out of sight
        unread = [...prompt, ...written].slice(-Math.floor(context / 2));
        cache = this.decoder.newCache();
      }
      const logits = this.next(unread, cache, changes);
      const id = drawn(sampling(logits, { temperature, topK, topP }).choices(), random());
      if (id === this.end) break;
      written.push(id);
      unread = [id];
      yield { id, logits };
    }
    return written;
  }
}

// What the next token is drawn from, as [probability, id], the likeliest first: temperature, then top-k, then top-p on
// what top-k left. Temperature 0 leaves the likeliest alone.
function distribution(logits, options) {
  return [...sampling(logits, options).choices()];
}

// The same as {count, choices}: how many tokens are left, and what yields them one after the other, since few are looked at.
function sampling(logits, { temperature = 1, topK = 0, topP = 1 } = {}) {
  const first = falling(logits).next().value;
  if (temperature === 0) return { count: 1, choices: () => [[1, first]] };
  const power = (id) => Math.exp((logits[id] - logits[first]) / temperature);
  let left = topK ? taken(falling(logits), topK) : null; // null for all
  let total = 0;
  let count = 0;
  for (const id of left ?? logits.keys()) {
    if (!(logits[id] > -Infinity)) continue;
    total += power(id);
    count++;
  }
  if (topP < 1) {
    let mass = 0;
    const kept = [];
    for (const id of left ?? falling(logits)) {
      if (mass >= topP * total) break;
      mass += power(id);
      kept.push(id);
    }
    [left, total, count] = [kept, mass, kept.length];
  }
  return { count, *choices() { for (const id of left ?? falling(logits)) yield [power(id) / total, id]; } };
}

function taken(ids, count) {
  const list = [];
  for (const id of ids) {
    list.push(id);
    if (list.length >= count) break;
  }
  return list;
}

// The ids of logits above -Infinity, the largest logit first, of equal ones the lower id. Only as many are sorted as are asked for:
// those that are near the largest, then those twice as far below it, and so on.
function* falling(logits) {
  let largest = -Infinity;
  for (let id = 0; id < logits.length; id++) if (logits[id] > largest) largest = logits[id];
  for (let [above, depth] = [Infinity, 1]; above > -Infinity; depth *= 2) {
    const below = depth > 1e4 ? -Infinity : largest - depth;
    const ids = [];
    for (let id = 0; id < logits.length; id++) if (logits[id] > below && logits[id] <= above) ids.push(id);
    yield* ids.sort((a, b) => logits[b] - logits[a] || a - b);
    above = below;
  }
}

// The id that a number of [0, 1) falls on when the probabilities lie end to end.
function drawn(choices, uniform) {
  let end = 0;
  let last = null;
  for (const [share, id] of choices) {
    end += share;
    last = id;
    if (uniform < end) break;
  }
  return last;
}
