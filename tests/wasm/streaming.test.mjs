// Runs that hold only the keys and values that an eviction keeps.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { measure } from '../../wasm/index.ts';
import { failure, files, softmax, withEngine } from './helper.mjs';

const ids = Array.from({ length: 700 }, (_, i) => (i * i * 31 + (i >> 3)) % 1024);
const evict = { kind: 'evict', policy: 'h2o', budget: 32, positions: 'cache' };

test('a streaming run far beyond the context has the losses of a run that keeps all keys and values', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(files(softmax));
    const [wholeLosses, streamedLosses] = await Promise.all(
      [false, true].map(async (streaming) => {
        const run = await model.run(ids, { fields: ['loss'], edits: [evict], streaming });
        return (await run.field('loss')).data;
      }),
    );
    assert.ok(model.architecture.context < ids.length);
    assert.deepEqual(streamedLosses, wholeLosses);
    const { metrics, T } = await measure(model, [ids], { edits: [evict], streaming: true });
    assert.equal(T, ids.length);
    assert.deepEqual(Object.keys(metrics).sort(), ['accuracy', 'loss_at', 'loss_mean']);
    assert.ok(Math.abs(metrics.loss_at.mean[500] - wholeLosses[500]) < 1e-12);
  });
});

test('the memory of a streaming run is known in advance, and grows by 12 bytes with each token', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(files(softmax));
    const bytes = (n, streaming = true) =>
      model.runBytes(n, { fields: ['loss'], edits: [evict], capacity: n, streaming });
    assert.equal((await bytes(12288)) - (await bytes(8192)), 12 * 4096);
    assert.ok((await bytes(4096)) < 2 ** 22 && (await bytes(4096, false)) > 2 ** 24);
    const lengthError = await failure(model.runBytes(4096));
    assert.deepEqual([lengthError.code, lengthError.where], ['argument', 'tokens.length']);
  });
});

test('fields that a streaming run does not store are rejected by name', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(files(softmax));
    const shortIds = ids.slice(0, 100);
    const assertRefused = async (options, where) => {
      const allOptions = { edits: [evict], streaming: true, ...options };
      const error = await failure(model.run(shortIds, allOptions));
      assert.deepEqual([error.code, error.where], ['bad_request', where]);
    };
    await assertRefused({ fields: ['att'] }, 'att');
    await assertRefused({ edits: [{ kind: 'silence', layer: 0 }] }, 'streams');
    await assertRefused({ edits: [{ ...evict, layer: 1 }] }, 'streams');
    const run = await model.run(ids, { edits: [evict], streaming: true, capacity: 702 });
    assert.equal((await failure(run.field('k'))).where, 'k');
    assert.equal((await failure(run.metric('key_norm'))).where, 'key_norm');
    for await (const { position } of run.generate({ count: 2, seed: 1 }))
      assert.ok(position >= ids.length);
  });
});
