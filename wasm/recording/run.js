/** A run as a recording; apart from the other writers, so that a bundler fetches it alone. */
import { checkList, checkOptions } from '../abi/arguments.js';
import { RECORD, conditionsOf, encode, keep, keptOf } from './write.js';

/**
 * The recording of one run: its own numbers are the means, without deviations.
 * @param {Pick<import('../sinkscope.js').Run, 'tokens' | 'read'>} run
 * @param {import('../sinkscope.js').Recordable} model
 * @param {import('../sinkscope.js').RecordOptions} options
 */
export async function recordRun(run, model, options = {}) {
  checkOptions(options, RECORD);
  const { describe } = model;
  const { eps = [describe.defaults.eps], half = true } = options;
  checkList(eps, 'number', 'eps');
  /** @type {import('./write.js').Parts} */
  const parts = new Map();
  await keep(parts, 0, run, keptOf(model, options), half);
  const known = { ids: [[...run.tokens]], count: 1, T: run.tokens.length, eps };
  return encode(parts, conditionsOf(model, options, known));
}
