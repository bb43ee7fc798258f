/** Tests the requests of a download, and which answers it accepts. */
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import test from 'node:test';
import { fetchFile } from '../../wasm/loading/download.ts';

const address = new URL('https://hub.example/m/model.gguf?signed=secret');
const url = 'https://hub.example/m/model.gguf';
const BYTES = Uint8Array.from({ length: 10 }, (_, i) => i);

function bodyOf(bytes, isCut) {
  // The bytes come in two chunks, as a connection delivers them.
  const chunks = [bytes.subarray(0, 5), bytes.subarray(5)].filter(({ length }) => length > 0);
  const pull = (controller) => {
    const chunk = chunks.shift();
    if (chunk) controller.enqueue(chunk);
    else if (isCut) controller.error(new Error('cut'));
    else controller.close();
  };
  return new ReadableStream({ pull }, { highWaterMark: 0 });
}

/** Returns an answer with the bytes from `from` on; those after `to` are cut off. */
function reply(status, headers = {}, { from = 0, to = 10, isCut = to < 10, bytes = BYTES } = {}) {
  return new Response(bodyOf(bytes.slice(from, to), isCut), { status, headers });
}

/**
 * Downloads from a server that gives the answers in turn and repeats the last one.
 * @param {import('node:test').TestContext} t
 */
async function read(t, answers, options = {}, fetchIt = fetchFile) {
  const requests = [];
  const reasons = [];
  const waits = [];
  t.mock.method(globalThis, 'fetch', async (_, { headers }) => {
    const answer = answers[Math.min(requests.length, answers.length - 1)];
    requests.push(headers);
    if (answer instanceof Error) throw answer;
    return answer();
  });
  const onRetry = ({ reason, wait }) => (reasons.push(reason), waits.push(wait));
  const result = { requests, reasons, waits };
  try {
    const { bytes, tag, stream } = await fetchIt(address, { wait: 0, onRetry, ...options });
    Object.assign(result, { bytes, tag });
    const content = [];
    for await (const chunk of stream) content.push(...chunk);
    return { ...result, content };
  } catch (error) {
    return { ...result, error };
  }
}

const wholeReply = (headers = {}) =>
  reply(200, { 'content-length': '10', etag: '"a"', ...headers });
const cutReply = (to, headers = {}) =>
  reply(200, { 'content-length': '10', etag: '"a"', ...headers }, { to });
const partReply = (from, headers = {}) =>
  reply(206, { 'content-range': `bytes ${from}-9/10`, etag: '"a"', ...headers }, { from });

test('a download has the size and the tag of its response', async (t) => {
  for (const [headers, bytes, tag] of [
    [{ 'content-length': '10', etag: '"a"' }, 10, '"a"'],
    [{ 'content-length': '10', etag: 'W/"a"', 'last-modified': 'today' }, 10, 'today'],
    [{ 'content-length': '10', etag: 'W/"a"' }, 10, undefined],
    [{ 'content-length': '10', 'content-encoding': 'identity', 'last-modified': 'x' }, 10, 'x'],
    [{ 'content-length': '10', 'content-encoding': 'gzip', 'last-modified': 'x' }],
    [{ 'content-length': '1e400' }],
    [{ 'content-length': 'ten' }],
    [{}],
  ]) {
    const result = await read(t, [() => reply(200, headers)]);
    assert.deepEqual(result.content, [...BYTES]);
    assert.deepEqual([result.bytes, result.tag], [bytes, tag], JSON.stringify(headers));
    assert.deepEqual(result.requests, [{ 'accept-encoding': 'identity' }]);
  }
  const result = await read(t, [() => reply(200)], { version: 'c', bytes: 10 });
  assert.deepEqual([result.bytes, result.tag], [10, 'c']);
});

test('a download continues after its last byte, with the tag if no version is known', async (t) => {
  for (const [version, condition] of [
    [undefined, { 'if-range': '"a"' }],
    ['commit', {}],
  ]) {
    const result = await read(t, [() => cutReply(4), () => partReply(4)], { version });
    assert.deepEqual(result.content, [...BYTES]);
    const firstHeaders = { 'accept-encoding': 'identity' };
    assert.deepEqual(result.requests, [
      firstHeaders,
      { ...firstHeaders, range: 'bytes=4-', ...condition },
    ]);
    t.assert.snapshot(result.reasons);
  }
  assert.equal((await read(t, [() => partReply(1)], { from: 1 })).requests[0].range, 'bytes=1-');
  const result = await read(t, [() => partReply(6)], { from: 6 });
  assert.deepEqual([result.content, result.bytes], [[6, 7, 8, 9], 10]);
  assert.equal(result.requests[0].range, 'bytes=6-');
  assert.equal(result.requests[0]['if-range'], undefined);
  // A server without ranges sends the whole file again.
  for (const from of [0, 3, 5, 6, 10]) {
    const result = await read(t, [() => wholeReply()], { from });
    assert.deepEqual(result.content, [...BYTES.subarray(from)]);
  }
});

test('a response without further bytes ends the file, or is rejected as another file', async (t) => {
  const emptyReply = (total) => reply(416, { 'content-range': `bytes */${total}` });
  const result = await read(t, [() => emptyReply(10)], { from: 10 });
  assert.deepEqual([result.content, result.bytes], [[], 10]);
  for (const [answer, from, options] of [
    [() => emptyReply(10), 11],
    [() => emptyReply(10), 9],
    [() => emptyReply('x'), 9],
    [() => emptyReply(12), 12, { bytes: 10 }],
    [() => partReply(5), 4],
    [() => wholeReply(), 11],
  ]) {
    const { error } = await read(t, [answer], { from, ...options });
    assert.deepEqual([error.code, error.where], ['read', url]);
    t.assert.snapshot(error.text);
  }
  const atEnd = await read(t, [() => wholeReply()], { from: 10 });
  assert.deepEqual(atEnd.content, []);
});

test('a partial response without a total or a start counts as the requested range', async (t) => {
  for (const [headers, bytes] of [
    [{ 'content-range': 'bytes 6-9/*' }, undefined],
    [{ 'content-length': '4' }, 10],
    [{}, undefined],
    [{ 'content-range': 'lines 6-9/10', 'content-length': '4' }, 10],
  ]) {
    const result = await read(t, [() => reply(206, headers, { from: 6 })], { from: 6 });
    assert.deepEqual(
      [result.content, result.bytes],
      [[6, 7, 8, 9], bytes],
      JSON.stringify(headers),
    );
  }
});

test('without an ETag a download restarts only if no byte has arrived', async (t) => {
  const untaggedReply = (to) => () => reply(200, { 'content-length': '10' }, { to });
  const result = await read(t, [untaggedReply(0), untaggedReply(10)]);
  assert.deepEqual([result.content, result.requests.length], [[...BYTES], 2]);
  t.assert.snapshot(result.reasons);
  for (const answers of [
    [untaggedReply(3)],
    [() => cutReply(3), () => partReply(3, { etag: 'W/"a"' })],
    [() => cutReply(3), () => partReply(3, { etag: '"b"' })],
    [
      () => cutReply(3, { etag: 'W/"a"', 'last-modified': 'today' }),
      () => partReply(3, { etag: 'W/"a"', 'last-modified': 'later' }),
    ],
    [untaggedReply(1)],
    [() => cutReply(1, { etag: 'W/"a"' }), () => partReply(1)],
  ]) {
    const { error, requests } = await read(t, answers);
    t.assert.snapshot([error.code, error.text, requests.length]);
  }
});

test('each try without bytes waits twice as long, and a received byte resets the count', async (t) => {
  const steps = [() => cutReply(0), () => cutReply(0), () => cutReply(3)];
  const refusedReply = () =>
    reply(206, { 'content-range': 'bytes 3-9/10', etag: '"a"' }, { to: 0 });
  const result = await read(t, [...steps, refusedReply, refusedReply, () => partReply(3)], {
    tries: 4,
    wait: 1,
  });
  assert.deepEqual([result.content, result.waits], [[...BYTES], [1, 2, 1, 2, 4]]);
  const { error, requests, waits } = await read(t, [() => cutReply(0)], { tries: 3 });
  t.assert.snapshot(error.text);
  assert.deepEqual([requests.length, waits.length], [3, 2]);
  const defaultResult = await read(t, [() => cutReply(0)]);
  t.assert.snapshot(defaultResult.error.text);
  assert.equal(defaultResult.requests.length, 5);
});

test('a wrong size is an error, whether the server or the caller gave it', async (t) => {
  const sizedReply = (length, options = {}) =>
    reply(200, { 'content-length': length, etag: '"a"' }, options);
  const short = { to: 8, isCut: false };
  for (const [answers, options] of [
    [[() => sizedReply('9')], {}],
    [[() => sizedReply('10')], { bytes: 9 }],
    [[() => reply(200)], { bytes: 9 }],
    [[() => reply(200)], { bytes: 11 }],
    // A connection that ends too early counts as a cut one.
    [[() => sizedReply('10', short)], { tries: 1 }],
  ]) {
    const { error } = await read(t, answers, options);
    t.assert.snapshot([error?.code, error?.text]);
  }
  const result = await read(t, [() => sizedReply('10', short), () => partReply(8)]);
  assert.deepEqual(result.content, [...BYTES]);
});

test('a web page is rejected as a file unless the address ends in .html', async (t) => {
  const page = () => wholeReply({ 'content-type': 'text/html; charset=utf-8' });
  const { error } = await read(t, [page]);
  t.assert.snapshot(error.text);
  t.mock.method(globalThis, 'fetch', async () => page());
  for (const name of ['a.html', 'a.HTM'])
    assert.equal((await fetchFile(new URL(`https://hub.example/${name}`), {})).bytes, 10);
  assert.equal(
    (await read(t, [() => wholeReply({ 'content-type': 'text/htmlx' })])).error,
    undefined,
  );
});

test('after a rejected range, the whole file is requested once', async (t) => {
  const networkError = new TypeError('fetch failed');
  const result = await read(
    t,
    [() => cutReply(4), networkError, networkError, () => wholeReply()],
    { tries: 2 },
  );
  assert.deepEqual(result.content, [...BYTES]);
  assert.deepEqual(
    result.requests.map(({ range }) => range),
    [undefined, 'bytes=4-', 'bytes=4-', undefined],
  );
  const failedTwice = await read(t, [() => cutReply(4), networkError], { tries: 2 });
  assert.equal(failedTwice.requests.length, 4);
  assert.equal(failedTwice.error.code, 'read');
  for (const [answer, code] of [
    [() => reply(401), 'access'],
    [() => reply(404), 'read'],
  ]) {
    const result = await read(t, [() => cutReply(4), answer]);
    assert.deepEqual([result.error.code, result.requests.length], [code, 2]);
  }
  const singleResult = await read(t, [networkError], { tries: 2 });
  assert.equal(singleResult.requests.length, 2);
});

test('a signal ends a download with its own reason, and has no listener afterwards', async (t) => {
  t.mock.method(globalThis, 'fetch', async () => cutReply(3));
  const stop = new AbortController();
  const listeners = () => getEventListeners(stop.signal, 'abort').length;
  const onRetry = () => stop.abort(new Error('enough'));
  const { stream } = await fetchFile(address, { signal: stop.signal, wait: 1e4, onRetry });
  const reader = stream.getReader();
  assert.deepEqual([...(await reader.read()).value], [0, 1, 2]);
  await assert.rejects(reader.read(), /^Error: enough$/);
  assert.equal(listeners(), 0);
  const before = { signal: AbortSignal.abort(new Error('before')) };
  await assert.rejects(fetchFile(address, before), /^Error: before$/);
});

test('a silent connection is given up, and a download leaves no timer', async (t) => {
  const timers = () => process.getActiveResourcesInfo().filter((type) => type === 'Timeout').length;
  const before = timers();
  let isCancelled = false;
  const cancel = () => (isCancelled = true);
  const silentReply = () =>
    new Response(new ReadableStream({ cancel }), { headers: { etag: '"a"' } });
  const { content, reasons } = await read(t, [silentReply, () => wholeReply()], { stall: 20 });
  assert.deepEqual(content, [...BYTES]);
  assert.match(reasons.join(), /no byte came for 20 ms/);
  assert.ok(isCancelled);
  assert.equal(timers(), before);
});

test('a canceled download ends its request, with the reason', async (t) => {
  let requestSignal;
  t.mock.method(
    globalThis,
    'fetch',
    async (_, { signal }) => ((requestSignal = signal), wholeReply()),
  );
  const reader = (await fetchFile(address, { wait: 0 })).stream.getReader();
  await reader.read();
  assert.equal(requestSignal.aborted, false);
  await reader.cancel(new Error('enough'));
  assert.equal(requestSignal.reason?.message, 'enough');
});

/** A page can neither request uncompressed bytes nor see whether another site compressed them. */
test('in a browser the size of a compressed response counts only if it was known before', async (t) => {
  const { Request } = globalThis;
  t.after(() => Object.assign(globalThis, { Request }));
  globalThis.Request = /** @type {any} */ (
    class {
      headers = new Headers();
    }
  );
  const { fetchFile: inBrowser } = await import('../../wasm/loading/download.ts?browser');
  const foreignReply = (response, type = 'cors') =>
    Object.defineProperty(response, 'type', { value: type });
  const sizedReply = (length) => reply(200, { 'content-length': length, etag: '"a"' });
  for (const [answer, options] of [
    [() => foreignReply(sizedReply('4')), {}],
    [() => foreignReply(sizedReply('4')), { bytes: 10 }],
    [
      () => foreignReply(reply(200, { 'content-length': '4' }, { to: 4, isCut: false })),
      { bytes: 10 },
    ],
    [() => foreignReply(sizedReply('4')), { bytes: 9 }],
    [() => foreignReply(sizedReply('4'), 'basic'), {}],
    [() => foreignReply(reply(200, { 'content-length': '4', 'content-encoding': 'identity' })), {}],
    [() => foreignReply(reply(206, { 'content-length': '3' }, { from: 6 })), { from: 6 }],
  ]) {
    const result = await read(t, [answer], options, inBrowser);
    t.assert.snapshot(result.error?.text ?? result.content);
    assert.equal(result.requests[0]['accept-encoding'], undefined);
  }
  // Only requests to the page's own site are conditional; for other sites the download compares the tags.
  const { location } = globalThis;
  t.after(() => Object.assign(globalThis, { location }));
  for (const [origin, condition] of [
    ['https://hub.example', '"a"'],
    ['https://page.example', undefined],
  ]) {
    globalThis.location = /** @type {any} */ ({ origin });
    const result = await read(t, [() => cutReply(4), () => partReply(4)], {}, inBrowser);
    assert.deepEqual([result.content, result.requests[1]['if-range']], [[...BYTES], condition]);
  }
});
