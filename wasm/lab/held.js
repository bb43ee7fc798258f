/** Measures how well a model in training predicts held-out text. */
import { check, checkList } from '../abi/arguments.js';
import { expect } from '../abi/errors.js';

/** @type {typeof import('../sinkscope.js').heldLoss} */
export async function heldLoss(training, sequences) {
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
