/** Implements `measure`, for a model over sequences or for a recording. */
import { expect } from '../abi/errors.ts';
import { commonFirst } from '../recording/write.ts';
import { leastTokens } from '../study/judge.ts';
import { finiteOrNull, measure } from '../study/measure.ts';
import { openModel } from './open.ts';
import { refuse } from './options.ts';
import { readRecording } from './recording.ts';
import { recordingAt } from './recording_at.ts';
import { createStatusLine } from './status_line.ts';
import { parseThresholds, type CommandInput, type Values } from './values.ts';
import type { Describe, Tensor } from '../abi/types.ts';
import type { Edit, Model } from '../engine/types.ts';
import type { Engine } from '../load/types.ts';

export type MeasureResult =
  Awaited<ReturnType<typeof measureModel>> | Awaited<ReturnType<typeof readRecording>>;

/** Measures a model, or returns what a recording stores and refuses options that need a run. */
export async function measureModelOrRecording(
  engine: Engine,
  { names: [name], values, givenOptions }: CommandInput,
) {
  const file = await recordingAt(name);
  if (!file) return measureModel(engine, name, values);
  const recordingOptions = ['eps', 'json', 'csv', 'workers'];
  const otherOptions = Object.keys(givenOptions).filter(
    (option) => !recordingOptions.includes(option),
  );
  refuse(
    givenOptions,
    otherOptions,
    `needs a model, and ${name} is a recording, which prints what it holds`,
  );
  return readRecording(
    engine,
    file,
    values.eps && givenOptions.eps ? parseThresholds(values.eps) : undefined,
  );
}

async function measureModel(engine: Engine, name: string, values: Values) {
  const { describe } = engine;
  const openedModel = await openModel(engine, name, values);
  const { model, tokenizer, sequences, thresholds, edits, cut } = openedModel;
  const eps = thresholds.length > 1 ? thresholds : thresholds[0];
  const options = { eps, edits, streaming: values.streaming === true };
  const isPerPrompt = values['per-prompt'] === true;
  expect(!isPerPrompt || thresholds.length === 1, '--per-prompt', 'one --eps', thresholds.length);
  const byPrompt: { ids: readonly number[]; metrics: ReturnType<typeof plainTensors> }[] = [];
  const statusLine = createStatusLine();
  let lastRate = NaN;
  const result = await measure(model, sequences, {
    ...options,
    onSequence(metrics, i) {
      if (!isPerPrompt) return;
      byPrompt.push({ ids: sequences[i], metrics: plainTensors(metrics) });
    },
    onProgress({ done, total, rate = NaN }) {
      statusLine.show('measuring', `${done} of ${total} sequences`);
      if (done === total) lastRate = rate;
    },
  }).finally(statusLine.end);
  process.stderr.write(speedText(lastRate, model));
  const firstId = commonFirst(sequences);
  const first = firstId === null ? null : tokenizer.piece(firstId);
  const least_tokens = leastTokens(result.eps, model.architecture);
  return {
    model: name,
    class: classOf(edits, describe),
    special: values.ids ? null : values.special,
    first,
    architecture: model.architecture,
    edits,
    cut,
    loss: result.metrics.loss_mean?.mean[0],
    conclusive: result.T >= least_tokens,
    least_tokens,
    ...result,
    byPrompt: isPerPrompt ? byPrompt : undefined,
  };
}

/** Returns tensors as JSON can hold them, with null for undefined numbers. */
function plainTensors(tensors: Readonly<Record<string, Tensor>>) {
  const entries = Object.entries(tensors).map(
    ([name, { shape, data }]) => [name, { shape, values: Array.from(data, finiteOrNull) }] as const,
  );
  return Object.fromEntries(entries);
}

/** Returns a line for stderr on this machine's speed, `rate` in sequences a second: no result. */
export function speedText(rate: number, { replicas: { length } }: Model) {
  const rateText = rate >= 10 ? rate.toFixed(0) : rate.toPrecision(2);
  return `sinkscope: ${rateText} sequences a second, ${length} worker${length > 1 ? 's' : ''}\n`;
}

function classOf(edits: readonly Edit[], describe: Describe) {
  const rows = edits.map(({ kind }) => describe.edits.find(({ name }) => name === kind));
  return rows.some((row) => row?.counterfactual) ? 'counterfactual' : 'measured';
}
