/** Records one run; a separate module, so that a bundler loads it without the other writers. */
import { checkList, checkOptions } from '../abi/arguments.ts';
import { RECORD, conditionsOf, encode, keep, keptOf } from './write.ts';
import type { Run } from '../engine/types.ts';
import type { Recordable, RecordOptions } from './types.ts';
import type { Parts } from './write.ts';

/** Returns the recording of one run: the means are its own values, without deviations. */
export async function recordRun(
  run: Pick<Run, 'tokens' | 'read'>,
  model: Recordable,
  options: RecordOptions = {},
) {
  checkOptions(options, RECORD);
  const { describe } = model;
  const { eps = [describe.defaults.eps], half = true } = options;
  checkList(eps, 'number', 'eps');
  const parts: Parts = new Map();
  await keep(parts, 0, run, keptOf(model, options), half);
  const measured = { ids: [[...run.tokens]], count: 1, T: run.tokens.length, eps };
  return encode(parts, conditionsOf(model, options, measured));
}
