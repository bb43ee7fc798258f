import { simd } from 'wasm-feature-detect';
import { expect } from './errors.js';

/** The two binaries. They give the same bits; one is several times faster. */
const files = { base: 'sinkscope.wasm', simd: 'sinkscope.simd.wasm' };

/**
 * The name of the binary for this host. A module with SIMD does not validate where SIMD is
 * missing, so the choice is made before it is loaded.
 * @param {string} kernels 'auto', 'simd' or 'base'
 */
export async function chooseBinary(kernels) {
  expect(
    ['auto', 'simd', 'base'].includes(kernels),
    'kernels',
    "'auto', 'simd' or 'base'",
    kernels,
  );
  if (kernels === 'auto') kernels = (await simd()) ? 'simd' : 'base';
  return kernels === 'simd' ? files.simd : files.base;
}
