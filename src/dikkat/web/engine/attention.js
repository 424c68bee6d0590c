// Attention: each query is compared with all keys, and the values are averaged by what the softmax makes of it.

// Keys and values of the positions that a sequence has read, one pair of arrays (positions, groups * width) a layer.
class Cache {
  constructor(layers, width) {
    this.width = width;
    this.length = 0;
    this.layers = Array.from({ length: layers }, () => ({ keys: new Float32Array(16 * width), values: new Float32Array(16 * width) }));
  }

  // Keys and values after those that are there already; `length` moves on when all layers have theirs.
  append(layer, keys, values) {
    const held = this.layers[layer];
    const from = this.length * this.width;
    for (const [name, rows] of [["keys", keys], ["values", values]]) {
      if (from + rows.length > held[name].length) {
        const grown = new Float32Array(2 * (from + rows.length));
        grown.set(held[name].subarray(0, from));
        held[name] = grown;
      }
      held[name].set(rows, from);
    }
    return held;
  }

  copy() {
    const copy = new Cache(0, this.width);
    copy.length = this.length;
    const used = this.length * this.width;
    copy.layers = this.layers.map(({ keys, values }) => ({ keys: grownCopy(keys, used), values: grownCopy(values, used) }));
    return copy;
  }
}

function grownCopy(numbers, used) {
  const copy = new Float32Array(used + (used >> 1) + 64);
  copy.set(numbers.subarray(0, used));
  return copy;
}

// `query` (T, heads * width) over `keys` and `values` (S, groups * width) to (T, heads * width).
//
// Query t sees the keys from `first(t)` to before `visible(t)`, without those that `mask` (S) holds a 0 for. `off` holds the heads whose output
// is zero. Given `weights` (heads, T, S), they are written there. `distances`, if any, are those of distances.js.
function attend({ query, keys, values, queries, count, heads, groups, width, beta, first = () => 0, visible, mask, off, weights, distances }) {
  const output = new Float32Array(queries * heads * width);
  const step = groups * width;
  for (let head = 0; head < heads; head++) {
    const group = Math.floor((head * groups) / heads) * width;
    for (let t = 0; t < queries; t++) {
      const at = (t * heads + head) * width;
      const start = first(t);
      const row = new Float32Array(visible(t) - start);
      scoreKeys(row, query, at, keys, start * step + group, step, width, beta);
      if (distances) for (let s = 0; s < row.length; s++) row[s] += distances(head, start + s - t);
      softmax(row, start, start && mask ? mask.slice(start) : mask);
      if (weights) weights.set(row, (head * queries + t) * count + start);
      if (off?.has(head)) continue;
      for (let s = 0; s < row.length; s++) {
        const weight = row[s];
        if (!weight) continue;
        const from = (start + s) * step + group;
        for (let i = 0; i < width; i++) output[at + i] += weight * values[from + i];
      }
    }
  }
  return output;
}

function scoreKeys(row, query, at, keys, start, step, width, beta) {
  const factor = fround(beta);
  for (let s = 0; s < row.length; s++) {
    const from = start + s * step;
    let score = 0;
    for (let i = 0; i < width; i++) score = fround(score + query[at + i] * keys[from + i]);
    row[s] = score * factor;
  }
}

const SIXTEEN_SUMS = new Float32Array(16);

// In place; entries that the mask hides get nothing, and where it hides all, all get nothing. The first entry is key `start`, since
// the total is that of sixteen sums, one for every sixteenth key.
function softmax(row, start, mask) {
  let largest = -Infinity;
  for (let s = 0; s < row.length; s++) if (!mask || mask[s]) largest = Math.max(largest, row[s]);
  const sums = SIXTEEN_SUMS.fill(0);
  for (let s = 0; s < row.length; s++) {
    row[s] = !mask || mask[s] ? exponential(fround(row[s] - largest)) : 0;
    sums[(start + s) % 16] += row[s];
  }
  for (let half = 8; half; half >>= 1) for (let i = 0; i < half; i++) sums[i] += sums[i + half];
  const share = sums[0] ? fround(1 / sums[0]) : 0;
  for (let s = 0; s < row.length; s++) row[s] *= share;
}

// [kind, layer, head] triples as kind -> layer -> Set of heads.
function setsOf(names) {
  if (!names?.length) return null;
  const sets = {};
  for (const [kind, layer, head] of names) ((sets[kind] ??= [])[layer] ??= new Set()).add(head);
  return sets;
}

const BITS = new Uint32Array(1);
const FLOAT = new Float32Array(BITS.buffer);

// To the nearest number of bfloat16, halves to the even one, in place: as the native engine keeps keys and values where
// weights are in int8.
function roundToBf16(numbers) {
  for (let i = 0; i < numbers.length; i++) {
    FLOAT[0] = numbers[i];
    BITS[0] = (BITS[0] + 0x7fff + ((BITS[0] >>> 16) & 1)) & 0xffff0000;
    numbers[i] = FLOAT[0];
  }
  return numbers;
}
