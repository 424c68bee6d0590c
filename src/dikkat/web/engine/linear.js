// Linear layers: y = x W^T + b, with weights in float32, in int8 with a scale for each output, or in eight or four bits with
// a scale for each group of inputs of an output.

// The plain arithmetic; any object with the same `linear` may take its place (see core.js).
const SCALAR = { name: "JavaScript", linear: scalarLinear };

class Linear {
  constructor(tensor, bias = null) {
    [this.outputs, this.inputs] = tensor.shape;
    this.tensor = tensor;
    this.weight = tensor.values; // (outputs, inputs)
    this.scale = tensor.scale; // (outputs), null in float32 and in groups
    this.bits = tensor.bits ?? null; // of a weight, in groups
    this.bias = bias; // (outputs) or null
  }

  // Once the weights are elsewhere.
  letGo() {
    this.weight = this.tensor.values = null;
  }

  // The layer of some of the outputs.
  rows(start, end) {
    const part = (numbers, width) => numbers && numbers.subarray(start * width, end * width);
    const tensor = { shape: [end - start, this.inputs], values: part(this.weight, this.inputs), scale: part(this.scale, 1) };
    return new Linear(tensor, part(this.bias, 1));
  }
}

// (rows, inputs) to (rows, outputs).
function scalarLinear(layer, x, rows) {
  const y = new Float32Array(rows * layer.outputs);
  const entries = layer.bits ? new Int16Array(layer.inputs) : layer.scale ? new Int8Array(layer.inputs) : null;
  for (let row = 0; row < rows; row++) {
    const from = x.subarray(row * layer.inputs, (row + 1) * layer.inputs);
    const to = y.subarray(row * layer.outputs, (row + 1) * layer.outputs);
    if (layer.bits) groupedRow(to, layer, entries, from);
    else if (entries) int8Row(to, layer, entries, quantizeRow(entries, from));
    else float32Row(to, layer, from);
  }
  return y;
}

function float32Row(to, { weight, bias, inputs, outputs }, from) {
  for (let output = 0; output < outputs; output++) {
    const at = output * inputs;
    let [even, odd] = [0, 0];
    let i = 0;
    for (; i + 1 < inputs; i += 2) {
      even += from[i] * weight[at + i];
      odd += from[i + 1] * weight[at + i + 1];
    }
    if (i < inputs) even += from[i] * weight[at + i];
    to[output] = even + odd + (bias ? bias[output] : 0);
  }
}

// Each activation as a whole number of steps, a step being the largest magnitude of the row over 127; returns the step.
function quantizeRow(to, from) {
  let largest = 0;
  for (let i = 0; i < from.length; i++) largest = Math.max(largest, Math.abs(from[i]));
  const step = Math.fround(largest / 127);
  const share = step > 1.1754944e-38 ? Math.fround(1 / step) : 0;
  for (let i = 0; i < from.length; i++) to[i] = roundToEven(Math.fround(from[i] * share));
  return step;
}

// To the nearest whole number, halves to the even one; below 2^22.
function roundToEven(x) {
  return Math.fround(Math.fround(x + 12582912) - 12582912);
}

// The sums of products of bytes are exact, so every engine finds the same.
function int8Row(to, { weight, scale, bias, inputs, outputs }, entries, step) {
  for (let output = 0; output < outputs; output++) {
    const at = output * inputs;
    let sum = 0;
    for (let i = 0; i < inputs; i++) sum = (sum + entries[i] * weight[at + i]) | 0;
    to[output] = Math.fround(sum * Math.fround(step * scale[output])) + (bias ? bias[output] : 0);
  }
}

const GROUP = 32; // inputs
const PANEL = 16; // outputs whose groups lie together

const groupBytes = (bits) => PANEL * (4 + (GROUP * bits) / 8);

function groupedBytes([outputs, inputs], bits) {
  return Math.ceil(outputs / PANEL) * Math.ceil(inputs / GROUP) * groupBytes(bits);
}

const ENDS = new Uint32Array(2);
const AS_FLOATS = new Float32Array(ENDS.buffer);

// The weights of one output in one group, each offset + scale * q: fills `steps` (GROUP) with q, and returns [scale, offset]. A
// panel holds scale and offset of each output in bfloat16, then fours of q of each output, or of four bits pairs of fours.
function groupOf({ weight, inputs, bits }, output, group, steps) {
  const at = (Math.floor(output / PANEL) * Math.ceil(inputs / GROUP) + group) * groupBytes(bits);
  const own = output % PANEL;
  const end = at + 4 * own;
  ENDS[0] = (weight[end] << 16) | (weight[end + 1] << 24);
  ENDS[1] = (weight[end + 2] << 16) | (weight[end + 3] << 24);
  for (let i = 0; i < GROUP; i++) {
    const four = i >> 2;
    const row = bits === 4 ? four >> 1 : four;
    const byte = weight[at + 4 * PANEL + 4 * (row * PANEL + own) + (i & 3)];
    steps[i] = bits === 4 ? (byte >> (4 * (four & 1))) & 15 : (byte << 24) >> 24;
  }
  return [AS_FLOATS[0], AS_FLOATS[1]];
}

// The activations of a group as whole numbers of steps, which weights of eight bits count from the least; returns the step, and
// the sum of what they stand for.
function quantizeGroup(to, from, bits) {
  const least = bits === 4 ? 0 : Math.min(...from);
  const step = bits === 4 ? quantizeRow(to, from) : Math.fround(Math.fround(Math.max(...from) - least) / 255);
  const share = step > 1.1754944e-38 ? Math.fround(1 / step) : 0;
  let own = 0;
  for (let i = 0; i < from.length; i++) {
    if (bits === 8) to[i] = roundToEven(Math.fround(Math.fround(from[i] - least) * share));
    own += to[i];
  }
  return [step, Math.fround(Math.fround(step * own) + Math.fround(least * from.length))];
}

function groupedRow(to, layer, entries, from) {
  const { inputs, bias, outputs, bits } = layer;
  const groups = Math.ceil(inputs / GROUP);
  const part = (array, group) => array.subarray(group * GROUP, (group + 1) * GROUP);
  const rounded = Array.from({ length: groups }, (_, group) => quantizeGroup(part(entries, group), part(from, group), bits));
  const steps = new Int8Array(GROUP);
  for (let output = 0; output < outputs; output++) {
    let total = 0;
    for (let group = 0; group < groups; group++) {
      const [scale, offset] = groupOf(layer, output, group, steps);
      const [step, own] = rounded[group];
      let sum = 0;
      for (let i = 0; i < GROUP && group * GROUP + i < inputs; i++) sum += entries[group * GROUP + i] * steps[i];
      const product = Math.fround(sum * Math.fround(scale * step)) + Math.fround(offset * own);
      total = Math.fround(total + Math.fround(product));
    }
    to[output] = total + (bias ? bias[output] : 0);
  }
}
