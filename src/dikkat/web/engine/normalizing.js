// A text in the characters that a model has met: plain spaces, no invisible marks, its own quotation marks.
// All tables are those of Python, as reading_table.py emits them.

function normalized(text, known, table) {
  const { patterns, groupMark } = table;
  const joins = (at, whole) => firstMatch(patterns.endsPictorial, whole.slice(0, at)) && firstMatch(patterns.beginsPictorial, whole.slice(at + 1));
  const visible = text.replace(patterns.quiet, "").replace(patterns.joiner, (joiner, at, whole) => (joins(at, whole) ? joiner : ""));
  const composed = [...visible].some((character) => !known.has(character) && combines(character)) ? visible.normalize("NFC") : visible;
  const plain = Array.from(composed, (character) => (known.has(character) ? character : plainForm(character, known, table))).join("");
  if (plain.includes(groupMark)) return plain.replace(patterns.space, " ");
  return plain.replace(patterns.digitGroup, groupMark).replace(patterns.space, " ").replaceAll(groupMark, "\u00a0");
}

// The plain form of a character if all of that is known, else the character.
function plainForm(character, known, { variants, patterns }) {
  const compatible = () => (firstMatch(patterns.compatible, character) ? character.normalize("NFKC") : character);
  const form = Object.hasOwn(variants, character) ? variants[character] : compatible();
  return [...form].every((part) => known.has(part)) ? form : character;
}

// Whether a character has a canonical combining class: normal form D puts it before U+0345, which has the largest.
function combines(character) {
  return character === "\u0345" || (/\p{M}/u.test(character) && !`\u0345${character}`.normalize("NFD").startsWith("\u0345"));
}

// The first match; patterns of the table are global.
function firstMatch(pattern, text) {
  return text.matchAll(pattern).next().value ?? null;
}
