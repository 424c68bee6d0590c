// Signs that are no language and that a model cannot know (emoji, bullets, ticks) pass it by: a private character, their
// mark, stands for each in the text, and what is written gets the marks back where their neighbours are.

// Spans of the mark of a list at the beginning, of emoji, and of signs that are not known; neighbours are one.
function symbolSpans(text, known, { patterns, hasOrdinals }) {
  const marker = hasOrdinals && firstMatch(patterns.ordinal, text) ? null : firstMatch(patterns.marker, text);
  const spans = marker ? [[marker[0].length - marker[1].length, marker[0].length]] : [];
  const rest = text.replace(patterns.emoji, (emoji, at) => {
    spans.push([at, at + emoji.length]);
    return "\0".repeat(emoji.length);
  });
  for (const { index, 0: sign } of rest.matchAll(patterns.sign)) if (!known.has(sign)) spans.push([index, index + sign.length]);
  const merged = [];
  for (const [start, end] of spans.sort((a, b) => a[0] - b[0] || a[1] - b[1])) {
    const last = merged.at(-1);
    if (last && !text.slice(last[1], start).replace(patterns.blank, "")) last[1] = Math.max(end, last[1]);
    else merged.push([start, end]);
  }
  return merged;
}

// A text with a mark for each of `symbols`, [start, end, what the translation has for it]; beyond a thousand they stay.
// Placeholders have marks too, and symbols inside one are part of it.
function withMarks(text, symbols, table) {
  const { firstMark, firstSymbol, lastMark } = table;
  const spans = protectedSpans(text, table);
  if (spans.length > firstSymbol - firstMark) return { text, placeholders: [], symbols: [] };
  const isFree = ([start, end]) => !spans.some((span) => start < span[1] && span[0] < end);
  const free = symbols.filter(isFree).slice(0, lastMark - firstSymbol);
  const marks = [...spans.map(([start, end], number) => [start, end, firstMark + number]), ...free.map(([start, end], number) => [start, end, firstSymbol + number])];
  let [parts, position] = ["", 0];
  for (const [start, end, mark] of marks.sort((a, b) => a[0] - b[0])) {
    parts += text.slice(position, start) + String.fromCharCode(mark);
    position = end;
  }
  return {
    text: parts + text.slice(position),
    placeholders: spans.map(([start, end]) => text.slice(start, end)),
    symbols: free.map(([start, end, written]) => ({ source: text.slice(start, end), written })),
  };
}

function withoutMarks(text, { patterns }) {
  if (!firstMatch(patterns.symbol, text)) return text;
  return text.replace(patterns.beforeMark, "").replace(patterns.symbol, "").split(" ").filter(Boolean).join(" ");
}

// Puts the marks that stand between words of a piece between those of its translation. `gapsAt` finds the characters of a
// translation that answer to characters of its source.
function withInnerMarks(piece, translation, gapsAt, { patterns }) {
  const begins = [...piece.read.matchAll(patterns.chunk)].map(({ index }) => index);
  const inner = piece.marks.filter((mark) => piece.text.split(mark).every(hasWord));
  if (!inner.length || !trimmed(translation, patterns)) return translation;
  const offsets = gapsAt(translation, inner.map((mark) => {
    const words = [...piece.text.split(mark)[0].replace(patterns.symbol, "").matchAll(patterns.chunk)].length;
    return begins[Math.min(words, begins.length - 1)];
  }));
  const order = inner.map((mark, number) => [offsets[number], mark]).sort((a, b) => b[0] - a[0] || (a[1] < b[1] ? 1 : -1));
  return order.reduce((text, [offset, mark]) => {
    const parts = [text.slice(0, offset), mark, text.slice(offset)];
    return parts.map((part) => trimmed(part, patterns)).filter(Boolean).join(" ");
  }, translation);
}

// Puts the marks before and after all words of a piece there; a full stop after the last one stays after it.
function withOuterMarks(piece, translation, { patterns }) {
  const [first, last] = [[], []];
  for (const mark of piece.marks) {
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
