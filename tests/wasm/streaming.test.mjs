// Runs that hold only the keys and values that an eviction keeps.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { measure } from '../../wasm/index.ts';
import { files, softmax, withEngine } from './helper.mjs';

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
