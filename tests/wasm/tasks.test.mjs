// Tests tasks with the first key hidden: the reference's numbers, the prompts, the refusals, the command line.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { openTokenizer } from '../../wasm/index.ts';
import { copyTask, measureTask, recallTask, textTask } from '../../wasm/internal.ts';
import { files, golden, near, root, runCli, softmax, withEngine, withModelOf } from './helper.mjs';

const known = JSON.parse(readFileSync(new URL('tasks/golden.json', golden), 'utf8'));
const { seed, first, never, length } = known;
const [nextTask, copy, recall] = known.tasks;
const tokenizer = openTokenizer(readFileSync(new URL('tokenizer.json', softmax), 'utf8'));
const path = (name) => fileURLToPath(new URL(name, root));

const withModel = (use, options) => withModelOf(new URL(`${known.model}/`, golden), use, options);

for (const workers of [1, 2])
  test(`accuracies, losses and choices are the reference's, with ${workers} workers`, () =>
    withModel(
      async (model) => {
        const { V } = model.architecture;
        const copyResult = await copyTask(V, { first, never, length, prompts: copy.prompts, seed });
        assert.deepEqual(copyResult.prompts, copy.given);
        assert.equal(copyResult.chance, copy.chance);
        const texts = await textTask(nextTask.given.map(({ ids }) => ids));
        assert.deepEqual(texts.prompts, nextTask.given);
        near(texts.chance, nextTask.chance, 'chance');
        const recallPrompts = { name: 'recall', prompts: recall.given, chance: recall.chance };
        for (const [task, { given: _, ...expected }] of [
          [texts, nextTask],
          [copyResult, copy],
          [recallPrompts, recall],
        ]) {
          const progresses = [];
          const onProgress = ({ done, total }) => progresses.push([done, total]);
          near(await measureTask(model, task, { seed, onProgress }), expected, task.name);
          const total = 4 * expected.prompts;
          assert.deepEqual(
            progresses,
            Array.from({ length: total }, (_, i) => [i + 1, total]),
          );
        }
      },
      { workers },
    ));

test('the control key is drawn with seed 0 by default', () =>
  withModel(async (model) => {
    const task = { name: 'next', prompts: nextTask.given, chance: 0 };
    const results = await Promise.all(
      [undefined, 0, 1].map((seed) => measureTask(model, task, { seed: seed })),
    );
    assert.deepEqual(results[0], results[1]);
    assert.notDeepEqual(results[0].other, results[2].other);
  }));

const run = (...args) => runCli('tasks', ...args);
const cliArgs = [
  path('models/zoo/softmax'),
  ...['--text-file', path('models/zoo/heldout.json'), '--lines', '--tokens', '24'],
  ...['--sequences', '4', '--copied', '6', '--between', '1', '--prompts', '4', '--seed', '3'],
];

test('the command line measures the three tasks', async () => {
  const { status, stdout, stderr } = await run(...cliArgs, '--json');
  assert.deepEqual([status, stderr], [0, '']);
  const { cut, T, ...result } = JSON.parse(stdout);
  assert.deepEqual([cut.asked, cut.sequences, T], [4, 4, 24]);
  const texts = JSON.parse(readFileSync(path('models/zoo/heldout.json'), 'utf8')).slice(0, 4);
  const sequences = texts.map((text) =>
    tokenizer
      .encode(text)
      .slice(0, 24)
      .map(({ id }) => id),
  );
  await withEngine({}, async (engine) => {
    const model = await engine.open(files(softmax));
    const taskOptions = { first: [0], never: tokenizer.special, length: 6, prompts: 4, seed: 3 };
    const tasks = [];
    for (const task of [
      await textTask(sequences),
      await copyTask(model.architecture.V, taskOptions),
      await recallTask(tokenizer, { between: 1, prompts: 4 }),
    ])
      tasks.push(await measureTask(model, task, { seed: 3 }));
    assert.deepEqual(result, {
      measured_by: `Sinkscope ${engine.describe.version}`,
      model: 'softmax',
      edits: [],
      tasks,
    });
  });
  const { stdout: text } = await run(...cliArgs);
  const percent = (100 * result.tasks[0].baseline.accuracy.mean).toFixed(1);
  assert.match(
    text,
    new RegExp(
      `^  every key +${percent}% ± .*${result.tasks[0].baseline.loss.mean.toFixed(3)}$`,
      'm',
    ),
  );
  assert.match(text, /^copy of random tokens: 20 tokens .*cannot do this task$/m);
});

test('the command line reports impossible tasks', async (t) => {
  const { status, stderr } = await run(...cliArgs, '--between', 'x');
  assert.equal(status, 1);
  t.assert.snapshot(stderr.trim());
});
