// Reads lines as a model has met text, and writes its translations as the lines were written: white space, quotation marks,
// symbols, placeholders, capitals and final marks. The runtime does the same (tasks/reading.py), by the same table.

class Reading {
  constructor(table, tokenizer) {
    const patterns = mapValues(table.patterns, (source) => new RegExp(source, "gsu"));
    [this.table, this.patterns, this.tokenizer] = [{ ...table, patterns }, patterns, tokenizer];
    this.copied = (name) => name; // what a model makes of a name alone
    this.speller = new Speller(this.table);
    this.segmenter = new Segmenter(this.table, (text) => tokenizer.encode(withoutMarks(this.asUsual(text).read, this.table)));
  }

  // The characters that the vocabulary has met, and those of ASCII but for marks of pairs that it has not.
  get known() {
    if (this.characters) return this.characters;
    const { pairs, unmet } = this.table.marks;
    const known = new Set([...Array.from({ length: 128 }, (_, code) => String.fromCharCode(code)), ...this.tokenizer.characters()]);
    for (const mark of unmet.flatMap((opening) => [opening, pairs[opening]])) if (mark !== "'") known.delete(mark);
    return (this.characters = known);
  }

  // The names that stand for placeholders, those first that the model copies unchanged.
  get surrogates() {
    // a model puts a full stop after a name alone; what it writes may be long, so that no pattern looks for its end
    const isCopied = (name) => {
      let written = this.copied(name).replace(/^[ .]+/, "");
      while (/[ .]$/.test(written.slice(-1))) written = written.slice(0, -1);
      return written === name;
    };
    return (this.ranked ??= this.table.surrogates.map((name) => [!isCopied(name), name]).sort((a, b) => a[0] - b[0]).map(([, name]) => name));
  }

  // What linesOf returns, at once.
  lines(text) {
    const reading = this.linesOf(text);
    for (let next = reading.next(); ; next = reading.next()) if (next.done) return next.value;
  }

  // Returns each line of a text: {text, placeholders, symbols, pieces}; a piece is {text, source, symbols, pairs, read, ids, names,
  // marks, writtenAs, keepsSmall, finalMarks}: its text with marks, as it was typed, and as the model reads it. A piece without ids
  // is copied. Yields between pieces, so that a long text can be read in slices.
  *linesOf(text) {
    const lines = [];
    for (const line of text.split("\n")) {
      yield;
      lines.push({ text: line, placeholders: [], symbols: [], pieces: [{ text: line, source: line, ids: [] }] });
      if (!this.segmenter.hasWords(line)) continue;
      const { text: whole, placeholders, symbols, pairs } = this.marked(line);
      if (!this.segmenter.hasWords(whole)) continue;
      const pieces = [];
      for (const piece of yield* this.segmenter.segments(whole)) {
        yield;
        pieces.push({ ...this.pieceOf(piece, placeholders, symbols), pairs });
      }
      lines[lines.length - 1] = { text: line, placeholders, symbols, pieces };
    }
    return lines;
  }

  // A line with marks for its symbols and the quotation marks around it.
  marked(line) {
    const whole = trimmed(line, this.patterns);
    const quoted = this.quotation(whole);
    const withoutQuotes = new Set([...this.known].filter((character) => character !== '"' && character !== "'"));
    const typed = trimmed(normalized(quoted ? quoted.inner : line, withoutQuotes, this.table), this.patterns);
    const text = straightened(typed, this.known, this.table);
    const unspaced = innerPairs(typed, this.known, this.table);
    const symbols = symbolSpans(text, this.known, this.table, unspaced.flat()).map(([start, end]) => [start, end, text.slice(start, end)]);
    // a space inside a mark belongs to it
    const spaced = unspaced.map(([first, last]) => [[first, first + 1 + (typed[first + 1] === " ")], [last - (typed[last - 1] === " "), last + 1]]);
    for (const pair of spaced) {
      const marks = typed[pair[0][0]] < "\x80" ? pair.map((span) => typed.slice(...span)) : this.table.quotes.target;
      pair.forEach((span, number) => symbols.push([...span, marks[number]]));
    }
    const pairs = spaced.map((pair) => pair.map(([start]) => start));
    symbols.sort((a, b) => a[0] - b[0]);
    if (!quoted) return withMarks(text, symbols, this.table, pairs);
    const inner = symbols.map(([start, end, written]) => [start + 1, end + 1, written]);
    const closing = [text.length + 1, text.length + 2, quoted.closing];
    const shifted = pairs.map((pair) => pair.map((at) => at + 1));
    return withMarks(`"${text}"`, [[0, 1, quoted.opening], ...inner, closing], this.table, shifted);
  }

  // The text inside the quotation marks around a whole text, and those of the translation: straight marks stay straight.
  quotation(whole) {
    const { pairs, target } = this.table.quotes;
    const [first, last] = [whole.slice(0, 1), whole.slice(-1)];
    if (whole.length < 3 || !Object.hasOwn(pairs, first) || !pairs[first].includes(last)) return null;
    const within = whole.slice(1, -1);
    if (within.includes(first) || within.includes(last) || !trimmed(within, this.patterns)) return null;
    const inner = within.replace(this.patterns.wideBefore, "").replace(this.patterns.wideAfter, "");
    const start = 1 + within.length - within.replace(this.patterns.wideBefore, "").length;
    const marks = first === '"' ? [whole.slice(0, start), whole.slice(start + inner.length)] : target;
    return { inner, opening: marks[0], closing: marks[1] };
  }

  // A piece as usual text, and how it is written.
  asUsual(text) {
    const beginning = firstMatch(this.patterns.languageMark, text)?.[0] ?? "";
    let rest = text.slice(beginning.length);
    const final = firstMatch(this.patterns.finalMarks, rest);
    const finalMarks = final?.groups.marks ?? "";
    if (final) rest = rest.slice(0, rest.length - finalMarks.length) + (finalMarks.includes("?") ? "?" : "!");
    const writtenAs = caseOf(rest, this.table);
    const read = writtenAs === "usual" ? rest : recased(rest, writtenAs, this.table, (word) => this.tokenizer.encode(` ${word}`).length);
    if (writtenAs === "usual" || (writtenAs === "capitals" && read === rest)) {
      const corrected = writtenAs === "usual" ? this.speller.corrected(rest) : rest;
      return { read: beginning + corrected, writtenAs: "usual", keepsSmall: false, finalMarks };
    }
    return { read: beginning + this.speller.corrected(read), writtenAs, keepsSmall: hasSmallWords(rest, this.table), finalMarks };
  }

  pieceOf({ text, ids }, placeholders, symbols) {
    const manner = this.asUsual(text);
    const source = this.restored(text, placeholders, symbols.map((symbol) => symbol.source));
    const own = ids.length ? filled(manner.read, () => this.surrogates, this.table) : { read: manner.read, names: [], placeholders: [] };
    const read = own.placeholders.length ? this.tokenizer.encode(own.read) : ids;
    return { text, source, inside: placeholders, symbols, ...manner, ...own, ids: read, marks: text.match(this.patterns.symbol) ?? [] };
  }

  // A translation of a piece in its manner, with its marks; see withInnerMarks for `finders`.
  written(piece, translation, finders) {
    const inner = withInnerMarks(piece, translation, finders, this.table);
    return withOuterMarks(piece, withPlaceholders(piece, this.inManner(inner, piece)), this.table);
  }

  inManner(text, { finalMarks, ...manner }) {
    if (!trimmed(text, this.patterns)) return text;
    const written = cased(text, manner, this.table);
    return finalMarks ? written.replace(this.patterns.finalMark, "") + finalMarks : written;
  }

  // A text with placeholders and symbols instead of their marks.
  restored(text, placeholders, symbols) {
    const { firstMark, firstSymbol } = this.table;
    const original = (code) => (code >= firstSymbol ? symbols[code - firstSymbol] : placeholders[code - firstMark]);
    return text.replace(this.patterns.private, (mark) => original(mark.charCodeAt(0)) ?? mark);
  }

  // The translation of a line from what was written of its pieces.
  joined({ placeholders, symbols }, written) {
    const whole = written.length === 1 ? written[0] : joinedTexts(written.map((text) => trimmed(text, this.patterns)), this.patterns);
    return this.restored(whole, placeholders, symbols.map((symbol) => symbol.written));
  }
}

function mapValues(record, change) {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]));
}
