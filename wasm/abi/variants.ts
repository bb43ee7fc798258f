import { simd } from 'wasm-feature-detect';
import { SinkscopeError, expect } from './errors.ts';
import type { Arithmetic } from '../engine/types.ts';

const exactFiles = { base: 'sinkscope.wasm', simd: 'sinkscope.simd.wasm' };

/**
 * The binaries for each purpose of an engine and for what the host supports. 'run' and 'lab' give
 * the same bits, and 'lab' also trains; 'int8' is approximate, with the same bits in both of its
 * binaries. 'relaxed' falls back to exact binaries where relaxed floats gain nothing.
 */
const filesByPurpose = {
  run: exactFiles,
  lab: { base: 'sinkscope.lab.wasm', simd: 'sinkscope.lab.simd.wasm' },
  int8: { simd: 'sinkscope.int8.simd.wasm', relaxed: 'sinkscope.int8.relaxed.wasm' },
  relaxed: { ...exactFiles, relaxed: 'sinkscope.relaxed.wasm' },
};

export const ARITHMETICS: Readonly<Record<Arithmetic, Purpose>> = {
  exact: 'run',
  int8: 'int8',
  relaxed: 'relaxed',
};

/**
 * Names the variant of a binary that runs on shared memory; only binaries that run models with SIMD
 * have one.
 */
export const sharedBinary = (binary: string) =>
  /^sinkscope\.(int8\.)?(simd|relaxed)/.test(binary) ? binary.replace('.', '.threads.') : undefined;

export type Purpose = keyof typeof filesByPurpose;

/** Lazy import: exact arithmetic does not need this module. */
const canRelax = async (purpose: Purpose) => (await import('./relaxed.ts')).canRelax(purpose);

export async function chooseBinary(kernels: string, purpose: Purpose = 'run') {
  expect(
    ['auto', 'simd', 'base'].includes(kernels),
    'kernels',
    "'auto', 'simd' or 'base'",
    kernels,
  );
  const binaries: { base?: string; simd: string; relaxed?: string } = filesByPurpose[purpose];
  const isAuto = kernels === 'auto';
  if (isAuto ? await simd() : kernels === 'simd')
    return isAuto && binaries.relaxed && (await canRelax(purpose))
      ? binaries.relaxed
      : binaries.simd;
  if (binaries.base) return binaries.base;
  const requirement =
    'expected a host with SIMD, and kernels that use it: eight bits gain nothing without';
  throw new SinkscopeError('unsupported', 'arithmetic', requirement);
}
