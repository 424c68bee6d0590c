// Text to ids and back, by what a tokenizer.json says: byte-level BPE, words, characters or bytes of dikkat's own, and BPE of
// imported models, on bytes or on characters with bytes for those that have no entry.

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

// How the library cuts a text before byte-level BPE, unless the file says otherwise.
const BYTE_LEVEL_PIECE = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

class Tokenizer {
  // `language` is that of texts, whose dotted i matters where the tokenizer lower-cases.
  constructor(settings, language = "") {
    const flat = (part, name) => (part ? (part.type === "Sequence" ? part[name] : [part]) : []);
    const { model, added_tokens: added = [] } = settings;
    this.normalizers = flat(settings.normalizer, "normalizers").map(normalizerOf);
    const cutters = flat(settings.pre_tokenizer, "pretokenizers");
    this.cutters = cutters.map(cutterOf).filter(Boolean);
    const decoders = flat(settings.decoder, "decoders").map(({ type }) => type);
    this.isPieces = Boolean(model.byte_fallback);
    this.isBytes = model.type === "BPE" && !this.isPieces;
    this.joiner = decoders.length ? "" : " ";
    this.stripsSpace = decoders.includes("Strip");
    const lowercases = flat(settings.normalizer, "normalizers").some(({ type }) => type === "Lowercase");
    this.hasDottedI = lowercases && DOTTED_I.has(language.toLowerCase().split(/[-_.@]/)[0]);
    this.ids = new Map(Object.entries(model.vocab));
    for (const { id, content } of added) this.ids.set(content, id);
    this.tokens = [];
    for (const [token, id] of this.ids) this.tokens[id] = token;
    this.isOwn = SPECIAL_TOKENS.every((token, id) => this.tokens[id] === token);
    const ofFile = added.filter(({ special }) => special).map(({ id }) => id);
    this.special = new Set(this.isOwn ? [PAD, BOS, EOS, UNK] : ofFile); // they have a name, and spell nothing
    this.silent = new Set(this.isOwn ? [PAD, BOS, EOS] : ofFile); // they leave no trace in a text
    this.unknown = this.isOwn ? UNK : this.ids.get(model.unk_token) ?? null;
    // special tokens are never read out of a text
    const typed = added.filter(({ special }) => !special && !this.isOwn);
    this.rawEntries = entryPattern(typed.filter(({ normalized }) => !normalized), (text) => text);
    this.plainEntries = entryPattern(typed.filter(({ normalized }) => normalized), (text) => this.normalized(text));
    this.markEntries = entryPattern(added.filter(({ special }) => special), (text) => text);
    this.ranks = new Map((model.merges ?? []).map((merge, rank) => [Array.isArray(merge) ? merge.join(" ") : merge, rank]));
    this.ignoresMerges = Boolean(model.ignore_merges);
    this.kept = new Map();
  }

  // Ids of a text, without <bos> and <eos>; halves of surrogate pairs become U+FFFD.
  encode(text) {
    return this.parts(text).flatMap((part) => (typeof part === "number" ? [part] : this.pieces(part).flatMap((piece) => this.idsOf(piece))));
  }

  // Ids of all parts as one text; in the first one and every second after it special tokens are read.
  encodeMarked(parts) {
    const joined = [""];
    parts.forEach((part, number) => {
      for (const piece of number % 2 || !this.markEntries ? [part] : splitAtEntries(part, this.markEntries)) {
        if (typeof piece === "number") joined.push(piece, "");
        else joined[joined.length - 1] += piece;
      }
    });
    return joined.flatMap((part) => (typeof part === "number" ? [part] : this.encode(part)));
  }

  // Normalized parts of a text, and ids of the entries that are looked up as a whole before anything is cut.
  parts(text) {
    const within = (parts, entries) => (entries ? parts.flatMap((part) => (typeof part === "number" ? [part] : splitAtEntries(part, entries))) : parts);
    const raw = within([text], this.rawEntries);
    return within(raw.map((part) => (typeof part === "number" ? part : this.normalized(part))), this.plainEntries);
  }

  idsOf(piece) {
    if (this.isBytes || this.isPieces) return this.merge(piece);
    return [this.ids.get(piece) ?? UNK];
  }

  normalized(text) {
    const whole = text.replace(/\p{Surrogate}/gu, "\ufffd");
    return this.normalizers.reduce((changed, normalize) => normalize(changed), this.hasDottedI ? lowerDotted(whole) : whole);
  }

  // What a normalized text is cut into before it is looked up.
  pieces(whole) {
    return this.cutters.reduce((pieces, cut) => pieces.flatMap(cut), whole ? [whole] : []);
  }

  // Text of ids; special tokens leave no trace.
  decode(ids) {
    const written = ids.filter((id) => !this.silent.has(id) && this.tokens[id] !== undefined);
    if (!this.isBytes && !this.isPieces) return written.map((id) => this.tokens[id]).join(this.joiner);
    const bytes = written.flatMap((id) => this.spelling(this.tokens[id]));
    const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
    return this.stripsSpace && text.startsWith(" ") ? text.slice(1) : text;
  }

  // What each token spells, in bytes; a special token has none.
  bytes(id) {
    const token = this.tokens[id];
    return this.special.has(id) || token === undefined ? [] : this.spelling(token);
  }

  spelling(token) {
    if (this.isBytes) return bytesOfToken(token);
    const byte = this.isPieces && /^<0x([0-9A-F]{2})>$/.exec(token);
    return byte ? [parseInt(byte[1], 16)] : [...new TextEncoder().encode(this.isPieces ? token.replaceAll("\u2581", " ") : token)];
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

  // A piece of text that no merge crosses, in the ids of BPE.
  merge(piece) {
    const known = this.kept.get(piece);
    if (known) return known;
    const symbols = this.isPieces ? this.symbolsOf(piece) : Array.from(new TextEncoder().encode(piece), (byte) => CHARACTER_OF_BYTE[byte]);
    const whole = this.ignoresMerges ? this.ids.get(symbols.join("")) : undefined;
    const ids = whole === undefined ? merged(symbols, this.ranks).map((part) => this.ids.get(part) ?? this.unknown).filter((id) => id !== null) : [whole];
    if (this.kept.size < MAX_WORDS_KEPT) this.kept.set(piece, ids);
    return ids;
  }

  // The characters of a piece, with entries of bytes in place of one that has none itself.
  symbolsOf(piece) {
    return Array.from(piece).flatMap((character) => {
      if (this.ids.has(character)) return [character];
      return Array.from(new TextEncoder().encode(character), (byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`);
    });
  }
}

// Symbols after all merges, always of the two neighbours that were merged first in training.
function merged(symbols, ranks) {
  const rankOf = (at) => (at + 1 < symbols.length ? ranks.get(`${symbols[at]} ${symbols[at + 1]}`) ?? Infinity : Infinity);
  const ranked = symbols.map((_, at) => rankOf(at));
  for (;;) {
    let first = 0;
    for (let at = 1; at < ranked.length; at++) if (ranked[at] < ranked[first]) first = at;
    if (!ranked.length || ranked[first] === Infinity) return symbols;
    symbols.splice(first, 2, symbols[first] + symbols[first + 1]);
    ranked.splice(first + 1, 1);
    ranked[first] = rankOf(first);
    if (first) ranked[first - 1] = rankOf(first - 1);
  }
}

// The tokenizer that a tokenizer.json of dikkat or of an imported model describes.
function tokenizerOf(settings, language) {
  return settings.pre_tokenizer?.type === "BertPreTokenizer" ? new WordPieceTokenizer(settings) : new Tokenizer(settings, language);
}

// A byte-level entry in bytes; one that was added as it stands spells itself.
function bytesOfToken(token) {
  const bytes = Array.from(token, (character) => BYTE_OF_CHARACTER.get(character));
  return bytes.includes(undefined) ? [...new TextEncoder().encode(token)] : bytes;
}

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");

// {pattern, entries} of entries that were added, of which the longest counts; null for none.
function entryPattern(added, normalized) {
  if (!added.length) return null;
  const entries = new Map(added.map((entry) => [normalized(entry.content), entry]));
  const longest = [...entries.keys()].sort((a, b) => b.length - a.length);
  return { pattern: new RegExp(longest.map(escaped).join("|"), "gu"), entries };
}

// What lies between entries, and the ids of these.
function splitAtEntries(text, { pattern, entries }) {
  const parts = [];
  const isWord = (character) => /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]/u.test(character);
  let end = 0;
  for (const { index, 0: match } of text.matchAll(pattern)) {
    const { id, single_word: single, lstrip, rstrip } = entries.get(match);
    let [first, last] = [index, index + match.length];
    if (single && (isWord([...text.slice(0, first)].at(-1) ?? "") || isWord([...text.slice(last, last + 2)][0] ?? ""))) continue;
    if (lstrip) first = Math.max(end, /(?<!\p{White_Space})\p{White_Space}*$/u.exec(text.slice(0, first)).index);
    if (rstrip) last += /^\p{White_Space}*/u.exec(text.slice(last))[0].length;
    if (first > end) parts.push(text.slice(end, first));
    parts.push(id);
    end = last;
  }
  if (end < text.length) parts.push(text.slice(end));
  return parts;
}

function normalizerOf(part) {
  const composed = () => (text) => text.normalize(part.type);
  const known = {
    NFC: composed, NFD: composed, NFKC: composed, NFKD: composed,
    // character by character, as the library does: no final sigma
    Lowercase: () => (text) => Array.from(text, (character) => character.toLowerCase()).join(""),
    Prepend: () => (text) => (text ? part.prepend + text : text),
    Replace: () => (text) => text.replace(patternOf(part.pattern), () => part.content),
  };
  return known[part.type]();
}

// From a piece to smaller ones; null where nothing is cut.
function cutterOf(part) {
  if (part.type === "WhitespaceSplit") return cutBy(/\p{White_Space}+/gu, "Removed");
  if (part.type === "Digits") return cutBy(part.individual_digits ? /\p{N}/gu : /\p{N}+/gu);
  if (part.type === "Split") return cutBy(patternOf(part.pattern), part.behavior);
  const cut = part.use_regex ? cutBy(patternOf({ Regex: BYTE_LEVEL_PIECE })) : null;
  if (!part.add_prefix_space) return cut;
  return (text) => (cut ?? ((whole) => [whole]))(text.startsWith(" ") ? text : ` ${text}`);
}

// What the pattern finds, and what lies between; `behaviour` says where the former goes.
function cutBy(pattern, behaviour = "Isolated") {
  return (text) => {
    const pieces = [];
    let [end, begun] = [0, 0];
    for (const { index, 0: match } of text.matchAll(pattern)) {
      if (behaviour === "MergedWithPrevious") {
        pieces.push(text.slice(end, index + match.length));
      } else if (behaviour === "MergedWithNext") {
        if (index > begun) pieces.push(text.slice(begun, index));
        begun = index;
      } else {
        if (index > end) pieces.push(text.slice(end, index));
        if (behaviour !== "Removed") pieces.push(match);
      }
      end = index + match.length;
    }
    const rest = behaviour === "MergedWithNext" ? begun : end;
    if (rest < text.length) pieces.push(text.slice(rest));
    return pieces;
  };
}

// \s of the library is the white space of Unicode; that of JavaScript is not quite the same. Letters of any case are written out,
// since not every browser knows the group for them.
function patternOf({ Regex: source, String: plain }) {
  if (plain !== undefined) return new RegExp(escaped(plain), "gu");
  const anyCase = (group) => group.replace(/[a-z]/g, (letter) => `[${letter}${letter.toUpperCase()}${letter === "s" ? "\u017f" : ""}]`);
  const spelled = source.replace(/\(\?i:([^()]*)\)/g, (_, inner) => `(?:${anyCase(inner)})`);
  return new RegExp(spelled.replace(/\\s/g, "\\p{White_Space}").replace(/\\S/g, "\\P{White_Space}"), "gu");
}

// Lower case in Turkish and Azeri: I becomes ı, and İ becomes i.
function lowerDotted(text) {
  return lowered(text.normalize("NFC"), true);
}
