/** A model with its engine and its tokenizer, opened by one call. */
import { JOB, checkOptions } from '../abi/arguments.js';
import { createEngine } from '../engine/client.js';
import { findPlan } from '../loading/find.js';
import { modelFiles } from '../loading/plan.js';
import { planTokenizer } from '../text/plan_tokenizer.js';
import { LoadedModel } from './loaded_model.js';

/** @type {typeof import('../sinkscope.js').load} */
export async function load(source, options = {}) {
  checkOptions(options, { ...JOB, engine: 'engine', cache: 'flag' });
  const { engine: given, arithmetic, signal, onProgress, ...others } = options;
  const { endpoint, zoo, token, cache = true, base, worker, kernels, workers, threads } = others;
  const access = { token, cache, signal };
  const plan = await findPlan(source, { endpoint, zoo, ...access });
  const engine = given ?? (await createEngine({ base, worker, kernels, workers, threads }));
  try {
    const files = modelFiles(plan, { token, cache });
    const model = await engine.open(files, { arithmetic, signal, onProgress });
    const tokenizer = await planTokenizer(plan, model, access);
    return new LoadedModel({ plan, engine, model, tokenizer, isOwner: !given });
  } catch (error) {
    // A model without a tokenizer is of no use here, and an engine of one's own keeps a process alive.
    if (!given) await engine.close();
    throw error;
  }
}
