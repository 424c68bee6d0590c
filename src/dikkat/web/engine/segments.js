// A line in pieces that a model can read: at its sentences, else at clauses, else at words.

const AT_ONCE = 4000; // characters of the longest text whose tokens are counted before it is cut

class Segmenter {
  // `encode` gives the ids of a text as the model reads it; `table` is that of Reading.
  constructor(table, encode) {
    [this.table, this.patterns, this.limits, this.encode] = [table, table.patterns, table.limits, encode];
  }

  // Returns [{text, ids}] of a line without white space around it; a piece without ids is copied. Yields between sentences.
  *segments(line) {
    const { longest, usual, severalSentences } = this.limits;
    const ids = line.length <= AT_ONCE ? this.encode(line) : null;
    const fits = ids && severalSentences && ids.length <= usual && !firstMatch(this.patterns.break, line);
    if (fits && this.withoutDash(line).length === 1) return [{ text: line, ids }];
    const sentences = splitSentences(line, this.table).flatMap((sentence) => this.withoutDash(sentence));
    if (ids && ids.length <= longest && sentences.length === 1) return [{ text: line, ids }];
    const pieces = [];
    for (const sentence of sentences) {
      yield;
      const own = sentence.length <= AT_ONCE ? this.encode(sentence) : null;
      pieces.push(...(own && own.length <= longest ? [this.piece(sentence, own)] : yield* this.parts(sentence)));
    }
    return severalSentences ? yield* this.together(pieces) : pieces;
  }

  // Whether a letter stands outside markup, placeholders and addresses: something to translate.
  hasWords(text) {
    return /\p{L}/u.test(text.replace(this.patterns.placeholder, " "));
  }

  piece(text, ids = this.encode(text)) {
    return { text, ids: this.hasWords(text) ? ids : [] };
  }

  // A dash before direct speech, and the speech; the sentence alone where there is none.
  withoutDash(sentence) {
    const spoken = firstMatch(this.patterns.dash, sentence);
    return spoken && this.hasWords(spoken[2]) ? [spoken[1], spoken[2]] : [sentence];
  }

  // Neighbours joined to one piece, as long as it has no more tokens than usual.
  *together(pieces) {
    const groups = [];
    let tokens = 0;
    for (const piece of pieces) {
      const more = 1 + piece.ids.length; // the space between may be a token
      const last = groups.at(-1);
      const fits = last && piece.ids.length && last.at(-1).ids.length && tokens + more <= this.limits.usual;
      if (fits) last.push(piece);
      else groups.push([piece]);
      tokens = fits ? tokens + more : more - 1;
    }
    const whole = [];
    for (const group of groups) {
      yield;
      const text = joinedTexts(group.map((piece) => piece.text), this.patterns);
      whole.push(group.length === 1 ? group[0] : { text, ids: this.encode(text) });
    }
    return whole;
  }

  // A sentence that is too long, cut at its clauses, and where that is not enough at words.
  *parts(sentence) {
    const words = sentence.match(this.patterns.chunkWithSpace) ?? [];
    const isSpaceless = (text) => Boolean(firstMatch(this.patterns.spaceless, text));
    const atoms = [];
    for (const text of words.flatMap((word) => (isSpaceless(word) ? word.match(this.patterns.atom) : [word]))) {
      yield;
      atoms.push({ text, count: this.encode(text).length });
    }
    const runs = [[]];
    const copied = new Set();
    for (const atom of atoms) {
      if (atom.count <= this.limits.longest || isSpaceless(atom.text)) runs.at(-1).push(atom);
      else {
        copied.add(atom);
        runs.push([atom], []);
      }
    }
    const pieces = runs.flatMap((run) => (copied.has(run[0]) ? [{ text: run[0].text, ids: [] }] : this.groups(run).map((text) => this.piece(text))));
    return pieces.map(({ text, ids }) => ({ text: trimmed(text, this.patterns), ids }));
  }

  // Texts of clauses of at most `longest` tokens; a longer clause is cut to parts of about one size.
  groups(atoms) {
    const { longest } = this.limits;
    const groups = [];
    let tokens = longest;
    const add = ({ text, count }, most) => {
      if (tokens + count > most || !groups.length || tokens >= longest) {
        groups.push("");
        tokens = 0;
      }
      groups[groups.length - 1] += text;
      tokens += count;
    };
    for (const clause of this.clauses(atoms)) {
      const total = clause.reduce((sum, { count }) => sum + count, 0);
      if (tokens + total <= longest) {
        for (const atom of clause) add(atom, Infinity);
        continue;
      }
      tokens = longest;
      for (const atom of clause) add(atom, Math.ceil(total / Math.ceil(total / longest)));
    }
    return groups.map((text) => trimmed(text, this.patterns));
  }

  clauses(atoms) {
    const clauses = [[]];
    for (const atom of atoms) {
      clauses.at(-1).push(atom);
      if (firstMatch(this.patterns.clauseEnd, atom.text)) clauses.push([]);
    }
    return clauses.filter((clause) => clause.length);
  }
}
