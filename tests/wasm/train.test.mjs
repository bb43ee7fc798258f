// The lab: the same bits in both builds, a sink that emerges or does not, a file that opens, bad input.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import {
  LAB_MODEL,
  createEngine,
  labConfig,
  labOnward,
  openTimeline,
  openTokenizer,
} from '../../wasm/index.js';
import { root } from './helper.mjs';

const cli = fileURLToPath(new URL('wasm/cli.js', root));
const folder = mkdtempSync(join(tmpdir(), 'sinkscope-train-'));
const SMALL = { width: 16, inner: 32, vocabulary: 24, context: 16 };
const RECIPE = { batch: 8, length: 16, triggers: 3, steps: 6 };

let engine;
before(async () => (engine = await createEngine({ lab: true, worker: false })));
after(async () => {
  await engine.close();
  rmSync(folder, { recursive: true });
});

const hash = (bytes) => createHash('sha256').update(bytes).digest('hex');

/** Log and weights after some steps, with the given kernels. */
async function trained(kernels, config, recipe, options = {}) {
  const own = await createEngine({ kernels, lab: true, worker: false });
  const training = await own.train({ config, recipe, ...options });
  const log = await training.step(recipe.steps);
  log.push(await training.look());
  const weights = await training.weights();
  await training.close();
  await own.close();
  return { log, weights };
}

for (const choices of [
  {},
  {
    operation: 'sigmoid_log_n',
    positions: 'rotary',
    norm: 'rms',
    feed_forward: 'gated',
    activation: 'silu',
  },
  { operation: 'sink_logit', gate: 'output_element', bias_key: 'head', heads: 2 },
]) {
  test(`both builds train ${JSON.stringify(choices)} to the same bits`, async () => {
    const config = labConfig({ ...SMALL, ...choices });
    const [base, simd] = await Promise.all(
      ['base', 'simd'].map((kernels) => trained(kernels, config, RECIPE)),
    );
    assert.deepEqual(base.log, simd.log);
    assert.equal(hash(base.weights), hash(simd.weights));
    assert.ok(base.log.at(-1).loss < base.log[0].loss);
  });
}

test('what was trained opens as any other model, and a training can go on from it', async () => {
  const config = labConfig(SMALL);
  const { log, weights } = await trained('auto', config, RECIPE);
  const model = await engine.open({ config: JSON.stringify(config), weights });
  const run = await model.run([0, 5, 6, 7], { fields: ['att'] });
  const { shape } = await run.field('att');
  assert.deepEqual(shape, [1, 1, 4, 4]);
  await model.close();
  const again = await engine.train({ config, recipe: RECIPE, begin: weights });
  const entry = await again.look();
  assert.ok(entry.loss < log[0].loss);
  await again.close();
  await assert.rejects(again.look(), { code: 'closed' });
});

for (const worker of [true, false]) {
  test(`workers that share a training have the bits of one, ${worker ? 'aside' : 'here'}`, async () => {
    const config = labConfig(SMALL);
    const { log, weights } = await trained('auto', config, RECIPE);
    for (const workers of [2, 3, 4]) {
      const own = await createEngine({ lab: true, worker, workers });
      const training = await own.train({ config, recipe: RECIPE, workers });
      const [looked] = await Promise.all([training.look(), training.sample()]);
      assert.equal(looked.loss, log[0].loss);
      const steps = await training.step(2);
      // What is asked in between waits for its turn.
      const [more, at] = await Promise.all([training.step(4), training.look()]);
      assert.ok(Number.isFinite(at.loss));
      assert.deepEqual([...steps, ...more, await training.look()], log);
      assert.equal(hash(await training.weights()), hash(weights));
      await training.close();
      await own.close();
    }
  });
}

test('what explodes in a shared training ends as it does in one worker; a closed one is closed', async () => {
  const own = await createEngine({ lab: true, workers: 2 });
  const config = labConfig({ ...SMALL, operation: 'identity' });
  const recipe = { ...RECIPE, optimiser: 'sgd', learning_rate: 1e25 };
  const training = await own.train({ config, recipe, workers: 2 });
  await assert.rejects(training.step(50), { code: 'diverged', message: /step \d+/ });
  assert.ok(Number.isFinite((await training.look()).loss));
  await training.close();
  await assert.rejects(training.step(), { code: 'closed' });
  await assert.rejects(own.train({ config, recipe, workers: 5 }), { code: 'argument' });
  await own.close();
});

test('a text trains a model; one that is too short is refused with the number', async () => {
  const config = labConfig(SMALL);
  const recipe = { task: 'text', batch: 4, length: 16, steps: 20 };
  const text = Array.from({ length: 300 }, (_, i) => (i * 7) % 24);
  const { log } = await trained('auto', config, { ...recipe, learning_rate: 0.02 }, { text });
  assert.ok(log.at(-1).loss < log[0].loss - 1);
  assert.equal(log[0].loss_triggers, null);
  await assert.rejects(engine.train({ config, recipe, text: text.slice(0, 15) }), {
    code: 'bad_config',
    message: /at least 16 tokens.*found 15/,
  });
});

test('a model of the zoo goes on from where it stands, as another variant too', async () => {
  const relu = new URL('models/zoo/relu/', root); // stored in 8 bits
  const trained = JSON.parse(readFileSync(new URL('config.json', relu), 'utf8'));
  const begin = new Uint8Array(readFileSync(new URL('model.safetensors', relu)));
  const tokens = Array.from({ length: 24 }, (_, t) => (t * 37) % 1000);
  const reads = [{ metric: 'alpha' }, { metric: 'value_ratio' }];
  const model = await engine.open({ config: JSON.stringify(trained), weights: begin });
  for (const operation of ['relu', 'softmax']) {
    const edits = operation === 'relu' ? [] : [{ kind: 'operation', operation }];
    const run = await model.run(tokens, { edits });
    const expected = await run.read(reads);
    const onward = labOnward(trained, { operation }, { batch: 1, length: 16, steps: 2 });
    assert.equal(onward.recipe.first, 0);
    const training = await engine.train({ ...onward, begin, text: tokens });
    const found = await training.read(tokens, reads);
    found.forEach(({ data }, i) =>
      data.forEach((value, j) => assert.ok(Math.abs(value - expected[i].data[j]) < 1e-5)),
    );
    assert.ok(!('quantization_config' in training.config));
    const [{ loss }] = await training.step(2);
    assert.ok(Number.isFinite(loss) && (await training.look()).loss !== loss);
    await training.close();
  }
  await model.close();
  const gated = await engine.train({
    ...labOnward(trained, { bias_key: 'head', gate: 'output_head' }, { batch: 1, length: 16 }),
    begin,
    text: tokens,
  });
  assert.ok(Number.isFinite((await gated.look()).loss));
  await gated.close();
  assert.throws(() => labOnward(trained, { width: '3' }), { code: 'argument', where: 'width' });
  await assert.rejects(engine.train({ ...labOnward(labConfig(SMALL)), begin, text: tokens }), {
    code: 'bad_token',
  });
});

test('only an engine with the trainer trains', async () => {
  const plain = await createEngine({ worker: false });
  assert.equal(plain.describe.training, undefined);
  await assert.rejects(plain.train({ config: labConfig() }), {
    code: 'unsupported',
    message: /lab: true/,
  });
  await plain.close();
});

test('a training tells of what its weights do now, as the model that it would make', async () => {
  const config = labConfig(SMALL);
  const training = await engine.train({ config, recipe: RECIPE });
  await training.step(3);
  const tokens = [0, 5, 1, 7, 9];
  const [map, alpha] = await training.read(tokens, [
    { field: 'att', layer: 0, head: 0 },
    { metric: 'alpha' },
  ]);
  const model = await engine.open({
    config: JSON.stringify(config),
    weights: await training.weights(),
  });
  const run = await model.run(tokens);
  assert.deepEqual(map, await run.field('att', { layer: 0, head: 0 }));
  assert.deepEqual(alpha, await run.metric('alpha'));
  await model.close();
  const [sample, other] = [await training.sample(), await training.sample(1)];
  assert.equal(sample.length, RECIPE.length);
  assert.ok(sample[0] === 0 && sample.slice(1).every((id) => id > 0 && id < SMALL.vocabulary));
  assert.notDeepEqual(sample, other);
  assert.deepEqual(await training.sample(), sample);
  await assert.rejects(training.read([99], []), { code: 'bad_token' });
  const log = await training.step(3);
  const { log: undisturbed } = await trained('auto', config, RECIPE);
  assert.deepEqual(log, undisturbed.slice(3, 6));
  await training.close();
});

test('bad settings are refused with their name; what explodes ends with its step', async () => {
  const config = labConfig(SMALL);
  const refused = [
    [{ length: 17 }, 'too_long', /16/],
    [{ batch: 65536, length: 16, learning: 1 }, 'unsupported', /recipe table/],
    [{ task: 'chess' }, 'unsupported', /backcopy, conditional, text/],
  ];
  for (const [recipe, code, message] of refused)
    await assert.rejects(engine.train({ config, recipe }), { code, message });
  const large = labConfig({ ...SMALL, width: 65536, inner: 1048576, layers: 40 });
  await assert.rejects(engine.train({ config: large, recipe: { length: 16 } }), {
    code: 'no_memory',
  });
  assert.throws(() => labConfig({ depth: 2 }), { code: 'argument' });
  const recipe = { ...RECIPE, optimiser: 'sgd', learning_rate: 1e25 };
  const training = await engine.train({
    config: labConfig({ ...SMALL, operation: 'identity' }),
    recipe,
  });
  await assert.rejects(training.step(50), { code: 'diverged', message: /step \d+/ });
  await assert.rejects(training.step(), { code: 'diverged' });
  assert.ok(Number.isFinite((await training.look()).loss));
  await training.close();
});

test('the command line prints the same digits, and writes what opens', async () => {
  const out = join(folder, 'out');
  const choices = Object.entries({ ...SMALL, ...RECIPE }).flatMap(([k, v]) => [`--${k}`, `${v}`]);
  const { stdout } = await promisify(execFile)(process.execPath, [
    ...[cli, 'train', '--task', 'backcopy', '--operation', 'relu', '--seed', '3', '--every', '2'],
    ...choices,
    ...['--json', '--out', out],
  ]);
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    lines.map(({ step }) => step),
    [0, 2, 4, 6],
  );
  const config = labConfig({ ...SMALL, operation: 'relu' });
  const { log, weights } = await trained('base', config, { ...RECIPE, seed: 3 });
  assert.deepEqual(
    lines,
    log.filter(({ step }) => step % 2 === 0),
  );
  assert.deepEqual(JSON.parse(readFileSync(join(out, 'config.json'), 'utf8')), config);
  assert.equal(hash(readFileSync(join(out, 'model.safetensors'))), hash(weights));
  assert.equal(LAB_MODEL.operation, 'softmax');
});

test('the command line goes on from a folder, with its tokenizer, on a text', async () => {
  const file = join(folder, 'text.txt');
  writeFileSync(file, 'Once there was a king who had a golden ball. '.repeat(4));
  const from = fileURLToPath(new URL('models/zoo/softmax/', root));
  const words = ['--from', from, '--text-file', file, '--operation', 'sigmoid_log_n', '--json'];
  const sizes = ['--batch', '1', '--length', '12', '--steps', '2', '--every', '1'];
  const { stdout } = await promisify(execFile)(process.execPath, [
    cli,
    'train',
    ...words,
    ...sizes,
  ]);
  const log = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    log.map(({ step, learning_rate: rate }) => [step, rate]),
    [0, 1, 2].map((step) => [step, 0.001]),
  );
  assert.ok(log[0].value_ratio < 0.6 && log[2].loss < log[0].loss + 3);
  const at = ['train', '--from', `${from}@1400`, '--text-file', file, ...sizes, '--json'];
  const { stdout: young } = await promisify(execFile)(process.execPath, [cli, ...at]);
  const index = new URL('models/zoo/softmax/timeline/index.json', root);
  const { config, weights: begin } = await (await openTimeline(index)).open(1400);
  const tokenizer = openTokenizer(readFileSync(join(from, 'tokenizer.json'), 'utf8'));
  const ids = tokenizer.encode(readFileSync(file, 'utf8'), { special: 'none' });
  const training = await engine.train({
    ...labOnward(JSON.parse(config), {}, { batch: 1, length: 12, steps: 2 }),
    begin,
    text: Int32Array.from(ids, ({ id }) => id),
  });
  assert.deepEqual(JSON.parse(young.split('\n')[0]), (await training.step())[0]);
  await training.close();
  await assert.rejects(
    promisify(execFile)(process.execPath, [cli, ...at, '--from', `${from}@1401`]),
    /step: expected one of 0, 10, .* got 1401/,
  );
  await assert.rejects(
    promisify(execFile)(process.execPath, [cli, ...at, '--steps', '2x']),
    /--steps: expected a number, got "2x"/,
  );
  writeFileSync(file, 'Short.');
  await assert.rejects(
    promisify(execFile)(process.execPath, [cli, 'train', ...words, ...sizes]),
    /text: expected at least 12 tokens for sequences of 12, found \d/,
  );
});
