/** Tests how files reach the memory of the module, with fake streams and answers. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { getEventListeners } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { after } from 'node:test';
import { cacheList } from '../../wasm/loading/cache.ts';
import { readAll, readConfig, readWeights, sizeOf } from '../../wasm/loading/files.ts';
import { createMeter } from '../../wasm/loading/meter.ts';
import { createSha256, sha256 } from '../../wasm/loading/hash.ts';
import { failure } from './helper.mjs';

const BYTES = Uint8Array.from({ length: 12 }, (_, i) => i + 1);
const { signal } = new AbortController();
const folder = mkdtempSync(join(tmpdir(), 'sinkscope-'));
process.env.SINKSCOPE_CACHE = folder;
after(() => rmSync(folder, { recursive: true }));

function memory({ size = 100 } = {}) {
  const memoryBytes = new Uint8Array(100);
  const log = [];
  return {
    log,
    memoryBytes,
    size,
    reserve: (bytes) => (log.push(['reserve', bytes]), 10),
    release: (address) => log.push(['release', address]),
    bytes: (address, length) => memoryBytes.subarray(address, address + length),
  };
}

function streamOf(...pieces) {
  const pull = (controller) => {
    const next = pieces.shift();
    if (next === undefined) controller.close();
    else if (next instanceof Error) controller.error(next);
    else controller.enqueue(next);
  };
  return new ReadableStream({ pull }, { highWaterMark: 0 });
}
const streamSource = (bytes, ...pieces) => ({
  stream: streamOf(...pieces),
  bytes,
  name: 'my.gguf',
});
const halves = () => [BYTES.slice(0, 5), BYTES.slice(5)];

async function load(source, module = memory()) {
  const reports = [];
  const report = (done, total, facts) => reports.push([done, total, facts]);
  const outcome = { module, reports };
  try {
    return { ...outcome, block: await readWeights(module, source, signal, report) };
  } catch (error) {
    return { ...outcome, error };
  }
}

test('weights from every kind of source are copied to their reserved memory', async (t) => {
  t.mock.method(globalThis, 'fetch', async () => new Response(streamOf(...halves())));
  const url = new URL('https://a.example/w');
  for (const source of [
    BYTES,
    new Blob([BYTES]),
    streamSource(12, ...halves()),
    url,
    { url: url.href },
  ]) {
    const { module, block } = await load(source);
    assert.deepEqual(block, { address: 10, bytes: 12 });
    assert.deepEqual([...module.memoryBytes.subarray(9, 23)], [0, ...BYTES, 0]);
    assert.deepEqual(module.log, [['reserve', 12]]);
  }
  t.mock.method(globalThis, 'fetch', async () => new Response(''));
  for (const source of [new Uint8Array(), new Blob([]), streamSource(0), url]) {
    const { module, block } = await load(source);
    assert.deepEqual([block.bytes, module.log], [0, [['reserve', 1]]]);
  }
});

test('progress reports go from 0 to the size of the file', async (t) => {
  const counts = ({ reports }) => reports.map(([done, total]) => [done, total]);
  assert.deepEqual((await load(BYTES)).reports, [[12, 12, undefined]]);
  const result = await load(streamSource(12, ...halves()));
  assert.deepEqual(
    [counts(result)[0], counts(result).at(-1)],
    [
      [0, 12],
      [12, 12],
    ],
  );
  assert.equal(result.reports.at(-1)[2].remaining, 0);
  t.mock.method(globalThis, 'fetch', async () => new Response(streamOf(...halves())));
  assert.deepEqual(counts(await load(new URL('https://a.example/w')))[0], [0, NaN]);
  // At most thirty reports come per second, and the last one in any case.
  let time = 0;
  t.mock.method(performance, 'now', () => time);
  const pieces = Array.from({ length: 12 }, (_, i) => BYTES.slice(i, i + 1));
  const stream = streamOf(...pieces);
  const timedSource = {
    name: 'x',
    bytes: 12,
    stream: stream.pipeThrough(
      new TransformStream({
        transform: (piece, controller) => ((time += 11), controller.enqueue(piece)),
      }),
    ),
  };
  const { reports } = await load(timedSource);
  assert.ok(reports.length >= 3 && reports.length <= 5, `${reports.length}`);
});

test('the note about a pause disappears with the next byte; the note that nothing is cached stays', async (t) => {
  const server = (...answers) =>
    t.mock.method(globalThis, 'fetch', async () => {
      const next = answers.shift();
      if (next instanceof Error) throw next;
      return next;
    });
  const sizedReply = { headers: { 'content-length': '12', etag: '"a"' } };
  server(
    new Response(null, { status: 503, headers: { 'retry-after': '0' } }),
    new Response(streamOf(...halves()), sizedReply),
  );
  const url = 'https://a.example/w';
  const firstResult = await load({ url });
  const notes = firstResult.reports.map(([, , { note }]) => note);
  assert.equal(notes[0], 'the server answered 503');
  assert.deepEqual(firstResult.reports[0].slice(0, 2), [0, NaN]);
  assert.deepEqual(new Set(notes.slice(1)), new Set([undefined]));
  server(new Response(streamOf(...halves())));
  const lasting = (await load({ url, cache: true })).reports.map(([, , { note }]) => note);
  assert.ok(lasting.length > 1);
  for (const note of lasting)
    assert.match(note, /^not kept: (the server sends no size|no storage)/);
});

test('more bytes than announced are rejected, and the memory is freed', async (t) => {
  const { error, module } = await load(streamSource(11, ...halves()));
  t.assert.snapshot([error.code, error.where, error.text]);
  assert.deepEqual(module.log.at(-1), ['release', 10]);
});

test('a file of unknown size is stored if it fits in memory', async (t) => {
  t.mock.method(globalThis, 'fetch', async () => new Response(streamOf(...halves())));
  const url = new URL('https://a.example/w?secret');
  const result = await load(url, memory({ size: 2 ** 32 - 12 }));
  assert.equal(result.block.bytes, 12);
  const { error, module } = await load(url, memory({ size: 2 ** 32 - 11 }));
  t.assert.snapshot([error.code, error.where, error.text]);
  assert.deepEqual(module.log, []);
});

test('an error about a truncated file names its source', async (t) => {
  const movedError = Object.assign(new Error('it moved'), { name: 'NotReadableError' });
  const file = Object.assign(new Blob([BYTES]), {
    name: 'own.gguf',
    stream: () => streamOf(movedError),
  });
  for (const [source, where] of [
    [streamSource(12, movedError), 'my.gguf'],
    [file, 'own.gguf'],
    [Object.assign(new Blob([BYTES]), { stream: () => streamOf(movedError) }), 'weights'],
  ]) {
    const { error, module } = await load(source);
    assert.deepEqual([error.code, error.where], ['read', where]);
    t.assert.snapshot(error.text);
    assert.deepEqual(module.log, [
      ['reserve', 12],
      ['release', 10],
    ]);
  }
  t.mock.method(globalThis, 'fetch', async () => new Response(streamOf(BYTES, movedError)));
  const { error } = await load(new URL('https://a.example/w'));
  assert.match(error.text, /^broke off after 12 bytes: it moved; /);
});

test('weights are compared with the hash from the hub, and freed if it differs', async (t) => {
  t.mock.method(globalThis, 'fetch', async () => new Response(streamOf(...halves())));
  const hash = createHash('sha256').update(BYTES).digest('hex');
  const url = 'https://a.example/w';
  assert.deepEqual((await load({ url, sha256: hash })).block, { address: 10, bytes: 12 });
  const wrongHash = '0'.repeat(64);
  const { error, module } = await load({ url, sha256: wrongHash });
  assert.deepEqual([error.code, error.where], ['read', url]);
  assert.match(error.text, RegExp(`sha256 ${wrongHash}, found ${hash}$`));
  assert.deepEqual(module.log.at(-1), ['release', 10]);
});

test('weights with a wrong hash are deleted from the cache only', async (t) => {
  const answer = { headers: { 'content-length': '12' } };
  t.mock.method(globalThis, 'fetch', async () => new Response(streamOf(...halves()), answer));
  const file = { url: 'https://a.example/w', id: 'a/b', version: 'c' };
  const sha256 = '0'.repeat(64);
  assert.equal((await load({ ...file, cache: true })).block.bytes, 12);
  const listCached = async () => (await cacheList()).map(({ id, complete }) => [id, complete]);
  assert.deepEqual(await listCached(), [['a/b', true]]);
  assert.doesNotMatch((await load({ ...file, sha256 })).error.text, /kept/);
  assert.deepEqual(await listCached(), [['a/b', true]]);
  assert.match(
    (await load({ ...file, sha256, cache: true })).error.text,
    /, which is not kept: try again$/,
  );
  assert.deepEqual(await listCached(), []);
});

test('a signal ends a stream at once, and has no listener after its end', async () => {
  const stop = new AbortController();
  const listeners = () => getEventListeners(stop.signal, 'abort').length;
  assert.deepEqual(await readAll(streamSource(12, ...halves()), stop.signal), BYTES);
  await assert.rejects(readAll(streamSource(12, new Error('x')), stop.signal), { code: 'read' });
  assert.equal(listeners(), 0);
  let canceled;
  const silentStream = new ReadableStream({
    pull: () => new Promise(() => {}),
    cancel: (reason) => void (canceled = reason),
  });
  const readPromise = readAll({ stream: silentStream, bytes: 1, name: 'x' }, stop.signal);
  setImmediate(() => stop.abort(new Error('enough')));
  await assert.rejects(readPromise, /^Error: enough$/);
  assert.equal(canceled?.message, 'enough');
  assert.equal(listeners(), 0);
  await assert.rejects(readAll(streamSource(12, ...halves()), stop.signal), /enough/);
});

test('an abandoned stream is canceled', async () => {
  let isCanceled = false;
  const stream = new ReadableStream({
    pull: (controller) => controller.enqueue(BYTES),
    cancel: () => void (isCanceled = true),
  });
  assert.equal((await load({ stream, bytes: 13, name: 'x' })).error.code, 'read');
  assert.ok(isCanceled);
});

test('small files are read up to 64 MiB', async (t) => {
  const piece = new Uint8Array(2 ** 25);
  assert.equal((await readAll(streamSource(0, piece, piece))).length, 2 ** 26);
  t.assert.snapshot(await failure(readAll(streamSource(0, piece, piece, BYTES.slice(0, 1)))));
  assert.equal(await readAll(BYTES), BYTES);
  assert.deepEqual(await readConfig('é', signal), Uint8Array.of(0xc3, 0xa9));
  assert.deepEqual(await readConfig(streamSource(12, ...halves()), signal), BYTES);
});

test('the size is known for local files and for files that a list describes', () => {
  const url = new URL('https://a.example/w');
  for (const [source, size] of [
    [BYTES, 12],
    [new Blob([BYTES]), 12],
    [streamSource(7), 7],
    [{ url, bytes: 5 }, 5],
    [{ url }, NaN],
    [url, NaN],
  ])
    assert.equal(sizeOf(source), size);
});

test('the rate is an exponential moving average over three seconds', () => {
  let time = 500;
  const measure = createMeter(() => time);
  assert.deepEqual(measure(0, 100), { rate: NaN, remaining: NaN });
  assert.ok(Number.isNaN(measure(10, 100).rate));
  time = 1500;
  assert.ok(Number.isNaN(measure(0, 100).rate));
  // The first rate is that of 20 bytes in two seconds.
  time = 2500;
  assert.deepEqual(measure(20, 100), { rate: 10, remaining: 8 });
  // After 60 bytes in three seconds, the mean moves by 1 - 1/e from 10 towards 20.
  time = 5500;
  const { rate, remaining } = measure(80, 100);
  assert.ok(Math.abs(rate - (10 + (1 - Math.exp(-1)) * 10)) < 1e-12);
  assert.equal(remaining, 20 / rate);
  assert.equal(measure(90, 100).rate, rate);
});

test('SHA-256 is right for whole buffers and piece by piece', async (t) => {
  const expected = createHash('sha256').update(BYTES).digest('hex');
  assert.equal(await sha256(BYTES), expected);
  const emptyHash = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';
  assert.equal(await sha256(''), emptyHash);
  const hash = await createSha256();
  for (const piece of halves()) hash.update(piece);
  assert.equal(hash.digest(), expected);
  t.mock.getter(globalThis, 'crypto', () => ({}));
  assert.equal(await sha256(BYTES), undefined);
});
