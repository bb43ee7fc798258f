/** Records one run; a separate module, so that a bundler loads it without the other writers. */
import { checkList, checkOptions } from '../abi/arguments.js';
import { RECORD, conditionsOf, encode, keep, keptOf } from './write.js';

/**
 * Returns the recording of one run: the means are its own values, without deviations.
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
  const measured = { ids: [[...run.tokens]], count: 1, T: run.tokens.length, eps };
  return encode(parts, conditionsOf(model, options, measured));
}
