// A classifier: a text in, the probability of every class out.

class ClassifierModel {
  constructor(file, products = SCALAR) {
    const { header, tensors } = file;
    [this.header, this.settings, this.products] = [header, header.model, products];
    this.encoder = new Stack(file, products, "encoder", header.model.encoder_layers, "embedding.weight");
    this.output = this.encoder.linear("output");
    const { transform, transformNorm, maxIds } = header.classifier;
    this.dense = transform && this.encoder.linear("transform.dense");
    this.norm = transformNorm && new Norm(tensors, "transform.norm", header.model);
    this.maxIds = maxIds; // of a text, without its special tokens
    this.query = tensors.get("pooling.query")?.values ?? null;
    this.table = header.classifier.wordTable && new WordTable(tensors, header.classifier.wordTable);
    this.tokenizer = tokenizerOf(header.tokenizers.source, header.sourceLanguage);
  }

  // What the model reads of a text's ids, between its special tokens: all, or of a long text the beginning and the end.
  read(ids) {
    const [before, after] = this.header.classifier.frame;
    return [...before, ...this.kept(ids), ...after];
  }

  kept(items) {
    const { beginning } = this.header.classifier;
    return items.length > this.maxIds ? [...items.slice(0, beginning), ...items.slice(items.length - (this.maxIds - beginning))] : items;
  }

  // {tokens, wordNumbers, words, plain} of what is read of a text; `plain` are the first and the end of the words that were typed.
  words(read, text) {
    const { tokenizer } = this;
    const frame = this.header.classifier.frame.map(({ length }) => length);
    const source = tokenizer.placed ? placedWords(tokenizer, read, text, this.kept(tokenizer.placed(text)), frame) : wordsOf(tokenizer, read, text);
    return { ...source, plain: [frame[0], source.words.length - frame[1]] };
  }

  // Logits of the classes, over the temperature that was found in training. `text` is what a word table scores. `changes`
  // may hold mask (a 0 for each token that is hidden), off, beta, positions, cell and maps (see Stack.run).
  logits(read, text, changes = {}) {
    const pass = { ...changes, caches: [this.encoder.newCache()], causal: false };
    const states = this.encoder.run(read, pass);
    const logits = this.head(this.pool(states, changes.mask), 1);
    // one logit decides between two classes: that of the first is zero
    const both = (row) => (row.length < this.header.classifier.labels.length ? [0, row[0]] : Array.from(row));
    const { encoderWeight, temperature } = this.header.classifier;
    const scores = this.table ? both(this.table.scores(text)) : [];
    return both(logits).map((logit, index) => (encoderWeight * logit + (scores[index] ?? 0)) / temperature);
  }

  // Logits (S, C) of every token.
  tokenLogits(read, changes = {}) {
    return this.head(this.encoder.run(read, { ...changes, caches: [this.encoder.newCache()], causal: false }), read.length);
  }

  // (rows, D) to (rows, outputs): a layer with its non-linearity may stand before the output.
  head(x, rows) {
    let states = x;
    if (this.dense) states = activated(this.products.linear(this.dense, x, rows), rows, this.header.classifier.transform);
    if (this.norm) states = this.norm.run(states);
    return this.products.linear(this.output, states, rows);
  }

  // (S, D) to (D): by the classifier's own pooling, without the tokens that are hidden.
  pool(states, mask) {
    const width = this.settings.model_dim;
    const count = states.length / width;
    const { pooling } = this.header.classifier;
    if (pooling === "first") return states.slice(0, width);
    const weights = this.poolingWeights(states, count, mask);
    const pooled = new Float32Array(width).fill(pooling === "max" ? -Infinity : 0);
    for (let s = 0; s < count; s++) {
      if (mask && !mask[s]) continue;
      for (let i = 0; i < width; i++) {
        const entry = states[s * width + i];
        if (pooling === "max") pooled[i] = Math.max(pooled[i], entry);
        else pooled[i] += weights[s] * entry;
      }
    }
    return pooled;
  }

  poolingWeights(states, count, mask) {
    const weights = new Float32Array(count);
    if (this.query) {
      const width = this.query.length;
      scoreKeys(weights, this.query, 0, states, 0, width, width, width ** -0.5);
    }
    softmax(weights, 0, mask);
    return weights;
  }

  // The probabilities of the classes from their logits.
  probabilities(logits) {
    if (this.header.classifier.isMultiLabel) return logits.map((logit) => 1 / (1 + Math.exp(-logit)));
    const shares = Float64Array.from(logits);
    softmax(shares, 0, null);
    return Array.from(shares);
  }

  // By how much the log-odds of a class fall when each group of tokens is hidden, in nats. Yields after each group.
  // `textWithout` returns the text without the group of a number, or the whole one.
  *decisive(read, groups, label, textWithout, changes = {}) {
    const oddsOf = (logits) => {
      const others = logits.filter((_, index) => index !== label);
      const largest = Math.max(...others);
      return logits[label] - largest - Math.log(others.reduce((sum, logit) => sum + Math.exp(logit - largest), 0));
    };
    const whole = oddsOf(this.logits(read, textWithout(null), changes));
    const falls = [];
    for (const group of groups) {
      const mask = changes.mask?.slice() ?? new Uint8Array(read.length).fill(1);
      for (const token of group) mask[token] = 0;
      falls.push(whole - oddsOf(this.logits(read, textWithout(falls.length), { ...changes, mask })));
      yield falls.length;
    }
    return falls;
  }
}
