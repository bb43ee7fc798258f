// Tests measuring over sequences: the cutting of texts, the numbers of each sequence, and runs under an edit.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { judge, measure } from '../../wasm/index.ts';
import { fieldsFor, leastTokens } from '../../wasm/internal.ts';
import { failure, files, tiny, withEngine } from './helper.mjs';

test('two runs can be compared only if model, number of tokens and fields agree', async () => {
  await withEngine({}, async (engine) => {
    const [model, otherModel] = [await engine.open(files(tiny)), await engine.open(files(tiny))];
    const run = await model.run([1, 2, 3], { fields: ['logits'] });
    const assertRefused = async (base, code, where) => {
      const { code: actualCode, where: actualWhere } = await failure(
        run.metric('kl_mean', { base }),
      );
      assert.deepEqual([actualCode, actualWhere], [code, where]);
    };
    await assertRefused(
      await otherModel.run([1, 2, 3], { fields: ['logits'] }),
      'argument',
      'base',
    );
    await assertRefused({}, 'argument', 'base');
    await assertRefused(undefined, 'bad_request', 'kl_mean');
    await assertRefused(await model.run([1, 2], { fields: ['logits'] }), 'bad_request', 'kl_mean');
    await assertRefused(await model.run([1, 2, 3], { fields: ['loss'] }), 'bad_request', 'kl_mean');
    const closed = await model.run([1, 2, 3], { fields: ['logits'] });
    await closed.close();
    await assertRefused(closed, 'closed', 'run');
    assert.deepEqual([...(await run.metric('kl_mean', { base: run })).data], [0]);
  });
});

test('every metric can be read from the fields that are recorded for it, and the caller can choose the metrics', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(files(tiny));
    const { describe } = engine;
    for (const { name: metric, averaged } of describe.metrics) {
      const reads = [{ metric, layer: 0, head: 0 }];
      const run = await model.run([1, 2, 3], { fields: fieldsFor(describe, reads) });
      await run.read(reads.map((read) => ({ ...read, base: run })));
      if (!averaged) continue;
      const { metrics } = await measure(model, [[1, 2, 3]], { metrics: [metric] });
      assert.deepEqual(Object.keys(metrics), [metric]);
    }
    assert.deepEqual(fieldsFor(describe, [{ metric: 'alpha' }, { field: 'logits' }]), [
      'att',
      'logits',
    ]);
    assert.throws(() => fieldsFor(describe, [{ metric: 'beta' }]), { where: 'metric' });
  });
});

test('heads are counted only where uniform attention alone is at most eps', () => {
  const known = { eps: 0.3, sink: 0.4, sinkRaw: 0.1, normalizes: true };
  for (const [even, conclusive] of [
    [0.1, true],
    [0.16, true],
    [0.3, true],
    [0.3001, false],
    [1, false],
  ])
    assert.equal(judge({ ...known, even }).conclusive, conclusive, `uniform attention ${even}`);
  assert.deepEqual(judge({ ...known, even: 0.1 }), {
    sink: 0.4,
    sinkByShares: 0.4,
    of: 'weights',
    even: 0.1,
    conclusive: true,
    least: leastTokens(0.3),
  });
  // If rows need not sum to 1, attention is the weight; the count of shares is a second number.
  const unnormalized = { ...known, even: 0.1, normalizes: false };
  const { sink, sinkByShares } = judge(unnormalized);
  assert.deepEqual([sink, sinkByShares], [0.1, 0.4]);
});
