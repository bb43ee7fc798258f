// Tests the command line's output for people, line by line, with chosen numbers.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { suffixText } from '../../wasm/command/suffix.ts';
import { tasksText } from '../../wasm/command/tasks.ts';
import { unmaskText } from '../../wasm/command/unmask.ts';

const lines = (text) => {
  assert.ok(text.endsWith('\n'));
  return text.slice(0, -1).split('\n');
};

test('each task is printed with its name, its chance and the standard error over prompts', (t) => {
  const score = (mean, error) => ({ mean, error });
  const row = (accuracy, loss, choice = null) => ({
    accuracy: score(accuracy, 0.0125),
    loss: score(loss, 0.1),
    choice: choice === null ? null : score(choice, null),
  });
  const rows = (choice) => ({
    baseline: row(0.5, 2.25, choice),
    first: row(0.25, 3.125, choice),
    other: row(0.375, 2.5, choice),
    unseen: row(0.0625, 4, choice),
  });
  const taskResult = (name, changes) => ({
    name,
    prompts: 9,
    predicted: 90,
    chance: 0.125,
    can: true,
    ...changes,
  });
  t.assert.snapshot(
    lines(
      tasksText({
        model: 'softmax',
        tasks: [
          taskResult('next', rows(null)),
          taskResult('copy', { ...rows(null), can: false }),
          taskResult('recall', { ...rows(0.75), distance: 31.6 }),
        ],
      }),
    ),
  );
});

test('a suffix is printed next to random ones, on its own text and on others', (t) => {
  const result = {
    model: 'softmax',
    goal: 'loss',
    prompt: 12,
    tokens: 31,
    pieces: [' a', '"b'],
    suffix: [7, 8],
    evaluated: 640,
    none: 2.5,
    random: { mean: 2.75, low: 2.625, high: 3, best: 3.25 },
    score: 4.5,
    shuffled: 3.5,
    others: null,
  };
  t.assert.snapshot(lines(suffixText(result)));
  const otherScores = { random: [1, 2], best: [2, 2.5], found: [4, 5] };
  t.assert.snapshot(lines(suffixText({ ...result, others: otherScores })).slice(8));
  // The goal is to lower the weight of the first key, so the score is the negative weight.
  const away = { random: { mean: -0.5, low: -0.75, high: -0.25, best: -0.125 }, score: -0.0625 };
  const weights = lines(
    suffixText({ ...result, ...away, goal: 'away', none: null, shuffled: -0.5 }),
  );
  t.assert.snapshot(weights.slice(2));
});

test('unmasking is printed with the effect of each hidden key, and of a causal model if there is one', (t) => {
  const row = (loss, change, error, accuracy) => ({
    loss: { mean: loss, change: { mean: change, error } },
    accuracy: { mean: accuracy },
  });
  const conditions = {
    baseline: row(2, 0, null, 0.5),
    strongest: row(2.5, 0.5, 0.0625, 0.25),
    random: row(2.125, 0.125, 0.03125, 0.4375),
  };
  const result = {
    model: 'diffusion',
    ...{ prompts: 4, predicted: 120, steps: 8, ...conditions },
    ...{ alpha: { mean: 0.3125 }, moves: { mean: 0.75 }, causal: null },
  };
  t.assert.snapshot(lines(unmaskText(result)));
  const causal = { ...conditions, alpha: { mean: 0.625 } };
  t.assert.snapshot(lines(unmaskText({ ...result, causal_model: 'softmax', causal })).slice(6));
});
