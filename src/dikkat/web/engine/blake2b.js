// The hash BLAKE2b (RFC 7693) of bytes, in a digest of 64 bits: the names of words in a word table.

const BLAKE2B_START = [
  0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n,
];
const BLAKE2B_ORDERS = [
  "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
  "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0",
].map((order) => Array.from(order, (digit) => parseInt(digit, 16)));
const BLAKE2B_LANES = [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15], [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]];

function blake2b64(bytes) {
  const state = [...BLAKE2B_START];
  state[0] ^= 0x01010008n; // no key, a digest of 8 bytes
  for (let start = 0; start === 0 || start < bytes.length; start += 128) {
    const block = new Uint8Array(128);
    block.set(bytes.subarray(start, start + 128));
    const words = new BigUint64Array(block.buffer);
    const end = Math.min(start + 128, bytes.length);
    const mixed = [...state, ...BLAKE2B_START];
    mixed[12] ^= BigInt(end);
    if (end === bytes.length) mixed[14] ^= 0xffffffffffffffffn;
    for (let round = 0; round < 12; round++) {
      const order = BLAKE2B_ORDERS[round % 10];
      BLAKE2B_LANES.forEach((lane, index) => mixLane(mixed, lane, words[order[2 * index]], words[order[2 * index + 1]]));
    }
    for (let i = 0; i < 8; i++) state[i] ^= mixed[i] ^ mixed[i + 8];
  }
  return state[0];
}

function mixLane(mixed, [a, b, c, d], first, second) {
  const rotated = (number, bits) => BigInt.asUintN(64, (number >> bits) | (number << (64n - bits)));
  const step = (word, left, right) => {
    mixed[a] = BigInt.asUintN(64, mixed[a] + mixed[b] + word);
    mixed[d] = rotated(mixed[d] ^ mixed[a], left);
    mixed[c] = BigInt.asUintN(64, mixed[c] + mixed[d]);
    mixed[b] = rotated(mixed[b] ^ mixed[c], right);
  };
  step(first, 32n, 24n);
  step(second, 16n, 63n);
}
