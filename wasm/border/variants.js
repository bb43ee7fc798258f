import { simd } from 'wasm-feature-detect';
import { SinkscopeError, expect } from './errors.js';

/**
 * What an engine is for, and by what the host can do its binary. Those that run models give the same
 * bits, and those of a lab also train; those of eight bits are approximate, and give the same bits as
 * one another.
 */
const files = {
  run: { base: 'sinkscope.wasm', simd: 'sinkscope.simd.wasm' },
  lab: { base: 'sinkscope.lab.wasm', simd: 'sinkscope.lab.simd.wasm' },
  int8: { simd: 'sinkscope.eight.simd.wasm', relaxed: 'sinkscope.eight.relaxed.wasm' },
};

/**
 * The same again, on memory that threads can share, of those that have it.
 * @type {Readonly<Record<string, string | undefined>>}
 */
export const SHARED = { 'sinkscope.simd.wasm': 'sinkscope.threads.simd.wasm' };

/** @typedef {keyof typeof files} Purpose */

/*
 * () => i32, one lane of i32x4.relaxed_dot_i8x16_i7x16_add(splat 0x81ff7f80, splat 0x7f017e7f, splat
 * 100000): bytes -128 127 -1 -127 times 127 126 1 127.
 */
const DOT = Uint8Array.from(
  atob('AGFzbQEAAAABBQFgAAF/AwIBAAcFAQFmAAAKIAEeAEGA//2PeP0RQf/8hfgH/RFBoI0G/RH9kwL9GwAL'),
  (letter) => letter.charCodeAt(0),
);

/**
 * Whether this host has relaxed SIMD, and its dot product is right: V8 11 loses what is to be added to.
 * Where it is missing the module does not validate.
 */
function hasDot() {
  if (!WebAssembly.validate(DOT)) return false;
  const { f } = new WebAssembly.Instance(new WebAssembly.Module(DOT)).exports;
  return /** @type {() => number} */ (f)() === 100000 - 128 * 127 + 127 * 126 - 1 - 127 * 127;
}

/**
 * The name of the binary for this host, chosen before one is loaded.
 * @param {string} kernels 'auto', 'simd' or 'base'
 * @param {Purpose} [purpose]
 */
export async function chooseBinary(kernels, purpose = 'run') {
  expect(
    ['auto', 'simd', 'base'].includes(kernels),
    'kernels',
    "'auto', 'simd' or 'base'",
    kernels,
  );
  /** @type {{ base?: string, simd: string, relaxed?: string }} */
  const own = files[purpose];
  const isAuto = kernels === 'auto';
  if (isAuto ? await simd() : kernels === 'simd')
    return isAuto && own.relaxed && hasDot() ? own.relaxed : own.simd;
  if (own.base) return own.base;
  const why = 'expected a host with SIMD, and kernels that use it: eight bits gain nothing without';
  throw new SinkscopeError('unsupported', 'arithmetic', why);
}
