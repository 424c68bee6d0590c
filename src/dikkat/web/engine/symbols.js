// Signs that are no language and that a model cannot know (emoji, bullets, ticks) pass it by: a private character, their
// mark, stands for each in the text, and what is written gets the marks back where their neighbours are.

// Spans of the mark of a list at the beginning, of emoji, and of signs that are not known; neighbours are one. Those at
// `skipped` are left out.
function symbolSpans(text, known, { patterns, hasOrdinals }, skipped) {
  const marker = hasOrdinals && firstMatch(patterns.ordinal, text) ? null : firstMatch(patterns.marker, text);
  const spans = marker ? [[marker[0].length - marker[1].length, marker[0].length]] : [];
  const rest = text.replace(patterns.emoji, (emoji, at) => {
    spans.push([at, at + emoji.length]);
    return "\0".repeat(emoji.length);
  });
  for (const { index, 0: sign } of rest.matchAll(patterns.sign)) {
    if (!known.has(sign) && !skipped.includes(index)) spans.push([index, index + sign.length]);
  }
  const merged = [];
  for (const [start, end] of spans.sort((a, b) => a[0] - b[0] || a[1] - b[1])) {
    const last = merged.at(-1);
    if (last && !text.slice(last[1], start).replace(patterns.blank, "")) last[1] = Math.max(end, last[1]);
    else merged.push([start, end]);
  }
  return merged;
}

// Where the marks of brackets and quotations stand that are not known, and whose plain form the vocabulary has not met.
function innerPairs(text, known, { patterns, variants, marks: { pairs, unmet, maxOpened } }) {
  const closes = (at, character) => pairs[text[at]].includes(character);
  const isUnmet = (character) => unmet.includes(Object.hasOwn(variants, character) ? variants[character] : character);
  const isWord = (character) => character !== undefined && /[\p{L}\p{N}]/u.test(character);
  const closed = [];
  let opened = [];
  for (let index = firstMatch(patterns.marker, text)?.[0].length ?? 0; index < text.length; index++) {
    const character = text[index];
    const last = opened.findLastIndex((at) => closes(at, character));
    if (last >= 0 && !isWord(text[index + 1])) {
      // those around signs alone are one sign with them
      if (/[\p{L}\p{N}]/u.test(text.slice(opened[last], index))) closed.push([opened[last], index]);
      opened = opened.slice(0, last);
    } else if (Object.hasOwn(pairs, character) && !isWord(text[index - 1]) && (character < "\x80" || !known.has(character))) {
      if (isUnmet(character)) opened = [...opened, index].slice(-maxOpened);
    }
  }
  return closed.sort((a, b) => a[0] - b[0]);
}

// A text of the same length with the plain form of quotation marks that are not known.
function straightened(text, known, { variants }) {
  const isQuote = (mark) => Object.hasOwn(variants, mark) && ['"', "'"].includes(variants[mark]);
  return Array.from(text, (mark) => (isQuote(mark) && !known.has(mark) && known.has(variants[mark]) ? variants[mark] : mark)).join("");
}

// A text with a mark for each of `symbols`, [start, end, what the translation has for it]; beyond a thousand they stay.
// Placeholders have marks too, and symbols inside one are part of it. `pairs` are the characters at which those begin that
// belong together.
function withMarks(text, symbols, table, pairs) {
  const { firstMark, firstSymbol, lastMark } = table;
  const spans = protectedSpans(text, table);
  if (spans.length > firstSymbol - firstMark) return { text, placeholders: [], symbols: [], pairs: [] };
  const isFree = ([start, end]) => !spans.some((span) => start < span[1] && span[0] < end);
  const free = symbols.filter(isFree).slice(0, lastMark - firstSymbol);
  const marks = [...spans.map(([start, end], number) => [start, end, firstMark + number]), ...free.map(([start, end], number) => [start, end, firstSymbol + number])];
  const markAt = new Map(marks.slice(spans.length).map(([start, , mark]) => [start, String.fromCharCode(mark)]));
  let [parts, position] = ["", 0];
  for (const [start, end, mark] of marks.sort((a, b) => a[0] - b[0])) {
    parts += text.slice(position, start) + String.fromCharCode(mark);
    position = end;
  }
  return {
    text: parts + text.slice(position),
    placeholders: spans.map(([start, end]) => text.slice(start, end)),
    symbols: free.map(([start, end, written]) => ({ source: text.slice(start, end), written })),
    pairs: pairs.filter((pair) => pair.every((at) => markAt.has(at))).map((pair) => pair.map((at) => markAt.get(at))),
  };
}

function withoutMarks(text, { patterns }) {
  if (!firstMatch(patterns.symbol, text)) return text;
  return text.replace(patterns.beforeMark, "").replace(patterns.betweenWords, " ").replace(patterns.symbol, "").split(" ").filter(Boolean).join(" ");
}

// Puts the marks that stand between words of a piece between those of its translation. `gapsAt` finds the characters of a
// translation that answer to characters of its source, and `enclosedBy` the spans that answer to spans.
function withInnerMarks(piece, translation, { gapsAt, enclosedBy }, { patterns, endMarks }) {
  const chunks = [...piece.read.matchAll(patterns.chunk)].map(({ index, 0: { length } }) => [index, index + length]);
  const count = (text) => [...text.replace(patterns.symbol, "").matchAll(patterns.chunk)].length;
  const pairs = pairsAround(piece, chunks, count, (text) => endMarks.includes(trimmed(text, patterns).at(-1)));
  const paired = pairs.flatMap(({ marks }) => marks);
  const inner = piece.marks.filter((mark) => !paired.includes(mark) && piece.text.split(mark).every(hasWord));
  if (!(inner.length || pairs.length) || !trimmed(translation, patterns)) return translation;
  const begins = inner.map((mark) => chunks[Math.min(count(piece.text.split(mark)[0]), chunks.length - 1)][0]);
  const offsets = inner.length ? gapsAt(translation, begins) : [];
  const placed = inner.map((mark, number) => [offsets[number], 1, mark]);
  const spans = pairs.length ? enclosedBy(translation, pairs.map(({ span }) => span)) : [];
  pairs.forEach(({ marks: [opening, closing], ends }, number) => {
    let [start, end] = spans[number];
    while (ends && end < translation.length && endMarks.includes(translation[end])) end++;
    if (start < end) placed.push([start, 2, opening], [end, 0, closing]);
    else placed.push([end, 2, opening + closing]);
  });
  // at one character: what closes, the inner pair first, then signs, then what opens, the outer pair first
  placed.sort((a, b) => b[0] - a[0] || b[1] - a[1] || (a[2] < b[2] ? 1 : -1));
  return placed.reduce((text, [offset, kind, mark]) => {
    if (kind !== 1) return text.slice(0, offset) + mark + text.slice(offset);
    const [left, right] = piece.text.split(mark).map((part) => part.replace(patterns.symbol, ""));
    const parts = [text.slice(0, offset).trimEnd(), left.endsWith(" ") ? " " : "", mark, right.startsWith(" ") ? " " : "", text.slice(offset).trimStart()];
    return trimmed(parts.join(""), patterns);
  }, translation);
}

// Each pair of marks around some of the words of a piece: its marks, the span of those words in what the model reads, and
// whether a sign that ends a sentence or a clause stands before the closing mark.
function pairsAround(piece, chunks, count, endsClause) {
  return piece.pairs.flatMap((marks) => {
    const [before, rest] = piece.text.split(marks[0]);
    if (rest === undefined || !rest.includes(marks[1])) return [];
    const [within, after] = rest.split(marks[1]);
    const [first, last] = [count(before), count(before + within)];
    if (!hasWord(within) || !(hasWord(before) || hasWord(after)) || first >= last || last > chunks.length) return [];
    return [{ marks, span: [chunks[first][0], chunks[last - 1][1]], ends: endsClause(within) }];
  });
}

// Puts the marks before and after all words of a piece there; a full stop after the last one stays after it.
function withOuterMarks(piece, translation, { patterns }) {
  const [first, last] = [[], []];
  for (const mark of piece.marks.filter((own) => !translation.includes(own))) {
    const [before, after] = piece.text.split(mark);
    if (!hasWord(after)) last.push((/\s$/.test(before) ? " " : "") + mark);
    else if (!hasWord(before)) first.push(mark + (/^\s/.test(after) ? " " : ""));
  }
  let [text, closing] = [translation, ""];
  if (last.length) {
    const rest = trimmed(piece.text.split(last[0].at(-1))[1].replace(patterns.private, ""), patterns);
    if (firstMatch(patterns.onlyEndMarks, rest)) {
      text = text.replace(patterns.endMarks, "").trimEnd();
      closing = translation.slice(text.length);
    }
  }
  return [...first, text, ...last, closing].join("");
}

function hasWord(text) {
  return /[\p{L}\p{N}\ue000-\uf3ff]/u.test(text); // or a placeholder
}

function trimmed(text, { edges }) {
  return text.replace(edges, "");
}
