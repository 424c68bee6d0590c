// Placeholders, addresses and private characters pass a model by: a private character, their mark, stands for each in the
// text, and in what the model reads a name that it copies. The runtime does the same (tasks/surrogates.py).

// Spans of what is no language; neighbours are one.
function protectedSpans(text, { patterns, protectedGroups, addressMarks, addressGroup }) {
  const spans = [];
  for (const { index, 0: written, groups } of text.matchAll(patterns.placeholder)) {
    if (!protectedGroups.some((group) => groups[group] !== undefined)) continue;
    let end = index + written.length;
    while (groups[addressGroup] !== undefined && addressMarks.includes(text[end - 1])) end--;
    spans.push([index, end]);
  }
  const begins = spans.map(([start]) => start);
  for (const { index } of text.matchAll(patterns.private)) {
    const before = begins.filter((start) => start <= index).length - 1;
    if (before < 0 || index >= spans[before][1]) spans.push([index, index + 1]);
  }
  const merged = [];
  for (const [start, end] of spans.sort((a, b) => a[0] - b[0] || a[1] - b[1])) {
    const last = merged.at(-1);
    if (last && start <= last[1]) last[1] = Math.max(end, last[1]);
    else merged.push([start, end]);
  }
  return merged;
}

// What the model reads of a text with marks, and the [mark, name] pairs in it: the first `names` that are not in the text.
function filled(text, names, table) {
  const read = withoutMarks(text, table);
  const marks = read.match(table.patterns.private) ?? [];
  const usable = marks.length ? names().filter((name) => !aloneIn(name, "u").test(read)) : [];
  const pairs = marks.slice(0, usable.length).map((mark, number) => [mark, usable[number]]);
  const nameOf = new Map(pairs);
  const whole = read.replace(table.patterns.private, (mark) => nameOf.get(mark) ?? "");
  return { read: pairs.length === marks.length ? whole : whole.match(/\S+/gu)?.join(" ") ?? "", names: pairs, placeholders: marks };
}

// A translation with each mark of a placeholder exactly once; one whose name is not there goes to the same share of the text.
function withPlaceholders(piece, translation) {
  const [nameOf, lost] = [new Map(piece.names), []];
  let text = translation;
  for (const mark of piece.placeholders) {
    const name = nameOf.get(mark);
    if (name !== undefined) {
      const matches = text.match(aloneIn(name, "giu")) ?? [];
      text = matches.length === 1 ? text.replace(aloneIn(name, "giu"), mark) : text.replace(aloneIn(name, "giu", "\\s?"), "");
      if (matches.length === 1) continue;
    }
    lost.push(mark);
  }
  for (const mark of lost) text = insertedAt(text, mark, piece.text.indexOf(mark) / Math.max(1, piece.text.length));
  return text;
}

function aloneIn(name, flags, before = "") {
  return new RegExp(`${before}(?<![\\p{L}\\p{N}_])${name}(?![\\p{L}\\p{N}_])`, flags);
}

// A text with a mark between the words that are nearest to this share of it.
function insertedAt(text, mark, share) {
  if (share === 0) return `${mark} ${text}`;
  const gaps = [...text.matchAll(/\s+|$/gu)].map(({ index }) => index);
  const distance = (at) => Math.abs(at - share * text.length);
  const at = gaps.reduce((best, gap) => (distance(gap) < distance(best) ? gap : best));
  return `${text.slice(0, at)} ${mark}${text.slice(at)}`.trim();
}
