import { after, before, beforeEach, test } from 'node:test';
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { openDownload } from '../../wasm/internal.ts';
import { readWeights } from '../../wasm/loading/files.ts';
import { createMeter } from '../../wasm/loading/meter.ts';
import { openHub } from '../hub/server.mjs';
import { softmax } from './helper.mjs';

const weights = readFileSync(new URL('model.safetensors', softmax));
const MODEL_PATH = /model\.safetensors$/;
let hub;
let url;

before(async () => {
  hub = await openHub();
  url = `${hub.endpoint}/sinkscope/softmax/resolve/main/model.safetensors`;
});
beforeEach(() => hub.reset());
after(() => hub.close());

async function read(options = {}) {
  const { bytes, stream } = await openDownload(url, { wait: 5, ...options });
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return { bytes, content: Buffer.concat(chunks) };
}

const ranges = () => hub.seen(MODEL_PATH, 'cdn').map(({ headers }) => headers.range);

test('a file arrives whole, with its size, through the redirect', async () => {
  const { bytes, content } = await read();
  assert.equal(bytes, weights.length);
  assert.ok(content.equals(weights));
  assert.equal(hub.seen(MODEL_PATH, 'cdn')[0].headers['accept-encoding'], 'identity');
});

test('the token is sent only to its host', async () => {
  const { content } = await read({ token: 'hf_member' });
  assert.ok(content.equals(weights));
  assert.equal(hub.seen(MODEL_PATH, 'hub')[0].headers.authorization, 'Bearer hf_member');
  assert.equal(hub.seen(MODEL_PATH, 'cdn')[0].headers.authorization, undefined);
});

test('a cut connection is continued at its last byte', async () => {
  hub.fault({ host: 'cdn', path: MODEL_PATH, times: 1, cut: 1_000_000 });
  const reasons = [];
  const { content } = await read({ onRetry: ({ reason }) => reasons.push(reason) });
  assert.ok(content.equals(weights));
  const [first, second] = ranges();
  assert.equal(first, undefined);
  const from = Number(/^bytes=(\d+)-$/.exec(second)[1]);
  assert.ok(from > 0 && from <= 1_000_000, second);
  assert.match(hub.seen(MODEL_PATH, 'cdn')[1].headers['if-range'], /^"[0-9a-f]{64}"$/);
  assert.match(reasons.join(), new RegExp(`broke off after ${from} bytes`));
});

test('if a store rejects a range, the whole file is downloaded', async (t) => {
  hub.fault({ host: 'cdn', path: MODEL_PATH, times: 1, cut: 1_000_000 });
  // If another site does not allow ranges, a page learns only that its request failed.
  const { fetch } = globalThis;
  const refusedRanges = [];
  t.mock.method(globalThis, 'fetch', async (address, options) => {
    const range = new Headers(options?.headers).get('range');
    if (!range) return fetch(address, options);
    refusedRanges.push(range);
    throw new TypeError('fetch failed');
  });
  const { content } = await read();
  assert.ok(content.equals(weights));
  assert.ok(refusedRanges.length > 0);
  assert.deepEqual(ranges(), [undefined, undefined]);
});

test('a file arrives over many cut connections if each brings bytes', async () => {
  hub.fault({ host: 'cdn', path: MODEL_PATH, cut: 400_000 });
  const { content } = await read();
  assert.ok(content.equals(weights));
  assert.ok(ranges().length >= Math.ceil(weights.length / 400_000));
});

test('tries without bytes end the download', async () => {
  hub.fault({ host: 'cdn', path: MODEL_PATH, cut: 0 });
  await assert.rejects(read({ tries: 3 }), {
    code: 'read',
    message: /model\.safetensors: broke off after 0 bytes: .*3 tries brought nothing/,
  });
  assert.equal(ranges().length, 3);
});

test('a resumed download does not join parts of two versions of a file', async () => {
  hub.fault({ host: 'cdn', path: MODEL_PATH, times: 1, cut: 500 });
  hub.fault({ host: 'cdn', path: MODEL_PATH, etag: '"another"' });
  await assert.rejects(read(), { code: 'read', message: /expected to go on with .*"another"/ });
});

test('a server without ranges sends the whole file again, and bytes received before are skipped', async () => {
  hub.fault({ host: 'cdn', path: MODEL_PATH, times: 1, cut: 1_000_000, noRange: true });
  hub.fault({ host: 'cdn', path: MODEL_PATH, noRange: true });
  const { content } = await read();
  assert.ok(content.equals(weights));
});

test('without an ETag a cut download continues only if the address names a commit', async () => {
  hub.fault({ host: 'cdn', path: MODEL_PATH, etag: null, cut: 1_000_000 });
  await assert.rejects(read(), { code: 'read', message: /after [1-9]\d* bytes.*expected an ETag/ });
  assert.equal(ranges().length, 1);
  // An address that names a commit always has the same bytes.
  hub.reset();
  hub.fault({ host: 'cdn', path: MODEL_PATH, etag: null, times: 1, cut: 1_000_000 });
  hub.fault({ host: 'cdn', path: MODEL_PATH, etag: null });
  assert.ok((await read({ version: 'commit' })).content.equals(weights));
});

test('a wrong length is reported', async () => {
  hub.fault({ host: 'cdn', path: MODEL_PATH, length: weights.length + 10 });
  await assert.rejects(read(), {
    code: 'read',
    message: new RegExp(
      `expected ${weights.length + 10} bytes as announced, found ${weights.length}`,
    ),
  });
});

test('a silent connection counts as cut', async () => {
  hub.fault({ host: 'cdn', path: MODEL_PATH, times: 1, hang: true });
  const { content } = await read({ stall: 300 });
  assert.ok(content.equals(weights));
  hub.fault({ path: MODEL_PATH, silent: true });
  const silenceError = { code: 'read', message: /no answer came for 100 ms/ };
  await assert.rejects(read({ stall: 100, tries: 2 }), silenceError);
});

test('a busy server is tried again after the wait that it states, but not endlessly', async () => {
  hub.fault({ path: MODEL_PATH, times: 1, status: 429, headers: { 'retry-after': '1' } });
  hub.fault({ path: MODEL_PATH, times: 2, status: 503 });
  const waits = [];
  const { content } = await read({ onRetry: ({ wait }) => waits.push(wait) });
  assert.ok(content.equals(weights));
  assert.deepEqual(waits, [1000, 10, 20]);
  hub.reset();
  hub.fault({ path: MODEL_PATH, status: 429, headers: { 'retry-after': '3600' } });
  await assert.rejects(read(), { code: 'busy', message: /too many requests.*in 3600 s/ });
  assert.equal(hub.seen(MODEL_PATH).length, 1);
  hub.reset();
  const ratelimit = '"resolvers";r=0;t=200';
  hub.fault({ path: MODEL_PATH, status: 429, headers: { ratelimit } });
  await assert.rejects(read(), { code: 'busy', message: /in 200 s/ });
  hub.reset();
  hub.fault({ path: MODEL_PATH, status: 500 });
  await assert.rejects(read({ tries: 3 }), { code: 'read', message: /answered 500/ });
  assert.equal(hub.seen(MODEL_PATH).length, 3);
});

test('a permanent failure is reported at once', async () => {
  for (const [status, code] of [
    [401, 'access'],
    [403, 'access'],
    [404, 'read'],
    [410, 'read'],
  ]) {
    hub.reset();
    hub.fault({ path: MODEL_PATH, status });
    await assert.rejects(read(), { code, message: new RegExp(`answered ${status}`) });
    assert.equal(hub.seen(MODEL_PATH).length, 1);
  }
  const download = openDownload('http://127.0.0.1:1/x', { wait: 1, tries: 2 });
  const messageStart =
    /127\.0\.0\.1:1\/x: no answer came; see whether 127\.0\.0\.1:1 can be reached .*: /;
  await assert.rejects(download, { code: 'read', message: messageStart });
});

test('a finished download has no listener on its signal', async () => {
  const { signal } = new AbortController();
  const listeners = () => getEventListeners(signal, 'abort').length;
  await read({ signal });
  assert.equal(listeners(), 0, 'a whole one');
  hub.fault({ path: MODEL_PATH, status: 404 });
  await assert.rejects(read({ signal }), { code: 'read' });
  assert.equal(listeners(), 0, 'one that was refused');
  hub.reset();
  hub.fault({ host: 'cdn', path: MODEL_PATH, cut: 1_000_000 });
  await assert.rejects(read({ signal, tries: 1 }), { code: 'read' });
  assert.equal(listeners(), 0, 'one that broke off');
  hub.reset();
  const { stream } = await openDownload(url, { signal, wait: 5 });
  assert.equal(listeners(), 1);
  await stream.cancel();
  assert.equal(listeners(), 0, 'an unread stream');
});

test('a token with a line break is rejected at once, and not shown', async () => {
  for (const token of ['hf_secret\n', 'hf_secret\r\nx: y', 'hf secret', 'hf_s\u00e9cret']) {
    const isRefusal = (error) =>
      error.code === 'argument' && !/secret|s\u00e9cret/.test(error.stack);
    await assert.rejects(read({ token }), isRefusal);
  }
  assert.equal(hub.log.length, 0);
});

test('a browser’s message about a failed request is replaced by the package’s own', async (t) => {
  t.mock.method(globalThis, 'fetch', () => Promise.reject(new TypeError('Failed to fetch')));
  await assert.rejects(read({ tries: 1 }), ({ code, message }) => {
    assert.ok(code === 'read' && !/Failed|TypeError/.test(message), message);
    return /no answer came; see whether 127.*the connection was refused or cut/.test(message);
  });
});

test('no secret of an address is shown', async () => {
  const download = openDownload(`${url}x?signature=secret`, { wait: 1, tries: 1 });
  await assert.rejects(
    download,
    (error) => !/secret/.test(error.message) && error.code === 'not_found',
  );
});

test('a signal stops a download at once, whether it has not begun, waits, or receives bytes', async () => {
  await assert.rejects(read({ signal: AbortSignal.abort() }), { name: 'AbortError' });
  hub.fault({ path: MODEL_PATH, status: 503 });
  const startTime = performance.now();
  const readPromise = read({ signal: AbortSignal.timeout(50), wait: 20_000 });
  await assert.rejects(readPromise, { name: 'TimeoutError' });
  hub.reset();
  hub.fault({ host: 'cdn', path: MODEL_PATH, hang: true });
  await assert.rejects(read({ signal: AbortSignal.timeout(50) }), { name: 'TimeoutError' });
  // Without the signal the first would wait for twenty seconds, and the second without end.
  assert.ok(performance.now() - startTime < 15_000);
});

test('only the ranges that are read are downloaded', async () => {
  const { stream } = await openDownload(url, {});
  const reader = stream.getReader();
  await reader.read();
  await reader.cancel();
  await new Promise((done) => setTimeout(done, 50));
  assert.equal(hub.seen(MODEL_PATH, 'cdn').length, 1);
});

test('empty files, and files compressed without a request for it, are read', async () => {
  hub.repository('sinkscope/softmax').revisions.main.files['empty.txt'] = Buffer.alloc(0);
  const emptyFile = `${hub.endpoint}/sinkscope/softmax/resolve/main/empty.txt`;
  const { bytes, stream } = await openDownload(emptyFile);
  assert.equal(bytes, 0);
  hub.fault({ host: 'cdn', path: MODEL_PATH, gzip: true });
  const compressedFile = await read();
  assert.equal(compressedFile.bytes, undefined);
  assert.ok(compressedFile.content.equals(weights));
  assert.ok((await stream.getReader().read()).done);
});

test('the rate is smoothed, and the remaining time follows from it', () => {
  let time = 0;
  const measure = createMeter(() => time);
  assert.ok(Number.isNaN(measure(0, 1000).rate));
  for (let i = 1; i <= 10; i++) {
    time = 100 * i;
    measure(10 * i, 1000);
  }
  const evenProgress = measure(100, 1000);
  assert.ok(
    Math.abs(evenProgress.rate - 100) < 1e-9 && Math.abs(evenProgress.remaining - 9) < 1e-9,
  );
  // A burst at ten times the rate moves the rate only partly.
  time += 100;
  const { rate } = measure(200, 1000);
  assert.ok(rate > 100 && rate < 200, `${rate}`);
});

test('reports give the rate, the remaining time, and the reason of a pause', async () => {
  hub.fault({ host: 'cdn', path: MODEL_PATH, times: 1, cut: 1_000_000 });
  hub.fault({ host: 'cdn', path: MODEL_PATH, slow: 10_000_000 });
  const memory = new Uint8Array(weights.length + 1);
  const module = {
    reserve: () => 1,
    release() {},
    bytes: (address, length) => memory.subarray(address, address + length),
  };
  const reports = [];
  const report = (done, total, facts) => reports.push({ done, total, ...facts });
  const { signal } = new AbortController();
  const block = await readWeights(module, new URL(url), signal, report);
  assert.deepEqual(block, { address: 1, bytes: weights.length });
  assert.ok(Buffer.from(memory.subarray(1)).equals(weights));
  assert.deepEqual([reports[0].done, reports[0].total], [0, weights.length]);
  const [pause, ...others] = reports.filter(({ note }) => note);
  assert.match(pause.note, /broke off after \d+ bytes/);
  assert.equal(others.length, 0);
  const { done, total, rate, remaining } = reports.at(-1);
  assert.ok(done === total && remaining === 0 && rate > 1e6, `${rate}`);
  assert.ok(reports.every((report, i) => i === 0 || report.done >= reports[i - 1].done));
});

const servers = [];
after(() => {
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
});

/** Starts a server that gives the answers in turn and repeats the last one: [status, headers, body, is cut]. */
async function openServer(answers) {
  const requests = [];
  const server = createServer((request, response) => {
    const [status, headers, body, isCut] = answers[Math.min(requests.length, answers.length - 1)];
    requests.push(request.headers);
    response.writeHead(status, headers);
    if (!isCut) return response.end(body);
    response.write(body, () => setTimeout(() => response.destroy(), 20));
  });
  servers.push(server);
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return { address: `http://127.0.0.1:${server.address().port}/model.safetensors`, requests };
}

test('an invalid wait is replaced by the package’s own', async () => {
  for (const wait of ['-1', 'soon', '1e3', '']) {
    hub.reset();
    hub.fault({
      host: 'hub',
      path: MODEL_PATH,
      times: 1,
      status: 429,
      headers: { 'retry-after': wait },
    });
    const reasons = [];
    const startTime = performance.now();
    const { content } = await read({ wait: 50, onRetry: ({ reason }) => reasons.push(reason) });
    assert.ok(content.equals(weights) && performance.now() - startTime >= 20, wait);
    assert.doesNotMatch(reasons.join(), /-1|soon|1e3/);
  }
});

test('a wrong body, or a range of another file, is never joined with the received bytes', async () => {
  const content = Buffer.from(Array.from({ length: 531 }, (_, i) => i & 255));
  const size = { 'content-length': '531' };
  const partReply = [
    206,
    { 'content-range': 'bytes 100-530/531', 'content-length': '431', etag: '"b"' },
    content.subarray(100),
  ];
  const page = '<html>Sign in to go on</html>  ';
  const cases = [
    [
      [[200, { 'content-type': 'text/html', 'content-length': '31' }, page], partReply],
      /found a web page/,
    ],
    [[[200, { 'content-type': 'text/html; charset=utf-8' }, page], partReply], /found a web page/],
    [[[200, { 'content-length': '31' }, page], partReply], /expected 531 bytes.*31/],
    [[[200, {}, page], partReply], /expected 531 bytes, found a whole answer of 31/],
    [
      [[200, { ...size, etag: '"a"' }, content.subarray(0, 100), true], partReply],
      /go on with "a", found "b"/,
    ],
    [
      [
        [200, { ...size, etag: '"b"' }, content.subarray(0, 100), true],
        [206, { 'content-length': '400', etag: '"b"' }, content.subarray(100, 500)],
      ],
      /expected 531 bytes as announced, found 500/,
    ],
  ];
  for (const [answers, sentence] of cases) {
    const { address } = await openServer(answers);
    const options = { version: 'commit', bytes: 531, wait: 5, tries: 2 };
    await assert.rejects(
      async () => {
        const { stream } = await openDownload(address, options);
        for await (const _ of stream);
      },
      { code: 'read', message: sentence },
    );
  }
  // A cut download continues with the same ETag or a weak one, also if the answer has no range or length.
  const [status, { 'content-range': _, ...partHeaders }, body] = partReply;
  const { 'content-length': __, ...chunked } = partHeaders;
  for (const [etag, headers] of [
    ['"b"', partReply[1]],
    ['W/"x"', partReply[1]],
    ['"b"', partHeaders],
    ['"b"', chunked],
  ]) {
    const firstReply = [200, { ...size, etag }, content.subarray(0, 100), true];
    const { address, requests } = await openServer([firstReply, [status, headers, body]]);
    const { stream } = await openDownload(address, { version: 'commit', bytes: 531, wait: 5 });
    const chunks = [];
    for await (const chunk of stream) chunks.push(Buffer.from(chunk));
    assert.ok(Buffer.concat(chunks).equals(content));
    assert.equal(requests[1].range, 'bytes=100-');
  }
});
