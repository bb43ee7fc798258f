// Tests a study over a pool of workers: the same numbers for any pool, in order, stopped when asked.
import { availableParallelism } from 'node:os';
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { measure, spread } from '../../wasm/index.ts';
import { failure, files, softmax, withEngine } from './helper.mjs';

const sequences = Array.from({ length: 12 }, (_, i) =>
  Array.from({ length: 24 }, (_, t) => (7 * i + 31 * t) % 900),
);

const resolveLater = (value, ms) => new Promise((resolve) => setTimeout(resolve, ms, value));

const modelOfReplicas = (n) => ({ replicas: Array.from({ length: n }, (_, i) => `replica ${i}`) });

test('a study gives the same bits for any number of workers', { timeout: 120_000 }, async () => {
  const results = [];
  for (const options of [{ worker: false }, { workers: 1 }, { workers: 2 }, { workers: 3 }]) {
    await withEngine({ worker: true, ...options }, async (engine) => {
      const model = await engine.open(files(softmax));
      const indices = [];
      const positions = [];
      const bytes = await engine.memory();
      const result = await measure(model, sequences, {
        onSequence: (_, i) => indices.push(i),
        onProgress: (progress) => positions.push(progress.done),
      });
      assert.deepEqual(indices, [...sequences.keys()]);
      assert.deepEqual(
        positions,
        indices.map((i) => i + 1),
      );
      const replicas = options.workers ?? 1;
      assert.equal(model.replicas.length, replicas);
      assert.ok(replicas === 1 || (await engine.memory()) > 1.5 * bytes, 'others were at work');
      results.push(result);
      await model.close();
      const closed = await failure(model.replicas.at(-1).run([1]));
      assert.deepEqual([closed.code, closed.where], ['closed', 'model']);
    });
  }
  for (const otherResult of results) assert.deepEqual(otherResult, results[0]);
});

test('a study uses all cores but one, or both of two cores, unless the caller sets the number of workers', async () => {
  const cores = availableParallelism();
  const defaultCount = cores > 2 ? cores - 1 : cores;
  for (const [options, expectedCount] of [
    [{}, Math.min(defaultCount, 64)],
    [{ workers: 3 }, 3],
  ])
    await withEngine({ worker: true, ...options }, async (engine) => {
      const model = await engine.open(files(softmax));
      assert.equal(model.replicas.length, expectedCount);
      const rates = [];
      await measure(model, sequences, { onProgress: ({ rate }) => rates.push(rate) });
      assert.equal(rates.length, sequences.length);
      assert.ok(
        rates.every((rate) => rate > 0 && Number.isFinite(rate)),
        String(rates),
      );
    });
});

test('results have the order of the items, whichever worker is faster', async () => {
  const items = [30, 1, 20, 1, 1, 10, 1, 1, 1];
  const replicas = new Set();
  const values = [];
  const work = async (replica, ms, i) => {
    replicas.add(replica);
    return resolveLater(i, ms);
  };
  for await (const i of spread(modelOfReplicas(3), items, work)) values.push(i);
  assert.deepEqual(values, [...items.keys()]);
  assert.equal(replicas.size, 3);
  for await (const _ of spread(modelOfReplicas(2), [], work)) assert.fail('there is nothing');
  for await (const replica of spread({ name: 'alone' }, [0], async (replica) => replica))
    assert.deepEqual(replica, { name: 'alone' });
});

test('each item goes to a replica with the fewest items, whatever order they end in', async () => {
  const model = modelOfReplicas(2);
  const loads = Object.fromEntries(model.replicas.map((replica) => [replica, 0]));
  const ends = [];
  const work = (replica, item) => {
    assert.equal(loads[replica], Math.min(...Object.values(loads)), `item ${item}`);
    loads[replica]++;
    return new Promise((resolve) => {
      ends[item] = () => resolve(loads[replica]--);
    });
  };
  const results = spread(model, [...Array(12).keys()], work);
  const first = results.next();
  // Both replicas become idle, one after the other, since the results wait for a reader.
  for (const item of [0, 2, 1, 3, 4, 5, 6, 7]) {
    ends[item]();
    await resolveLater(0, 1);
  }
  await first;
  for (let i = 1; i < 4; i++) await results.next();
  assert.deepEqual(Object.values(loads), [2, 1]);
  for (const end of ends.slice(8)) end();
  await results.return();
});

test('a failure in one replica ends the whole study, at its place', async () => {
  const values = [];
  const work = async (replica, item) => {
    await resolveLater(0, item);
    if (item === 3) throw new Error('three');
    return item;
  };
  await assert.rejects(async () => {
    for await (const item of spread(modelOfReplicas(2), [9, 1, 3, 1, 1, 3], work))
      values.push(item);
  }, /three/);
  assert.deepEqual(values, [9, 1]);
});

test('a study that has ended, failed or stopped leaves no listener at its signal', async () => {
  const { signal } = new AbortController();
  const options = { signal };
  const work = async (_, item) => {
    if (item < 0) throw new Error('below 0');
    return item;
  };
  for await (const _ of spread(modelOfReplicas(2), [1, 2, 3], work, options));
  await assert.rejects(spread(modelOfReplicas(2), [-1], work, options).next(), /below 0/);
  const results = spread(modelOfReplicas(2), [1, 2, 3], work, options);
  await results.next();
  assert.equal(getEventListeners(signal, 'abort').length, 1);
  await results.return();
  assert.equal(getEventListeners(signal, 'abort').length, 0);
});

test('results that are there already are not given after an abort, and nothing more begins', async () => {
  const stop = new AbortController();
  const begun = [];
  const work = async (_, item) => begun.push(item);
  const results = spread(modelOfReplicas(1), [...Array(9).keys()], work, stop);
  await results.next();
  await resolveLater(0, 5);
  stop.abort(new Error('enough'));
  await assert.rejects(results.next(), /enough/);
  const count = begun.length;
  assert.ok(count < 9);

  // An item that ends after the study frees its replica for no other item.
  const ends = [];
  const held = (_, item) => new Promise((end) => ends.push(() => end(begun.push(item))));
  const study = spread(modelOfReplicas(1), [...Array(9).keys()], held, {});
  const first = study.next();
  ends[0]();
  await first;
  await study.return();
  const heldCount = ends.length;
  for (const end of [...ends]) end();
  await resolveLater(0, 5);
  assert.equal(ends.length, heldCount);
});
