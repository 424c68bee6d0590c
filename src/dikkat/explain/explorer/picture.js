// What the chosen controls show: labels of both sides, and the weights of each chosen head.

// {queries, keys, heads: [{title, colour, matrix}], mean, selfAttention, fed, kept}
function currentPicture() {
  const sentence = currentSentence();
  const [queries, keys] = sidesOf(sentence, state.kind);
  const packed = (state.rollout ? sentence.rollout : sentence.maps)[state.kind][state.layer];
  const heads = state.rollout
    ? [{ title: say("Rollout, layers 1–{layer}", { layer: state.layer + 1 }), colour: rolloutColour(), matrix: matrixOf(packed, 0) }]
    : chosenHeads(packed);
  if (state.words) for (const head of heads) head.matrix = joined(head.matrix, queries.numbers, keys.numbers);
  return {
    queries: state.words ? queries.words : queries.tokens,
    keys: state.words ? keys.words : keys.tokens,
    heads,
    mean: meanOf(heads.map((head) => head.matrix)),
    selfAttention: state.kind !== "cross",
    kept: packed.keys ? packed.bytes.length / (packed.shape[0] * packed.shape[1]) : null,
  };
}

// The chosen heads of a packed map.
function chosenHeads(packed) {
  return [...state.heads].sort((a, b) => a - b).map((head) => ({
    title: isKeptOff(state.kind, state.layer, head) ? say("Head {number}, off", { number: head + 1 }) : say("Head {number}", { number: head + 1 }),
    colour: shownColour(head), isOff: isKeptOff(state.kind, state.layer, head), matrix: matrixOf(packed, head),
  }));
}

// Both sides of a kind: {tokens, numbers, words}, numbers being the word of each token, from 0.
function sidesOf(sentence, kind) {
  const source = sideOf(sentence.source, 0, sentence.source.tokens.length);
  if (kind === "encoder-self") return [source, source];
  const count = sentence.target.tokens.length - 1;
  const read = sideOf(sentence.target, 0, count);
  const rows = state.rows[kind] === "read" ? read : sideOf(sentence.target, 1, count + 1);
  return [rows, kind === "cross" ? source : read];
}

function sideOf(text, start, end) {
  const numbers = text.wordNumbers.slice(start, end);
  const first = numbers[0];
  return withSignsApart({
    tokens: text.tokens.slice(start, end),
    numbers: numbers.map((word) => word - first),
    words: text.words.slice(first, numbers.at(-1) + 1),
  });
}

// A side whose words have no punctuation before or after them: it stands alone, as far as it has tokens of its own.
function withSignsApart({ tokens, numbers, words }) {
  const parts = words.flatMap((word, number) => {
    const first = numbers.indexOf(number);
    const end = numbers.lastIndexOf(number) + 1;
    let [from, to] = [first, end];
    while (from < to && isPunctuation(tokens[from])) from++;
    while (to > from && isPunctuation(tokens[to - 1])) to--;
    const [before, after] = [[first, from], [to, end]].map(([at, last]) => tokens.slice(at, last).map(named).join(""));
    const isSplit = from < to && to - from < end - first && word.startsWith(before) && word.endsWith(after);
    if (!isSplit) return [[word, end - first]];
    const core = word.slice(before.length, word.length - after.length);
    return [[before, from - first], [core, to - from], [after, end - to]].filter(([, count]) => count);
  });
  return { tokens, numbers: parts.flatMap(([, count], number) => Array(count).fill(number)), words: parts.map(([word]) => word) };
}
