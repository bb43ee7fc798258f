import { simd } from 'wasm-feature-detect';
import { expect } from './errors.ts';

/**
 * The binaries for each purpose of an engine and for what the host supports. All give the same
 * bits, and 'lab' also trains.
 */
const filesByPurpose = {
  run: { base: 'sinkscope.wasm', simd: 'sinkscope.simd.wasm' },
  lab: { base: 'sinkscope.lab.wasm', simd: 'sinkscope.lab.simd.wasm' },
};

/**
 * Names the variant of a binary that runs on shared memory; only the binary that runs models with
 * SIMD has one.
 */
export const sharedBinary = (binary: string) =>
  binary === filesByPurpose.run.simd ? 'sinkscope.threads.simd.wasm' : undefined;

export type Purpose = keyof typeof filesByPurpose;

export async function chooseBinary(kernels: string, purpose: Purpose = 'run') {
  expect(
    ['auto', 'simd', 'base'].includes(kernels),
    'kernels',
    "'auto', 'simd' or 'base'",
    kernels,
  );
  const isSimd = kernels === 'auto' ? await simd() : kernels === 'simd';
  return filesByPurpose[purpose][isSimd ? 'simd' : 'base'];
}
