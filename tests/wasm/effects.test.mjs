// Runs that begin from others, the effects of ablating heads that they measure, and the heads' labels.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { headEffects, labelHead } from '../../wasm/internal.ts';
import { failure, files, golden, readSafetensors, softmax, withEngine } from './helper.mjs';

test('effects are those of the reference, at any number of workers', async () => {
  const expected = readSafetensors(new URL('effect-llama/effect.safetensors', golden));
  const tokens = [...expected.tokens.data];
  for (const [workers, n] of [
    [1, 2],
    [2, 2],
    [2, 1],
    [3, 2],
  ])
    await withEngine({ workers }, async (engine) => {
      const model = await engine.open(files(new URL('var-unequal/', golden)));
      const steps = [];
      const onProgress = ({ done, total }) => steps.push([done, total]);
      const { shape, mean, deviation } = await headEffects(model, Array(n).fill(tokens), {
        onProgress,
      });
      const { L, H } = model.architecture;
      assert.deepEqual(shape, [L, H]);
      mean.forEach((x, i) => assert.ok(Math.abs(x - expected.effect.data[i]) < 2e-5));
      assert.ok(deviation.every((x) => (n > 1 ? x < 1e-6 : x === null)));
      assert.deepEqual(steps.at(-1), [n * L * H, n * L * H]);
    });
});

test('a run can begin only from one of the same model that has recorded the needed fields', async () => {
  await withEngine({}, async (engine) => {
    const [model, otherModel] = [
      await engine.open(files(softmax)),
      await engine.open(files(softmax)),
    ];
    const base = await model.run([1, 2, 3], { fields: ['hidden', 'loss'] });
    const assertRefused = async (options, code, where) => {
      const { code: actualCode, where: actualWhere } = await failure(model.run([1, 2, 3], options));
      assert.deepEqual([actualCode, actualWhere], [code, where]);
    };
    await assertRefused({ from: { run: {}, layer: 1 } }, 'argument', 'from.run');
    await assertRefused({ from: { run: base, layer: -1 } }, 'argument', 'from.layer');
    await assertRefused({ from: { run: base, layer: 99 } }, 'argument', 'from.layer');
    await assertRefused(
      { from: { run: await otherModel.run([1, 2, 3]), layer: 1 } },
      'argument',
      'from.run',
    );
    await assertRefused({ fields: ['att'], from: { run: base, layer: 1 } }, 'bad_request', 'from');
    const shortRunError = await failure(
      model.run([1, 2], { fields: ['loss'], from: { run: base, layer: 1 } }),
    );
    assert.equal(shortRunError.code, 'bad_request');
    const run = await model.run([1, 2, 3], { fields: ['loss'], from: { run: base, layer: 1 } });
    const [before] = await base.read([{ field: 'loss' }]);
    await base.close();
    assert.deepEqual((await run.field('loss')).data.slice(1), before.data.slice(1));
  });
});

test('a head is labeled by where it attends, how much it mixes, and its effect', () => {
  const known = { eps: 0.3, share: 0.9, contribution: 0.1 };
  assert.deepEqual(labelHead(known), { label: 'no-op', dormant: undefined });
  assert.deepEqual(labelHead({ ...known, effect: -0.002 }), { label: 'no-op', dormant: true });
  assert.deepEqual(labelHead({ ...known, effect: -0.02 }), { label: 'no-op', dormant: false });
  assert.equal(labelHead({ ...known, effect: 0.01 }).dormant, false);
  assert.deepEqual(labelHead({ ...known, contribution: 0.5, effect: 0.2 }), {
    label: 'broadcast',
    dormant: false,
  });
  assert.deepEqual(labelHead({ ...known, share: 0.3, effect: 0 }), {
    label: 'active',
    dormant: false,
  });
});
