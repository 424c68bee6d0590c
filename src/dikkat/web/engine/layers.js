// What stands between linear layers: norms, activations, positions.

// Everything here is rounded as the native engine rounds it in float32, in the same order: of a language model in eight or four
// bits the smallest difference would move the rounding of an activation and then all that follows. Of fround(a * b + c) the product
// is exact, as in a fused multiply-add.
const { fround } = Math;

// Layer norm, or root-mean-square norm where there is no bias, of each row.
class Norm {
  constructor(tensors, name, settings, kind = settings.norm) {
    this.weight = tensors.get(`${name}.weight`).values;
    this.bias = kind === "layer" ? tensors.get(`${name}.bias`).values : null;
    this.eps = fround(settings.norm_eps);
  }

  run(x) {
    const { weight, bias, eps } = this;
    const width = weight.length;
    const y = new Float32Array(x.length);
    const squares = new Float32Array(width);
    for (let at = 0; at < x.length; at += width) {
      const mean = bias ? fround(pairwiseSum(x, at, width) / width) : 0;
      for (let i = 0; i < width; i++) {
        const own = fround(x[at + i] - mean);
        squares[i] = own * own;
      }
      const root = fround(Math.sqrt(fround(fround(pairwiseSum(squares, 0, width) / width) + eps)));
      for (let i = 0; i < width; i++) y[at + i] = fround(fround(fround(x[at + i] - mean) / root) * weight[i]) + (bias ? bias[i] : 0);
    }
    return y;
  }
}

const EIGHT_SUMS = new Float32Array(8);

// The sum of `count` numbers from `at` on in the order of numpy: eight sums side by side, of at most 128 numbers.
function pairwiseSum(x, at, count) {
  if (count > 128) {
    const half = (count >> 1) - ((count >> 1) % 8);
    return fround(pairwiseSum(x, at, half) + pairwiseSum(x, at + half, count - half));
  }
  const whole = count - (count % 8);
  const sums = EIGHT_SUMS.fill(0);
  for (let i = 0; i < whole; i++) sums[i & 7] += x[at + i];
  let sum = fround(fround(fround(sums[0] + sums[1]) + fround(sums[2] + sums[3])) + fround(fround(sums[4] + sums[5]) + fround(sums[6] + sums[7])));
  for (let i = whole; i < count; i++) sum = fround(sum + x[at + i]);
  return sum;
}

const EXPONENTIAL = [8.290314633e-3, 4.189792934e-2, 1.66676362e-1, 4.999914953e-1, 9.999997072e-1, 1].map(fround);
const [LOG2E, LN2_REST] = [1.4426950408889634, 2.1219444e-4].map(fround);

// exp(x) for x <= 0, as vectors.h computes it.
function exponential(x) {
  if (!(x >= -87)) return x < 0 ? 0 : NaN;
  const whole = roundToEven(fround(x * LOG2E));
  const rest = fround(fround(x - whole * 0.693359375) + whole * LN2_REST);
  let series = EXPONENTIAL[0];
  for (let i = 1; i < 6; i++) series = fround(series * rest + EXPONENTIAL[i]);
  return fround(series * 2 ** whole);
}

const GELU = [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592].map(fround);
const [ROOT_HALF, GELU_STEP, TANH_STEP, TANH_CUBE] = [Math.SQRT1_2, 0.3275911, 1.5957691216057308, 0.044715].map(fround);

// By the error function of Abramowitz and Stegun 7.1.26, to 1.5e-7.
function gelu(x) {
  const z = fround(Math.abs(x) * ROOT_HALF);
  const t = fround(1 / fround(1 + GELU_STEP * z));
  let series = GELU[0];
  for (let i = 1; i < 5; i++) series = fround(series * t + GELU[i]);
  const half = fround(fround(0.5 * x) * fround(fround(series * t) * exponential(fround(-z * z))));
  return x < 0 ? half : fround(x - half);
}

// x times the logistic function of z.
function gatedBy(z, x) {
  const decay = exponential(-Math.abs(z));
  return fround((z < 0 ? fround(x * decay) : x) / fround(1 + decay));
}

const silu = (x) => gatedBy(x, x);
const geluTanh = (x) => gatedBy(fround(TANH_STEP * fround(fround(fround(TANH_CUBE * x) * x) * x + x)), x);

const ACTIVATIONS = { gelu, gelu_tanh: geluTanh, silu, tanh: Math.tanh };
const GATES = { geglu: gelu, geglu_tanh: geluTanh, swiglu: silu };

// What the inner layer of a feed-forward network gives the outer one, of which ReLU changes the array itself; a gate is the first half of its outputs.
function activated(inner, rows, activation) {
  const gate = GATES[activation];
  if (activation === "relu") {
    for (let i = 0; i < inner.length; i++) if (inner[i] < 0) inner[i] = 0;
    return inner;
  }
  if (!gate) return inner.map(ACTIVATIONS[activation]);
  const width = inner.length / rows / 2;
  const y = new Float32Array(rows * width);
  for (let row = 0; row < rows; row++) {
    for (let i = 0; i < width; i++) y[row * width + i] = gate(inner[2 * row * width + i]) * inner[(2 * row + 1) * width + i];
  }
  return y;
}

// Adds b to a.
function add(a, b) {
  for (let i = 0; i < a.length; i++) a[i] += b[i];
}

// What position `position` adds to an embedding (Vaswani et al. 2017, section 3.5); sines and cosines take turns, or in
// the layout of tensor2tensor ("concatenated") all sines come first.
function sinusoid(position, width, concatenated) {
  const pairs = Math.ceil(width / 2);
  const row = new Float32Array(2 * pairs);
  for (let pair = 0; pair < pairs; pair++) {
    const exponent = concatenated ? pair / Math.max(pairs - 1, 1) : (2 * pair) / width;
    const angle = position * Math.exp(-Math.log(10000) * exponent);
    row[concatenated ? pair : 2 * pair] = Math.sin(angle);
    row[concatenated ? pairs + pair : 2 * pair + 1] = Math.cos(angle);
  }
  return row.subarray(0, width);
}

// Radians a position by which each pair of a head turns (Su et al. 2021, section 3.2.2).
function usualFrequencies(width) {
  return Array.from({ length: width / 2 }, (_, pair) => Math.exp((-Math.log(10000) * 2 * pair) / width));
}

// Turns each pair of numbers of each head by the angle of its position, in place.
function applyRotary(x, at, heads, width, position, frequencies = usualFrequencies(width)) {
  for (let pair = 0; pair < width / 2; pair++) {
    const angle = position * frequencies[pair];
    const [cosine, sine] = [fround(Math.cos(angle)), fround(Math.sin(angle))];
    for (let head = 0; head < heads; head++) {
      const i = at + head * width + 2 * pair;
      const [even, odd] = [x[i], x[i + 1]];
      x[i] = fround(even * cosine) - fround(odd * sine);
      x[i + 1] = fround(even * sine) + fround(odd * cosine);
    }
  }
}
