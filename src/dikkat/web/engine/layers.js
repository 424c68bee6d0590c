// What stands between linear layers: norms, activations, positions.

// Layer norm, or root-mean-square norm where there is no bias, of each row.
class Norm {
  constructor(tensors, name, settings, kind = settings.norm) {
    this.weight = tensors.get(`${name}.weight`).values;
    this.bias = kind === "layer" ? tensors.get(`${name}.bias`).values : null;
    this.eps = settings.norm_eps;
  }

  run(x) {
    const { weight, bias } = this;
    const width = weight.length;
    const y = new Float32Array(x.length);
    for (let at = 0; at < x.length; at += width) {
      let [sum, square] = [0, 0];
      if (bias) for (let i = 0; i < width; i++) sum += x[at + i];
      const mean = sum / width;
      for (let i = 0; i < width; i++) square += (x[at + i] - mean) * (x[at + i] - mean);
      const share = 1 / Math.sqrt(square / width + this.eps);
      for (let i = 0; i < width; i++) y[at + i] = (x[at + i] - mean) * share * weight[i] + (bias ? bias[i] : 0);
    }
    return y;
  }
}

// The error function by Chebyshev coefficients (Press et al. 2007, section 6.2): a relative error below 1.2e-7.
const ERFC = [-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277];

function erf(x) {
  const t = 1 / (1 + 0.5 * Math.abs(x));
  const series = ERFC.reduceRight((sum, coefficient) => sum * t + coefficient, 0);
  const upper = t * Math.exp(series - x * x);
  return x >= 0 ? 1 - upper : upper - 1;
}

const gelu = (x) => 0.5 * x * (1 + erf(x / Math.SQRT2));
const geluTanh = (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
const silu = (x) => x / (1 + Math.exp(-x));

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
    const [cosine, sine] = [Math.cos(angle), Math.sin(angle)];
    for (let head = 0; head < heads; head++) {
      const i = at + head * width + 2 * pair;
      const [even, odd] = [x[i], x[i + 1]];
      x[i] = even * cosine - odd * sine;
      x[i + 1] = even * sine + odd * cosine;
    }
  }
}
