// Tests how long a guarded tokenizer waits for its worker, and how it ends, by a fake worker and a moved clock.
import { mock, test } from 'node:test';
import assert from 'node:assert/strict';
import { createGuard } from '../../wasm/text/guard.ts';
import { failure } from './helper.mjs';

const settle = () => new Promise(setImmediate);
const OPEN_ANSWER = {
  size: 3,
  bos: 1,
  specials: [
    { id: 1, text: '<s>', kind: 'bos' },
    { id: 2, text: '!', kind: 'other' },
  ],
  text: 'ab<s>!',
  ends: Uint32Array.of(2, 5, 6),
};
const SMALL_SOURCE = { tokenizer: '' };

function stage() {
  const workers = [];
  const start = () => {
    const worker = { isEnded: false, asked: [] };
    worker.terminate = () => (worker.isEnded = true);
    worker.postMessage = (question) => worker.asked.push(question);
    worker.say = async (data) => {
      worker.onmessage({ data });
      await settle();
    };
    workers.push(worker);
    return worker;
  };
  return { workers, guard: createGuard(start) };
}

async function open({ source = SMALL_SOURCE, benchmarkMs = 15, ...options } = {}) {
  const { workers, guard } = stage();
  const guardPromise = guard(source, options);
  await settle();
  await workers[0].say({ isAlive: true, benchmarkMs });
  await workers[0].say({ value: OPEN_ANSWER });
  return { workers, tokenizer: await guardPromise };
}

const onClock = (name, use) =>
  test(name, async (t) => {
    mock.timers.enable({ apis: ['setTimeout'] });
    try {
      await use(t);
    } finally {
      mock.timers.reset();
    }
  });

async function endsAfter(worker, ms) {
  mock.timers.tick(ms - 1);
  assert.equal(worker.isEnded, false, `before ${ms}`);
  mock.timers.tick(1);
  assert.equal(worker.isEnded, true, `after ${ms}`);
  await settle();
}

onClock('a call has five seconds, more for long inputs, and more on a slow machine', async () => {
  for (const [title, ms, source, benchmarkMs, options] of [
    ['a small one', 5000, SMALL_SOURCE, 15],
    ['a fast machine', 5000, SMALL_SOURCE, 1],
    ['a silent machine', 5000, SMALL_SOURCE, undefined],
    ['a slow one', 7500, SMALL_SOURCE, 22.5],
    ['a slower one', 50_000, SMALL_SOURCE, 150],
    ['half as long files', 7500, { tokenizer: 'x'.repeat(2 ** 21) }, 15],
    ['two files', 10_000, { vocab: 'x'.repeat(2 ** 21), merges: 'x'.repeat(2 ** 21) }, 15],
    ['a missing file', 5000, { tokenizer: '', config: undefined }, 15],
    ['both', 30_000, { tokenizer: 'x'.repeat(2 ** 22) }, 45],
    ['the bytes of a header', 10_000, { gguf: new Uint8Array(2 ** 22) }, 15],
    ['a limit', 700, SMALL_SOURCE, 15, { limit: 700 }],
  ]) {
    const { workers, guard } = stage();
    const error = failure(guard(source, options));
    await settle();
    assert.deepEqual(workers[0].asked, [{ method: 'open', source }]);
    // The timeouts of the network limit the downloads of the worker; this clock does not.
    mock.timers.tick(1e6);
    assert.equal(workers[0].isEnded, false, title);
    await workers[0].say({ isAlive: true, benchmarkMs });
    await endsAfter(workers[0], ms);
    const { code, where } = await error;
    assert.deepEqual([code, where], ['too_slow', 'tokenizer'], title);
    assert.equal(workers.length, 1);
  }
});

onClock('a worker loads while its source is read, and ends if that fails', async () => {
  const { workers, guard } = stage();
  let give = () => {};
  const error = failure(guard(new Promise((resolve) => (give = resolve))));
  await settle();
  await workers[0].say({ isAlive: true, benchmarkMs: 30 });
  mock.timers.tick(1e6);
  // A slow file is no fault of the tokenizer.
  assert.ok(!workers[0].isEnded);
  give(SMALL_SOURCE);
  await settle();
  await endsAfter(workers[0], 10_000);
  assert.equal((await error).code, 'too_slow');
  await assert.rejects(guard(Promise.reject(new Error('cut'))), /cut/);
  assert.ok(workers[1].isEnded);
});

onClock('each step of a worker restarts the timeout, and its progress does not', async () => {
  const { workers, guard } = stage();
  const built = [];
  const onBuilt = (...progress) => built.push(progress);
  const error = failure(guard(SMALL_SOURCE, { onBuilt }));
  await settle();
  await workers[0].say({ isAlive: true, benchmarkMs: 30 });
  mock.timers.tick(9000);
  await workers[0].say({ isAlive: true });
  mock.timers.tick(1000);
  await workers[0].say({ built: [1, 2] });
  mock.timers.tick(1000);
  assert.deepEqual([workers[0].isEnded, built], [false, [[1, 2]]]);
  // Progress is no sign of an end.
  await endsAfter(workers[0], 8000);
  assert.equal((await error).code, 'too_slow');
});

onClock('a value or an error from the worker ends the timeout', async () => {
  const { workers, tokenizer } = await open();
  mock.timers.tick(1e6);
  assert.equal(workers[0].isEnded, false);
  for (const answer of [
    { value: 'hi' },
    { error: { code: 'argument', where: 'ids', text: 'expected x' } },
  ]) {
    const decodePromise = tokenizer.decode(Int32Array.of(1, 2)).catch((error) => error);
    await settle();
    assert.deepEqual(workers[0].asked.at(-1), { method: 'decode', ids: [1, 2] });
    await workers[0].say(answer);
    mock.timers.tick(1e6);
    assert.equal(workers[0].isEnded, false);
    if (answer.value) assert.equal(await decodePromise, 'hi');
    else assert.equal((await decodePromise).message, 'ids: expected x');
  }
});

onClock(
  'encoding has a timeout by the length of its text, and decoding one by the size of the files',
  async () => {
    const source = { tokenizer: 'x'.repeat(2 ** 22) };
    for (const [ask, ms] of [
      [(tokenizer) => tokenizer.encode('a'.repeat(2 ** 19)), 7500],
      [(tokenizer) => tokenizer.encode(''), 5000],
      [(tokenizer) => tokenizer.decode([]), 10_000],
    ]) {
      const { workers, tokenizer } = await open({ source });
      const error = failure(ask(tokenizer));
      await settle();
      await endsAfter(workers[0], ms);
      assert.deepEqual([(await error).code, (await error).where], ['too_slow', 'text']);
    }
  },
);

onClock('the error states the duration, how slow the machine is, and what to do', async (t) => {
  for (const [benchmarkMs, limit] of [
    [15, 1_000_000],
    [22.5, 90],
    [37.5, 60],
  ]) {
    const { workers, guard } = stage();
    const error = failure(guard(SMALL_SOURCE, { limit }));
    await settle();
    await workers[0].say({ isAlive: true, benchmarkMs });
    mock.timers.tick(2e6);
    const otherGuard = await open({ benchmarkMs, limit });
    const lateError = failure(otherGuard.tokenizer.encode(''));
    await settle();
    mock.timers.tick(2e6);
    t.assert.snapshot([(await error).text, (await lateError).text]);
  }
});

onClock(
  'a repeated call has twice the timeout, since a new worker reads the files again',
  async () => {
    const { workers, tokenizer } = await open();
    const firstError = failure(tokenizer.encode('a'.repeat(2 ** 20)));
    await settle();
    await endsAfter(workers[0], 10_000);
    assert.equal((await firstError).code, 'too_slow');
    const secondTokens = tokenizer.encode('ab', { special: 'none' });
    await settle();
    assert.deepEqual(workers[1].asked, [{ method: 'open', source: SMALL_SOURCE }]);
    await workers[1].say({ isAlive: true, benchmarkMs: 15 });
    mock.timers.tick(9999);
    await workers[1].say({ value: OPEN_ANSWER });
    assert.deepEqual(workers[1].asked.at(-1), {
      method: 'encode',
      text: 'ab',
      options: { special: 'none' },
    });
    mock.timers.tick(9999);
    const spans = Uint32Array.of(0, 1, 2, 4, 5, 9);
    const value = { ids: Int32Array.of(1, 0, 9), spans, special: Uint8Array.of(1, 0, 2) };
    await workers[1].say({ value });
    assert.deepEqual(await secondTokens, [
      { id: 1, text: '<s>', start: 0, end: 1, special: true },
      { id: 0, text: 'ab', start: 2, end: 4, special: false },
      { id: 9, text: '[9]', start: 5, end: 9, special: false },
    ]);
    assert.deepEqual([workers.length, workers[1].isEnded], [2, false]);
    const thirdError = failure(tokenizer.encode(''));
    await settle();
    await endsAfter(workers[1], 10_000);
    assert.equal((await thirdError).code, 'too_slow');
  },
);

onClock(
  'a worker that ends is distinguished from a slow one, and the next call starts another',
  async (t) => {
    for (const message of ['out of memory', undefined]) {
      const { workers, guard } = stage();
      const error = failure(guard(SMALL_SOURCE));
      await settle();
      workers[0].onerror({ message });
      t.assert.snapshot(await error);
      assert.equal(workers[0].isEnded, true);
    }
    const { workers, tokenizer } = await open();
    const error = failure(tokenizer.encode('a'));
    await settle();
    workers[0].onerror({ message: 'gone' });
    assert.deepEqual([(await error).code, (await error).where], ['bad_tokenizer', 'text']);
    const secondError = failure(tokenizer.encode('a'));
    await settle();
    // The new call has its own timeout: neither the rest of that of the first call, nor twice as long.
    mock.timers.tick(5000);
    assert.equal(workers[1].isEnded, false);
    await workers[1].say({ isAlive: true });
    await endsAfter(workers[1], 5000);
    assert.equal((await secondError).code, 'too_slow');
  },
);

onClock('calls are sent one at a time, and close() rejects all of them', async (t) => {
  const { workers, tokenizer } = await open();
  const errors = ['a', 'b', 'c'].map((text) => failure(tokenizer.encode(text)));
  await settle();
  assert.deepEqual(
    workers[0].asked.slice(1).map(({ text }) => text),
    ['a'],
  );
  await workers[0].say({ error: { code: 'argument', where: 'special', text: 'x' } });
  assert.deepEqual(
    workers[0].asked.slice(1).map(({ text }) => text),
    ['a', 'b'],
  );
  tokenizer.close();
  tokenizer.close();
  assert.equal((await errors[0]).code, 'argument');
  for (const error of [errors[1], errors[2], failure(tokenizer.decode([]))])
    t.assert.snapshot(await error);
  assert.deepEqual([workers.length, workers[0].isEnded], [1, true]);
  assert.equal(tokenizer.piece(0), 'ab');
});

onClock('a signal stops opening, and has no listener afterwards', async () => {
  const reason = new Error('enough');
  for (const isLate of [false, true]) {
    const { workers, guard } = stage();
    const controller = new AbortController();
    const { signal } = controller;
    const listeners = new Set();
    mock.method(signal, 'addEventListener', (_, listener) => listeners.add(listener));
    mock.method(signal, 'removeEventListener', (_, listener) => listeners.delete(listener));
    const guardPromise = guard(SMALL_SOURCE, { signal });
    await settle();
    assert.equal(listeners.size, 1);
    if (isLate) {
      await workers[0].say({ isAlive: true, benchmarkMs: 15 });
      await workers[0].say({ value: OPEN_ANSWER });
      await guardPromise;
    } else {
      controller.abort(reason);
      for (const listener of listeners) listener();
      await assert.rejects(guardPromise, reason);
    }
    assert.deepEqual([listeners.size, workers[0].isEnded], [0, !isLate]);
  }
  const { workers, guard } = stage();
  await assert.rejects(guard(SMALL_SOURCE, { signal: AbortSignal.abort(reason) }), reason);
  assert.equal(workers.length, 0);
});

onClock('a worker that refuses its files is ended', async () => {
  const { workers, guard } = stage();
  const error = failure(guard(SMALL_SOURCE));
  await settle();
  await workers[0].say({ error: { code: 'unsupported', where: 'model.type', text: 'x' } });
  assert.deepEqual([(await error).code, workers[0].isEnded], ['unsupported', true]);
});

test('an invalid text is rejected before its worker is called', async () => {
  const { tokenizer, workers: openWorkers } = await open();
  const { code, where, text } = await failure(tokenizer.encode(7));
  assert.deepEqual([code, where, text], ['argument', 'text', 'expected a string, got 7']);
  assert.equal(openWorkers[0].asked.length, 1);
  const { size, bos, special, specials } = tokenizer;
  assert.deepEqual([size, bos, special, specials], [3, 1, [1, 2], OPEN_ANSWER.specials]);
  const pieces = [-1, 0, 1, 2, 3].map((id) => tokenizer.piece(id));
  assert.deepEqual(pieces, ['[-1]', 'ab', '<s>', '!', '[3]']);
  tokenizer.close();
});
