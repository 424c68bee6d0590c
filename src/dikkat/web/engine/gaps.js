// Where words of a translation meet that answer to words meeting in its source: what is written before such a gap looks at
// the source before it, and what is written after it at the rest. As in the runtime's tasks/insertion.py.

function gapsOf(model, piece, translation, offsets) {
  const { reading: { patterns }, sourceTokenizer, targetTokenizer } = model;
  const { ids } = piece;
  const written = targetTokenizer.composed(translation);
  const tokens = targetTokenizer.encode(written);
  const ends = sourceTokenizer.spans(sourceTokenizer.composed(piece.read)).map(([, end]) => end);
  const gaps = gapsBetweenWords(written, targetTokenizer.spans(written), patterns);
  const { maps } = model.force(ids, tokens);
  const { shape: [heads, T, S], values } = maps.cross.at(-1);
  return offsets.map((offset) => {
    const before = ends.filter((end) => end <= offset).length;
    const total = [0];
    for (let t = 0; t + 1 < T; t++) {
      let leaning = 0;
      for (let h = 0; h < heads; h++) {
        for (let s = 0; s < ids.length; s++) leaning += (s < before ? 1 : -1) * values[(h * T + t) * S + s];
      }
      total.push(total[t] + leaning / heads);
    }
    const score = ({ token }) => 2 * total[token] - total.at(-1);
    return gaps.reduce((best, gap) => (score(gap) > score(best) ? gap : best)).offset;
  });
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
