/**
 * Relaxed SIMD instructions may compute differently on each host. Each probe is a module whose f
 * runs one of them, and the answer that the kernels rely on.
 */
import type { Purpose } from './variants.ts';

const probes: Partial<Record<Purpose, { module: string; answer: number }>> = {
  // One lane of i32x4.relaxed_dot_i8x16_i7x16_add(splat 0x81ff7f80, splat 0x7f017e7f, splat
  // 100000): bytes -128 127 -1 -127 times 127 126 1 127. V8 11 drops the addend.
  int8: {
    module: 'AGFzbQEAAAABBQFgAAF/AwIBAAcFAQFmAAAKIAEeAEGA//2PeP0RQf/8hfgH/RFBoI0G/RH9kwL9GwAL',
    answer: 100000 - 128 * 127 + 127 * 126 - 1 - 127 * 127,
  },
  // One lane of f32x4.relaxed_madd(splat 4097, splat 4097, splat -16785408): 4097 squared is
  // 16785409, which no float represents. A host that rounds the product first gives 0 and gains
  // nothing.
  relaxed: {
    module: 'AGFzbQEAAAABBQFgAAF9AwIBAAcFAQFmAAAKHwEdAEMACIBF/RNDAAiARf0TQwAQgMv9E/2FAv0fAAs=',
    answer: 1,
  },
};

/**
 * Returns whether this host has relaxed SIMD with the expected results. Without the instruction the
 * module does not validate.
 */
export function canRelax(purpose: Purpose) {
  const probe = probes[purpose];
  if (!probe) return false;
  const bytes = Uint8Array.from(atob(probe.module), (letter) => letter.charCodeAt(0));
  if (!WebAssembly.validate(bytes)) return false;
  const { f } = new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports;
  return (f as () => number)() === probe.answer;
}
