/**
 * What relaxed SIMD is taken for: a module whose f is one such instruction, and the answer that is wanted.
 * @type {Partial<Record<import('./variants.js').Purpose, { module: string, answer: number }>>}
 */
const probes = {
  // A lane of i32x4.relaxed_dot_i8x16_i7x16_add(splat 0x81ff7f80, splat 0x7f017e7f, splat 100000): bytes
  // -128 127 -1 -127 times 127 126 1 127. V8 11 loses what is to be added to.
  int8: {
    module: 'AGFzbQEAAAABBQFgAAF/AwIBAAcFAQFmAAAKIAEeAEGA//2PeP0RQf/8hfgH/RFBoI0G/RH9kwL9GwAL',
    answer: 100000 - 128 * 127 + 127 * 126 - 1 - 127 * 127,
  },
  // A lane of f32x4.relaxed_madd(splat 4097, splat 4097, splat -16785408): 4097 squared is 16785409, which
  // no float is. Where it is rounded by itself, 0 is left, and nothing is gained.
  relaxed: {
    module: 'AGFzbQEAAAABBQFgAAF9AwIBAAcFAQFmAAAKHwEdAEMACIBF/RNDAAiARf0TQwAQgMv9E/2FAv0fAAs=',
    answer: 1,
  },
};

/**
 * Whether this host has relaxed SIMD, and it does what it is taken for. Where it is missing the module does
 * not validate.
 * @param {import('./variants.js').Purpose} purpose
 */
export function canRelax(purpose) {
  const probe = probes[purpose];
  if (!probe) return false;
  const bytes = Uint8Array.from(atob(probe.module), (letter) => letter.charCodeAt(0));
  if (!WebAssembly.validate(bytes)) return false;
  const { f } = new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports;
  return /** @type {() => number} */ (f)() === probe.answer;
}
