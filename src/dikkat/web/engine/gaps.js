// Where words of a translation meet that answer to words meeting in its source: what is written before such a gap looks at
// the source before it, and what is written after it at the rest. As in the runtime's tasks/insertion.py.

const [FLOOR, ROUNDS] = [0.01, 20]; // added to each weight before rows and columns are balanced, and how often

function gapsOf(model, piece, translation, offsets) {
  const { written, tokens, looks } = attentionOf(model, piece, translation);
  const ends = sourceTokens(model, piece).map(([, end]) => end);
  const gaps = gapsBetweenWords(written, tokens, model.reading.patterns);
  return offsets.map((offset) => {
    const before = ends.filter((end) => end <= offset).length;
    const total = [0];
    for (const row of looks) total.push(total.at(-1) + sum(row.map((weight, s) => (s < before ? weight : -weight))));
    const score = ({ token }) => 2 * total[token] - total.at(-1);
    return gaps.reduce((best, gap) => (score(gap) > score(best) ? gap : best)).offset;
  });
}

// The spans of a translation from the first to the last word that answers to each span of its source: of all runs of words
// the one whose attention inside the span is most above that outside, where an article looks at the article.
function enclosedIn(model, piece, translation, spans) {
  const { written, tokens, looks } = attentionOf(model, piece, translation);
  const wordsOf = (text) => [...text.matchAll(model.reading.patterns.alignedWord)].filter(([word]) => /[\p{L}\p{N}]/u.test(word)).map(({ index, 0: word }) => [index, index + word.length]);
  const [words, sources] = [wordsOf(written), wordsOf(model.sourceTokenizer.composed(piece.read))];
  if (!words.length) return spans.map(() => [0, written.length]);
  const own = sourceTokens(model, piece);
  // the space before the first word, which is not in the text, belongs to that word
  const meets = ([start, end], [first, last]) => start < Math.max(last, first + 1) && first < end;
  const weights = words.map((word) => {
    const rows = looks.filter((_, number) => meets(word, tokens[number]));
    const shares = sources.map((source) => sum(rows.flatMap((row) => row.filter((_, s) => meets(source, own[s])))));
    const total = sum(shares);
    return shares.map((share) => (total > 0 ? share / total : 0) + FLOOR);
  });
  for (let round = 0; round < ROUNDS; round++) {
    const columns = sources.map((_, s) => sum(weights.map((row) => row[s])));
    for (const row of weights) {
      row.forEach((weight, s) => (row[s] = (weight * words.length) / sources.length / columns[s]));
      const total = sum(row);
      row.forEach((weight, s) => (row[s] = weight / total));
    }
  }
  const chosen = [];
  for (const span of spans) {
    // in thousandths: the last digits of sums are not the same everywhere
    const gains = weights.map((row) => Math.round(1000 * sum(row.map((weight, s) => (meets(sources[s], span) ? weight : -weight)))));
    // what stands in another span of the source does so here, and what does not is outside; outer spans come first
    const isFree = (word) => chosen.every(([first, last], number) => {
      const holds = spans[number][0] <= span[0] && span[1] <= spans[number][1];
      return holds === (first <= word && word < last);
    });
    chosen.push(bestRun(gains.map((gain, word) => (isFree(word) ? gain : -Infinity))));
  }
  return chosen.map(([first, last]) => (last ? [words[first][0], words[last - 1][1]] : [words.at(-1)[1], words.at(-1)[1]]));
}

// The shortest run of numbers that sums to most, [first, behind last]; the largest where none is positive, and none where
// all are infinite.
function bestRun(gains) {
  let [best, most, start, total] = [null, 0, 0, 0];
  gains.forEach((gain, number) => {
    if (total <= 0) [start, total] = [number, 0];
    total += gain;
    if (total > most + 1e-6) [best, most] = [[start, number + 1], total];
  });
  const largest = Math.max(...gains);
  const at = gains.indexOf(largest);
  return best ?? (Number.isFinite(largest) ? [at, at + 1] : [0, 0]);
}

// A translation as it is composed, the spans of its tokens, and how much each looks at the tokens of the source.
function attentionOf(model, piece, translation) {
  const { targetTokenizer } = model;
  const written = targetTokenizer.composed(translation);
  const ids = targetTokenizer.encode(written);
  const { shape: [heads, T, S], values } = model.force(piece.ids, ids).maps.cross.at(-1);
  const mean = (t, s) => sum(Array.from({ length: heads }, (_, h) => values[(h * T + t) * S + s])) / heads;
  const looks = Array.from({ length: T - 1 }, (_, t) => piece.ids.map((_, s) => mean(t, s)));
  return { written, tokens: targetTokenizer.spans(written), looks };
}

function sourceTokens({ sourceTokenizer }, piece) {
  return sourceTokenizer.spans(sourceTokenizer.composed(piece.read));
}

function sum(numbers) {
  return numbers.reduce((total, number) => total + number, 0);
}

// {token, offset} of the gaps in which a word may stand: before words, before signs that close the text, after it.
function gapsBetweenWords(written, spans, patterns) {
  const closing = firstMatch(patterns.closing, written);
  const gaps = [];
  spans.forEach(([start, end], token) => {
    const offset = end - written.slice(start, end).replace(/^\s+/, "").length;
    if (offset >= end || gaps.some((gap) => gap.offset === offset)) return;
    const adjacent = written.slice(Math.max(0, offset - 1), offset + 1);
    const begins = offset === 0 || /^\s/.test(adjacent) || firstMatch(patterns.spaceless, adjacent);
    if (begins || offset === closing?.index) gaps.push({ token, offset });
  });
  if (!gaps.length || !firstMatch(patterns.sentenceEnd, written)) gaps.push({ token: spans.length, offset: written.length });
  return gaps;
}
