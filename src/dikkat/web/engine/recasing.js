// A text in capitals, or with a capital in every word, is read as if it were written as usual; its translation gets the
// case of its source.

// "usual", "capitals" or "titles".
function caseOf(text, { patterns, minTitleWords, smallWord }) {
  if (firstMatch(patterns.usual, text)) return "usual";
  const words = wordsIn(text, patterns).filter((word) => word.toLowerCase() !== word.toUpperCase());
  if (words.every((word) => word === word.toUpperCase())) return words.some((word) => [...word].length > 1) ? "capitals" : "usual";
  const small = words.filter(beginsSmall);
  const begun = words.filter((word) => !beginsSmall(word));
  const isTitle = begun.length >= minTitleWords && small.every((word) => [...word].length <= smallWord) && small.length * 3 <= begun.length;
  const cased = begun.map((word) => [...word].slice(1).join("")).filter((rest) => rest === rest.toLowerCase());
  return isTitle && cased.length * 2 > begun.length ? "titles" : "usual";
}

function wordsIn(text, { word }) {
  return [...text.matchAll(word)].map((match) => match[0]);
}

function beginsSmall(word) {
  const [letter] = word;
  return letter === letter.toLowerCase();
}

// Every word in the form that training has shown, else that of the fewest tokens, of equal ones the most usual; the first
// with a capital.
function recased(text, writtenAs, table, countTokens) {
  const hasDottedI = table.dottedI[0];
  let isFirst = true;
  return text.replace(table.patterns.word, (word) => {
    const small = lowered(word, hasDottedI);
    const forms = Object.hasOwn(table.usualForms, small) ? [table.usualForms[small]] : formsOf(word, writtenAs, hasDottedI);
    const counts = forms.map((form) => [countTokens(form), form]);
    const [, best] = counts.reduce((least, next) => (next[0] < least[0] ? next : least));
    const form = isFirst ? capitalized(best, hasDottedI) : best;
    isFirst = false;
    return form;
  });
}

function formsOf(word, writtenAs, hasDottedI) {
  const small = lowered(word, hasDottedI);
  if ([...word].length === 1) return [word, small];
  return writtenAs === "capitals" ? [small, capitalized(small, hasDottedI), word] : [small, word];
}

// Unknown words as the most frequent known ones that one slip inside a word makes of them; see text/normalizing.py.
const MAX_SLIPS = 5000; // words that are kept

class Speller {
  constructor({ usualForms, patterns, dottedI, minCorrected, maxUnknown }) {
    Object.assign(this, { forms: usualForms, patterns, hasDottedI: dottedI[0], minCorrected, maxUnknown });
    this.rank = new Map(Object.keys(usualForms).map((word, number) => [word, number]));
    this.slips = new Map(); // word -> the known ones that are one slip away
    this.letters = [...new Set([...this.rank.keys()].join(""))].filter((letter) => /\p{L}/u.test(letter));
  }

  corrected(text) {
    if (!this.rank.size) return text;
    const words = wordsIn(text, this.patterns).map((word) => lowered(word, this.hasDottedI));
    if (words.filter((word) => !this.rank.has(word)).length > this.maxUnknown * words.length) return text;
    let number = 0;
    return text.replace(this.patterns.word, (word) => {
      const [small, isFirst] = [words[number], number++ === 0 && word === capitalized(lowered(word, this.hasDottedI), this.hasDottedI)];
      if (this.rank.has(small) || (word !== small && !isFirst)) return word;
      const options = this.options(small);
      if (!options.length) return word;
      const form = this.forms[options.reduce((best, other) => (this.rank.get(other) < this.rank.get(best) ? other : best))];
      return isFirst ? capitalized(form, this.hasDottedI) : form;
    });
  }

  options(word) {
    if (!this.slips.has(word)) {
      if (this.slips.size >= MAX_SLIPS) this.slips.clear();
      this.slips.set(word, this.meant([...word]).filter((other) => this.rank.has(other)));
    }
    return this.slips.get(word);
  }

  // What is one slip away.
  meant(word) {
    if (word.length < this.minCorrected) return [];
    const changed = (from, to, ...letters) => [...word.slice(0, from), ...letters, ...word.slice(to)].join("");
    const inner = word.slice(1, -1).map((_, number) => number + 1);
    return [
      ...inner.flatMap((at) => [changed(at, at + 1), changed(at, at + 2, word[at + 1], word[at])]),
      ...this.letters.flatMap((letter) => inner.map((at) => changed(at, at + 1, letter))),
      ...this.letters.flatMap((letter) => [...inner, word.length - 1].map((at) => changed(at, at, letter))),
    ];
  }
}

function cased(text, { writtenAs, keepsSmall, names = [] }, { patterns, dottedI, smallWord }) {
  if (writtenAs === "usual") return text;
  const form = (word, at) => {
    if (names.some(([, name]) => name === word)) return word;
    if (writtenAs === "capitals") return uppered(word, dottedI[1]);
    return keepsSmall && at > 0 && [...word].length <= smallWord ? word : capitalized(word, dottedI[1]);
  };
  return text.replace(patterns.word, form);
}

// Whether a title leaves a word small, as in "Lord of the Rings".
function hasSmallWords(text, { patterns }) {
  return wordsIn(text, patterns).some((word) => beginsSmall(word) && [...word][0].toUpperCase() !== [...word][0]);
}
