// The WebAssembly core: linear layers by the C sources of the native engine (core/core.c), with SIMD.

class Core {
  constructor(exports) {
    this.exports = exports;
    this.name = "WebAssembly SIMD";
    this.layers = new WeakMap(); // Linear -> its address
    [this.input, this.output] = [{ size: 0 }, { size: 0 }];
  }

  // (rows, inputs) to (rows, outputs), as scalarLinear does.
  linear(layer, x, rows) {
    const address = this.addressOf(layer);
    const from = this.reserve(this.input, x.byteLength);
    const size = rows * layer.outputs;
    const to = this.reserve(this.output, 4 * size);
    // memory that has grown is another buffer
    new Float32Array(this.exports.memory.buffer, from, x.length).set(x);
    if (this.exports[layer.bits ? "grouped" : "linear"](address, from, to, rows)) throw new Error("There is no memory left for this text.");
    return new Float32Array(this.exports.memory.buffer, to, size).slice();
  }

  addressOf(layer) {
    let address = this.layers.get(layer);
    if (address !== undefined) return address;
    const [weight, scale, bias] = [layer.weight, layer.scale, layer.bias].map((numbers) => (numbers ? this.copied(numbers) : 0));
    const { inputs, outputs } = layer;
    if (layer.bits) address = this.exports.grouped_weights(weight, bias, inputs, outputs, layer.bits);
    else address = layer.scale
      ? this.exports.int8_layer(weight, scale, bias, inputs, outputs)
      : this.exports.float32_layer(weight, bias, inputs, outputs);
    if (!address) throw new Error("There is no memory left for this model.");
    // they are packed elsewhere now
    if (layer.scale) [weight, scale].forEach((copy) => this.exports.release(copy));
    if (layer.bits) layer.letGo();
    this.layers.set(layer, address);
    return address;
  }

  copied(numbers) {
    const address = this.allocate(numbers.byteLength);
    new numbers.constructor(this.exports.memory.buffer, address, numbers.length).set(numbers);
    return address;
  }

  // Memory of at least `bytes` that is used again and again.
  reserve(buffer, bytes) {
    if (bytes > buffer.size) {
      if (buffer.size) this.exports.release(buffer.address);
      Object.assign(buffer, { size: 2 * bytes, address: this.allocate(2 * bytes) });
    }
    return buffer.address;
  }

  allocate(bytes) {
    const address = this.exports.allocate(bytes);
    if (!address) throw new Error("There is no memory left for this model.");
    return address;
  }
}

// The products that compute a model: those of the core (the bytes of core.wasm), or SCALAR where there is no core, or no
// SIMD in this browser.
async function chosenProducts(bytes) {
  if (!bytes || typeof WebAssembly === "undefined" || !WebAssembly.validate(bytes)) return SCALAR;
  const { instance } = await WebAssembly.instantiate(bytes);
  instance.exports._initialize();
  return new Core(instance.exports);
}
