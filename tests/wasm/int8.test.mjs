// Tests models in eight bits: their numbers are approximate, and exact models in the same engine are unchanged.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { measure } from '../../wasm/index.ts';
import { failure, files, root, softmax, withEngine } from './helper.mjs';

const tokens = [0, 17, 392, 5, 5, 81, 900, 3];
const logits = async (model, ids = tokens) =>
  (await model.run(ids, { fields: ['logits'] })).field('logits');

for (const worker of [false, true])
  test(`two arithmetics run side by side, ${worker ? 'in workers' : 'in this thread'}`, async () => {
    await withEngine({ worker, workers: 2 }, async (engine) => {
      const exactModel = await engine.open(files(softmax));
      const before = await logits(exactModel);
      const exactBytes = await engine.memory();
      const int8Model = await engine.open(files(softmax), { arithmetic: 'int8' });
      assert.deepEqual([exactModel.arithmetic, int8Model.arithmetic], ['exact', 'int8']);
      assert.ok((await engine.memory()) > exactBytes, 'what it takes is counted');
      const int8Logits = await logits(int8Model);
      const gaps = int8Logits.data.map((x, i) => Math.abs(x - before.data[i]));
      const largestGap = gaps.reduce((a, b) => Math.max(a, b));
      assert.ok(largestGap > 1e-3 && largestGap < 1.5, `logits off by ${largestGap}`);
      assert.deepEqual(
        (await logits(exactModel)).data,
        before.data,
        'exact numbers stay as they are',
      );
      await exactModel.close();
      assert.deepEqual((await logits(int8Model)).data, int8Logits.data);
    });
  });

test('an engine that trains opens approximate models with their own binary', async () => {
  await withEngine({ lab: true }, async (engine) => {
    const [exactModel, int8Model] = [
      await engine.open(files(softmax)),
      await engine.open(files(softmax), { arithmetic: 'int8' }),
    ];
    assert.notDeepEqual((await logits(int8Model)).data, (await logits(exactModel)).data);
  });
});

test('an arithmetic that the host did not support can be requested again', async (t) => {
  await withEngine({}, async (engine) => {
    const openInt8 = () => engine.open(files(softmax), { arithmetic: 'int8' });
    const lacks = t.mock.method(WebAssembly, 'validate', () => false);
    assert.equal((await failure(openInt8())).code, 'unsupported');
    lacks.mock.restore();
    assert.equal((await openInt8()).arithmetic, 'int8');
  });
});

test('token-by-token runs and runs in other workers have the same bits', async () => {
  await withEngine({ worker: true, workers: 2 }, async (engine) => {
    const model = await engine.open(files(softmax), { arithmetic: 'int8' });
    const run = await model.run(tokens, { fields: ['logits'] });
    for await (const step of run.generate({ count: 4 })) assert.ok(step.token >= 0);
    const wholeLogits = await logits(model, run.tokens);
    assert.deepEqual((await run.field('logits')).data, wholeLogits.data);
    const [, replica] = model.replicas;
    assert.deepEqual((await logits(replica, run.tokens)).data, wholeLogits.data);
    const sequences = [0, 1, 2, 3].map((i) => tokens.map((id) => (id + i) % 1000));
    const { metrics } = await measure(model, sequences);
    const singleResult = await measure(
      { ...withoutReplicas(model), replicas: [withoutReplicas(model)] },
      sequences,
    );
    assert.deepEqual(metrics, singleResult.metrics);
  });
});

/** Returns a model without replicas, so that a study runs only in the first worker. */
const withoutReplicas = (model) => ({
  architecture: model.architecture,
  describe: model.describe,
  run: (...args) => model.run(...args),
});

test('operations that eight bits do not support are rejected', async () => {
  await withEngine({}, async (engine) => {
    const arithmeticError = await failure(engine.open(files(softmax), { arithmetic: 'int4' }));
    assert.deepEqual([arithmeticError.code, arithmeticError.where], ['argument', 'arithmetic']);
    const model = await engine.open(files(softmax), { arithmetic: 'int8' });
    for (const edit of [
      { kind: 'quantize', what: 'weights', bits: 4, by: 'tensor' },
      { kind: 'scale_weight', matrix: 'down', layer: 0, row: 1, column: 2, factor: 0 },
    ]) {
      const { code, text } = await failure(model.run(tokens, { edits: [edit] }));
      assert.equal(code, 'unsupported');
      assert.match(text, /expected exact arithmetic/);
    }
    const edits = [{ kind: 'quantize', what: 'hidden', bits: 4 }];
    await (await model.run(tokens, { edits })).close();
  });
  await withEngine({ kernels: 'base' }, async (engine) => {
    const error = await failure(engine.open(files(softmax), { arithmetic: 'int8' }));
    assert.deepEqual([error.code, error.where], ['unsupported', 'arithmetic']);
    assert.ok((await engine.memory()) > 0);
    await (await engine.open(files(softmax))).close();
  });
});

const folder = mkdtempSync(join(tmpdir(), 'sinkscope-eight-'));
after(() => rmSync(folder, { recursive: true }));

test('the command line says that its numbers are approximate', async () => {
  const texts = JSON.parse(readFileSync(new URL('models/zoo/heldout.json', root), 'utf8'));
  const text = join(folder, 'text.txt');
  writeFileSync(text, texts.slice(0, 8).join('\n'));
  const cli = fileURLToPath(new URL('wasm/cli.js', root));
  const args = ['measure', fileURLToPath(softmax), '--text-file', text, '--sequences', '4'];
  const runMeasure = async (...more) =>
    (await promisify(execFile)(process.execPath, [cli, ...args, ...more])).stdout;
  assert.match(await runMeasure('--arithmetic', 'int8'), /\napproximate: products in 8 bits\n/);
  assert.match(await runMeasure('--arithmetic', 'relaxed'), /\nrelaxed: fused multiply-add, /);
  assert.doesNotMatch(await runMeasure(), /approximate|relaxed/);
  const [exactResult, int8Result] = await Promise.all(
    ['exact', 'int8'].map(async (arithmetic) =>
      JSON.parse(await runMeasure('--arithmetic', arithmetic, '--json')),
    ),
  );
  assert.deepEqual([exactResult.arithmetic, int8Result.arithmetic], ['exact', 'int8']);
  assert.notEqual(exactResult.loss, int8Result.loss);
  assert.ok(Math.abs(exactResult.loss - int8Result.loss) < 0.05);
});
