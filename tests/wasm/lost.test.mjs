// Tests a worker that ends on its own: calls in progress fail, later ones succeed with the same bits.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { createRequire, syncBuiltinESMExports } from 'node:module';
import { getEventListeners, once } from 'node:events';
import { copyFileSync, mkdtempSync, openAsBlob, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { binaries, failure, files, randomModel, softmax } from './helper.mjs';

// The engine does not expose its worker; the test looks at what Node.js starts.
const threads = createRequire(import.meta.url)('node:worker_threads');
const started = [];
/**
 * Imitates a host that does not report the end of a worker: it refuses the worker's lock, and the answers to some
 * calls never arrive.
 */
const old = { hasLocks: true, lost: [], asked: [] };
threads.Worker = class extends threads.Worker {
  #names = new Map();
  constructor(...args) {
    super(...args);
    started.push(this);
  }
  postMessage(message, ...rest) {
    old.asked.push(message.name);
    this.#names.set(message.id, message.name);
    return super.postMessage(message, ...rest);
  }
  on(event, listen) {
    const hear = (message) => {
      const name = this.#names.get(message.id);
      if (old.lost.includes(name)) return;
      const isRefused = name === 'holdLock' && !old.hasLocks;
      listen(isRefused ? { ...message, value: false } : message);
    };
    return super.on(event, event === 'message' ? hear : listen);
  }
};
syncBuiltinESMExports();
const { createEngine, labConfig, spread } = await import('../../wasm/index.ts');

const ids = [0, 17, 392, 5, 5, 81];

const ENDS = {
  'is ended from outside': [(worker) => worker.terminate(), /exit code 1/],
  'runs into an error': [(worker) => worker.emit('error', new Error('out of heap')), /out of heap/],
  'gets what it cannot read': [
    (worker) => worker.emit('messageerror', new Error('cannot be cloned')),
    /cannot be cloned/,
  ],
};

for (const [how, [end, why]] of Object.entries(ENDS)) {
  test(`a worker that ${how} is noticed, reported, and replaced`, { timeout: 60_000 }, async () => {
    const reported = [];
    const engine = await createEngine({ base: binaries, onLost: (error) => reported.push(error) });
    const model = await engine.open(files(softmax));
    const run = await model.run(ids, { capacity: 16 });
    for await (const _ of run.generate({ count: 3 }));
    const before = await run.read([{ field: 'att' }, { metric: 'alpha' }]);
    const slow = await engine.open(randomModel({ L: 8, D: 256, F: 1024, V: 64, context: 1000 }));
    const pending = failure(slow.run(Array(1000).fill(1)));
    const opening = failure(engine.open(files(softmax)));
    await end(started.at(-1));
    for (const error of [await pending, await opening]) {
      assert.deepEqual([error.name, error.code, error.where], ['SinkscopeError', 'lost', 'worker']);
      assert.match(error.text, why);
    }
    assert.deepEqual(
      reported.map(({ code }) => code),
      ['lost'],
    );
    const count = started.length;
    assert.deepEqual(await run.read([{ field: 'att' }, { metric: 'alpha' }]), before);
    assert.equal(started.length, count + 1);
    assert.equal(run.tokens.length, ids.length + 3);
    const { kind } = model.architecture.mask;
    assert.equal(kind, 'causal');
    await (await model.run(ids)).close();
    await run.close();
    await model.close();
    assert.equal((await failure(run.field('att'))).code, 'closed');
    await engine.close();
    assert.equal(started.length, count + 1);
  });
}

test('where the host cannot report a worker’s end, the worker is lost after a minute without an answer', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  Object.assign(old, { hasLocks: false, asked: [] });
  const reported = [];
  const engine = await createEngine({ base: binaries, onLost: (error) => reported.push(error) });
  t.after(() => {
    Object.assign(old, { hasLocks: true, lost: [] });
    return engine.close();
  });
  const pulses = () => old.asked.filter((name) => name === 'memory').length;
  const beat = async (times) => {
    for (let i = 0; i < times; i++) {
      t.mock.timers.tick(5000);
      await new Promise(setImmediate);
    }
  };
  const model = await engine.open(files(softmax));
  // A worker without pending calls may be silent.
  await beat(20);
  assert.equal(pulses(), 0);

  old.asked = [];
  old.lost = ['run', 'memory'];
  const pending = failure(model.run(ids));
  await new Promise(setImmediate);
  assert.deepEqual(old.asked, ['run']);
  await beat(6);
  assert.equal(pulses(), 6);
  // An answer to the seventh ping starts the minute again.
  old.lost = ['run'];
  const answered = new Promise((done) => started.at(-1).once('message', done));
  await beat(1);
  await answered;
  await new Promise(setImmediate);
  old.lost = ['run', 'memory'];
  await beat(12);
  assert.equal(pulses(), 19);
  assert.deepEqual(reported, []);
  await beat(1);
  const error = await pending;
  assert.deepEqual([error.code, error.where], ['lost', 'worker']);
  assert.match(error.text, /has not answered for 60 s/);
  assert.deepEqual(
    reported.map(({ code }) => code),
    ['lost'],
  );

  old.lost = [];
  await (await model.run(ids)).close();
  await beat(3);
  assert.equal(pulses(), 19);
});

/** Opens an engine with mocked timers: seconds pass singly, and answers arrive in between. */
async function openTimed(t) {
  t.mock.timers.enable({ apis: ['setInterval', 'setTimeout'] });
  const reported = [];
  const engine = await createEngine({ base: binaries, onLost: (error) => reported.push(error) });
  t.after(() => {
    Object.assign(old, { lost: [] });
    return engine.close();
  });
  const seconds = async (count) => {
    for (let i = 0; i < count; i++) {
      old.asked = [];
      t.mock.timers.tick(1000);
      if (!old.asked.includes('memory') || old.lost.includes('memory')) continue;
      await new Promise((done) => started.at(-1).once('message', done));
      await new Promise(setImmediate);
    }
  };
  return { engine, reported, seconds, model: await engine.open(files(softmax)) };
}

const stopping = () => {
  const controller = new AbortController();
  return { signal: controller.signal, stop: () => controller.abort(new Error('enough')) };
};

test('a worker that answers is kept, however long a job takes to stop', async (t) => {
  const { engine, reported, seconds, model } = await openTimed(t);
  old.lost = ['run'];
  const { signal, stop } = stopping();
  const pending = assert.rejects(model.run(ids, { signal }), /enough/);
  await new Promise(setImmediate);
  await seconds(10);
  assert.ok(!old.asked.includes('memory'), 'the engine has not asked the worker to stop');
  stop();
  await seconds(30);
  assert.deepEqual(old.asked, ['memory']);
  // The fourth ping is answered each time, so the count restarts.
  for (let i = 0; i < 3; i++) {
    old.lost = ['run', 'memory'];
    await seconds(3);
    old.lost = ['run'];
    await seconds(1);
  }
  assert.deepEqual(reported, []);
  const other = await model.metadata('general.name');
  assert.equal(other, undefined);
  await engine.close();
  await pending;
  await seconds(3);
  assert.deepEqual(old.asked, [], 'the pings end with the call');
});

test('a worker that neither stops nor answers is lost after five seconds', async (t) => {
  const { reported, seconds, model } = await openTimed(t);
  const run = await model.run(ids);
  const before = await run.field('att');
  old.lost = ['run', 'memory', 'cancel', 'metadata'];
  const { signal, stop } = stopping();
  const pending = assert.rejects(model.run(ids, { signal }), /enough/);
  const beside = failure(model.metadata('general.name'));
  await new Promise(setImmediate);
  stop();
  await seconds(4);
  assert.deepEqual(reported, []);
  await seconds(1);
  assert.match((await beside).text, /did not stop within 5 s, nor answer/);
  await pending;
  assert.deepEqual(
    reported.map(({ code }) => code),
    ['lost'],
  );
  old.lost = [];
  assert.deepEqual(await run.field('att'), before);
});

test('after a job has stopped, its worker gets no more pings', async (t) => {
  const { engine, reported, seconds, model } = await openTimed(t);
  const slow = await engine.open(randomModel({ L: 8, D: 256, F: 1024, V: 64, context: 1000 }));
  const { signal, stop } = stopping();
  const onProgress = () => stop();
  await assert.rejects(slow.run(Array(1000).fill(1), { signal, onProgress }), /enough/);
  assert.equal(getEventListeners(signal, 'abort').length, 0);
  old.lost = ['run', 'memory'];
  const pending = failure(model.run(ids));
  await seconds(30);
  assert.deepEqual([old.asked, reported], [[], []]);
  await engine.close();
  assert.equal((await pending).code, 'closed');
});

test('calls that wait for a lost worker are repeated by its replacement', async () => {
  const engine = await createEngine({ base: binaries });
  const model = await engine.open(files(softmax));
  const run = await model.run(ids, { capacity: 16 });
  old.lost = ['update'];
  const lost = failure(run.update([1, 2, 3]));
  const read = run.field('att');
  const updated = run.update([4, 5]);
  const after = run.field('att');
  await new Promise(setImmediate);
  old.lost = [];
  await started.at(-1).terminate();
  assert.equal((await lost).code, 'lost');
  assert.deepEqual(await read, await (await model.run(ids)).field('att'));
  await updated;
  assert.deepEqual(await after, await (await model.run([4, 5])).field('att'));
  await engine.close();
});

test('a recording is opened again after its worker has ended, with the same bits', async () => {
  const engine = await createEngine({ base: binaries });
  const model = await engine.open(files(softmax));
  const run = await model.run(ids, { fields: ['att'] });
  const recording = await engine.openRecording(
    await run.record({ strings: (ids) => ids.map(String) }),
  );
  const before = await recording.field('att');
  await started.at(-1).terminate();
  await new Promise(setImmediate);
  assert.deepEqual(await recording.field('att'), before);
  await recording.close();
  assert.equal((await failure(recording.field('att'))).code, 'closed');
  await engine.close();
});

test('an object closed after its worker has ended starts no other worker', async () => {
  const engine = await createEngine({ base: binaries });
  const model = await engine.open(files(softmax));
  const run = await model.run(ids);
  const count = started.length;
  await started.at(-1).terminate();
  await new Promise(setImmediate);
  await run.close();
  await model.close();
  assert.equal((await failure(model.run(ids))).code, 'closed');
  assert.equal(started.length, count);
  await engine.close();
});

const ended = (worker) => (worker.threadId === -1 ? undefined : once(worker, 'exit'));

test(
  'a worker that fails to start is ended, and no other thread tries to start',
  { timeout: 60_000 },
  async (t) => {
    const warn = t.mock.method(console, 'warn', () => {});
    const folder = mkdtempSync(join(tmpdir(), 'sinkscope-lost-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const base = pathToFileURL(`${folder}/`);
    const count = started.length;
    assert.equal((await failure(createEngine({ base }))).code, 'read');
    const tooMany = await failure(createEngine({ base: binaries, threads: 1e6 }));
    assert.deepEqual([tooMany.code, tooMany.where], ['argument', 'threads']);
    assert.equal(started.length, count + 2);
    await Promise.all(started.slice(count).map(ended));
    // This folder has one binary, so that the engine finds none for eight bits.
    const name = 'sinkscope.simd.wasm';
    copyFileSync(new URL(name, binaries), join(folder, name));
    const engine = await createEngine({ base, kernels: 'simd', workers: 1 });
    assert.equal((await failure(engine.open(files(softmax), { arithmetic: 'int8' }))).code, 'read');
    assert.equal(started.length, count + 4);
    await ended(started.at(-1));
    await (await engine.open(files(softmax))).close();
    await engine.close();
    assert.equal(warn.mock.callCount(), 0);
  },
);

test(
  'where the host cannot report a worker’s end, closing the engine ends the worker and its pings',
  { timeout: 60_000 },
  async (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] });
    Object.assign(old, { hasLocks: false, lost: ['run'] });
    t.after(() => Object.assign(old, { hasLocks: true, lost: [] }));
    const engine = await createEngine({ base: binaries, workers: 1 });
    const model = await engine.open(files(softmax));
    const exit = once(started.at(-1), 'exit');
    const clear = t.mock.method(globalThis, 'clearInterval');
    const pending = failure(model.run(ids));
    await engine.close();
    assert.equal((await pending).code, 'closed');
    await exit;
    assert.equal(clear.mock.callCount(), 1);
  },
);

test('an engine in this thread reports no progress after it is closed', async (t) => {
  const engine = await createEngine({ base: binaries, worker: false });
  const model = await engine.open(files(softmax));
  // Each piece takes long, so that each is reported.
  let time = 0;
  t.mock.method(performance, 'now', () => (time += 100));
  const reported = [];
  const onProgress = ({ done }) => {
    reported.push(done);
    void engine.close();
  };
  assert.equal((await failure(model.run(ids, { onProgress }))).code, 'closed');
  for (let i = 0; i < 50; i++) await new Promise(setImmediate);
  assert.equal(reported.length, 1, `${reported}`);
});

test('closing an engine ends every worker, also one that is still starting', async () => {
  const count = started.length;
  const engine = await createEngine({ base: binaries, workers: 2 });
  const model = await engine.open(files(softmax));
  const run = await model.run(ids);
  const work = async (replica) => (await replica.run(ids)).close();
  for await (const _ of spread(model, [0, 1, 2, 3], work));
  await engine.openRecording(await run.record({ strings: (all) => all.map(String) }));
  const fast = await engine.open(files(softmax), { arithmetic: 'int8' });
  const before = started.slice(count);
  assert.equal(before.length, 4);
  const late = failure(engine.open(files(softmax), { arithmetic: 'relaxed' }));
  await engine.close();
  assert.equal((await late).code, 'closed');
  await Promise.all(started.slice(count).map(ended));
  for (const use of [
    () => run.field('att'),
    () => fast.run(ids),
    () => engine.open(files(softmax)),
  ])
    assert.equal((await failure(use())).code, 'closed');
  assert.ok(started.slice(count).every(({ threadId }) => threadId === -1));
});

test('an engine that is closed while its worker starts does not continue in this thread', async (t) => {
  const warn = t.mock.method(console, 'warn', () => {});
  const engine = await createEngine({ base: binaries });
  const count = started.length;
  const late = failure(engine.open(files(softmax), { arithmetic: 'int8' }));
  while (started.length === count) await new Promise(setImmediate);
  const exit = once(started.at(-1), 'exit');
  await engine.close();
  assert.equal((await late).code, 'closed');
  await exit;
  await new Promise(setImmediate);
  assert.deepEqual(
    warn.mock.calls.map(({ arguments: said }) => said),
    [],
  );
});

test('a worker accepts a Blob instead of a File', async () => {
  const engine = await createEngine({ base: binaries, worker: true });
  const [config, weights] = await Promise.all(
    ['config.json', 'model.safetensors'].map((name) => openAsBlob(new URL(name, softmax))),
  );
  const totals = [];
  const model = await engine.open(
    { config, weights },
    { onProgress: ({ total }) => totals.push(total) },
  );
  assert.ok(totals.includes(weights.size));
  const map = await (await model.run(ids)).field('att');
  await started.at(-1).terminate();
  await new Promise(setImmediate);
  assert.deepEqual(await (await model.run(ids)).field('att'), map);
  await engine.close();
});

test('one worker trains unless the caller requests more', async () => {
  const engine = await createEngine({ base: binaries, lab: true, workers: 2 });
  const count = started.length;
  const training = await engine.train({ config: labConfig(), recipe: { steps: 1 } });
  await training.step();
  assert.equal(started.length, count);
  await engine.close();
});

test('training shared by workers fails if any of them ends, and can then be closed', async () => {
  const engine = await createEngine({ base: binaries, lab: true, workers: 2 });
  const recipe = { batch: 64, steps: 1e6 };
  const training = await engine.train({ config: labConfig(), recipe, workers: 2 });
  await training.step();
  const weights = await training.weights();
  const pending = failure(training.step(1e6));
  await started.at(-1).terminate(); // the helper was started last
  assert.equal((await pending).code, 'lost');
  await training.close();
  const begin = { config: labConfig(), recipe, begin: weights };
  const again = await engine.train({ ...begin, workers: 2 });
  assert.ok(Number.isFinite((await again.step())[0].loss));
  await again.close();
  await engine.close();
});
