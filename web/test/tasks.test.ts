import type { TaskResult, TaskScores } from 'sinkscope';
import { describe, expect, it } from 'vitest';
import { suffix } from '../src/views/suffix';
import { sentence, tasks } from '../src/views/tasks';
import { frameOf } from './fixture';

const score = (mean: number, change = 0, error: number | null = 0.02) => ({
  mean,
  error,
  change: { mean: change, error },
});
const scoresOf = (
  accuracy: ReturnType<typeof score>,
  choice?: ReturnType<typeof score>,
): TaskScores => ({ accuracy, loss: score(3), choice: choice ?? null });
const nextToken: TaskResult = {
  name: 'next',
  prompts: 24,
  predicted: 768,
  chance: 0.042,
  can: true,
  baseline: scoresOf(score(0.3)),
  first: scoresOf(score(0.2, -0.1)),
  other: scoresOf(score(0.29, -0.01)),
  unseen: scoresOf(score(0.4, 0.1)),
};

describe('the sentence about tasks', () => {
  it('compares evicting the first key with evicting another', () => {
    expect(sentence([nextToken])).toMatchSnapshot();
  });

  it('omits evictions if the model cannot do the task', () => {
    const copying = { ...nextToken, name: 'copy', can: false, baseline: scoresOf(score(0, 0, 0)) };
    expect(sentence([copying])).toMatchSnapshot();
  });

  it('states for the recall task how often the right name is chosen, and its distance', () => {
    const recall = {
      ...nextToken,
      name: 'recall',
      distance: 27.2,
      baseline: scoresOf(score(0.1), score(0.9)),
      first: scoresOf(score(0.1), score(1, 0.1)),
      other: scoresOf(score(0.1), score(0.9)),
      unseen: scoresOf(score(0.1), score(0.9)),
    };
    expect(sentence([recall])).toMatchSnapshot();
  });

  it('calls no change clear that is based on one prompt', () => {
    const withoutError = (mean: number, change: number) => scoresOf(score(mean, change, null));
    const singlePrompt = {
      ...nextToken,
      prompts: 1,
      baseline: withoutError(0.5, 0),
      first: withoutError(0, -0.5),
      other: withoutError(0.5, 0),
    };
    expect(sentence([singlePrompt])).toContain('(1 prompt): accuracy is 50.0%, by');
    expect([sentence([singlePrompt]), sentence([singlePrompt])]).toMatchSnapshot();
  });
});

describe.each([
  ['tasks', tasks, 4],
  ['a suffix search', suffix, 3],
])('the view of %s', (_, view, tooFew) => {
  const frameWith = (change: object) =>
    frameOf({
      T: 8,
      architecture: { ...frameOf().architecture, mask: { kind: 'causal' } },
      ...change,
    });

  it('applies to texts with two halves of causal models that can be run', () => {
    const architecture = { ...frameOf().architecture, mask: { kind: 'bidirectional' } };
    const changes = [{}, { T: tooFew }, { recording: {} }, { architecture }];
    expect(changes.map((change) => view.fits!(frameWith(change)))).toEqual([
      true,
      false,
      false,
      false,
    ]);
  });

  it('has no numbers before a measurement', () => {
    expect(view.numbers(frameWith({}), { layer: 0, head: 0 })).toEqual([]);
  });
});
