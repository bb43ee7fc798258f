/**
 * The effect of each head, the change of the loss without it, takes a run for each head over the same prompts. Views read
 * it by its name, like the metrics of describe; the queue takes it after the numbers of a single run are shown.
 */
import { headEffects } from 'sinkscope/internal';
import type { Frame } from '../frame';
import { averagesOf } from './averages';
import type { OpenModel, Watch } from './opened';

export const EFFECT = 'effect';

/** Ablates each head, and returns the frame's numbers with the effects. */
export async function withEffect(
  { tensors, spread, title, edits, ids }: Frame,
  { model }: OpenModel,
  { signal, onProgress }: Watch,
): Promise<Pick<Frame, 'tensors' | 'spread'>> {
  const effect = await headEffects(model, ids, {
    edits,
    signal,
    onProgress: ({ done, total }) =>
      onProgress(`${title}, ${done} of ${total} heads ablated`, done, total),
  });
  signal.throwIfAborted();
  const averages = averagesOf({ [EFFECT]: effect });
  return {
    tensors: { ...tensors, ...averages.tensors },
    spread: { ...spread, ...averages.spread },
  };
}
