// What people read instead of ids: a label for each token, and the words that tokens are parts of.

const SHOWN = { " ": "▁", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0" };
const SPACE_BEFORE_WORD = "▁";

// A label for each id: a space shows as "▁", a part of a character as that character with the part: "é(1/2)".
function labelsOf(tokenizer, ids) {
  const labels = ids.map((id) => (tokenizer.isBytes && !tokenizer.special.has(id) ? "" : tokenizer.tokens[id] ?? ""));
  if (!tokenizer.isBytes) return labels;
  for (const { text, owners } of charactersOf(ids.map((id) => tokenizer.bytes(id)))) {
    const parts = new Map();
    owners.forEach((owner, index) => parts.set(owner, [...(parts.get(owner) ?? []), index + 1]));
    for (const [owner, numbers] of parts) {
      const range = numbers.length > 1 ? `${numbers[0]}-${numbers.at(-1)}` : numbers[0];
      labels[owner] += parts.size === 1 || text === "\ufffd" ? (SHOWN[text] ?? text) : `${text}(${range}/${owners.length})`;
    }
  }
  return labels;
}

// The characters that rows of bytes spell, with the row of each of their bytes; what is no UTF-8 is U+FFFD.
function* charactersOf(rows) {
  const bytes = rows.flat();
  const owner = rows.flatMap((row, number) => row.map(() => number));
  for (let start = 0; start < bytes.length; ) {
    const size = characterSize(bytes, start);
    const length = Math.abs(size);
    const text = size > 0 ? new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes.slice(start, start + length))) : "\ufffd";
    yield { text, owners: owner.slice(start, start + length) };
    start += length;
  }
}

// Bytes of the character at `start`; of a broken one the bytes that go with it, below zero.
function characterSize(bytes, start) {
  const wanted = bytes[start] < 0x80 ? 1 : bytes[start] < 0xc2 ? 0 : bytes[start] < 0xe0 ? 2 : bytes[start] < 0xf0 ? 3 : bytes[start] < 0xf5 ? 4 : 0;
  let there = 1;
  while (there < wanted && (bytes[start + there] & 0xc0) === 0x80) there++;
  return wanted && there === wanted ? there : -there;
}

// {tokens, wordNumbers, words} of ids: the labels, the word of each from 0, and the words as in `text`.
function wordsOf(tokenizer, ids, text) {
  const tokens = labelsOf(tokenizer, ids);
  const isSpecial = (index) => tokenizer.special.has(ids[index]);
  const words = [];
  const wordNumbers = [];
  for (let start = 0; start < ids.length; ) {
    let end = start + 1;
    if (!isSpecial(start)) while (end < ids.length && !isSpecial(end)) end++;
    const run = isSpecial(start) || !tokenizer.stripsSpace ? { names: tokens.slice(start, end), numbers: [...Array(end - start).keys()] } : spelled(ids.slice(start, end), tokenizer);
    wordNumbers.push(...run.numbers.map((number) => number + words.length));
    words.push(...run.names);
    start = end;
  }
  // lower-casing and composed accents are the tokenizer's, not the user's
  const written = tokenizer.stripsSpace ? text.split(/\p{White_Space}+/u).filter(Boolean) : [];
  const plain = [...words.keys()].filter((number) => !SPECIAL_TOKENS.includes(words[number]));
  if (plain.length === written.length) plain.forEach((number, index) => { words[number] = written[index]; });
  return { text, tokens, wordNumbers, words };
}

// The words between white space that a run of tokens spells; a space belongs to the word after it.
function spelled(ids, tokenizer) {
  const rows = ids.map((id) => tokenizer.bytes(id));
  const wordOfToken = new Map();
  let [words, wasBlank] = [0, true];
  for (const { text, owners } of charactersOf(rows)) {
    const blank = /^\p{White_Space}$/u.test(text);
    if (wasBlank && !blank) words++;
    const word = blank ? words : words - 1;
    for (const owner of owners) if (!wordOfToken.has(owner)) wordOfToken.set(owner, word);
    wasBlank = blank;
  }
  // the last spaces have no next word
  const raw = ids.map((_, index) => Math.max(0, Math.min(wordOfToken.get(index) ?? 0, words - 1)));
  const kept = [...new Set(raw)];
  const names = kept.map((word) => {
    const bytes = rows.filter((_, index) => raw[index] === word).flat();
    const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
    return text.split(/\p{White_Space}+/u).filter(Boolean).join(" ") || SPACE_BEFORE_WORD;
  });
  return { names, numbers: raw.map((word) => kept.indexOf(word)) };
}
