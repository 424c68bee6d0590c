// A linear model over the n-grams of words and characters of a text; `reading` is what ngram_table of Python emits.

class WordTable {
  constructor(tensors, reading) {
    const values = (name) => tensors.get(`word_table.${name}`)?.values;
    this.reading = { ...reading, factors: reading.factors.map(BigInt), mixing: reading.mixing.map((step) => step.map(BigInt)) };
    this.pattern = new RegExp(reading.pattern, "gsu");
    this.bias = values("bias");
    this.parts = ["words", "characters"].filter((kind) => values(`${kind}.hashes`)).map((kind) =>
      ({ kind, hashes: values(`${kind}.hashes`), idf: values(`${kind}.idf`), weights: values(`${kind}.weights`) }));
    this.known = new Map();
  }

  // The logits of a text: a number for each output.
  scores(text) {
    const words = lowered(text.normalize("NFC"), this.reading.hasDottedI).match(this.pattern) ?? [];
    const scores = Float64Array.from(this.bias);
    for (const { kind, hashes, idf, weights } of this.parts) {
      const rows = new Map();
      for (const hash of kind === "words" ? this.wordNgrams(words) : this.characterNgrams(words)) {
        const row = rowOf(hashes, hash);
        if (row >= 0) rows.set(row, (rows.get(row) ?? 0) + 1);
      }
      const values = [...rows].map(([row, count]) => [row, (1 + Math.log(count)) * idf[row]]);
      const norm = Math.sqrt(values.reduce((sum, [, value]) => sum + value * value, 0));
      for (const [row, value] of values) scores.forEach((_, c) => { scores[c] += (weights[row * scores.length + c] * value) / norm; });
    }
    return scores;
  }

  *wordNgrams(words) {
    const hashes = words.map((word) => this.hashOfWord(word));
    yield* hashes;
    for (let size = 2; size <= this.reading.maxWords; size++) for (let i = 0; i + size <= hashes.length; i++) yield this.window(hashes, i, size);
  }

  // Inside words, with a space before and after each.
  *characterNgrams(words) {
    const characters = [...` ${words.join(" ")} `];
    const mixed = characters.map((character) => this.mixed(BigInt(character.codePointAt(0))));
    const [least, most] = this.reading.characters;
    for (let size = least; size <= most; size++) {
      for (let i = 0; i + size <= mixed.length; i++) {
        if (characters.slice(i + 1, i + size - 1).includes(" ")) continue;
        if (size > least || characters[i] !== " " || characters[i + 1] !== " ") yield this.window(mixed, i, size);
      }
    }
  }

  hashOfWord(word) {
    if (!this.known.has(word)) this.known.set(word, blake2b64(new TextEncoder().encode(word)));
    return this.known.get(word);
  }

  window(hashes, start, size) {
    let total = BigInt(size);
    for (let offset = 0; offset < size; offset++) total += hashes[start + offset] * this.reading.factors[offset] * BigInt(2 * size + 1);
    return BigInt.asUintN(64, total);
  }

  mixed(code) {
    const begun = BigInt.asUintN(64, (code + 1n) * this.reading.factors[0]);
    return this.reading.mixing.reduce((number, [shift, factor]) => BigInt.asUintN(64, (number ^ (number >> shift)) * factor), begun);
  }
}

// The row of a hash among hashes in rising order; -1 where it is not there.
function rowOf(hashes, wanted) {
  let [low, high] = [0, hashes.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (hashes[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return hashes[low] === wanted ? low : -1;
}
