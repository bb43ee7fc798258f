/** Opens a plan: the model and its tokenizer. */
import { JOB_OPTIONS, check, checkOptions } from '../abi/arguments.ts';
import { modelFiles } from '../loading/plan.ts';
import { planTokenizer } from '../text/plan_tokenizer.ts';
import type { Options } from '../abi/types.ts';
import type { Model } from '../engine/types.ts';
import type { Plan } from '../loading/types.ts';
import type { GuardedTokenizer } from '../text/types.ts';
import type { Engine } from './types.ts';

interface OpenPlanOptions extends Options {
  readonly token?: string;
  readonly cache?: boolean;
  /** See `guardTokenizer`. */
  readonly limit?: number;
}

/**
 * Opens the model and the tokenizer of a plan. The tokenizer of a GGUF file is built while the weights are read, which
 * come after it in the file. If one of the two fails, the other is closed.
 */
export async function openPlan(
  engine: Pick<Engine, 'open'>,
  plan: Plan,
  options: OpenPlanOptions,
): Promise<{ model: Model; tokenizer: GuardedTokenizer }> {
  check(engine, 'engine', 'engine');
  checkOptions(options, { ...JOB_OPTIONS, limit: 'count' });
  const { limit, onProgress, signal, ...access } = options;
  let building: Promise<GuardedTokenizer> | undefined;
  const build = (source: Pick<Model, 'header'>) => {
    building ??= planTokenizer(plan, source, { ...access, signal, limit });
    building.catch(() => {});
    return building;
  };
  let model: Model | undefined;
  try {
    const files = modelFiles(plan, access);
    model = await engine.open(files, {
      signal,
      onProgress,
      onHeader: (header) => void build({ header }),
    });
    onProgress?.({ stage: 'tokenizer', done: 0, total: NaN });
    return { model, tokenizer: await build(model) };
  } catch (error) {
    void building?.then((tokenizer) => tokenizer.close()).catch(() => {});
    await model?.close();
    throw error;
  }
}
