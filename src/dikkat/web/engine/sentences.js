// Where sentences end in a text, by rules without a model; unsure ends are no ends.

function splitSentences(text, table) {
  const { patterns } = table;
  const whole = trimmed(text, patterns);
  if (!firstMatch(patterns.mayEnd, whole)) return whole ? [whole] : [];
  const isSmall = !/\p{Uppercase}/u.test(whole);
  const parts = whole.split(patterns.break).flatMap((line) => [...cutAtEnds(line, isSmall, table)]);
  return parts.map((part) => trimmed(part, patterns)).filter(Boolean);
}

function* cutAtEnds(line, isSmall, table) {
  let start = 0;
  for (const mark of line.matchAll(table.patterns.end)) {
    const end = mark.index + mark[0].length;
    if (!isEnd(line, start, mark, isSmall, table)) continue;
    yield line.slice(start, end);
    start = end;
  }
  yield line.slice(start);
}

function isEnd(line, start, mark, isSmall, table) {
  const { joined, unsure } = mark.groups;
  if (joined !== undefined) return areJoined(line, start, mark, table);
  if (unsure !== undefined) return endsSentence(line, start, mark, isSmall, table);
  // a quotation goes on in its sentence: 「行こう！」と言った
  return !table.goesOnAfter.includes(mark[0].at(-1)) || !/^\p{L}/u.test(line.slice(mark.index + mark[0].length));
}

// Whether a mark without a space after it ends the sentence that began at `start`, and is in no name.
function areJoined(line, start, { index, 0: { length } }, { patterns, lookBack, neverLast, neverJoined }) {
  const before = firstMatch(patterns.joinedBefore, line.slice(Math.max(start, index - lookBack), index))?.[0] ?? "";
  const after = firstMatch(patterns.joinedAfter, line.slice(index + length, index + length + lookBack))?.[1] ?? "";
  const isLower = (text) => /\p{Lowercase}/u.test(text) && !/[\p{Uppercase}\p{Lt}]/u.test(text);
  const [first = "", ...rest] = after;
  if (!isLower(before) || neverLast.includes(before)) return false;
  return /\p{Uppercase}/u.test(first) && isLower(rest.join("")) && !neverJoined.includes(after.toLowerCase());
}

// Whether a mark with a space after it ends the sentence that began at `start`.
function endsSentence(line, start, { index, groups: { unsure } }, isSmall, { patterns, lookBack, lookAhead, hasOrdinals, neverLast }) {
  const following = firstMatch(patterns.next, line.slice(index + unsure.length, index + unsure.length + lookAhead));
  const after = following ? line.slice(index + unsure.length + following[0].length) : "";
  if (!after || (/^\p{Lowercase}/u.test(after) && !isSmall)) return false;
  if (!unsure.startsWith(".") || unsure.startsWith("..")) return true;
  const word = firstMatch(patterns.lastWord, line.slice(Math.max(start, index - lookBack), index))?.[0] ?? "";
  const isNumber = /^\p{Nd}+$/u.test(word);
  if (isNumber && word.length <= 2) return !hasOrdinals && trimmed(line.slice(start, index), patterns) !== word;
  const isLarge = /\p{Uppercase}/u.test(word) && !/[\p{Lowercase}\p{Lt}]/u.test(word);
  const isInitial = firstMatch(patterns.initials, word) && !isNumber && (isLarge || word.includes("."));
  return !isInitial && !neverLast.includes(word.toLowerCase());
}

// Texts with a space between them, but none next to a sign of Chinese or Japanese.
function joinedTexts(texts, { cjk }) {
  const isSpaced = (before, after) => ![[...before].at(-1), [...after][0]].some((sign) => firstMatch(cjk, sign));
  return texts.filter(Boolean).reduce((whole, text) => (whole ? whole + (isSpaced(whole, text) ? " " : "") + text : text), "");
}
