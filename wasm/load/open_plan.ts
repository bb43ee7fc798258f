/** Opens a plan: the model and its tokenizer. */
import { JOB_OPTIONS, check, checkOptions } from '../abi/arguments.ts';
import { modelFiles } from '../loading/plan.ts';
import { planTokenizer } from '../text/plan_tokenizer.ts';
import type { Options } from '../abi/types.ts';
import type { Model, OpenOptions } from '../engine/types.ts';
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
 * Opens a plan's model and tokenizer, or none of both. A GGUF file's tokenizer is built while the
 * weights after it are read, and reports its progress once the model is open.
 */
export async function openPlan(
  engine: Pick<Engine, 'open'>,
  plan: Plan,
  options: OpenPlanOptions,
): Promise<{ model: Model; tokenizer: GuardedTokenizer }> {
  check(engine, 'engine', 'engine');
  checkOptions(options, { ...JOB_OPTIONS, limit: 'count' });
  const { limit, onProgress, signal, ...access } = options;
  let onHeader: OpenOptions['onHeader'];
  let failHeader: ((error: unknown) => void) | undefined;
  let model: Model | undefined;
  let built = { done: 0, total: NaN };
  const report = () => model && onProgress?.({ stage: 'tokenizer', ...built });
  const onBuilt = (done: number, total: number) => {
    built = { done, total };
    report();
  };
  const build = (header: Parameters<typeof planTokenizer>[1]['header']) =>
    planTokenizer(plan, { header }, { ...access, signal, limit, onBuilt });
  const files = modelFiles(plan, access);
  const building =
    plan.format === 'gguf'
      ? build(new Promise((resolve, reject) => ([onHeader, failHeader] = [resolve, reject])))
      : undefined;
  building?.catch(() => {});
  try {
    model = await engine.open(files, { signal, onProgress, onHeader });
    onHeader?.(model.header as Uint8Array);
    report();
    return { model, tokenizer: await (building ?? build(model.header)) };
  } catch (error) {
    failHeader?.(error);
    void building?.then((tokenizer) => tokenizer.close()).catch(() => {});
    await model?.close();
    throw error;
  }
}
