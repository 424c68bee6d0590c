// Linear layers: y = x W^T + b, with weights in float32, or in int8 with a scale for each output.

// The plain arithmetic; any object with the same `linear` may take its place (see core.js).
const SCALAR = { name: "JavaScript", linear: scalarLinear };

class Linear {
  constructor(tensor, bias = null) {
    [this.outputs, this.inputs] = tensor.shape;
    this.weight = tensor.values; // (outputs, inputs)
    this.scale = tensor.scale; // (outputs), null in float32
    this.bias = bias; // (outputs) or null
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
  const entries = layer.scale ? new Int8Array(layer.inputs) : null;
  for (let row = 0; row < rows; row++) {
    const from = x.subarray(row * layer.inputs, (row + 1) * layer.inputs);
    const to = y.subarray(row * layer.outputs, (row + 1) * layer.outputs);
    if (entries) int8Row(to, layer, entries, quantizeRow(entries, from));
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
