/** Records one run, without the modules that record studies, for bundlers. */
import { checkList, checkOptions } from '../abi/arguments.ts';
import { RECORD_OPTIONS, conditionsOf, encode, addPrompt, hashIds, selectFields } from './write.ts';
import type { Run, Recordable, RecordOptions } from '../engine/types.ts';
import type { FileTensors } from './write.ts';

/** Returns a recording of one run, whose values replace the means, without deviations. */
export async function recordRun(
  run: Pick<Run, 'tokens' | 'read'>,
  model: Recordable,
  options: RecordOptions = {},
) {
  checkOptions(options, RECORD_OPTIONS);
  const { describe } = model;
  const { eps = [describe.defaults.eps], half = true } = options;
  checkList(eps, 'number', 'eps');
  const fileTensors: FileTensors = new Map();
  await addPrompt(fileTensors, 0, run, selectFields(model, options), half);
  const ids = [[...run.tokens]];
  const idsSha256 = await hashIds(ids);
  const prompts = { ids, idsSha256, count: 1, T: run.tokens.length, eps };
  return encode(fileTensors, conditionsOf(model, options, prompts));
}
