/** Measures a model over many sequences: means and deviations, as the page shows them. */
import { expect, rowNamed } from '../abi/errors.ts';
import { JOB_OPTIONS, check, checkList, checkOptions } from '../abi/arguments.ts';
import { hasShares, operationOf } from './judge.ts';
import { spread } from './spread.ts';
import type { Architecture, Describe, Metric, Tensor } from '../abi/types.ts';
import type { Replica, Edit, RunRead } from '../engine/types.ts';
import type {
  MeasureOptions,
  RecordedMeans,
  StudyModel,
  SweepOptions,
  Measurement,
} from './types.ts';

/** An extra run without edits pays off when more cases than this begin from it. */
const UNSHARED_CASES_MAX = 2;

/** Fields that a run with `measuring` keeps as sums, without rows. */
const SUMMED_FIELDS = ['q', 'k', 'v', 'hidden', 'att', 'scores'];

/**
 * Returns the fields that a run must record for these reads.
 * @example const run = await model.run(ids, { fields: fieldsFor(engine.describe, reads) });
 */
export function fieldsFor(describe: Describe, reads: readonly RunRead[]): string[] {
  check(describe, 'object', 'describe');
  const { metrics, fields } = describe;
  checkList(metrics, 'object', 'describe.metrics');
  checkList(fields, 'object', 'describe.fields');
  checkList(reads, 'object', 'reads');
  const names = reads.flatMap((read) =>
    'field' in read
      ? [rowNamed(fields, read.field, 'field').name]
      : rowNamed(metrics, read.metric, 'metric').fields,
  );
  return [...new Set(names)];
}

type Sequences = readonly (readonly number[])[];

/**
 * Measures a model over sequences.
 * @param sequences one or more, all of one length
 * @throws SinkscopeError 'argument' for no sequence, or for one of another length
 * @example const { metrics } = await measure(model, sequences); // metrics.sink_ratio.mean[0]
 */
export function measure(
  model: StudyModel,
  sequences: Sequences,
  options?: MeasureOptions,
): Promise<Measurement>;

/**
 * Returns the means that a recording stores, or else the means over all its prompts.
 * @example const { metrics } = await measure(await engine.openRecording(file));
 */
export function measure(
  recording: RecordedMeans,
  options?: Pick<MeasureOptions, 'eps' | 'metrics'>,
): Promise<Measurement>;
export async function measure(
  model: StudyModel | RecordedMeans,
  sequences: Sequences | Pick<MeasureOptions, 'eps' | 'metrics'> = [],
  options: MeasureOptions = {},
) {
  check(model, 'object', 'model');
  if ('conditions' in model)
    return model.measure(Array.isArray(sequences) ? options : (sequences as MeasureOptions));
  checkOptions(options, { edits: 'list' });
  const { edits = [], ...others } = options;
  const [measurement] = await sweep(model, sequences as Sequences, [edits], others);
  return measurement;
}

/**
 * Measures several lists of edits: it runs every sequence under each of them and once without
 * edits, as the base of metrics that have `base` among their arguments.
 * @example
 * const cases = [8, 16, 24].map((budget) => [{ kind: 'evict', policy: 'window', budget }]);
 * const measurements = await sweep(model, sequences, cases, { metrics: ['loss_mean', 'kl_mean'] });
 */
export async function sweep(
  model: StudyModel,
  sequences: readonly (readonly number[])[],
  cases: readonly (readonly Edit[])[],
  options: SweepOptions = {},
): Promise<Measurement[]> {
  check(model, 'model', 'model');
  checkList(sequences, 'list', 'sequences');
  checkList(cases, 'list', 'cases');
  const kinds = { metrics: 'list', onSequence: 'call', streaming: 'flag' };
  checkOptions(options, { ...JOB_OPTIONS, ...kinds });
  const { describe } = model;
  const { streaming, signal, onProgress, onSequence } = options;
  const thresholds = checkThresholds(options.eps ?? describe.defaults.eps);
  const [eps] = thresholds;
  const rows =
    options.metrics?.map((name) => rowNamed(describe.metrics, name, 'metric')) ??
    (streaming ? streamedMetrics(describe) : summaryMetrics(model, cases));
  const names = rows.map(({ name }) => name);
  const comparedNames = rows.filter(needsBase).map(({ name }) => name);
  const { thresholdNames, reads } = readsOf(rows, thresholds);
  const fields = fieldsFor(describe, reads);
  const T = commonLength(sequences);
  const derivedCases =
    T > model.architecture.context || streaming ? [] : casesFromPlainRun(describe, cases);
  const isShared = derivedCases.length > (comparedNames.length ? 0 : UNSHARED_CASES_MAX);
  const baseFields = isShared ? ['att', 'hidden', ...fields] : [];
  // Maps and vectors are needed only by runs that begin from a plain one, and by some metrics.
  const maps = isShared ? undefined : 0;
  const measuring = !isShared && !streaming && rows.every(needsNoRows) && names;
  const comparedReads = comparedNames.map((metric) => ({ metric }));
  const plainFields = [...new Set([...fieldsFor(describe, comparedReads), ...baseFields])];
  const total = sequences.length * cases.length;
  const startTime = performance.now();
  let count = 0;
  const sums: Sums[][] = cases.map(() => thresholds.map(() => new Map()));
  const measureSequence = async (replica: Replica, ids: readonly number[]) => {
    const baseRun =
      comparedNames.length || isShared
        ? await replica.run(ids, { fields: plainFields, capacity: T, maps, signal })
        : undefined;
    const results = [];
    try {
      for (const edits of cases) {
        const from =
          isShared && baseRun && derivedCases.includes(edits) ? { run: baseRun } : undefined;
        const request = { fields, edits, capacity: T, maps, streaming, measuring, from, signal };
        const run = await replica.run(ids, request);
        const readsWithBase = reads.map((read) =>
          comparedNames.includes(read.metric) ? { ...read, base: baseRun } : read,
        );
        results.push(await run.read(readsWithBase).finally(() => run.close()));
        const rate = (1000 * ++count) / (performance.now() - startTime);
        onProgress?.({ stage: 'measure', done: count, total, rate });
      }
    } finally {
      await baseRun?.close();
    }
    return results;
  };
  // Results are added in the order of the sequences: sums must not depend on the workers' speed.
  let sequenceCount = 0;
  for await (const results of spread(model, sequences, measureSequence, { signal })) {
    results.forEach((tensors, caseIndex) => {
      tensors.forEach((tensor, i) =>
        addUp(sums[caseIndex][thresholds.indexOf(reads[i].eps)], reads[i].metric, tensor),
      );
      const byName = Object.fromEntries(names.map((name, i) => [name, tensors[i]]));
      onSequence?.(byName, sequenceCount, caseIndex);
    });
    sequenceCount++;
  }
  return sums.map((sumsByEps) => {
    const [metrics, ...others] = sumsByEps.map((part) => meansOf(part, sequenceCount));
    const atFirst = Object.fromEntries(thresholdNames.map((name) => [name, metrics[name]]));
    const byEps = [atFirst, ...others].map((part, i) => ({ eps: thresholds[i], metrics: part }));
    const isList = Array.isArray(options.eps);
    return { eps, T, sequences: sequenceCount, metrics, ...(isList && { byEps }) };
  });
}

/** Returns what is read of each run: metrics with a threshold again for each further threshold. */
function readsOf(rows: readonly Metric[], [eps, ...furtherThresholds]: readonly number[]) {
  const withThreshold = rows.filter((row) => row.arguments.includes('eps'));
  const thresholdNames = withThreshold.map(({ name }) => name);
  const first = rows.map(({ name }) => ({ metric: name, eps }));
  const further = furtherThresholds.flatMap((threshold) =>
    thresholdNames.map((metric) => ({ metric, eps: threshold })),
  );
  return { thresholdNames, reads: [...first, ...further] };
}

/** Returns the cases that equal the plain run in first tokens or lower layers and begin from it. */
function casesFromPlainRun(describe: Describe, cases: readonly (readonly Edit[])[]) {
  const delayedKinds = new Set(describe.edits.filter((row) => row.waits).map(({ name }) => name));
  const isDelayed = (edit: Edit) => delayedKinds.has(edit?.kind);
  const isAboveLayer0 = (edit: Edit) => typeof edit?.layer === 'number' && edit.layer > 0;
  return cases.filter(
    (edits) => edits.length && (edits.every(isDelayed) || edits.every(isAboveLayer0)),
  );
}

function checkThresholds(eps: number | readonly number[]) {
  const isList = Array.isArray(eps);
  if (!isList) check(eps, 'number', 'eps');
  const thresholds = isList ? eps : [eps as number];
  checkList(thresholds, 'number', 'eps');
  expect(thresholds.length > 0, 'eps', 'one threshold or more', 'none');
  expect(new Set(thresholds).size === thresholds.length, 'eps', 'each threshold once', eps);
  return thresholds;
}

export type Sums = Map<
  string,
  { shape: readonly number[]; sum: Float64Array; squares: Float64Array }
>;

/** Returns a summary's metrics: those of two runs if a case has edits, weights if not shares. */
export function summaryMetrics(
  { describe, architecture }: { describe: Describe; architecture: Pick<Architecture, 'attention'> },
  cases: readonly (readonly Edit[])[],
) {
  const isEdited = cases.some((edits) => edits.length > 0);
  const hasWeights = (edits: readonly Edit[]) =>
    hasShares(operationOf(describe, architecture, edits));
  return describe.metrics.filter((row) =>
    row.name === 'alpha_raw'
      ? cases.some(hasWeights)
      : row.summary && (isEdited || !needsBase(row)),
  );
}

function streamedMetrics({ metrics, fields }: Describe) {
  const streamedFields = fields.filter(({ streamed }) => streamed).map(({ name }) => name);
  const isStreamed = (name: string) => streamedFields.includes(name);
  return metrics.filter(
    (row) => row.fields.length > 0 && row.fields.every(isStreamed) && !needsBase(row),
  );
}

const needsNoRows = ({ accumulated, fields }: Metric) =>
  accumulated || !fields.some((field) => SUMMED_FIELDS.includes(field));

export const needsBase = (row: Metric) => row.arguments.includes('base');

export function meansOf(sums: Sums, n: number) {
  const entries = [...sums].map(([name, { shape, sum, squares }]) => [
    name,
    {
      shape,
      mean: Array.from(sum, (x) => finiteOrNull(x / n)),
      deviation: Array.from(sum, (x, i) => finiteOrNull(deviationOf(x / n, squares[i] / n, n))),
    },
  ]);
  return Object.fromEntries(entries);
}

/** Returns the common length of all sequences: a mean over keys needs the same keys in each. */
export function commonLength(sequences: readonly ArrayLike<number>[]) {
  expect(sequences?.length > 0, 'sequences', 'one sequence or more', sequences?.length);
  const T = sequences[0].length;
  sequences.forEach(({ length }, i) => {
    expect(length === T, `sequences[${i}].length`, `${T}, as of the first`, length);
  });
  return T;
}

export function addUp(sums: Sums, name: string, { shape, data }: Tensor) {
  const entry = sums.get(name) ?? {
    shape,
    sum: new Float64Array(data.length),
    squares: new Float64Array(data.length),
  };
  sums.set(name, entry);
  data.forEach((value, i) => {
    entry.sum[i] += value;
    entry.squares[i] += value * value;
  });
}

/** Returns the standard deviation across sequences, with n - 1; NaN for one sequence. */
const deviationOf = (mean: number, meanSquare: number, n: number) =>
  Math.sqrt((Math.max(0, meanSquare - mean * mean) * n) / (n - 1));

export const finiteOrNull = (x: number) => (Number.isFinite(x) ? x : null);
