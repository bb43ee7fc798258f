/** Measures the checkpoints of a series of recordings, as the lines of a course. */
import type { Checkpoint, Describe } from 'sinkscope';
import { firstTokenWeights, mean, usesRawWeights, type Frame } from '../frame';
import { fileIdOf } from '../ask/recordings';
import { courseOfSeries, type Course } from '../timeline/course';
import { halfInterval } from '../timeline/seeds';
import { meanRowSum, verdictOf } from '../words';
import { recordedFrame } from './recorded_frame';
import type { Recordings } from './recordings';

/** Returns the numbers of one checkpoint by the names of QUANTITIES, without those that were not recorded. */
function measuredOf(frame: Frame): Record<string, number> {
  const { tensors, perPrompt, operation } = frame;
  const numbers = (name: string) => tensors[name]?.data ?? [];
  const sinks = usesRawWeights(frame) ? [] : (perPrompt.sink_ratio ?? []).map((x) => 100 * x);
  const sink = 100 * verdictOf(frame).sink;
  const half = halfInterval(sinks, [-Infinity, Infinity]);
  const measured = {
    sink_1: sink,
    sink_1_low: Math.max(0, sink - half),
    sink_1_high: Math.min(100, sink + half),
    loss: numbers('loss_mean')[0] ?? NaN,
    alpha_max: Math.max(...firstTokenWeights(frame)),
    hidden_ratio: Math.max(...numbers('hidden_ratio')),
    value_ratio: mean(numbers('value_ratio')),
    row_mass_mean: operation.normalizes ? 1 : meanRowSum(frame),
  };
  return Object.fromEntries(Object.entries(measured).filter(([, x]) => Number.isFinite(x)));
}

/** Returns the course of the open series that a frame belongs to, at the frame's ε; undefined for other frames. */
export async function seriesCourse(
  recordings: Recordings,
  describe: Describe,
  { model, question, eps }: Frame,
): Promise<Course | undefined> {
  const id = fileIdOf(model.id);
  const steps = recordings.steps(id);
  const checkpoints: Checkpoint[] = [];
  let last: Frame | undefined;
  for (const step of steps) {
    const stepId = `${id}@${step}`;
    const recording = await recordings.open(stepId);
    try {
      last = await recordedFrame(describe, stepId, stepId, recording, { ...question, eps }, steps);
    } finally {
      await recording.close();
    }
    const measured = measuredOf(last);
    checkpoints.push({ step, bytes: recording.bytes, measured, stored: measured });
  }
  return last && courseOfSeries(id, checkpoints, last);
}
