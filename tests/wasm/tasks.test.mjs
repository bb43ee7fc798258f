// Tests tasks with the first key hidden: the reference's numbers, the prompts, the refusals, the command line.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { openTokenizer } from '../../wasm/index.ts';
import { copyTask, measureTask, recallTask, textTask } from '../../wasm/internal.ts';
import {
  failure,
  files,
  golden,
  near,
  root,
  runCli,
  softmax,
  withEngine,
  withModelOf,
} from './helper.mjs';

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

test('edits apply in every condition of a task', () =>
  withModel(async (model) => {
    const task = { name: 'next', prompts: nextTask.given, chance: 0 };
    const result = await measureTask(model, task, { edits: [{ kind: 'hide_key', key: 0 }] });
    near(result.baseline.loss.mean, nextTask.unseen.loss.mean, 'the first key hidden beforehand');
    assert.equal(result.unseen.loss.change.mean, 0);
    assert.equal(result.first.loss.change.mean, 0);
  }));

test('the control key is drawn with seed 0 by default', () =>
  withModel(async (model) => {
    const task = { name: 'next', prompts: nextTask.given, chance: 0 };
    const results = await Promise.all(
      [undefined, 0, 1].map((seed) => measureTask(model, task, { seed: seed })),
    );
    assert.deepEqual(results[0], results[1]);
    assert.notDeepEqual(results[0].other, results[2].other);
  }));

test('one prompt has no standard error', () =>
  withModel(async (model) => {
    const { baseline } = await measureTask(model, {
      ...nextTask,
      prompts: nextTask.given.slice(0, 1),
    });
    assert.deepEqual([baseline.accuracy.error, baseline.loss.change.error], [null, null]);
  }));

test('the copy task repeats distinct allowed tokens, after a start token', async () => {
  const { prompts, chance } = await copyTask(40, {
    never: [0, 1],
    length: 7,
    prompts: 30,
    seed: 2,
  });
  assert.equal(chance, 1 / 7);
  for (const { ids, from } of prompts) {
    assert.equal(from, 9);
    const [front, ...copied] = ids;
    assert.deepEqual(copied.slice(0, 7), copied.slice(7));
    assert.equal(new Set([front, ...copied]).size, 8);
    assert.ok(ids.every((id) => id > 1 && id < 40));
  }
  assert.equal(new Set(prompts.map(({ ids }) => ids.join())).size, 30);
});

test('the recall task states and requests a name, whose first token is the answer', async () => {
  const names = ['Mary', 'Tom', 'Martha', 'Rose'];
  const nearTask = await recallTask(tokenizer, { between: 0, prompts: 12, names });
  const farTask = await recallTask(tokenizer, { between: 3, prompts: 12, names });
  assert.ok(farTask.distance > nearTask.distance + 20);
  const firstIdOf = (name) => tokenizer.encode(` ${name}`, { special: 'none' })[0].id;
  // Of names that begin with the same token, the first counts.
  const firstIds = [...new Set(names.map(firstIdOf))];
  assert.ok(firstIds.length >= 2 && firstIds.length < 4);
  assert.equal(farTask.chance, 1 / firstIds.length);
  farTask.prompts.forEach(({ ids, from, choices, needs, lost }, i) => {
    assert.deepEqual(choices, firstIds);
    assert.equal(ids.length, from + 1);
    assert.equal(ids[from], firstIds[i % firstIds.length]);
    const name = names.find((name) => firstIdOf(name) === ids[from]);
    assert.equal(lost, Math.min(Math.max(...needs) + 1, from - 1));
    assert.equal(tokenizer.decode(needs.map((key) => ids[key])).trim(), name);
    const text = tokenizer.decode(ids.slice(0, from));
    assert.match(
      text,
      new RegExp(`^[^.]+\\. My friend's name is ${name}\\..*My friend's name is$`),
    );
    assert.equal(text.split('.').length, 6);
  });
});

test('invalid tasks are rejected with their place', () =>
  withModel(async (model) => {
    const { V, context } = model.architecture;
    const goodPrompt = { ids: [0, 5, 6, 7], from: 3 };
    for (const [change, where] of [
      [{ ids: [1, 2, 3] }, 'ids.length'],
      [{ ids: Array(context + 1).fill(5) }, 'ids.length'],
      [{ ids: [0, 5, 6, V] }, 'ids[3]'],
      [{ from: 2 }, 'from'],
      [{ from: 4 }, 'from'],
      [{ lost: 1 }, 'lost'],
      [{ lost: 3 }, 'lost'],
      [{ needs: [1] }, 'needs'],
      [{ ids: [0, 5, 6, 7, 8], choices: [8] }, 'from'],
      [{ from: 3, choices: [5, 6] }, 'choices'],
      [{ from: 3, choices: [7, V] }, 'choices[1]'],
    ]) {
      const prompts = [goodPrompt, { ...goodPrompt, ...change }];
      const error = await failure(measureTask(model, { name: 'x', prompts, chance: 0 }));
      assert.deepEqual([error.code, error.where], ['argument', `task.prompts[1].${where}`]);
    }
    const emptyError = await failure(measureTask(model, { name: 'x', prompts: [], chance: 0 }));
    assert.equal(emptyError.where, 'task.prompts');
    assert.equal((await failure(copyTask(8, { length: 8 }))).where, 'length');
    assert.equal(await recallTask(tokenizer, { names: ['Mary', 'Mary'] }), undefined);
    assert.equal((await failure(textTask([]))).where, 'sequences');
    const signal = AbortSignal.abort(new Error('stopped'));
    const task = { name: 'x', prompts: [goodPrompt], chance: 0 };
    await assert.rejects(measureTask(model, task, { signal }), /^Error: stopped$/);
  }));

test('next-token tasks are rejected for a masked model', () =>
  withEngine({}, async (engine) => {
    const model = await engine.open(files(new URL('var-bidirectional/', golden)));
    const task = { name: 'x', prompts: [{ ids: [0, 5, 6, 7], from: 3 }], chance: 0 };
    assert.equal((await failure(measureTask(model, task))).where, 'model');
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
  const result = JSON.parse(stdout);
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
