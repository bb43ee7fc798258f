/** Measures means and standard deviations over the prompts of a question, and one number per prompt. */
import { measure, type Describe, type Tensor } from 'sinkscope';
import { sweep } from 'sinkscope/internal';
import { deviation, mean, numbersOfKey, withoutNaN, type Frame } from '../frame';
import type { OpenModel, Watch } from './opened';
import type { Prompts } from '../ask/question';

/** Every frame has these metrics, since sentences and the choice of a head need them. */
export const ALWAYS_READ = [
  'alpha',
  'alpha_raw',
  'alpha_uniform',
  'sink_ratio',
  'sink_ratio_raw',
  'row_mass_summary',
];

type Averages = Pick<Frame, 'tensors' | 'spread' | 'perPrompt'>;

/** Returns means, standard deviations and the numbers of each prompt, for each list of edits. */
export async function measureAverages(
  { model }: OpenModel,
  { ids }: Prompts,
  cases: readonly Frame['edits'][],
  options: {
    readonly eps: number;
    readonly metrics: readonly string[];
    readonly streaming?: boolean;
  },
  { signal, onProgress }: Watch,
): Promise<Averages[]> {
  const numbersByCase = cases.map((): Record<string, number[]> => ({}));
  const firstAlphas = cases.map((): Float32Array[] => []);
  const firstRawAlphas = cases.map((): Float32Array[] => []);
  const results = await sweep(model, ids, cases, {
    ...options,
    signal,
    onProgress: (p) => onProgress('', p.done, p.total, p),
    onSequence: (tensors, _, i) => {
      addPromptNumbers(numbersByCase[i]!, tensors);
      const { alpha, alpha_raw } = tensors;
      if (alpha) firstAlphas[i]!.push(numbersOfKey(alpha, 0));
      if (alpha_raw) firstRawAlphas[i]!.push(numbersOfKey(alpha_raw, 0));
    },
  });
  return results.map(({ metrics }, i) => {
    const averages = averagesOf(metrics);
    const [alphas, rawAlphas] = [firstAlphas[i]!, firstRawAlphas[i]!];
    const tensors = {
      ...averages.tensors,
      ...(alphas.length && { first_alphas: joinRows(alphas) }),
      ...(rawAlphas.length && { first_raw_alphas: joinRows(rawAlphas) }),
    };
    return { ...averages, tensors, perPrompt: numbersByCase[i]! };
  });
}

function joinRows(rows: readonly Float32Array[]): Tensor {
  const width = rows[0]!.length;
  const data = new Float32Array(rows.length * width);
  rows.forEach((row, i) => data.set(row, i * width));
  return { shape: [rows.length, width], data };
}

type Metrics = Awaited<ReturnType<typeof measure>>['metrics'];

/** Returns means and deviations as tensors, with NaN for numbers that could not be averaged. */
export function averagesOf(
  metrics: Readonly<Record<string, Pick<Metrics[string], 'shape' | 'mean' | 'deviation'>>>,
): Pick<Frame, 'tensors' | 'spread'> {
  const entries = Object.entries(metrics);
  const toFloats = (values: readonly (number | null)[]) =>
    Float32Array.from(values, (x) => x ?? NaN);
  return {
    tensors: Object.fromEntries(
      entries.map(([name, { shape, mean: means }]) => [name, { shape, data: toFloats(means) }]),
    ),
    spread: Object.fromEntries(
      entries.map(([name, { deviation: deviations }]) => [name, toFloats(deviations)]),
    ),
  };
}

/** Measures each token's loss from the `window` tokens before it, without a cache (re-computation, Xiao et al. 2024). */
export async function measureWindowLoss(
  { model }: OpenModel,
  { ids }: Prompts,
  window: number,
  { edits, eps }: { edits: Frame['edits']; eps: number },
  { signal, onProgress }: Watch,
): Promise<Averages> {
  const T = ids[0]!.length;
  const windowSize = Math.min(T, window + 1);
  const windowCount = T - windowSize + 1;
  const windows = ids.flatMap((promptIds) =>
    Array.from({ length: windowCount }, (_, from) => promptIds.slice(from, from + windowSize)),
  );
  const losses = ids.map(() => new Float32Array(T).fill(NaN));
  await measure(model, windows, {
    metrics: ['loss_at'],
    eps,
    edits,
    signal,
    onProgress: ({ done, total }) => onProgress('', done, total),
    onSequence: ({ loss_at: measuredLosses }, i) => {
      const windowLosses = losses[Math.floor(i / windowCount)]!;
      const offset = i % windowCount;
      if (offset === 0) windowLosses.set(measuredLosses!.data);
      else windowLosses[offset + windowSize - 1] = measuredLosses!.data[windowSize - 1]!;
    },
  });
  const promptMeans = losses.map((promptLosses) => mean(promptLosses, 1));
  const lossesAt = (t: number) => losses.map((promptLosses) => promptLosses[t]!);
  const positions = Array.from({ length: T }, (_, t) => t);
  return {
    tensors: {
      loss_at: { shape: [T], data: Float32Array.from(positions, (t) => mean(lossesAt(t))) },
      loss_mean: { shape: [1], data: Float32Array.of(mean(promptMeans)) },
    },
    spread: {
      loss_at: Float32Array.from(positions, (t) => deviation(lossesAt(t))),
      loss_mean: Float32Array.of(deviation(promptMeans)),
    },
    perPrompt: { loss_mean: promptMeans },
  };
}

export function addPromptNumbers(
  lists: Record<string, number[]>,
  tensors: Readonly<Record<string, Tensor>>,
): Record<string, number[]> {
  const addNumber = (name: string, value: number | undefined) =>
    value === undefined ? undefined : (lists[name] ??= []).push(value);
  for (const name of ['sink_ratio', 'sink_ratio_raw', 'sink_ratio_bias', 'loss_mean', 'kl_mean'])
    addNumber(name, tensors[name]?.data[0]);
  // The summary's rows are mean, minimum and maximum; takes each head's mean.
  const masses = tensors.row_mass_summary;
  addNumber(
    'row_mass_summary',
    masses && mean(Array.from(masses.data).filter((_, i) => i % 3 === 0)),
  );
  addNumber('value_ratio', tensors.value_ratio && mean(withoutNaN(tensors.value_ratio.data)));
  return lists;
}

/**
 * Averages every metric that describe calls averaged, so that a view that is opened later also shows means and not
 * numbers of the first prompt. If no other view can be opened, averages only the requested metrics.
 */
export async function measureAllAverages(
  describe: Describe,
  openModel: OpenModel,
  prompts: Prompts,
  {
    edits,
    eps,
    onlyMetrics,
  }: { edits: Frame['edits']; eps: number; onlyMetrics?: readonly string[] | undefined },
  watch: Watch,
): Promise<Averages> {
  // The loss is always included: the cost of a setting is a difference of mean losses.
  const isRequested = (name: string) =>
    !onlyMetrics || [...ALWAYS_READ, 'loss_mean', ...onlyMetrics].includes(name);
  const metrics = describe.metrics
    .filter(
      ({ name, averaged, fields, arguments: args }) =>
        isRequested(name) &&
        // Metrics that read no field have the same value for every prompt.
        (averaged || !fields.length) &&
        // Metrics of one head, and comparisons with the baseline without an edit, cannot be averaged.
        !args.includes('layer') &&
        (edits.length > 0 || !args.includes('base')),
    )
    .map(({ name }) => name);
  const total = prompts.ids.length;
  const promptWatch: Watch = {
    signal: watch.signal,
    onProgress: (_, done, __, more) => {
      const rate = more?.rate ?? NaN;
      const rateWords = rate > 0 ? `, ${rate.toFixed(rate < 10 ? 1 : 0)} a second` : '';
      watch.onProgress(`${openModel.title}, ${done} of ${total} prompts${rateWords}`, done, total);
    },
  };
  const options = { eps, metrics };
  const [result] = await measureAverages(openModel, prompts, [edits], options, promptWatch);
  return result!;
}
