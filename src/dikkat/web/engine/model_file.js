// A model file: the length of its header (4 bytes, little-endian), the header in JSON, then the numbers of every tensor.

const FORMAT = 4;

// {header, tensors: name -> {shape, values, bits, scale, fine}} of the bytes of a model file; throws an Error in one sentence.
function readModelFile(bytes) {
  // a copy begins at a multiple of 8, which typed arrays need
  const whole = bytes.byteOffset % 8 ? bytes.slice() : bytes;
  const length = headerLength(whole);
  if (!length || length > whole.byteLength) throw new Error(NO_MODEL_FILE);
  const header = headerOf(whole.subarray(0, length));
  return { header, tensors: tensorsOf(header, (at) => [whole.buffer, whole.byteOffset + length + at]) };
}

const NO_MODEL_FILE = "This is not a model file of dikkat.";

// Bytes of length and header; 0 where they are not there.
function headerLength(bytes) {
  return bytes.byteLength < 4 ? 0 : 4 + new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
}

function headerOf(bytes) {
  let header;
  try {
    header = JSON.parse(new TextDecoder().decode(bytes.subarray(4)));
  } catch {
    throw new Error(NO_MODEL_FILE);
  }
  if (header.format !== FORMAT) throw new Error(`The model file has format ${header.format}, but this engine reads ${FORMAT}.`);
  return header;
}

// The tensors of a header, whose numbers lie in [buffer, offset] that `memoryOf(at, bytes)` returns.
function tensorsOf(header, memoryOf) {
  const tensors = new Map();
  for (const [name, { shape, type, bits = null, offset, scale, fine }] of Object.entries(header.tensors)) {
    const size = shape.reduce((product, extent) => product * extent, 1);
    const numbers = (kind, at, count) => new kind(...memoryOf(at, count * kind.BYTES_PER_ELEMENT), count);
    tensors.set(name, {
      shape,
      values: numbers({ int8: Int8Array, grouped: Uint8Array, uint64: BigUint64Array, float32: Float32Array }[type], offset, bits ? groupedBytes(shape, bits) : size),
      bits, // of a weight, where each group of inputs has a scale of its own (see groupOf)
      // of an int8 matrix: what each row is multiplied by, and what rounding left where it also embeds tokens
      scale: scale === undefined ? null : numbers(Float32Array, scale, shape[0]),
      fine: fine === undefined ? null : numbers(Int8Array, fine, size),
    });
  }
  return tensors;
}

// The same as readModelFile of a stream of `size` bytes with the checksum `check`; `note` hears how many have come. Each tensor has
// memory of its own, so that it can be let go.
async function streamedModelFile(stream, { size, check }, note) {
  let [start, read, sum] = [new Uint8Array(0), 0, 0xffffffff];
  let [file, parts, length] = [null, [], 0];
  for (const reader = stream.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    sum = addToChecksum(sum, value);
    if (!file) {
      start = joinedBytes(start, value);
      length = headerLength(start);
      if (read === 0 && length > size) throw new Error(NO_MODEL_FILE);
      if (length && start.length >= length) {
        const header = headerOf(start.subarray(0, length));
        file = { header, tensors: tensorsOf(header, (at, bytes) => [(parts[parts.length] = { at, bytes: new Uint8Array(bytes) }).bytes.buffer, 0]) };
        parts.sort((a, b) => a.at - b.at);
        parts = copiedInto(parts, start.subarray(length), 0);
      }
    } else parts = copiedInto(parts, value, read - length);
    read += value.length;
    note(read);
  }
  if (read !== size) throw new Error(`The file has ${read} bytes, but the model of this page has ${size}.`);
  if ((sum ^ 0xffffffff) >>> 0 !== check) throw new Error("The file is damaged, or the model of another page.");
  return file;
}

// Copies a chunk that begins at `at` into the parts that it belongs to; returns those that are not full.
function copiedInto(parts, chunk, at) {
  const end = at + chunk.length;
  for (const { at: first, bytes } of parts) {
    if (first >= end) break;
    const from = Math.max(first, at);
    const to = Math.min(first + bytes.length, end);
    if (from < to) bytes.set(chunk.subarray(from - at, to - at), from - first);
  }
  return parts.filter(({ at: first, bytes }) => first + bytes.length > end);
}

function joinedBytes(a, b) {
  const joined = new Uint8Array(a.length + b.length);
  joined.set(a);
  joined.set(b, a.length);
  return joined;
}

const CHECKSUMS = Uint32Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? 0xedb88320 ^ (byte >>> 1) : byte >>> 1;
  return byte;
});

// CRC-32, as in gzip, before its last inversion.
function addToChecksum(sum, bytes) {
  for (let i = 0; i < bytes.length; i++) sum = CHECKSUMS[(sum ^ bytes[i]) & 0xff] ^ (sum >>> 8);
  return sum;
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
