import { simd } from 'wasm-feature-detect';
import { expect } from './errors.js';

/** They give the same bits; those with SIMD are several times faster, those of a lab also train. */
const files = {
  run: { base: 'sinkscope.wasm', simd: 'sinkscope.simd.wasm' },
  lab: { base: 'sinkscope.lab.wasm', simd: 'sinkscope.lab.simd.wasm' },
};

/**
 * The same again, on memory that threads can share, of those that have it.
 * @type {Readonly<Record<string, string | undefined>>}
 */
export const SHARED = { 'sinkscope.simd.wasm': 'sinkscope.threads.simd.wasm' };

/**
 * The name of the binary for this host. A module with SIMD does not validate where SIMD is
 * missing, so the choice is made before it is loaded.
 * @param {string} kernels 'auto', 'simd' or 'base'
 * @param {boolean} [lab] whether it is to train models
 */
export async function chooseBinary(kernels, lab = false) {
  expect(
    ['auto', 'simd', 'base'].includes(kernels),
    'kernels',
    "'auto', 'simd' or 'base'",
    kernels,
  );
  if (kernels === 'auto') kernels = (await simd()) ? 'simd' : 'base';
  return files[lab ? 'lab' : 'run'][kernels === 'simd' ? 'simd' : 'base'];
}
