/** A model with its engine and its tokenizer, opened by one call. */
import { JOB_OPTIONS, checkOptions } from '../abi/arguments.ts';
import { createEngine } from './engine.ts';
import { findPlan } from '../loading/find.ts';
import { LoadedModel } from './loaded_model.ts';
import { openPlan } from './open_plan.ts';
import type { ModelSource } from '../loading/types.ts';
import type { LoadOptions } from './types.ts';

/**
 * Opens a model with its tokenizer.
 * @throws SinkscopeError as `findPlan`, `engine.open` and `planTokenizer`
 * @example
 * const model = await load('HuggingFaceTB/SmolLM2-135M');
 * const { sink, map } = await model.measure('The old man sat at the door.');
 * await model.close();
 */
export async function load(source: ModelSource, options: LoadOptions = {}): Promise<LoadedModel> {
  checkOptions(options, { ...JOB_OPTIONS, engine: 'engine', cache: 'flag' });
  const { engine: sharedEngine, signal, onProgress, ...others } = options;
  const { endpoint, zoo, token, cache = true, base, worker, workers, threads } = others;
  const accessOptions = { token, cache, signal };
  const plan = await findPlan(source, { endpoint, zoo, ...accessOptions });
  const engine = sharedEngine ?? (await createEngine({ base, worker, workers, threads }));
  try {
    const parts = await openPlan(engine, plan, { ...accessOptions, onProgress });
    return new LoadedModel({ plan, engine, ...parts, isOwner: !sharedEngine });
  } catch (error) {
    // Without a tokenizer, `load` fails; an engine that it started would keep the process alive.
    if (!sharedEngine) await engine.close();
    throw error;
  }
}
