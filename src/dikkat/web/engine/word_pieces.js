// Text to ids by the vocabulary of an imported model that knows the pieces of words (WordPiece, Schuster and Nakajima 2012).

// Categories of characters are those of this JavaScript, which knows some 500 that came after the Unicode of the library.
const REMOVED = /^[\0\ufffd\p{Cc}\p{Cf}\p{Co}]$/u;
const CONTROLS_KEPT = /^[\t\n\r]$/;
const IDEOGRAPH = /[\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\uf900-\ufaff\u{2f800}-\u{2fa1f}]/u;
const IS_SPACE = /^\p{White_Space}$/u;
const IS_PUNCTUATION = /^[\p{P}$+<=>^`|~]$/u;
const IN_WORD = /^[\p{L}\p{M}\p{N}]$/u;

class WordPieceTokenizer {
  constructor({ model, normalizer, added_tokens: added }) {
    this.ids = new Map(Object.entries(model.vocab));
    this.tokens = [];
    for (const { id, content } of added) this.ids.set(content, id);
    for (const [token, id] of this.ids) this.tokens[id] = token;
    this.normalize = normalizer ? bertNormalizer(normalizer) : (character) => character;
    this.isWhole = model.type === "WordLevel";
    [this.prefix, this.longest] = [model.continuing_subword_prefix ?? "", model.max_input_chars_per_word ?? Infinity];
    this.unknown = this.ids.get(model.unk_token);
    this.special = new Set(added.filter(({ special }) => special).map(({ id }) => id)); // they have a name, and spell nothing
    [this.isBytes, this.stripsSpace, this.joiner] = [false, false, " "];
  }

  // Ids of a text, without special tokens.
  encode(text) {
    return this.placed(text).map(({ id }) => id);
  }

  // {id, word, start, end} of each token: the number of its word, and where it stands in the text.
  placed(text) {
    return this.basicWords(text).flatMap(({ characters, spans }, word) => {
      const pieces = characters.length > this.longest ? null : this.piecesOf(characters);
      const whole = pieces ?? [{ id: this.unknown, from: 0, to: characters.length }];
      return whole.map(({ id, from, to }) => ({ id, word, start: spans[from][0], end: spans[to - 1][1] }));
    });
  }

  // {characters, spans} of the words that are looked up: normalized characters, and where each comes from in the text.
  basicWords(text) {
    const words = [];
    let [isOpen, at] = [false, 0];
    const put = (character, span) => {
      const stands = IS_PUNCTUATION.test(character);
      if (!isOpen || stands) words.push({ characters: [], spans: [] });
      words.at(-1).characters.push(character);
      words.at(-1).spans.push(span);
      isOpen = !stands;
    };
    for (const written of text) {
      const span = [at, (at += written.length)];
      for (const character of this.normalize(written.replace(/\p{Surrogate}/u, "\ufffd"))) {
        if (IS_SPACE.test(character)) isOpen = false;
        else put(character, span);
      }
    }
    return words;
  }

  // {id, from, to} of the longest entries of a word, from its beginning on; null where a part of it has none.
  piecesOf(characters) {
    const pieces = [];
    for (let from = 0; from < characters.length; ) {
      let to = characters.length;
      const entry = () => this.ids.get((from && !this.isWhole ? this.prefix : "") + characters.slice(from, to).join(""));
      while (to > from && entry() === undefined) to = this.isWhole ? from : to - 1;
      if (to === from) return null;
      pieces.push({ id: entry(), from, to });
      from = to;
    }
    return pieces;
  }
}

// What BERT makes of one character: nothing, itself, or others in its place.
function bertNormalizer({ clean_text: cleans, handle_chinese_chars: parts, strip_accents: strips, lowercase }) {
  return (written) => {
    if (cleans && REMOVED.test(written) && !CONTROLS_KEPT.test(written)) return "";
    let text = written;
    if (parts && IDEOGRAPH.test(text)) text = ` ${text} `;
    if (strips ?? lowercase) text = text.normalize("NFD").replace(/\p{Mn}/gu, "");
    return lowercase ? Array.from(text, (character) => character.toLowerCase()).join("") : text;
  };
}

// Scripts without spaces between words: Thai, Lao, Burmese, Khmer, Chinese and Japanese.
const UNSPACED = /^[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff66-\uff9f\u{20000}-\u{3ffff}]/u;

// {tokens, wordNumbers, words} of ids between special tokens, of which `frame` holds how many stand before and after; `placed`
// are the others. Words are parted at white space.
function placedWords(tokenizer, ids, text, placed, [before, after]) {
  const tokens = labelsOf(tokenizer, ids);
  const words = tokens.slice(0, before);
  const wordNumbers = [...words.keys()];
  placed.forEach(({ start, end }, index) => {
    const between = index ? text.slice(placed[index - 1].end, start) : "";
    const isParted = /\p{White_Space}/u.test(between) || UNSPACED.test(text.slice(start)) || (index && UNSPACED.test(text.slice(placed[index - 1].start)));
    if (!index || isParted) words.push(text.slice(start, end));
    else words[words.length - 1] += text.slice(Math.min(start, placed[index - 1].end), end);
    wordNumbers.push(words.length - 1);
  });
  for (const token of tokens.slice(tokens.length - after)) wordNumbers.push(words.push(token) - 1);
  return { text, tokens, wordNumbers, words };
}
