// A model file: the length of its header (4 bytes, little-endian), the header in JSON, then the numbers of every tensor.

const FORMAT = 3;

// {header, tensors: name -> {shape, values, scale, fine}} of the bytes of a model file; throws an Error in one sentence.
function readModelFile(bytes) {
  // a copy begins at a multiple of 8, which typed arrays need
  const whole = bytes.byteOffset % 8 ? bytes.slice() : bytes;
  const length = whole.byteLength < 4 ? 0 : new DataView(whole.buffer, whole.byteOffset).getUint32(0, true);
  if (!length || length + 4 > whole.byteLength) throw new Error("This is not a model file of dikkat.");
  const header = JSON.parse(new TextDecoder().decode(whole.subarray(4, 4 + length)));
  if (header.format !== FORMAT) throw new Error(`The model file has format ${header.format}, but this engine reads ${FORMAT}.`);
  const start = whole.byteOffset + 4 + length;
  const tensors = new Map();
  for (const [name, { shape, type, offset, scale, fine }] of Object.entries(header.tensors)) {
    const size = shape.reduce((product, extent) => product * extent, 1);
    const numbers = (kind, at, count) => new kind(whole.buffer, start + at, count);
    tensors.set(name, {
      shape,
      values: numbers({ int8: Int8Array, uint64: BigUint64Array, float32: Float32Array }[type], offset, size),
      // of an int8 matrix: what each row is multiplied by, and what rounding left where it also embeds tokens
      scale: scale === undefined ? null : numbers(Float32Array, scale, shape[0]),
      fine: fine === undefined ? null : numbers(Int8Array, fine, size),
    });
  }
  return { header, tensors };
}

// The bytes of a file that was compressed by gzip.
async function unzipped(bytes) {
  if (typeof DecompressionStream === "undefined") throw new Error("This browser cannot unpack the model: it is too old.");
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  try {
    return new Uint8Array(await new Response(stream).arrayBuffer());
  } catch {
    throw new Error("The model in this file is damaged, as when a program has saved the file in another encoding.");
  }
}

function isZipped(bytes) {
  return bytes[0] === 0x1f && bytes[1] === 0x8b;
}

// The bytes of a text that holds seven bits a character, the highest first (seven_bits.py).
function bytesOfSevenBits(text) {
  const bytes = new Uint8Array(Math.floor((7 * text.length) / 8));
  let [bits, held, at] = [0, 0, 0];
  for (let i = 0; i < text.length; i++) {
    bits = ((bits << 7) | (text.charCodeAt(i) & 0x7f)) & 0x3fff;
    held += 7;
    if (held < 8) continue;
    held -= 8;
    bytes[at++] = bits >> held;
  }
  return bytes;
}

// The bytes that base64 text stands for.
function bytesOfBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}
