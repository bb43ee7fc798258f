/** Measures how well a model in training predicts held-out text. */
import { check, checkList } from '../abi/arguments.ts';
import { expect } from '../abi/errors.ts';
import type { Training } from './types.ts';

/**
 * Returns the mean loss of the current weights over held-out sequences, in nats. While a model is
 * fine-tuned on another text, a rise of this loss measures forgetting.
 * @param sequences each at most as long as the recipe's `length`
 * @example const loss = await heldLoss(training, await cutText(tokenizer, old, { tokens: 64, sequences: 16 }));
 */
export async function heldLoss(
  training: Training,
  sequences: readonly ArrayLike<number>[],
): Promise<number> {
  check(training, 'training', 'training');
  checkList(sequences, 'list', 'sequences');
  expect(sequences.length > 0, 'sequences', 'one sequence or more', 'none');
  let sum = 0;
  for (const ids of sequences) {
    const [loss] = await training.read(ids, [{ metric: 'loss_mean' }]);
    sum += loss.data[0];
  }
  return sum / sequences.length;
}
