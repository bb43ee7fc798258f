/** Tests what a server's answers mean, and when the package repeats a request, with fake answers. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { getEventListeners } from 'node:events';
import { ask, backoffWait, placeOf, reasonOf, sleep } from '../../wasm/loading/ask.ts';

const address = new URL('https://hub.example/a/b?signed=secret');

/**
 * Sends a request to a server that gives the answers in turn and repeats the last one; waits are skipped.
 * @param {import('node:test').TestContext} t
 * @param {(Response | Error)[]} answers
 * @param {import('../../wasm/loading/ask.ts').RequestOptions & { method?: string }} [options]
 */
async function send(t, answers, options = {}) {
  /** @type {{ method?: string, headers: Record<string, string>, cache?: string }[]} */
  const requests = [];
  /** @type {number[]} */
  const waits = [];
  t.mock.method(globalThis, 'fetch', async (_, init) => {
    const answer = answers[Math.min(requests.length, answers.length - 1)];
    requests.push(init);
    if (answer instanceof Error) throw answer;
    return answer;
  });
  const onRetry = ({ wait }) => waits.push(wait);
  try {
    const answer = await ask(address, { wait: 0, ...options, onRetry });
    return { requests, waits, answer };
  } catch (error) {
    return { requests, waits, error };
  }
}

const reply = (status, headers = {}) => new Response(null, { status, headers });
const lateDate = new Date(Date.now() + 3_600_000).toUTCString();

test('each failed response has its code, its message and its number of tries', async (t) => {
  for (const [answer, options, code, words, tries] of [
    [reply(401), {}, 'access', /^needs an access token: .*; the server answered 401$/, 1],
    [reply(403), {}, 'access', /^needs an access token: .*; the server answered 403$/, 1],
    [reply(401), { token: 'hf_x' }, 'access', /this one was not accepted; .* 401$/, 1],
    [reply(403), { token: 'hf_x' }, 'access', /whose account has access; .* 403$/, 1],
    [reply(404), {}, 'read', /^the server answered 404$/, 1],
    [reply(404, { 'x-error-code': 'EntryNotFound' }), {}, 'not_found', /this file .* 404$/, 1],
    [reply(404, { 'x-error-code': 'Unheard' }), {}, 'read', /^the server answered 404$/, 1],
    [reply(404, { 'x-error-code': 'constructor' }), {}, 'read', /^the server answered 404$/, 1],
    [reply(500), {}, 'read', /^the server answered 500$/, 5],
    [reply(503), { tries: 2 }, 'read', /^the server answered 503$/, 2],
    [reply(501), {}, 'read', /^the server answered 501$/, 1],
    [reply(429), {}, 'busy', /^too many requests from here; the server answered 429$/, 5],
    [reply(429, { 'retry-after': '31' }), {}, 'busy', / 429; try again in 31 s$/, 1],
    [
      reply(429, { 'retry-after': lateDate }),
      {},
      'busy',
      new RegExp(`; try again after ${lateDate}$`),
      1,
    ],
    [reply(429, { ratelimit: '"api";r=0;t=99' }), {}, 'busy', /; try again in 99 s$/, 1],
    [reply(429, { 'retry-after': 'soon' }), { tries: 1 }, 'busy', / answered 429$/, 1],
    [new TypeError('fetch failed'), {}, 'read', /hub.example can be reached.*refused or cut$/, 5],
    [
      new TypeError('fetch failed', { cause: new Error('redirect count exceeded') }),
      ...[{}, 'read', /redirect count exceeded$/, 1],
    ],
  ]) {
    const { requests, error } = await send(t, [answer], options);
    assert.deepEqual([error.code, error.where], [code, 'https://hub.example/a/b']);
    const reason = error.message.slice(error.message.indexOf(': ', error.where.length) + 2);
    assert.match(reason, words);
    assert.equal(requests.length, tries, reason);
    assert.equal(error.cause, answer instanceof Error ? answer : undefined);
  }
});

test('a temporary failure is tried again after the requested wait, or after twice the last wait', async (t) => {
  const result = await send(t, [reply(500), new TypeError('cut'), reply(429), reply(200)], {
    wait: 2,
  });
  assert.deepEqual([result.answer.status, result.waits], [200, [2, 4, 8]]);
  const rangeResult = await send(t, [reply(429, { 'retry-after': '0' }), reply(416)]);
  assert.deepEqual([rangeResult.answer.status, rangeResult.waits], [416, [0]]);
  const pastDate = new Date(Date.now() - 5000).toUTCString();
  const pastResult = await send(t, [reply(503, { 'retry-after': pastDate }), reply(206)], {
    wait: 7,
  });
  assert.deepEqual([pastResult.answer.status, pastResult.waits], [206, [0]]);
});

test('a request has its method, its token and its cache mode', async (t) => {
  const result = await send(t, [reply(200)]);
  assert.deepEqual(
    [result.requests[0].method, result.requests[0].headers, result.requests[0].cache],
    ['GET', {}, 'default'],
  );
  const headResult = await send(t, [reply(200)], {
    method: 'HEAD',
    token: 'hf_x',
    httpCache: 'no-store',
  });
  assert.deepEqual(
    [headResult.requests[0].method, headResult.requests[0].headers, headResult.requests[0].cache],
    ['HEAD', { authorization: 'Bearer hf_x' }, 'no-store'],
  );
  for (const [token, place] of [
    ['a b', 2],
    ['é', 1],
    ['ab\n', 3],
    ['\x7f', 1],
    ['hf_secret\r\nx: y', 10],
  ]) {
    const { requests, error } = await send(t, [reply(200)], { token });
    assert.deepEqual([error.code, error.where, requests.length], ['argument', 'token', 0]);
    assert.ok(error.text.includes(`at place ${place}: `), error.text);
    assert.ok(!error.stack.includes('secret'));
  }
  assert.equal((await send(t, [reply(200)], { token: '!~' })).answer.status, 200);
  const signal = AbortSignal.abort(new Error('stopped'));
  const stoppedResult = await send(t, [reply(200)], { signal });
  assert.deepEqual([stoppedResult.error.message, stoppedResult.requests.length], ['stopped', 0]);
});

test('an offline host is reported as such, and tried once', async (t) => {
  const before = Object.getOwnPropertyDescriptor(globalThis, 'navigator');
  t.after(() => {
    if (before) Object.defineProperty(globalThis, 'navigator', before);
    else Reflect.deleteProperty(globalThis, 'navigator');
  });
  Object.defineProperty(globalThis, 'navigator', { value: { onLine: false }, configurable: true });
  const { requests, error } = await send(t, [new TypeError('fetch failed')]);
  assert.deepEqual([error.code, requests.length], ['offline', 1]);
  assert.match(error.message, /expected a network, this machine is offline/);
});

test('an address is shown without its possible secrets', () => {
  assert.equal(placeOf(address), 'https://hub.example/a/b');
  assert.equal(placeOf(new URL('file:///models/a.gguf?x#y')), 'file:///models/a.gguf');
});

test('a wait is at most thirty seconds', async (t) => {
  for (const [wait, failures, expected] of [
    [undefined, 1, 500],
    [undefined, 3, 2000],
    [7, 1, 7],
    [7, 4, 56],
    [15_000, 2, 30_000],
    [15_000, 3, 30_000],
  ])
    assert.equal(backoffWait(failures, { wait }), expected);
  // The request waits as long as the server asks; here the signal ends the wait.
  for (const [seconds, expectedWaits] of [
    ['30', [30_000]],
    ['31', []],
  ]) {
    const stop = new AbortController();
    const waits = [];
    t.mock.method(globalThis, 'fetch', async () => reply(503, { 'retry-after': seconds }));
    const onRetry = ({ reason, wait }) => {
      assert.equal(reason, 'the server answered 503');
      waits.push(wait);
      stop.abort(new Error('stopped'));
    };
    const message = expectedWaits.length > 0 ? /^stopped$/ : /answered 503$/;
    await assert.rejects(ask(address, { signal: stop.signal, onRetry }), { message });
    assert.deepEqual(waits, expectedWaits);
  }
});

test('a sleep ends after its time or with its signal, and then removes its listener', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const stop = new AbortController();
  const listeners = () => getEventListeners(stop.signal, 'abort').length;
  let isOver = false;
  const sleeping = sleep(10, stop.signal).then(() => (isOver = true));
  assert.equal(listeners(), 1);
  t.mock.timers.tick(9);
  await Promise.resolve();
  assert.equal(isOver, false);
  t.mock.timers.tick(1);
  await sleeping;
  assert.deepEqual([isOver, listeners()], [true, 0]);
  const sleepPromise = sleep(10, stop.signal);
  stop.abort(new Error('enough'));
  await assert.rejects(sleepPromise, /^Error: enough$/);
  await assert.rejects(sleep(10, stop.signal), /^Error: enough$/);
  t.mock.timers.reset();
  const setTimer = t.mock.method(globalThis, 'setTimeout', () => 'a timer');
  const clear = t.mock.method(globalThis, 'clearTimeout', () => {});
  const otherController = new AbortController();
  const otherSleep = sleep(10, otherController.signal);
  otherController.abort(new Error('enough'));
  await assert.rejects(otherSleep, /^Error: enough$/);
  assert.equal(setTimer.mock.callCount(), 1);
  assert.deepEqual(clear.mock.calls[0]?.arguments, ['a timer']);
});

test('the reason of a failed request is its innermost cause, which browsers omit', (t) => {
  const cause = new Error('connect ECONNREFUSED');
  for (const error of [
    new TypeError('fetch failed', { cause }),
    new TypeError('Failed to fetch'),
    new TypeError('fetch failed', { cause: 'text' }),
    new Error('no byte came'),
    'a text',
  ])
    t.assert.snapshot(reasonOf(error));
});

test('the error of a failed request says what to check: a file, a host, or a site without CORS headers', async (t) => {
  const { location } = globalThis;
  t.after(() => Object.assign(globalThis, { location }));
  const retryOptions = { tries: 2, wait: 0 };
  t.mock.method(globalThis, 'fetch', async () => {
    throw new Error('cut');
  });
  const textOf = async (url) =>
    (await ask(new URL(url), retryOptions).catch((error) => error)).text;
  for (const origin of [undefined, 'https://a.example:8000', 'https://page.example']) {
    globalThis.location = /** @type {any} */ (origin && { origin });
    t.assert.snapshot(await textOf('https://a.example:8000/w'));
  }
  const retries = [];
  const fileError = await ask(new URL('file:///no/such/file'), {
    wait: 0,
    onRetry: (retry) => retries.push(retry),
  }).catch((error) => error);
  assert.equal(fileError.where, 'file:///no/such/file');
  assert.match(fileError.text, /^expected a file that can be read, found none: ENOENT/);
  assert.deepEqual(retries, []);
});

test('the body of a failed response is canceled, that of a successful one is not', async (t) => {
  const cancelledBodies = [];
  const body = (name) => new ReadableStream({ cancel: () => void cancelledBodies.push(name) });
  const answers = [new Response(body('refused'), { status: 500 }), new Response(body('given'))];
  const { answer } = await send(t, answers);
  assert.deepEqual([answer.status, cancelledBodies], [200, ['refused']]);
});

test('a request without a response ends after a minute, or after the caller’s timeout', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  t.mock.method(
    globalThis,
    'fetch',
    (_, { signal }) =>
      new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  );
  for (const [options, stall] of [
    [{}, 60_000],
    [{ stall: 20 }, 20],
    [{ stall: 20, signal: new AbortController().signal }, 20],
  ]) {
    let error;
    const answerPromise = ask(address, { tries: 1, ...options }).catch(
      (thrown) => (error = thrown),
    );
    t.mock.timers.tick(stall - 1);
    await new Promise(setImmediate);
    assert.equal(error, undefined);
    t.mock.timers.tick(1);
    await answerPromise;
    assert.match(error.text, new RegExp(` ${stall} ms$`));
  }
  const stop = new AbortController();
  const answerPromise = ask(address, { signal: stop.signal });
  stop.abort(new Error('enough'));
  await assert.rejects(answerPromise, /^Error: enough$/);
});

test('only temporary failures are tried again', async (t) => {
  const retryStatuses = [408, 425, 429, 500, 502, 503, 504];
  for (let status = 400; status < 600; status++) {
    const { requests } = await send(t, [reply(status)], { tries: 2 });
    assert.equal(requests.length, retryStatuses.includes(status) ? 2 : 1, `${status}`);
  }
});

test('once a response has begun, the timeout no longer applies', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { requests } = await send(t, [reply(200)]);
  t.mock.timers.tick(60_000);
  assert.equal(requests[0].signal.aborted, false);
});
