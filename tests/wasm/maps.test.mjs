// Tests maps that are computed on demand: JavaScript gets the same numbers as from stored maps.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { failure, files, tiny, withEngine } from './helper.mjs';

const ids = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8];
const T = ids.length;

const metricsOf = ({ metrics }, fields) =>
  metrics
    .filter((row) => row.fields.every((name) => fields.includes(name)))
    .filter((row) => !row.arguments.some((name) => ['base', 'layer', 'head'].includes(name)))
    .map(({ name }) => ({ metric: name }));

test('a measuring run gives the numbers of a run that stores maps in less memory, and rejects reads of rows', async (t) => {
  await withEngine({ worker: false }, async (engine) => {
    const model = await engine.open(files(tiny));
    const { L, H, G, K, D } = model.architecture;
    const fields = ['att', 'q', 'seen', 'out_norm', 'hidden'];
    const wholeRun = await model.run(ids, { fields, maps: 0 });
    const sums = await model.run(ids, { fields, measuring: true });
    const { metrics } = engine.describe;
    const rows = metrics.filter((row) => !row.accumulated && row.fields.includes('hidden'));
    assert.ok(rows.some(({ name }) => name === 'massive'));
    const reads = metricsOf(engine.describe, fields).filter(
      ({ metric }) => !rows.some(({ name }) => name === metric),
    );
    for (const textIds of [ids, ids.slice(0, 5), [...ids, 4]]) {
      await wholeRun.update(textIds);
      await sums.update(textIds);
      assert.deepEqual(await sums.read(reads), await wholeRun.read(reads));
    }
    const { text: sentence } = await failure(sums.field('q'));
    t.assert.snapshot(sentence);
    assert.equal((await failure(sums.field('att', { layer: 0, head: 0 }))).where, 'att');
    assert.equal((await failure(sums.metric('qk_dot', { layer: 0, head: 0 }))).where, 'qk_dot');
    assert.equal((await failure(sums.metric('alpha', { tokens: 3 }))).where, 'alpha');
    assert.equal((await failure(model.run(ids, { measuring: 1 }))).where, 'measuring');
    for (const field of ['k', 'v', 'hidden'])
      assert.equal((await failure(sums.field(field))).where, field);
    assert.match(
      (await failure(sums.generate({ count: 1, temperature: 0 }).next())).text,
      /^expected all tokens at once, since a run that measures keeps no keys, but 13 are there already$/,
    );
    const bytes = (measuring) => model.runBytes(16, { fields, capacity: 16, maps: 0, measuring });
    // The run still keeps the keys and values of one layer, and the norms and spectra of all layers.
    const vectors = (H * L + 2 * G * (L - 1)) * K - 2 * G * L + (L + 1) * (D - 1);
    const savedBytes = (await bytes(false)) - (await bytes(true));
    assert.equal(savedBytes, 64 * vectors - 64);
    assert.equal((await bytes(['hidden_norm'])) + savedBytes, (await bytes(false)) - 64);
    const entropyRun = await model.run(ids, { fields, measuring: ['matrix_entropy'] });
    await sums.update(ids);
    assert.deepEqual(
      await entropyRun.metric('matrix_entropy'),
      await sums.metric('matrix_entropy'),
    );
    const normRun = await model.run(ids, { fields, measuring: ['hidden_norm'] });
    assert.equal((await failure(normRun.metric('matrix_entropy'))).where, 'matrix_entropy');
  });
});

test('single rows are read from every field with rows, and rejected for other fields', async () => {
  await withEngine({ worker: false }, async (engine) => {
    const model = await engine.open(files(tiny));
    const run = await model.run(ids);
    const hidden = await run.field('hidden');
    const [states, , D] = hidden.shape;
    const middleRows = await run.field('hidden', { rows: [2, 5] });
    assert.deepEqual(middleRows.shape, [states, 3, D]);
    const row = (s, t) => [...hidden.data.subarray((s * T + t) * D, (s * T + t + 1) * D)];
    assert.deepEqual(
      [...middleRows.data],
      Array.from({ length: states }, (_, s) => [2, 3, 4].flatMap((t) => row(s, t))).flat(),
    );
    assert.deepEqual([...(await run.field('tokens', { rows: [1, 3] })).data], ids.slice(1, 3));
    for (const [where, place] of [
      [{ rows: [0, T + 1] }, 'rows[1]'],
      [{ rows: [4, 3] }, 'rows[1]'],
      [{ rows: [-1, 3] }, 'rows[0]'],
      [{ rows: 3 }, 'rows'],
      [{ block: 0 }, 'block'],
      [{ block: T + 1 }, 'block'],
      [{ block: 2, rows: [0, 4] }, 'rows'],
    ])
      assert.equal((await failure(run.field('att', where))).where, place);
    assert.equal((await failure(run.field('next', { rows: [0, 1] }))).where, 'next');
    assert.equal((await failure(run.field('hidden', { block: 2 }))).code, 'bad_request');
    assert.equal((await failure(model.run(ids, { maps: -1 }))).where, 'maps');
  });
});
