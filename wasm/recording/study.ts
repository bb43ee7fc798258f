/** Records a study of many prompts, and compares two recordings. */
import { JOB_OPTIONS, check, checkList, checkOptions } from '../abi/arguments.ts';
import { expect, expectInteger, rowNamed } from '../abi/errors.ts';
import { fieldsFor, measure } from '../study/measure.ts';
import {
  RECORD_OPTIONS,
  conditionsOf,
  encode,
  addPrompt,
  commonFirst,
  hashIds,
  selectFields,
  makeFileTensor,
  putMeans,
} from './write.ts';
import type { Tensor, Describe, Bytes } from '../abi/types.ts';
import type { StudyOptions, Recording, Difference } from './types.ts';
import type { FileTensors } from './write.ts';
import type { StudyModel } from '../study/types.ts';
import type { Recordable, Conditions } from '../engine/types.ts';

/** Lists what a recording averages: meaningful means without a second run, `standard` fields. */
function averagedMetrics({ metrics, fields }: Describe) {
  const standardFields = fields
    .filter((row) => row.standard || row.averaged)
    .map(({ name }) => name);
  return metrics
    .filter((row) => row.averaged && !row.arguments.includes('base'))
    .filter((row) => row.fields.every((name) => standardFields.includes(name)))
    .map(({ name }) => name);
}

/** Summarizes one prompt: Sink_1 at each threshold, mean alpha_1 over heads, mean loss. */
function summarizePrompt(
  { alpha, loss_mean: loss }: Readonly<Record<string, Tensor>>,
  eps: readonly number[],
) {
  const [L, H, T] = alpha.shape;
  const firstAlphas = Array.from({ length: L * H }, (_, i) => alpha.data[i * T]);
  const sinkShare = (unroundedThreshold: number) => {
    const threshold = Math.fround(unroundedThreshold);
    if (firstAlphas.some(Number.isNaN)) return NaN;
    return firstAlphas.filter((x) => x > threshold).length / firstAlphas.length;
  };
  const sum = firstAlphas.reduce((a, b) => a + b, 0);
  return { sinks: eps.map(sinkShare), alpha: sum / firstAlphas.length, loss: loss?.data[0] ?? NaN };
}

/**
 * Runs every sequence and returns the bytes of a recording: the means and deviations of `measure`,
 * a row for each sequence, and fields of the first ones.
 * @example
 * const bytes = await recordStudy(model, sequences, { keep: 2, eps: [0.1, 0.2, 0.3] });
 * const recording = await engine.openRecording(bytes);
 */
export async function recordStudy(
  model: StudyModel & Recordable,
  sequences: readonly (readonly number[])[],
  options: StudyOptions = {},
): Promise<Bytes> {
  check(model, 'model', 'model');
  checkList(sequences, 'list', 'sequences');
  checkOptions(options, { ...JOB_OPTIONS, ...RECORD_OPTIONS, metrics: 'list', edits: 'list' });
  const { describe } = model;
  const {
    edits = [],
    eps = [describe.defaults.eps],
    keep: promptsKept = 1,
    half = true,
    signal,
    onProgress,
  } = options;
  expectInteger(promptsKept, 0, sequences.length, 'keep');
  const metrics = [...new Set(['alpha', ...(options.metrics ?? averagedMetrics(describe))])];
  const rows: ReturnType<typeof summarizePrompt>[] = [];
  const measurement = await measure(model, sequences, {
    metrics,
    eps,
    edits,
    signal,
    onProgress,
    onSequence: (tensors) => void rows.push(summarizePrompt(tensors, eps)),
  });
  const fileTensors: FileTensors = new Map();
  const byEps = (measurement.byEps ?? []).slice(1).map((result) => result.metrics);
  putMeans(fileTensors, describe, [measurement.metrics, ...byEps]);
  // An edit changes which keys a query sees, so the visible keys are recorded too.
  const extraFields = edits.length > 0 ? ['seen'] : [];
  const selection = selectFields(model, {
    ...options,
    fields: [...(options.fields ?? ['att']), ...extraFields],
  });
  const fields = fieldsFor(describe, [
    ...[...selection.fields, ...selection.smallFields].map((field) => ({ field })),
    ...selection.exactMetrics.map((metric) => ({ metric })),
  ]);
  for (let i = 0; i < promptsKept; i++) {
    const run = await model.run(sequences[i], { fields, edits, signal });
    await addPrompt(fileTensors, i, run, selection, half).finally(() => run.close());
  }
  const count = rows.length;
  const values = {
    sink_1: rows.flatMap(({ sinks }) => sinks),
    alpha_1: rows.map(({ alpha }) => alpha),
    loss: rows.map(({ loss }) => loss),
  };
  for (const [name, data] of Object.entries(values)) {
    const shape = name === 'sink_1' ? [count, eps.length] : [count];
    fileTensors.set(`prompt.${name}`, makeFileTensor({ shape, data }));
  }
  const ids = sequences.slice(0, promptsKept).map((list) => [...list]);
  const prompts = { ids, firstId: commonFirst(sequences), idsSha256: await hashIds(sequences) };
  const isCounterfactual = edits.some(
    ({ kind }) => rowNamed(describe.edits, kind, 'edit').counterfactual,
  );
  const recordOptions = isCounterfactual ? { class: 'COUNTERFACTUAL', ...options } : options;
  return encode(
    fileTensors,
    conditionsOf(model, recordOptions, { ...prompts, count, T: measurement.T, eps, edits }),
  );
}

/**
 * Compares all tensors that both recordings have. Two numbers count as equal if they differ by at
 * most `tolerance`, or by `tolerance` times the larger magnitude if that exceeds 1, beside what a
 * tensor in half precision lost when it was written. An undefined number equals only an undefined one.
 */
export async function compareRecordings(
  a: Recording,
  b: Recording,
  options: { readonly tolerance?: number } = {},
): Promise<{
  readonly differences: readonly Difference[];
  readonly compared: readonly string[];
  readonly onlyA: readonly string[];
  readonly onlyB: readonly string[];
}> {
  check(a, 'recording', 'a');
  check(b, 'recording', 'b');
  checkOptions(options, { tolerance: 'number' });
  const { tolerance = 0 } = options;
  expect(tolerance >= 0, 'tolerance', '0 or more', tolerance);
  const differences: Difference[] = [];
  for (const [name, valueA, valueB] of listComparedConditions(a.conditions, b.conditions))
    if (JSON.stringify(valueA) !== JSON.stringify(valueB))
      differences.push({ name, a: valueA, b: valueB });
  const [tensorsA, tensorsB] = [a.tensors, b.tensors];
  const sharedNames = [...tensorsA.keys()].filter((name) => tensorsB.has(name)).sort();
  for (const name of sharedNames) {
    const [x, y] = [await a.tensor(name), await b.tensor(name)];
    const [shapeA, shapeB] = [x.shape, y.shape].map((shape) => shape.filter((n) => n !== 1).join());
    if (shapeA !== shapeB) differences.push({ name, a: [...x.shape], b: [...y.shape] });
    else {
      const halves = [tensorsA, tensorsB].filter((tensors) => tensors.get(name)?.dtype === 'F16');
      differences.push(...findLargestDifference(name, x, y, tolerance, halves.length));
    }
  }
  const namesOnlyIn = (
    tensors: ReadonlyMap<string, unknown>,
    otherTensors: ReadonlyMap<string, unknown>,
  ) => [...tensors.keys()].filter((name) => !otherTensors.has(name)).sort();
  return {
    differences,
    compared: sharedNames,
    onlyA: namesOnlyIn(tensorsA, tensorsB),
    onlyB: namesOnlyIn(tensorsB, tensorsA),
  };
}

/** Lists the conditions of comparable numbers, as [name, value of a, value of b]. */
function listComparedConditions(a: Conditions, b: Conditions): [string, unknown, unknown][] {
  const modelKeys = ['L', 'blocks', 'layers', 'H', 'G', 'operation'] as const;
  return [
    ...modelKeys.map((key) => [key, a.model[key], b.model[key]] as [string, unknown, unknown]),
    ['first position', a.first.position, b.first.position],
    ['T', a.prompts.T, b.prompts.T],
    ['count', a.prompts.count, b.prompts.count],
    ['eps', a.eps, b.eps],
    ['edits', labelsOf(a), labelsOf(b)],
  ];
}

const labelsOf = ({ edits }: Conditions) => edits.map(({ label }) => label);

/** The most that rounding a number to half precision changes it: a share of it, or of the smallest. */
const [HALF_ROUNDING, HALF_SMALLEST] = [2 ** -11, 2 ** -25];

/**
 * Finds the largest difference and counts all beyond the tolerance, undefined from finite.
 * `halves` of the two tensors were written in half precision.
 */
function findLargestDifference(
  name: string,
  a: Tensor,
  b: Tensor,
  tolerance: number,
  halves: number,
) {
  let [worst, count] = [0, 0];
  let worstIndex: number | undefined;
  a.data.forEach((x, i) => {
    const y = b.data[i];
    if (x === y || (Number.isNaN(x) && Number.isNaN(y))) return;
    const gap = Math.abs(x - y);
    const isFiniteGap = Number.isFinite(gap);
    const larger = Math.max(Math.abs(x), Math.abs(y));
    // Norms and activations are large, so their tolerance is relative.
    const allowed =
      tolerance * Math.max(1, larger) + halves * (HALF_ROUNDING * larger + HALF_SMALLEST);
    if (isFiniteGap && gap <= allowed) return;
    const size = isFiniteGap ? gap : Infinity;
    count++;
    if (size > worst) [worst, worstIndex] = [size, i];
  });
  if (worstIndex === undefined) return [];
  const index = unravelIndex(worstIndex, a.shape);
  return [
    {
      name,
      index,
      a: a.data[worstIndex],
      b: b.data[worstIndex],
      difference: worst,
      count,
      of: a.data.length,
    },
  ];
}

function unravelIndex(flatIndex: number, shape: readonly number[]) {
  const index = [...shape];
  for (let i = shape.length; i-- > 0; flatIndex = Math.floor(flatIndex / shape[i]))
    index[i] = flatIndex % shape[i];
  return index;
}
