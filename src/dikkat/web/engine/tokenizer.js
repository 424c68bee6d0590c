// Text to ids and back, by what a tokenizer.json of dikkat says: byte-level BPE, words, characters or bytes.

const [PAD, BOS, EOS, UNK] = [0, 1, 2, 3];
const SPECIAL_TOKENS = ["<pad>", "<bos>", "<eos>", "<unk>"];
const DOTTED_I = new Set(["tr", "tur", "az", "aze"]);
const MAX_WORDS_KEPT = 20000;

// The character that stands for each byte in a byte-level vocabulary: itself if printable, else one from U+0100 on.
const CHARACTER_OF_BYTE = (() => {
  const printable = (byte) => (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad);
  let hidden = 0x100;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(printable(byte) ? byte : hidden++));
})();
const BYTE_OF_CHARACTER = new Map(CHARACTER_OF_BYTE.map((character, byte) => [character, byte]));

class Tokenizer {
  // `language` is that of texts, whose dotted i matters where the tokenizer lower-cases.
  constructor(settings, language = "") {
    const flat = (part, name) => (part === null ? [] : part.type === "Sequence" ? part[name] : [part]);
    this.normalizers = flat(settings.normalizer, "normalizers").map(normalizerOf);
    this.cutters = flat(settings.pre_tokenizer, "pretokenizers").filter(({ type }) => type !== "ByteLevel").map(cutterOf);
    const decoders = flat(settings.decoder, "decoders").map(({ type }) => type);
    this.isBytes = settings.model.type === "BPE";
    this.joiner = decoders.length ? "" : " ";
    this.stripsSpace = decoders.includes("Strip");
    const lowercases = flat(settings.normalizer, "normalizers").some(({ type }) => type === "Lowercase");
    this.hasDottedI = lowercases && DOTTED_I.has(language.toLowerCase().split(/[-_.@]/)[0]);
    this.ids = new Map(Object.entries(settings.model.vocab));
    this.tokens = [];
    for (const [token, id] of this.ids) this.tokens[id] = token;
    this.ranks = new Map((settings.model.merges ?? []).map((merge, rank) => [Array.isArray(merge) ? merge.join(" ") : merge, rank]));
    this.kept = new Map();
  }

  // Ids of a text, without <bos> and <eos>; halves of surrogate pairs become U+FFFD.
  encode(text) {
    return this.pieces(this.normalized(text)).flatMap((piece) => (this.isBytes ? this.merge(piece) : [this.ids.get(piece) ?? UNK]));
  }

  normalized(text) {
    const whole = text.replace(/\p{Surrogate}/gu, "\ufffd");
    return this.normalizers.reduce((changed, normalize) => normalize(changed), this.hasDottedI ? lowerDotted(whole) : whole);
  }

  // What a normalized text is cut into before it is looked up.
  pieces(whole) {
    return this.cutters.reduce((pieces, cut) => pieces.flatMap(cut), whole ? [whole] : []);
  }

  // Text of ids; <pad>, <bos> and <eos> leave no trace.
  decode(ids) {
    const tokens = ids.filter((id) => id !== PAD && id !== BOS && id !== EOS).map((id) => this.tokens[id]);
    if (!this.isBytes) return tokens.join(this.joiner);
    const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(tokens.flatMap(bytesOfToken)));
    return this.stripsSpace && text.startsWith(" ") ? text.slice(1) : text;
  }

  // What each token spells, in bytes; a special token has none.
  bytes(id) {
    if (id < SPECIAL_TOKENS.length) return [];
    const token = this.tokens[id];
    return this.isBytes ? bytesOfToken(token) : [...new TextEncoder().encode(token)];
  }

  // The characters that whole entries hold: those that the text of the vocabulary had often enough.
  characters() {
    const rows = this.tokens.map((_, id) => this.bytes(id));
    return rows.flatMap((row) => [...charactersOf([row])].map(({ text }) => text).filter((text) => text !== "\ufffd"));
  }

  // A text as it is composed before it is lower-cased.
  composed(text) {
    return this.hasDottedI ? text.normalize("NFC") : text;
  }

  // [start, end] in a composed text of each of its ids; the tokens of one character all have its span.
  spans(text) {
    let position = 0;
    if (!this.isBytes) {
      const whole = this.normalized(text);
      return this.pieces(whole).map((piece) => {
        const start = Math.max(position, whole.indexOf(piece, position));
        position = start + piece.length;
        return [start, position];
      });
    }
    const rows = this.encode(text).map((id) => this.bytes(id));
    const spans = rows.map(() => [Infinity, 0]);
    position = this.normalized("a").indexOf("a") * -1; // the space that is put in front
    for (const { text: character, owners } of charactersOf(rows)) {
      for (const owner of owners) spans[owner] = [Math.max(0, Math.min(spans[owner][0], position)), position + character.length];
      position += character.length;
    }
    return spans;
  }

  // A piece of text that no merge crosses, in the ids of byte-level BPE.
  merge(piece) {
    const known = this.kept.get(piece);
    if (known) return known;
    let parts = Array.from(new TextEncoder().encode(piece), (byte) => CHARACTER_OF_BYTE[byte]);
    while (parts.length > 1) {
      const pair = this.firstMerge(parts);
      if (pair === null) break;
      parts = joinPairs(parts, pair);
    }
    const ids = parts.map((part) => this.ids.get(part));
    if (this.kept.size < MAX_WORDS_KEPT) this.kept.set(piece, ids);
    return ids;
  }

  // The pair of neighbours that was merged first in training; null where no merge is left.
  firstMerge(parts) {
    let [best, pair] = [Infinity, null];
    for (let i = 0; i + 1 < parts.length; i++) {
      const next = `${parts[i]} ${parts[i + 1]}`;
      const rank = this.ranks.get(next) ?? Infinity;
      if (rank < best) [best, pair] = [rank, next];
    }
    return pair;
  }
}

function joinPairs(parts, pair) {
  const joined = [];
  for (let i = 0; i < parts.length; i++) {
    if (i + 1 < parts.length && `${parts[i]} ${parts[i + 1]}` === pair) joined.push(parts[i] + parts[++i]);
    else joined.push(parts[i]);
  }
  return joined;
}

function bytesOfToken(token) {
  return Array.from(token, (character) => BYTE_OF_CHARACTER.get(character));
}

function normalizerOf(part) {
  const known = {
    NFC: () => (text) => text.normalize("NFC"),
    // character by character, as the library does: no final sigma
    Lowercase: () => (text) => Array.from(text, (character) => character.toLowerCase()).join(""),
    Prepend: () => (text) => (text ? part.prepend + text : text),
    Replace: () => (text) => text.replace(patternOf(part.pattern), () => part.content),
  };
  return known[part.type]();
}

// From a piece to smaller ones: what the pattern finds, and what lies between.
function cutterOf(part) {
  const pattern = part.type === "WhitespaceSplit" ? /\p{White_Space}+/gu : patternOf(part.pattern);
  const keeps = part.type !== "WhitespaceSplit";
  return (text) => {
    const pieces = [];
    let end = 0;
    for (const { index, 0: match } of text.matchAll(pattern)) {
      if (index > end) pieces.push(text.slice(end, index));
      if (keeps) pieces.push(match);
      end = index + match.length;
    }
    if (end < text.length) pieces.push(text.slice(end));
    return pieces;
  };
}

// \s of the library is the white space of Unicode; that of JavaScript is not quite the same.
function patternOf({ Regex: source, String: plain }) {
  if (plain !== undefined) return new RegExp(plain.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "gu");
  return new RegExp(source.replace(/\\s/g, "\\p{White_Space}").replace(/\\S/g, "\\P{White_Space}"), "gu");
}

// Lower case in Turkish and Azeri: I becomes ı, and İ becomes i.
function lowerDotted(text) {
  return lowered(text.normalize("NFC"), true);
}
