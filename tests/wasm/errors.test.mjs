import { mkdtempSync, openAsBlob, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { createEngine } from '../../wasm/index.ts';
import { binaries, failure, files, tiny, withEngine } from './helper.mjs';

const { config, weights } = files(tiny);
const editConfig = (change) => {
  const value = JSON.parse(config);
  change(value);
  return JSON.stringify(value);
};

/** tests/native/gguf.json, model.json and configs.json have all that the core refuses. */
const brokenFiles = [
  ['no bytes', { weights: weights.subarray(0, 0) }, 'bad_file'],
  ['a truncated file', { weights: weights.subarray(0, weights.length - 1) }, 'bad_file'],
  ['a config that is no JSON', { config: '{' }, 'bad_config'],
  ['another width', { config: editConfig((c) => (c.intermediate_size += 1)) }, 'bad_tensor'],
];

test('broken files give a code, a place and a sentence, and the engine remains usable', async () => {
  for (const worker of [false, true]) {
    await withEngine({ worker }, async (engine) => {
      for (const [description, files, code] of brokenFiles) {
        const error = await failure(engine.open({ config, weights, ...files }));
        assert.equal(error.name, 'SinkscopeError', description);
        assert.equal(error.code, code, description);
        assert.ok(error.where && error.text, description);
      }
      const model = await engine.open({ config, weights });
      await model.run([1, 2, 3]);
    });
  }
});

test('wrong arguments are rejected before the core sees them', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open({ config, weights });
    const { V, context } = model.architecture;
    const edit = (edit) => model.run([1], { edits: [edit] });
    const run = await model.run([1, 2, 3], { capacity: 5 });
    const generate = async (options) => {
      for await (const _ of run.generate(options));
    };
    const cases = [
      [model.run([]), 'tokens.length'],
      [model.run(new Array(context + 1).fill(0)), 'tokens.length'],
      [model.run([1, V]), 'tokens[1]'],
      [model.run([-1]), 'tokens[0]'],
      [model.run([0.5]), 'tokens[0]'],
      [model.run([1, 2], { capacity: 1 }), 'capacity'],
      [model.run([1], { fields: ['attention'] }), 'field'],
      [model.run([1], { edits: { kind: 'mask' } }), 'edits'],
      [edit(null), 'edits[0]'],
      [edit({ kind: 'operation', operation: 'hardmax' }), 'edits[0].operation'],
      [
        edit({ kind: 'operation', operation: 'softmax', parameters: { z: 1 } }),
        'edits[0].parameters.z',
      ],
      [run.field('att', { layer: 99 }), 'layer'],
      [run.field('attention'), 'field'],
      [run.metric('beta'), 'metric'],
      [run.metric('alpha', { tokens: 4 }), 'tokens'],
      [generate({ count: 3 }), 'count'],
      [generate({ count: 1, temperature: -1 }), 'temperature'],
      [generate({ count: 1, topK: 0.5 }), 'topK'],
    ];
    for (const [promise, where] of cases) {
      const error = await failure(promise);
      assert.deepEqual([error.code, error.where], ['argument', where], error.text);
    }
  });
});

test('calls on a closed object are rejected because it is closed', async () => {
  for (const worker of [false, true]) {
    const engine = await createEngine({ base: binaries, worker });
    const model = await engine.open({ config, weights });
    const run = await model.run([1, 2]);
    const otherRun = await model.run([1, 2]);
    await run.close();
    for (const promise of [run.close(), run.field('att')]) {
      assert.deepEqual((await failure(promise)).code, 'closed');
    }
    await model.close();
    for (const promise of [
      model.close(),
      model.run([1]),
      otherRun.field('att'),
      otherRun.close(),
    ]) {
      assert.deepEqual((await failure(promise)).code, 'closed');
    }
    const opening = engine.open({ config, weights });
    await engine.close();
    await engine.close();
    await assert.rejects(engine.open({ config, weights }), { code: 'closed' });
    await assert.rejects(opening, { code: 'closed' });
  }
});

test('a file on a disk that fails while it is read is reported as such', async () => {
  await withEngine({ worker: false }, async (engine) => {
    const folder = mkdtempSync(join(tmpdir(), 'sinkscope-errors-'));
    const path = join(folder, 'my.safetensors');
    writeFileSync(path, weights);
    const file = await openAsBlob(path);
    writeFileSync(path, Buffer.concat([weights, weights]));
    await assert.rejects(engine.open({ config, weights: file }), {
      code: 'read',
      message:
        /^weights: expected a file that can be read to its end, found one that was moved, changed or removed since it was chosen \(/,
    });
    rmSync(folder, { recursive: true });
  });
});
