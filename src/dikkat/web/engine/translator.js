// A translator: text in, translation out, with every map of its attention.

// Most tokens, end mark included, of a translation of so many source tokens, end mark included.
function lengthCap(sourceTokens) {
  return Math.max(1, Math.floor(2 * sourceTokens) + 10);
}

// What a generator returns in the end.
function valueOf(generator) {
  for (;;) {
    const { done, value } = generator.next();
    if (done) return value;
  }
}

class TranslatorModel {
  constructor(file, products = SCALAR) {
    const { header, tensors } = file;
    [this.header, this.settings, this.products] = [header, header.model, products];
    const joint = header.tokenizers.target === null;
    const output = header.model.tie_embeddings && joint ? "output_weight" : "source_embedding.weight";
    this.encoder = new Stack(file, products, "encoder", header.model.encoder_layers, output);
    const target = header.model.tie_embeddings ? "output_weight" : "target_embedding.weight";
    this.decoder = new Stack(file, products, "decoder", header.model.decoder_layers, target, true);
    this.output = new Linear(tensors.get("output_weight"), tensors.get("output_bias")?.values ?? null);
    this.sourceTokenizer = new Tokenizer(header.tokenizers.source, header.sourceLanguage);
    this.reading = new Reading(header.reading, this.sourceTokenizer);
    this.reading.copied = (name) => this.targetTokenizer.decode(valueOf(this.search(this.sourceTokenizer.encode(name))).tokens);
    this.targetTokenizer = joint ? this.sourceTokenizer : new Tokenizer(header.tokenizers.target, header.targetLanguage);
  }

  // What the decoder reads of a source, whose ids have no end mark: keys and values of every layer. `pass` may hold mask,
  // off, beta, positions, cell and maps (see Stack.run).
  encode(ids, pass = {}) {
    const read = [...ids, EOS];
    const states = this.encoder.run(read, { ...pass, caches: [this.encoder.newCache()], causal: false });
    return { length: read.length, layers: this.decoder.blocks.map((block) => block.readSource(states, read.length)) };
  }

  // One row of logits for each token, which the caches of their hypotheses have not read yet.
  step(tokens, caches, memory, pass = {}) {
    const states = this.decoder.run(tokens, { ...pass, caches, memory, causal: true });
    return this.rows(this.products.linear(this.output, states, tokens.length), tokens.length);
  }

  rows(numbers, rows) {
    const width = numbers.length / rows;
    return Array.from({ length: rows }, (_, row) => numbers.subarray(row * width, (row + 1) * width));
  }

  // The generator of `search` for a source of ids; `changes` may hold mask, off, beta and positions (see Stack.run).
  search(ids, { beamSize = 1, noRepeatNgram = 0, nBest = 1, ...changes } = {}) {
    const memory = this.encode(ids, changes);
    const longest = this.decoder.learnedPositions ? this.settings.max_positions : Infinity;
    const cap = Math.min(lengthCap(memory.length), longest);
    const step = (tokens, caches) => this.step(tokens, caches, memory, changes);
    return search(step, this.decoder.newCache(), { cap, beamSize, noRepeatNgram, nBest, ...this.header.search });
  }

  // The result of the generator that `searchFor` returns for a source of ids, whose steps are passed on; an output that
  // repeats itself in a loop is searched for again.
  *withoutLoops(ids, searchFor) {
    const { loops } = this.header.reading;
    const result = yield* searchFor({});
    const labels = labelsOf(this.targetTokenizer, result.tokens);
    if (!isLoop(labels, result.finished, loops) || isLoop(ids, true, loops)) return result;
    return yield* searchFor({ noRepeatNgram: loops.retryNgram });
  }

  // Translates the pieces of lines (see Reading.lines), which get `result`, what search returned, and `written`.
  // `searchFor` returns the generator of a piece.
  *translate(lines, searchFor = (piece, limits) => this.search(piece.ids, limits)) {
    for (const piece of lines.flatMap(({ pieces }) => pieces)) {
      if (!piece.ids.length) continue;
      piece.result = yield* this.withoutLoops(piece.ids, (limits) => searchFor(piece, limits));
      const output = this.targetTokenizer.decode(piece.result.tokens).replaceAll("\n", " ");
      piece.written = this.reading.written(piece, output, {
        gapsAt: (translation, offsets) => gapsOf(this, piece, translation, offsets),
        enclosedBy: (translation, spans) => enclosedIn(this, piece, translation, spans),
      });
    }
    return lines;
  }

  // The text of lines as far as they are translated; `partial` is what the next piece has so far.
  joined(lines, partial = "") {
    let isPartial = true;
    const written = (piece) => {
      if (!piece.ids.length || piece.written !== undefined) return piece.written ?? piece.text;
      const text = isPartial ? partial : "";
      isPartial = false;
      return text;
    };
    return lines.map((line) => this.reading.joined(line, line.pieces.map(written))).join("\n");
  }

  // {maps, logits} of reading a source and writing a given target, all its tokens at once: maps are kind -> layer ->
  // {shape: [heads, T, S], values}, and row t of the logits is for the token after the first t of the target.
  force(source, target, { maps = {}, ...changes } = {}) {
    const memory = this.encode(source, { ...changes, maps });
    const fed = [BOS, ...target];
    const pass = { ...changes, maps, memory, caches: [this.decoder.newCache()], causal: true };
    const states = this.decoder.run(fed, pass);
    return { maps, logits: this.rows(this.products.linear(this.output, states, fed.length), fed.length) };
  }

  // (T, S): the log-probability that each written token loses when a source token is hidden. Yields after each token.
  *occlusion(source, target, changes = {}) {
    const wanted = [...target, EOS];
    const whole = this.logProbabilities(source, wanted, changes);
    const S = source.length + 1;
    const lost = new Float32Array(wanted.length * S);
    for (let s = 0; s < S; s++) {
      const mask = changes.mask?.slice() ?? new Uint8Array(S).fill(1);
      mask[s] = 0;
      const hidden = this.logProbabilities(source, wanted, { ...changes, mask });
      for (let t = 0; t < wanted.length; t++) lost[t * S + s] = whole[t] - hidden[t];
      yield s;
    }
    return { shape: [1, wanted.length, S], values: lost };
  }

  logProbabilities(source, wanted, changes) {
    const { logits } = this.force(source, wanted.slice(0, -1), { ...changes, maps: null });
    return logits.map((row, t) => {
      const largest = row.reduce((a, b) => Math.max(a, b), -Infinity);
      return row[wanted[t]] - largest - logSumOf(row, largest);
    });
  }
}
