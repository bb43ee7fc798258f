// Tests a search for a suffix: its result, its controls, and its refusals.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { searchSuffix } from '../../wasm/internal.ts';
import { golden, near, withModelOf } from './helper.mjs';

const known = JSON.parse(readFileSync(new URL('suffix/golden.json', golden), 'utf8'));
const { cases, never, length, steps, width } = known;
const pairOf = ([prompt, continuation]) => ({ prompt, continuation });
const pair = { prompt: known.prompt, continuation: known.continuation };
const otherPairs = known.others.map(pairOf);

const withModel = (use, options) => withModelOf(new URL(`${known.model}/`, golden), use, options);

for (const { goal, seed, ...expected } of cases)
  for (const workers of [1, 2])
    test(`a search with the goal ${goal} finds the suffix of the reference, with ${workers} workers`, () =>
      withModel(
        async (model) => {
          const stepCalls = [];
          const onStep = (step, i) => stepCalls.push([i, step]);
          const options = { goal, seed, length, steps, width, never, others: otherPairs, onStep };
          const result = await searchSuffix(model, pair, options);
          near(result, expected, goal);
          assert.deepEqual(
            stepCalls,
            result.path.map((step, i) => [i, step]),
          );
        },
        { workers },
      ));

test('a search of zero steps returns the random suffix from which longer searches start', () =>
  withModel(async (model) => {
    const options = { goal: 'loss', seed: 1, length, width, never };
    const resultWithoutSteps = await searchSuffix(model, pair, { ...options, steps: 0 });
    assert.equal(resultWithoutSteps.score, resultWithoutSteps.start);
    assert.deepEqual(
      [resultWithoutSteps.path, resultWithoutSteps.evaluated, resultWithoutSteps.others],
      [[], 1, null],
    );
    const resultOfTwoSteps = await searchSuffix(model, pair, { ...options, steps: 2 });
    assert.equal(resultOfTwoSteps.start, resultWithoutSteps.start);
    assert.ok(
      resultOfTwoSteps.path[0].score >= resultOfTwoSteps.start &&
        resultOfTwoSteps.path[1].score >= resultOfTwoSteps.path[0].score,
    );
  }));

test('the edits apply to every run', () =>
  withModel(async (model) => {
    const edits = [{ kind: 'hide_key', key: 0 }];
    const options = { goal: 'away', seed: 1, length, steps: 1, width: 2, never, edits };
    const result = await searchSuffix(model, pair, options);
    assert.equal(Math.abs(result.score) + Math.abs(result.none), 0);
  }));

test('only allowed tokens are used', () =>
  withModel(async (model) => {
    const { V } = model.architecture;
    const allowedIds = [3, 17];
    const neverIds = Array.from({ length: V }, (_, id) => id).filter(
      (id) => !allowedIds.includes(id),
    );
    const options = { goal: 'loss', length, steps: 2, width, never: neverIds };
    const { path } = await searchSuffix(model, pair, options);
    for (const { suffix } of path) assert.ok(suffix.every((id) => allowedIds.includes(id)));
  }));
