// Imported encoders with another answer than a class: marked words of a text, or numbers.

const OUTSIDE = "O"; // the class of words that are not marked

class TaggerModel extends ClassifierModel {
  // Marked spans {label, start, end, text, probability} of a text of any length, whose offsets are those of JavaScript.
  tag(text, changes = {}) {
    const placed = this.tokenizer.placed(text);
    const outputs = this.header.classifier.labels.length;
    const logits = new Float32Array(placed.length * outputs);
    const { frame: [before] } = this.header.classifier;
    const most = this.maxIds;
    for (const start of partsOf(placed.length, most)) {
      const part = placed.slice(start, start + most).map(({ id }) => id);
      // what an earlier part saw with more text after it stays as it is
      const skipped = start ? Math.floor(most / 4) : 0;
      const computed = this.tokenLogits(this.read(part), changes);
      logits.set(computed.subarray((before.length + skipped) * outputs, (before.length + part.length) * outputs), (start + skipped) * outputs);
    }
    return this.spans(text, placed, logits);
  }

  // Marked spans of a text out of the logits of its tokens: words of one class that stand together.
  spans(text, placed, logits) {
    const { labels } = this.header.classifier;
    const classOf = ({ first }) => {
      const shares = Float64Array.from(logits.subarray(first * labels.length, (first + 1) * labels.length));
      softmax(shares, 0, null);
      const share = Math.max(...shares);
      return { label: labels[shares.indexOf(share)], share };
    };
    const groups = [];
    for (const word of taggedWords(text, placed)) {
      const { label, share } = classOf(word);
      const kind = /^[BI]-/.test(label) ? label.slice(2) : label;
      if (kind !== groups.at(-1)?.kind || label.startsWith("B-")) groups.push({ kind, words: [] });
      groups.at(-1).words.push({ ...word, share });
    }
    return groups.filter(({ kind }) => kind !== OUTSIDE).map(({ kind, words }) => {
      const [start, end] = [words[0].start, words.at(-1).end];
      return { label: kind, start, end, text: text.slice(start, end), probability: words.reduce((sum, { share }) => sum + share, 0) / words.length };
    });
  }
}

// Where the parts of a text begin, each read alone, whose halves overlap.
function partsOf(length, most) {
  if (length <= most) return length ? [0] : [];
  const starts = [];
  for (let start = 0; start < length - most; start += Math.max(1, Math.floor(most / 2))) starts.push(start);
  return [...starts, length - most];
}

// {first, start, end} of the words of a text: tokens of one word of the tokenizer, cut where punctuation begins and ends.
function taggedWords(text, placed) {
  const words = [];
  const inWord = (at) => IN_WORD.test(characterAt(text, at));
  placed.forEach(({ word, start, end }, index) => {
    const last = words.at(-1);
    const isCut = last && last.start < last.end && last.end <= start && start < end && !(inWord(before(text, start)) && inWord(start));
    if (!last || isCut || word !== placed[index - 1].word) words.push({ first: index, start, end });
    else if (start < end) last.end = Math.max(last.end, end);
  });
  return words;
}

const characterAt = (text, at) => String.fromCodePoint(text.codePointAt(at));

// Where the character before `at` begins.
const before = (text, at) => at - (at > 1 && text.codePointAt(at - 2) > 0xffff ? 2 : 1);

// Its numbers are the logits.
class RegressorModel extends ClassifierModel {}
