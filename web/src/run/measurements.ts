/**
 * Measurements that need further runs over the same prompts. Views read them by name, like the metrics and fields of
 * describe. The queue takes them after the numbers of a single run are shown.
 */
import { spread, type Edit, type Replica, type RunOptions, type Tensor } from 'sinkscope';
import { headEffects } from 'sinkscope/internal';
import { deviation, mean, predictsNext, type Frame } from '../frame';
import { averagesOf } from './averages';
import type { OpenModel } from './opened';

type MeasuredTensors = Pick<Frame, 'tensors' | 'spread'>;

interface MeasurementInput {
  readonly openModel: OpenModel;
  readonly ids: readonly (readonly number[])[];
  readonly edits: readonly Edit[];
  readonly eps: number;
  readonly signal: AbortSignal;
  readonly onProgress: (done: number, total: number) => void;
}

export interface Measurement {
  readonly names: readonly string[];
  readonly progressUnit: string;
  readonly fits: (frame: Pick<Frame, 'architecture'>) => boolean;
  readonly measure: (input: MeasurementInput) => Promise<MeasuredTensors>;
}

const effects: Measurement = {
  names: ['effect'],
  progressUnit: 'heads ablated',
  fits: predictsNext,
  measure: async ({ openModel, ids, eps: _, onProgress, ...options }) => {
    const effect = await headEffects(openModel.model, ids, {
      ...options,
      onProgress: ({ done, total }) => onProgress(done, total),
    });
    return averagesOf({ effect });
  },
};

/** The index of the exchanged token, counted after the special tokens: early, but not the first one. */
const EXCHANGE_INDEX = 4;

/** One token of a text is exchanged for the last token of the text that differs from it. */
interface Exchange {
  /** The index among all tokens of the prompt. */
  readonly at: number;
  readonly token: number;
}

/** Returns undefined for a text that is too short or repeats one token. */
export function exchangeOf(ids: readonly number[], prefixLength: number): Exchange | undefined {
  const at = prefixLength + Math.min(EXCHANGE_INDEX, ids.length - prefixLength - 2);
  const token = ids
    .slice(prefixLength)
    .reverse()
    .find((id) => id !== ids[at]);
  return at > prefixLength && token !== undefined ? { at, token } : undefined;
}

function prefixLengthOf(ids: readonly number[], special: readonly number[]): number {
  const end = ids.findIndex((id) => !special.includes(id));
  return end < 0 ? ids.length : end;
}

/** Measures how the residual stream changes when one token of a prompt is replaced, and how much the prompt mixes tokens. */
async function measureExchange(
  replica: Replica,
  ids: readonly number[],
  { at, token }: Exchange,
  options: RunOptions,
): Promise<Record<string, Tensor>> {
  const base = await replica.run(ids, options);
  try {
    const run = await replica.run(
      ids.map((id, t) => (t === at ? token : id)),
      options,
    );
    const hiddenChange = await run.metric('hidden_change', { base }).finally(() => run.close());
    return { reach: hiddenChange, mixing: await base.metric('mixing') };
  } finally {
    await base.close();
  }
}

const reach: Measurement = {
  names: ['reach', 'reach_bare', 'mixing_bare'],
  progressUnit: 'texts changed',
  fits: () => true,
  measure: async ({ openModel, ids, edits, signal, onProgress }) => {
    const { model, tokenizer } = openModel;
    const options = { edits, signal, fields: ['hidden'], capacity: ids[0]!.length };
    const tensors: Record<string, Tensor[]> = Object.fromEntries(reach.names.map((n) => [n, []]));
    let count = 0;
    const measureText = async (replica: Replica, promptIds: readonly number[]) => {
      const prefixLength = prefixLengthOf(promptIds, tokenizer.special);
      const exchange = exchangeOf(promptIds, prefixLength);
      const effect = exchange && (await measureExchange(replica, promptIds, exchange, options));
      const bareExchange = exchange && { ...exchange, at: exchange.at - prefixLength };
      const bareEffect =
        bareExchange && prefixLength
          ? await measureExchange(replica, promptIds.slice(prefixLength), bareExchange, options)
          : undefined;
      onProgress(++count, ids.length);
      return {
        reach: effect?.reach,
        reach_bare: bareEffect?.reach,
        mixing_bare: bareEffect?.mixing,
      };
    };
    for await (const results of spread(model, ids, measureText, { signal }))
      for (const [name, tensor] of Object.entries(results)) if (tensor) tensors[name]!.push(tensor);
    return average(tensors);
  },
};

function average(results: Readonly<Record<string, readonly Tensor[]>>): MeasuredTensors {
  const applyOverTexts =
    (statistic: (values: readonly number[]) => number) => (all: readonly Tensor[]) =>
      Float32Array.from(all[0]?.data ?? [], (_, i) => statistic(all.map(({ data }) => data[i]!)));
  const entries = Object.entries(results);
  return {
    tensors: Object.fromEntries(
      entries.map(([name, all]) => [
        name,
        { shape: all[0]?.shape ?? [0], data: applyOverTexts(mean)(all) },
      ]),
    ),
    spread: Object.fromEntries(
      entries.map(([name, all]) => [name, applyOverTexts(deviation)(all)]),
    ),
  };
}

export const measurements: readonly Measurement[] = [effects, reach];

export function isMeasurement(name: string): boolean {
  return measurements.some(({ names }) => names.includes(name));
}
