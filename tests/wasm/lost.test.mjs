// Tests a worker that ends on its own: calls in progress fail, later ones succeed with the same bits.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { createRequire, syncBuiltinESMExports } from 'node:module';
import { getEventListeners, once } from 'node:events';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
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
const oldBrowser = { hasLocks: true, lost: [], asked: [] };
threads.Worker = class extends threads.Worker {
  #names = new Map();
  constructor(...args) {
    super(...args);
    started.push(this);
  }
  postMessage(message, ...rest) {
    oldBrowser.asked.push(message.name);
    this.#names.set(message.id, message.name);
    return super.postMessage(message, ...rest);
  }
  on(event, listen) {
    const onMessage = (message) => {
      const name = this.#names.get(message.id);
      if (oldBrowser.lost.includes(name) || oldBrowser.silent === this) return;
      const isRefused = name === 'holdLock' && !oldBrowser.hasLocks;
      listen(isRefused ? { ...message, value: false } : message);
    };
    return super.on(event, event === 'message' ? onMessage : listen);
  }
};
syncBuiltinESMExports();
const { createEngine, labConfig, spread } = await import('../../wasm/index.ts');

const ids = [0, 17, 392, 5, 5, 81];

const WORKER_ENDS = {
  'is ended from outside': [(worker) => worker.terminate(), /exit code 1/],
  'runs into an error': [(worker) => worker.emit('error', new Error('out of heap')), /out of heap/],
  'gets what it cannot read': [
    (worker) => worker.emit('messageerror', new Error('cannot be cloned')),
    /cannot be cloned/,
  ],
};

for (const [title, [end, reason]] of Object.entries(WORKER_ENDS)) {
  test(
    `a worker that ${title} is noticed, reported, and replaced`,
    { timeout: 600_000 },
    async () => {
      const errors = [];
      const engine = await createEngine({ base: binaries, onLost: (error) => errors.push(error) });
      const model = await engine.open(files(softmax));
      const run = await model.run(ids, { capacity: 16 });
      for await (const _ of run.generate({ count: 3 }));
      const before = await run.read([{ field: 'att' }, { metric: 'alpha' }]);
      const slowModel = await engine.open(
        randomModel({ L: 8, D: 256, F: 1024, V: 64, context: 1000 }),
      );
      const runError = failure(slowModel.run(Array(1000).fill(1)));
      const openError = failure(engine.open(files(softmax)));
      await end(started.at(-1));
      for (const error of [await runError, await openError]) {
        assert.deepEqual(
          [error.name, error.code, error.where],
          ['SinkscopeError', 'lost', 'worker'],
        );
        assert.match(error.text, reason);
      }
      assert.deepEqual(
        errors.map(({ code }) => code),
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
    },
  );
}

test('where the host cannot report a worker’s end, the worker is lost after a minute without an answer', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  Object.assign(oldBrowser, { hasLocks: false, asked: [] });
  const errors = [];
  const engine = await createEngine({ base: binaries, onLost: (error) => errors.push(error) });
  t.after(() => {
    Object.assign(oldBrowser, { hasLocks: true, lost: [] });
    return engine.close();
  });
  const pulses = () => oldBrowser.asked.filter((name) => name === 'memory').length;
  const beatTimes = async (times) => {
    for (let i = 0; i < times; i++) {
      t.mock.timers.tick(5000);
      await new Promise(setImmediate);
    }
  };
  const model = await engine.open(files(softmax));
  // A worker without pending calls may be silent.
  await beatTimes(20);
  assert.equal(pulses(), 0);

  oldBrowser.asked = [];
  oldBrowser.lost = ['run', 'memory'];
  const runError = failure(model.run(ids));
  await new Promise(setImmediate);
  assert.deepEqual(oldBrowser.asked, ['run']);
  await beatTimes(6);
  assert.equal(pulses(), 6);
  // An answer to the seventh ping starts the minute again.
  oldBrowser.lost = ['run'];
  const firstAnswer = new Promise((done) => started.at(-1).once('message', done));
  await beatTimes(1);
  await firstAnswer;
  await new Promise(setImmediate);
  oldBrowser.lost = ['run', 'memory'];
  await beatTimes(12);
  assert.equal(pulses(), 19);
  assert.deepEqual(errors, []);
  await beatTimes(1);
  const error = await runError;
  assert.deepEqual([error.code, error.where], ['lost', 'worker']);
  assert.match(error.text, /has not answered for 60 s/);
  assert.deepEqual(
    errors.map(({ code }) => code),
    ['lost'],
  );

  oldBrowser.lost = [];
  await (await model.run(ids)).close();
  await beatTimes(3);
  assert.equal(pulses(), 19);
});

/** Opens an engine with mocked timers: seconds pass singly, and answers arrive in between. */
async function openTimed(t) {
  t.mock.timers.enable({ apis: ['setInterval', 'setTimeout'] });
  const errors = [];
  const engine = await createEngine({ base: binaries, onLost: (error) => errors.push(error) });
  t.after(() => {
    Object.assign(oldBrowser, { lost: [] });
    return engine.close();
  });
  const seconds = async (count) => {
    for (let i = 0; i < count; i++) {
      oldBrowser.asked = [];
      t.mock.timers.tick(1000);
      if (!oldBrowser.asked.includes('memory') || oldBrowser.lost.includes('memory')) continue;
      await new Promise((done) => started.at(-1).once('message', done));
      await new Promise(setImmediate);
    }
  };
  return { engine, errors, seconds, model: await engine.open(files(softmax)) };
}

const abortSoon = () => {
  const controller = new AbortController();
  return { signal: controller.signal, stop: () => controller.abort(new Error('enough')) };
};

test('a worker that answers is kept, however long a job takes to stop', async (t) => {
  const { engine, errors, seconds, model } = await openTimed(t);
  oldBrowser.lost = ['run'];
  const { signal, stop } = abortSoon();
  const runError = assert.rejects(model.run(ids, { signal }), /enough/);
  await new Promise(setImmediate);
  await seconds(10);
  assert.ok(!oldBrowser.asked.includes('memory'), 'the engine has not asked the worker to stop');
  stop();
  await seconds(30);
  assert.deepEqual(oldBrowser.asked, ['memory']);
  // The fourth ping is answered each time, so the count restarts.
  for (let i = 0; i < 3; i++) {
    oldBrowser.lost = ['run', 'memory'];
    await seconds(3);
    oldBrowser.lost = ['run'];
    await seconds(1);
  }
  assert.deepEqual(errors, []);
  assert.ok((await model.runBytes(4)) > 0);
  await engine.close();
  await runError;
  await seconds(3);
  assert.deepEqual(oldBrowser.asked, [], 'the pings end with the call');
});

test('a worker that neither stops nor answers is lost after five seconds, and other calls get its replacement', async (t) => {
  const { errors, seconds, model } = await openTimed(t);
  const run = await model.run(ids);
  const before = await run.field('att');
  oldBrowser.lost = ['run', 'memory', 'cancel', 'runBytes'];
  const { signal, stop } = abortSoon();
  const runError = assert.rejects(model.run(ids, { signal }), /enough/);
  // These calls wait behind the aborted one, one of them with a signal of its own.
  const options = { signal: new AbortController().signal };
  const others = [run.field('att'), model.runBytes(4), model.run(ids, options)];
  const aborted = assert.rejects(model.run(ids, { signal }), /enough/);
  await new Promise(setImmediate);
  stop();
  await seconds(4);
  assert.deepEqual(errors, []);
  oldBrowser.lost = [];
  oldBrowser.silent = started.at(-1);
  await seconds(1);
  await runError;
  await aborted;
  const [map, bytes, otherRun] = await Promise.all(others);
  assert.deepEqual([map, bytes > 0], [before, true]);
  assert.deepEqual(await otherRun.field('att'), before);
  assert.equal(getEventListeners(options.signal, 'abort').length, 0);
  assert.deepEqual(
    errors.map(({ code }) => code),
    ['lost'],
  );
  oldBrowser.lost = [];
  assert.deepEqual(await run.field('att'), before);
});

test('an aborted call whose worker is lost starts no other worker', async (t) => {
  const { seconds, model } = await openTimed(t);
  oldBrowser.lost = ['run', 'memory', 'cancel'];
  const { signal, stop } = abortSoon();
  const runError = assert.rejects(model.run(ids, { signal }), /enough/);
  await new Promise(setImmediate);
  const count = started.length;
  stop();
  await seconds(5);
  await runError;
  assert.equal(started.length, count);
});

test('after a job has stopped, its worker gets no more pings', async (t) => {
  const { engine, errors, seconds, model } = await openTimed(t);
  const slowModel = await engine.open(randomModel({ L: 8, D: 256, F: 1024, V: 64, context: 1000 }));
  const { signal, stop } = abortSoon();
  const onProgress = () => stop();
  await assert.rejects(slowModel.run(Array(1000).fill(1), { signal, onProgress }), /enough/);
  assert.equal(getEventListeners(signal, 'abort').length, 0);
  oldBrowser.lost = ['run', 'memory'];
  const runError = failure(model.run(ids));
  await seconds(30);
  assert.deepEqual([oldBrowser.asked, errors], [[], []]);
  await engine.close();
  assert.equal((await runError).code, 'closed');
});

test('calls that wait for a lost worker are repeated by its replacement', async () => {
  const engine = await createEngine({ base: binaries });
  const model = await engine.open(files(softmax));
  const run = await model.run(ids, { capacity: 16 });
  oldBrowser.lost = ['update'];
  const updateError = failure(run.update([1, 2, 3]));
  const read = run.field('att');
  const updatePromise = run.update([4, 5]);
  const after = run.field('att');
  await new Promise(setImmediate);
  oldBrowser.lost = [];
  await started.at(-1).terminate();
  assert.equal((await updateError).code, 'lost');
  assert.deepEqual(await read, await (await model.run(ids)).field('att'));
  await updatePromise;
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

const exitOf = (worker) => (worker.threadId === -1 ? undefined : once(worker, 'exit'));

test(
  'a worker that fails to start is ended, and no other thread tries to start',
  { timeout: 600_000 },
  async (t) => {
    const warn = t.mock.method(console, 'warn', () => {});
    const folder = mkdtempSync(join(tmpdir(), 'sinkscope-lost-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const base = pathToFileURL(`${folder}/`);
    const count = started.length;
    assert.equal((await failure(createEngine({ base }))).code, 'read');
    const threadsError = await failure(createEngine({ base: binaries, threads: 1e6 }));
    assert.deepEqual([threadsError.code, threadsError.where], ['argument', 'threads']);
    assert.equal(started.length, count + 2);
    await Promise.all(started.slice(count).map(exitOf));
    // This folder has one binary, so that the engine finds none that reads recordings.
    const name = 'sinkscope.wasm';
    copyFileSync(new URL(name, binaries), join(folder, name));
    const engine = await createEngine({ base, workers: 1 });
    assert.equal((await failure(engine.openRecording(new Uint8Array(8)))).code, 'read');
    assert.equal(started.length, count + 4);
    await exitOf(started.at(-1));
    await (await engine.open(files(softmax))).close();
    await engine.close();
    assert.equal(warn.mock.callCount(), 0);
  },
);

test(
  'where the host cannot report a worker’s end, closing the engine ends the worker and its pings',
  { timeout: 600_000 },
  async (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] });
    Object.assign(oldBrowser, { hasLocks: false, lost: ['run'] });
    t.after(() => Object.assign(oldBrowser, { hasLocks: true, lost: [] }));
    const engine = await createEngine({ base: binaries, workers: 1 });
    const model = await engine.open(files(softmax));
    const exit = once(started.at(-1), 'exit');
    const clear = t.mock.method(globalThis, 'clearInterval');
    const runError = failure(model.run(ids));
    await engine.close();
    assert.equal((await runError).code, 'closed');
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
  const positions = [];
  const onProgress = ({ done }) => {
    positions.push(done);
    void engine.close();
  };
  assert.equal((await failure(model.run(ids, { onProgress }))).code, 'closed');
  for (let i = 0; i < 50; i++) await new Promise(setImmediate);
  assert.equal(positions.length, 1, `${positions}`);
});

test('closing an engine ends every worker, also one that is still starting', async () => {
  const count = started.length;
  const engine = await createEngine({ base: binaries, workers: 2 });
  const model = await engine.open(files(softmax));
  const run = await model.run(ids);
  const work = async (replica) => (await replica.run(ids)).close();
  for await (const _ of spread(model, [0, 1, 2, 3], work));
  await engine.openRecording(await run.record({ strings: (ids) => ids.map(String) }));
  const before = started.slice(count);
  assert.equal(before.length, 3);
  const openError = failure(engine.open(files(softmax)));
  await engine.close();
  assert.equal((await openError).code, 'closed');
  await Promise.all(started.slice(count).map(exitOf));
  for (const use of [
    () => run.field('att'),
    () => model.run(ids),
    () => engine.open(files(softmax)),
  ])
    assert.equal((await failure(use())).code, 'closed');
  assert.ok(started.slice(count).every(({ threadId }) => threadId === -1));
});

test('an engine that is closed while its worker starts does not continue in this thread', async (t) => {
  const warn = t.mock.method(console, 'warn', () => {});
  const engine = await createEngine({ base: binaries });
  const count = started.length;
  const openError = failure(engine.openRecording(new Uint8Array(8)));
  while (started.length === count) await new Promise(setImmediate);
  const exit = once(started.at(-1), 'exit');
  await engine.close();
  assert.equal((await openError).code, 'closed');
  await exit;
  await new Promise(setImmediate);
  assert.deepEqual(
    warn.mock.calls.map(({ arguments: warning }) => warning),
    [],
  );
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
  const runError = failure(training.step(1e6));
  await started.at(-1).terminate(); // the helper was started last
  assert.equal((await runError).code, 'lost');
  await training.close();
  const begin = { config: labConfig(), recipe, begin: weights };
  const secondTraining = await engine.train({ ...begin, workers: 2 });
  assert.ok(Number.isFinite((await secondTraining.step())[0].loss));
  await secondTraining.close();
  await engine.close();
});
