import { simd } from 'wasm-feature-detect';
import { SinkscopeError, expect } from './errors.js';

const exact = { base: 'sinkscope.wasm', simd: 'sinkscope.simd.wasm' };

/**
 * What an engine is for, and by what the host can do its binary. Those that run models give the same
 * bits, and those of a lab also train; those of eight bits are approximate, and give the same bits as
 * one another. Where relaxed floats gain nothing, exact ones are as good.
 */
const files = {
  run: exact,
  lab: { base: 'sinkscope.lab.wasm', simd: 'sinkscope.lab.simd.wasm' },
  int8: { simd: 'sinkscope.int8.simd.wasm', relaxed: 'sinkscope.int8.relaxed.wasm' },
  relaxed: { ...exact, relaxed: 'sinkscope.relaxed.wasm' },
};

/** @typedef {import('../sinkscope.js').Arithmetic} Arithmetic */
/** @type {Readonly<Record<Arithmetic, Purpose>>} what an engine is for that is asked for one of these */
export const ARITHMETICS = { exact: 'run', int8: 'int8', relaxed: 'relaxed' };

/**
 * The name of the binary that does the same on memory that threads can share: those with SIMD that run models have one.
 * @param {string} binary
 */
export const sharedBinary = (binary) =>
  /^sinkscope\.(int8\.)?(simd|relaxed)/.test(binary) ? binary.replace('.', '.threads.') : undefined;

/** @typedef {keyof typeof files} Purpose */

/**
 * Whether this host has relaxed SIMD, and it does what it is taken for. Who asks for exact arithmetic alone does not
 * download this.
 * @param {Purpose} purpose
 */
const canRelax = async (purpose) => (await import('./relaxed.js')).canRelax(purpose);

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
    return isAuto && own.relaxed && (await canRelax(purpose)) ? own.relaxed : own.simd;
  if (own.base) return own.base;
  const why = 'expected a host with SIMD, and kernels that use it: eight bits gain nothing without';
  throw new SinkscopeError('unsupported', 'arithmetic', why);
}
