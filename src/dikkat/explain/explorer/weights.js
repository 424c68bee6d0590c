// Weights out of the bytes of the file, tokens joined to words, and what is computed of weights.

const WEIGHT_OF_BYTE = Float32Array.from({ length: 256 }, (_, byte) => (byte / 255) ** 2);

function bytesOf(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

// One head of a packed map as {T, S, values}, row after row; decoded once.
function matrixOf(packed, head) {
  packed.decoded ??= [];
  return (packed.decoded[head] ??= decode(packed, head));
}

function decode(packed, head) {
  const [heads, T, S] = packed.shape;
  packed.bytes ??= bytesOf(packed.weights);
  const perRow = packed.bytes.length / (heads * T);
  const values = new Float32Array(T * S);
  if (!packed.keys) {
    for (let i = 0; i < T * S; i++) values[i] = WEIGHT_OF_BYTE[packed.bytes[head * T * S + i]];
    return { T, S, values };
  }
  packed.positions ??= bytesOf(packed.keys);
  for (let row = 0; row < T; row++) {
    for (let i = 0; i < perRow; i++) {
      const at = (head * T + row) * perRow + i;
      const key = packed.positions[2 * at] + 256 * packed.positions[2 * at + 1];
      values[row * S + key] = WEIGHT_OF_BYTE[packed.bytes[at]];
    }
  }
  return { T, S, values };
}

// Weights from words to words (Clark et al. 2019, section 4.1): into a word they add up, out of a word they average.
function joined(matrix, queryWords, keyWords) {
  const T = queryWords.at(-1) + 1;
  const S = keyWords.at(-1) + 1;
  const values = new Float32Array(T * S);
  const sizes = new Float32Array(T);
  queryWords.forEach((word, query) => {
    sizes[word] += 1;
    keyWords.forEach((key, index) => { values[word * S + key] += matrix.values[query * matrix.S + index]; });
  });
  for (let i = 0; i < values.length; i++) values[i] /= sizes[Math.floor(i / S)];
  return { T, S, values };
}

function meanOf(matrices) {
  const { T, S } = matrices[0];
  const values = new Float32Array(T * S);
  for (const matrix of matrices) matrix.values.forEach((value, i) => { values[i] += value / matrices.length; });
  return { T, S, values };
}

function rowOf(matrix, query) {
  return matrix.values.subarray(query * matrix.S, (query + 1) * matrix.S);
}

function columnOf(matrix, key) {
  return Float32Array.from({ length: matrix.T }, (_, query) => matrix.values[query * matrix.S + key]);
}

// Ranks from 1; equal values share their mean rank.
function ranks(values) {
  const order = [...values.keys()].sort((a, b) => values[a] - values[b]);
  const result = new Float64Array(values.length);
  for (let start = 0, end; start < order.length; start = end) {
    for (end = start; end < order.length && values[order[end]] === values[order[start]]; ) end++;
    for (let i = start; i < end; i++) result[order[i]] = (start + end + 1) / 2;
  }
  return result;
}

// Spearman's rank correlation; null where one side is constant.
function rankCorrelation(a, b) {
  const [x, y] = [ranks(a), ranks(b)];
  const mean = (a.length + 1) / 2;
  let [xy, xx, yy] = [0, 0, 0];
  x.forEach((value, i) => {
    xy += (value - mean) * (y[i] - mean);
    xx += (value - mean) ** 2;
    yy += (y[i] - mean) ** 2;
  });
  return xx && yy ? xy / Math.sqrt(xx * yy) : null;
}
