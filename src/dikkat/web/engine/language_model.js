// A language model: the start of a text in, what may follow it out.

class LanguageModel {
  constructor(file, products = SCALAR) {
    const { header, tensors } = file;
    [this.header, this.settings, this.products] = [header, header.model, products];
    const embedding = header.model.tie_embeddings ? "output_weight" : "embedding.weight";
    this.decoder = new Stack(file, products, "decoder", header.model.decoder_layers, embedding);
    this.output = new Linear(tensors.get("output_weight"), tensors.get("output_bias")?.values ?? null);
    this.tokenizer = new Tokenizer(header.tokenizers.source, header.sourceLanguage);
  }

  // Logits of the token after `ids`, which stand after what the cache holds; `changes` may hold off, beta, positions, cell
  // and maps (see Stack.run).
  next(ids, cache, changes = {}) {
    // what a "prefix" model reads in one go is a prefix, each token of which sees all the others
    const causal = this.header.languageModel.objective !== "prefix";
    const states = this.decoder.run(ids, { ...changes, caches: [cache], causal });
    const width = this.settings.model_dim;
    const logits = this.products.linear(this.output, states.slice(states.length - width), 1);
    for (const id of [PAD, BOS, UNK]) logits[id] = -Infinity;
    return logits;
  }

  // The logit lens (nostalgebraist 2020): logits of the token after `ids` if each layer were the last, the lowest first.
  lens(ids, changes = {}) {
    const streams = [];
    this.next(ids, this.decoder.newCache(), { ...changes, streams });
    const { finalNorm } = this.decoder;
    return streams.map((state) => this.products.linear(this.output, finalNorm ? finalNorm.run(state) : state, 1));
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
      const choices = distribution(logits, { temperature, topK, topP });
      const id = drawn(choices, random());
      if (id === EOS) break;
      written.push(id);
      unread = [id];
      yield { id, logits };
    }
    return written;
  }
}

// What the next token is drawn from, as [probability, id], the likeliest first: temperature, then top-k, then top-p on
// what top-k left. Temperature 0 leaves the likeliest alone.
function distribution(logits, { temperature = 1, topK = 0, topP = 1 } = {}) {
  const order = Array.from(logits.keys()).filter((id) => logits[id] > -Infinity).sort((a, b) => logits[b] - logits[a] || a - b);
  const kept = order.slice(0, temperature === 0 ? 1 : topK || order.length);
  const shares = Float64Array.from(kept, (id) => (logits[id] - logits[order[0]]) / (temperature || 1));
  softmax(shares, shares.length, null);
  const choices = [];
  let before = 0;
  for (let rank = 0; rank < kept.length && before < topP; rank++) {
    choices.push([shares[rank], kept[rank]]);
    before += shares[rank];
  }
  return choices.map(([share, id]) => [share / before, id]);
}

// The id that a number of [0, 1) falls on when the probabilities lie end to end.
function drawn(choices, uniform) {
  let end = 0;
  for (const [share, id] of choices) {
    end += share;
    if (uniform < end) return id;
  }
  return choices.at(-1)[1];
}
