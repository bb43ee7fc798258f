/**
 * Measurements that need further runs over the same prompts. Views read them by name, like the metrics and fields of
 * describe. The queue takes them after the numbers of a single run are shown.
 */
import {
  headEffects,
  spread,
  uniformAlphas,
  type Architecture,
  type Edit,
  type Replica,
  type RunOptions,
  type Tensor,
} from 'sinkscope';
import { deviation, isBidirectional, mean, type Frame } from '../frame';
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
  readonly fits: (model: { readonly architecture: Architecture }) => boolean;
  readonly measure: (input: MeasurementInput) => Promise<MeasuredTensors>;
}

const effects: Measurement = {
  names: ['effect'],
  progressUnit: 'heads ablated',
  fits: (model) => !isBidirectional(model),
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

/** In tokens. The first measured beginning of a prompt has this length; each further one is sqrt(2) times as long. */
const MIN_LENGTH = 16;

export function lengthsUpTo(T: number): number[] {
  const shorterLengths: number[] = [];
  for (let n = MIN_LENGTH; n < T; n *= Math.SQRT2) shorterLengths.push(Math.round(n));
  return [...shorterLengths, T];
}

/**
 * Measures alpha_1 of every head for beginnings of a prompt, in a single run that grows, and Sink_1 of each beginning:
 * the share of heads above eps is taken of each prompt, since that of a mean over prompts would be another number.
 */
const lengths: Measurement = {
  names: ['alpha_by_length', 'sink_by_length', 'uniform_by_length', 'lengths'],
  progressUnit: 'lengths',
  fits: (model) => !isBidirectional(model),
  measure: async ({ openModel: { model }, ids, edits, eps, signal, onProgress }) => {
    const T = ids[0]!.length;
    const measuredLengths = lengthsUpTo(T);
    const shape = [measuredLengths.length];
    let count = 0;
    const measureText = async (replica: Replica, promptIds: readonly number[]) => {
      const fields = ['att'];
      const beginning = promptIds.slice(0, measuredLengths[0]);
      const run = await replica.run(beginning, { edits, signal, fields, capacity: T });
      try {
        const alphas: number[] = [];
        const sinks: number[] = [];
        for (const n of measuredLengths) {
          if (n > beginning.length) await run.update(promptIds.slice(0, n), { signal });
          const reads = [{ metric: 'alpha' }, { metric: 'sink_ratio', eps }];
          const [alpha, sinkRatio] = (await run.read(reads)) as [Tensor, Tensor];
          for (let start = 0; start < alpha.data.length; start += n)
            alphas.push(alpha.data[start]!);
          sinks.push(sinkRatio.data[0]!);
          onProgress(++count, ids.length * measuredLengths.length);
        }
        const headCount = alphas.length / measuredLengths.length;
        return {
          alpha_by_length: { shape: [...shape, headCount], data: Float32Array.from(alphas) },
          sink_by_length: { shape, data: Float32Array.from(sinks) },
        };
      } finally {
        await run.close();
      }
    };
    const results: Awaited<ReturnType<typeof measureText>>[] = [];
    for await (const result of spread(model, ids, measureText, { signal })) results.push(result);
    const averages = average({
      alpha_by_length: results.map(({ alpha_by_length }) => alpha_by_length),
      sink_by_length: results.map(({ sink_by_length }) => sink_by_length),
    });
    const uniform = measuredLengths.map((n) => uniformAlphas(n, model.architecture)[0]!);
    const tensors = {
      ...averages.tensors,
      uniform_by_length: { shape, data: Float32Array.from(uniform) },
      lengths: { shape, data: Float32Array.from(measuredLengths) },
    };
    return { ...averages, tensors };
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

export const measurements: readonly Measurement[] = [effects, reach, lengths];

export function isMeasurement(name: string): boolean {
  return measurements.some(({ names }) => names.includes(name));
}
