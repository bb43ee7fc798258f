// Checks that threads with one shared memory give the bits of one thread, even after a failure.
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { createRequire, syncBuiltinESMExports } from 'node:module';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { binaries, failure, files, golden, goldenModels, randomModel } from './helper.mjs';
import { readSafetensors } from './helper.mjs';

// The engine does not expose its threads; the test looks at what Node.js starts.
const node = createRequire(import.meta.url)('node:worker_threads');
const startedWorkers = [];
node.Worker = class extends node.Worker {
  constructor(address, ...otherArgs) {
    super(address, ...otherArgs);
    if (String(address).endsWith('/thread.ts')) startedWorkers.push(this);
  }
};
syncBuiltinESMExports();
const { createEngine } = await import('../../wasm/index.ts');
const { loadModule } = await import('../../wasm/engine/load_module.ts');
const { ThreadPool } = await import('../../wasm/engine/thread_pool.ts');
const { Backend } = await import('../../wasm/engine/backend.ts');
const { QUIET_JOB } = await import('../../wasm/engine/job.ts');

/** A model large enough for threads to pay off. */
const large = randomModel({ L: 2, D: 512, F: 2048, V: 2048, context: 512 });
const ids = Array.from({ length: 200 }, (_, i) => (i * 37) % 2048);

/** Opens a backend whose threads share every product, however small. */
async function openBackend(threads) {
  const module = await loadModule(new URL('sinkscope.threads.wasm', binaries), true);
  return new Backend(module, () => {}, new ThreadPool(module, threads, 0));
}

/**
 * Returns the bits of numbers, with one pattern for every NaN: the compiler of the host decides which bits a
 * NaN has.
 */
function bitsOf(data) {
  data.forEach((x, i) => {
    if (Number.isNaN(x)) data[i] = NaN;
  });
  return Buffer.from(data.buffer);
}

async function fieldsOf(backend, folder, tokens) {
  const { config, weights } = files(folder);
  const { model, architecture } = await backend.open(QUIET_JOB, { config, weights: [weights] });
  const { fields, metrics } = await backend.describe();
  const known = fields.filter(({ needs }) => !needs || architecture[needs]);
  const names = known.map(({ name }) => name);
  const capacity = tokens.length;
  const run = await backend.run(QUIET_JOB, model, tokens, { fields: names, capacity });
  const argumentValues = { eps: 0.3, tokens: capacity, layer: 0, head: 0 };
  const metricReads = metrics
    .filter((row) => !row.arguments.includes('base'))
    .map(({ name, arguments: argumentNames }) => ({
      metric: name,
      ...Object.fromEntries(argumentNames.map((key) => [key, argumentValues[key]])),
    }));
  const reads = [...names.map((field) => ({ field })), ...metricReads];
  const read = await backend.read(run, reads);
  await backend.closeModel(model);
  return Object.fromEntries(
    read.map(({ data }, i) => [reads[i].field ?? reads[i].metric, bitsOf(data)]),
  );
}

test('three threads give the bits of the binary without threads, in every golden', async () => {
  const base = new Backend(await loadModule(new URL('sinkscope.wasm', binaries)), () => {});
  const shared = await openBackend(3);
  for (const folder of goldenModels()) {
    const tokens = Int32Array.from(
      readSafetensors(new URL('golden.safetensors', folder)).tokens.data,
    );
    const expected = await fieldsOf(base, folder, tokens);
    const actual = await fieldsOf(shared, folder, tokens);
    for (const [name, bytes] of Object.entries(expected))
      assert.ok(bytes.equals(actual[name]), `${folder.pathname.split('/').at(-2)}, ${name}`);
  }
  assert.equal(startedWorkers.length, 2);
  await shared.end();
});

test('an engine with threads gives the bits of one without', async () => {
  const memorySizes = [];
  for (const threads of [1, 2]) {
    const engine = await createEngine({ base: binaries, worker: true, threads, workers: 1 });
    const model = await engine.open(large);
    const run = await model.run(ids, { capacity: 210 });
    for await (const _ of run.generate({ count: 5 }));
    const alpha = await run.metric('alpha', { tokens: ids.length });
    memorySizes.push([alpha, await run.field('att'), [...run.tokens]]);
    // This model makes the memory grow while threads use it.
    const secondModel = await engine.open(large);
    assert.deepEqual(await (await secondModel.run(ids)).metric('alpha'), alpha);
    await engine.close();
  }
  assert.deepEqual(memorySizes[1], memorySizes[0]);
});

test('a small model starts no threads, and closing the engine ends the threads of a large one', async () => {
  const count = startedWorkers.length;
  const engine = await createEngine({ base: binaries, worker: false, threads: 3 });
  const gguf = await engine.open(files(new URL('gguf-gpt2-plain-f16/', golden)));
  assert.equal(await gguf.metadata('general.architecture'), 'gpt2');
  assert.equal(startedWorkers.length, count);
  await engine.open(large);
  await engine.open(large);
  assert.equal(startedWorkers.length, count + 2);
  const exits = startedWorkers.slice(count).map((thread) => once(thread, 'exit'));
  await engine.close();
  await Promise.all(exits);
});

test('no threads are started by default', async () => {
  const count = startedWorkers.length;
  for (const options of [{}, { threads: 1 }]) {
    const engine = await createEngine({ base: binaries, worker: false, ...options });
    await engine.open(large);
    await engine.close();
  }
  assert.equal(startedWorkers.length, count);
});

test('a run with several threads is stopped like any other', async () => {
  const engine = await createEngine({ base: binaries, worker: false, threads: 2 });
  const model = await engine.open(large);
  const before = await (await model.run(ids)).field('att');
  const signal = AbortSignal.timeout(1);
  await assert.rejects(model.run(Array(512).fill(7), { signal }), { name: 'TimeoutError' });
  assert.deepEqual(await (await model.run(ids)).field('att'), before);
  await engine.close();
});

test('a thread that ends is reported as lost, and the next run has the same bits', async () => {
  const codes = [];
  const onLost = ({ code }) => codes.push(code);
  const engine = await createEngine({ base: binaries, worker: false, threads: 2, onLost });
  const model = await engine.open(large);
  const run = await model.run(ids);
  const before = await run.field('att');
  await startedWorkers.at(-1).terminate();
  const error = await failure(run.field('att'));
  assert.deepEqual([error.code, error.where], ['lost', 'thread']);
  assert.match(error.text, /exit code 1/);
  assert.deepEqual(codes, ['lost']);
  assert.deepEqual(await run.field('att'), before);
  await engine.close();
});

test('without the binary for threads, the model runs on one thread', async () => {
  const count = startedWorkers.length;
  const folder = mkdtempSync(join(tmpdir(), 'sinkscope-'));
  copyFileSync(new URL('sinkscope.wasm', binaries), join(folder, 'sinkscope.wasm'));
  try {
    const engine = await createEngine({ worker: false, threads: 2, base: pathToFileURL(folder) });
    const model = await engine.open(large);
    assert.equal((await model.run([1, 2, 3])).tokens.length, 3);
    await engine.close();
  } finally {
    rmSync(folder, { recursive: true });
  }
  assert.equal(startedWorkers.length, count);
  for (const threads of [0, 17, 1.5])
    await assert.rejects(createEngine({ threads }), { code: 'argument', where: 'threads' });
});
