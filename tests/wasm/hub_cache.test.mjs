import { after, before, beforeEach, test } from 'node:test';
import assert from 'node:assert/strict';
import {
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { modelFiles, resolveHub } from '../../wasm/index.ts';
import { cacheBytes, cacheClear, cacheList, planText } from '../../wasm/internal.ts';
import { openCached } from '../../wasm/loading/cache.ts';
import { TOKENS } from '../hub/repositories.mjs';
import { openHub } from '../hub/server.mjs';
import { failure, softmax, withEngine } from './helper.mjs';

const weights = readFileSync(new URL('model.safetensors', softmax));
const MODEL_PATH = /model\.safetensors$/;
const folder = mkdtempSync(join(tmpdir(), 'sinkscope-'));
process.env.SINKSCOPE_CACHE = folder;
let hub;

before(async () => (hub = await openHub()));
beforeEach(async () => {
  hub.reset();
  await cacheClear();
});
after(async () => {
  await hub.close();
  rmSync(folder, { recursive: true });
});

const resolve = (id, options) => resolveHub(id, { endpoint: hub.endpoint, wait: 1, ...options });
const address = () => new URL(`${hub.endpoint}/sinkscope/softmax/resolve/main/model.safetensors`);
const parts = () => readdirSync(folder).filter((name) => !name.endsWith('.json'));

async function read(options = {}, countMax = Infinity, open = openCached) {
  const { bytes, stream } = await open(address(), { wait: 1, ...options });
  const chunks = [];
  let length = 0;
  for await (const chunk of stream) {
    chunks.push(Buffer.from(chunk));
    length += chunk.length;
    if (length >= countMax) break;
  }
  return { bytes, content: Buffer.concat(chunks) };
}

test('cached files are not fetched again, in this thread and in a worker', async () => {
  const plan = await resolve('sinkscope/softmax');
  for (const worker of [false, true]) {
    await withEngine({ worker }, async (engine) => {
      await engine.open(modelFiles(plan, { cache: true }));
      await planText(plan, plan.files.tokenizer, { cache: true });
    });
  }
  assert.equal(hub.seen(MODEL_PATH, 'hub').length, 1);
  assert.equal(hub.seen(/resolve-cache.*tokenizer\.json$/).length, 1);
  const listed = await cacheList();
  assert.equal(listed.length, 3);
  assert.ok(listed.every(({ id, complete }) => id === 'sinkscope/softmax' && complete));
  const sum = listed.reduce((bytes, file) => bytes + file.total, 0);
  assert.equal(await cacheBytes(), sum);
});

test('without the option cache nothing is stored', async () => {
  const plan = await resolve('sinkscope/softmax');
  await withEngine({}, (engine) => engine.open(modelFiles(plan)));
  assert.deepEqual(readdirSync(folder), []);
});

test('an unfinished download continues at its last byte', async () => {
  await read({ version: 'c' }, 1_000_000);
  const [{ bytes: cachedBytes, total, complete }] = await cacheList();
  assert.ok(cachedBytes >= 1_000_000 && cachedBytes < total && !complete, `${cachedBytes}`);
  const { bytes, content } = await read({ version: 'c' });
  assert.equal(bytes, weights.length);
  assert.ok(content.equals(weights));
  assert.equal(hub.seen(MODEL_PATH, 'cdn').at(-1).headers.range, `bytes=${cachedBytes}-`);
  hub.reset();
  assert.ok((await read({ version: 'c' })).content.equals(weights));
  assert.equal(hub.log.length, 0);
});

test('a failed download keeps the bytes that it received', async () => {
  hub.fault({ host: 'cdn', path: MODEL_PATH, times: 1, cut: 1_000_000 });
  hub.fault({ host: 'cdn', path: MODEL_PATH, status: 404 });
  assert.equal((await failure(read())).code, 'read');
  assert.ok((await cacheBytes()) > 0);
  hub.reset();
  assert.ok((await read()).content.equals(weights));
});

test('where only the ETag names the version, it is checked, and another one is fetched', async () => {
  await read();
  hub.reset();
  assert.ok((await read()).content.equals(weights));
  assert.equal(hub.seen(MODEL_PATH, 'cdn').length, 1);
  hub.fault({ host: 'cdn', path: MODEL_PATH, etag: '"another"' });
  assert.ok((await read()).content.equals(weights));
  assert.equal((await cacheList()).length, 2);
  hub.reset();
  hub.fault({ host: 'cdn', path: MODEL_PATH, etag: null });
  const notes = [];
  await read({ onNote: (note) => notes.push(note) });
  assert.match(notes.join(), /not kept: the server sends no size or ETag/);
});

/** Answers requests in turn: the tag of each response, the length that it states, and the length that it has. */
function answerWith(t, tags) {
  const requests = [];
  t.mock.method(globalThis, 'fetch', async (_, { signal, headers }) => {
    const [tag, bytes = 10, sentBytes = 10] = tags[requests.length];
    requests.push(signal);
    const firstByte = Number(/\d+/.exec(headers.range)?.[0] ?? 0);
    const digits = Array.from({ length: sentBytes }, (_, i) => i).slice(firstByte);
    const pull = (controller) => {
      if (digits.length) controller.enqueue(Uint8Array.of(digits.shift()));
      else controller.close();
    };
    const body = new ReadableStream({ pull }, { highWaterMark: 0 });
    return new Response(body, {
      status: firstByte ? 206 : 200,
      headers: {
        etag: tag,
        ...(bytes && { 'content-length': String(bytes - firstByte) }),
        ...(firstByte && { 'content-range': `bytes ${firstByte}-${bytes - 1}/${bytes}` }),
      },
    });
  });
  return requests;
}

test('a response that is not read to its end is canceled', async (t) => {
  const requests = answerWith(t, [['"a"'], ['"a"'], ['"a"'], ['"b"']]);
  const isEnded = () => requests.map(({ aborted }) => aborted);
  await read({}, 4);
  assert.deepEqual(isEnded(), [true]);
  assert.deepEqual([...(await read()).content], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  assert.deepEqual(isEnded(), [true, true, false]);
});

for (const [tag, bytes] of [
  ['"b"', 10],
  ['"a"', 12],
])
  test(`a file that changes between two requests to ${bytes} bytes of ${tag} is deleted from the cache`, async (t) => {
    const requests = answerWith(t, [['"a"'], ['"a"'], [tag, bytes]]);
    await read({}, 4);
    const error = await failure(read());
    assert.match(error.text, RegExp(`10 bytes of "a", found ${bytes} bytes of ${tag};`));
    assert.ok(requests.every(({ aborted }) => aborted));
    assert.deepEqual(readdirSync(folder), []);
  });

test('a cached file that is longer than the server now states is fetched again', async (t) => {
  answerWith(t, [['"a"', 12, 12], ['"a"']]);
  await read();
  assert.equal((await read()).content.length, 10);
});

test('a cached file is read no further after an abort', async () => {
  await read({ version: 'c' });
  const stop = new AbortController();
  const { stream } = await openCached(address(), { version: 'c', signal: stop.signal });
  stop.abort(new Error('enough'));
  await assert.rejects(stream.getReader().read(), /enough/);
});

test('a part that another page removes before it is read is fetched', async () => {
  await read({ version: 'c' });
  const { stream } = await openCached(address(), { version: 'c', wait: 1 });
  await cacheClear();
  assert.ok(Buffer.concat(await Array.fromAsync(stream)).equals(weights));
});

test('a plan without a commit is not kept', async (t) => {
  const siblings = [{ rfilename: 'config.json' }, { rfilename: 'model.safetensors', size: 7 }];
  t.mock.method(globalThis, 'fetch', async (address) =>
    Response.json(/\/api\//.test(address) ? { siblings } : {}),
  );
  await resolve('own/model', { cache: true });
  assert.deepEqual(
    readdirSync(folder).filter((name) => name.endsWith('.plan')),
    [],
  );
});

test('a response of unknown length is not kept', async (t) => {
  answerWith(t, [['"a"', 0]]);
  const notes = [];
  assert.equal((await read({ onNote: (note) => notes.push(note) })).content.length, 10);
  assert.match(notes.join(), /not kept: the server sends no size or ETag/);
  assert.deepEqual(readdirSync(folder), []);
});

test('a model, an address or the whole cache can be deleted', async () => {
  await read({ version: 'c', id: 'a/b' });
  await cacheClear(address().href);
  assert.deepEqual(await cacheList(), []);
  await read({ version: 'c', id: 'a/b' });
  await read({ version: 'd' });
  assert.equal((await cacheList()).length, 2);
  await cacheClear('a/b');
  assert.deepEqual(
    (await cacheList()).map(({ id }) => id),
    [address().href],
  );
  await cacheClear('no/such');
  assert.equal((await cacheList()).length, 1);
  await cacheClear();
  assert.equal(await cacheBytes(), 0);
  assert.deepEqual(readdirSync(folder), []);
});

test('a damaged file is fetched again', async () => {
  const damages = {
    'a part that is too short': () => truncateSync(join(folder, parts()[0]), 100),
    'a part that is gone': () => rmSync(join(folder, parts()[0])),
    'a part that is too long': () =>
      writeFileSync(
        join(folder, parts()[0].replace(/\.\d+(?=\.\w+$)/, '.9999999')),
        Buffer.alloc(9999999),
      ),
    'a card that is no JSON': () => {
      const card = readdirSync(folder).find((name) => name.endsWith('.json'));
      writeFileSync(join(folder, card), '{');
    },
    'a foreign file': () => writeFileSync(join(folder, 'x.json'), 'null'),
  };
  for (const [description, damage] of Object.entries(damages)) {
    await cacheClear();
    await read({ version: 'c' });
    damage();
    await cacheList();
    assert.ok((await read({ version: 'c' })).content.equals(weights), description);
    hub.reset();
    assert.ok((await read({ version: 'c' })).content.equals(weights), description);
    assert.equal(hub.log.length, 0, `${description}: it is whole again`);
  }
});

test('a wrong file of the right size is rejected by its hash and not cached, in this visit or a later one', async () => {
  for (const worker of [false, true])
    for (const cache of [false, true])
      await withEngine({ worker }, async (engine) => {
        hub.reset();
        await cacheClear();
        hub.fault({ host: 'cdn', path: MODEL_PATH, times: 1, garbage: true });
        const plan = await resolve('sinkscope/softmax');
        const openModel = () => engine.open(modelFiles(plan, { cache }));
        const error = await failure(openModel());
        assert.match(
          error.text,
          /expected the bytes that the hub lists, sha256 [0-9a-f]{64}, found/,
        );
        assert.equal(/which is not kept/.test(error.text), cache);
        await (await openModel()).close();
        if (!cache) return;
        // The cache refuses parts damaged on the disk once, then fetches them again. Only weights are listed with a
        // hash.
        for (const part of parts()) {
          const bytes = readFileSync(join(folder, part));
          if (bytes.length > 100_000) writeFileSync(join(folder, part), bytes.fill(65));
        }
        const secondError = await failure(openModel());
        assert.ok(
          secondError.code === 'none' || /sha256|damaged/.test(secondError.text),
          secondError.text,
        );
        await (await openModel()).close();
      });
});

test('verified files open from their cached parts', async () => {
  await withEngine({ worker: false }, async (engine) => {
    hub.reset();
    await cacheClear();
    const plan = await resolve('sinkscope/softmax');
    const openCopy = async () => (await engine.open(modelFiles(plan, { cache: true }))).close();
    const cards = () =>
      readdirSync(folder)
        .filter((name) => name.endsWith('.json'))
        .map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')));
    await openCopy();
    const { sha256, url } = plan.files.weights[0];
    assert.equal(cards().find((card) => card.url === String(url)).sha256, sha256);
    hub.reset();
    await openCopy();
    assert.deepEqual(hub.log, []);
    const files = modelFiles(plan, { cache: true });
    const weights = files.weights.map((file) => ({ ...file, sha256: undefined }));
    await (await engine.open({ ...files, weights })).close();
    assert.equal(hub.log.length, 0, 'a file without a hash is cached as well');
  });
});

test('a verified file of which a part is missing is hashed again, together with the bytes that come', async () => {
  await withEngine({ worker: false }, async (engine) => {
    hub.reset();
    await cacheClear();
    const plan = await resolve('sinkscope/softmax');
    const open = async () => (await engine.open(modelFiles(plan, { cache: true }))).close();
    await open();
    const { url } = plan.files.weights[0];
    const cards = readdirSync(folder).filter((name) => name.endsWith('.json'));
    const card = cards.find(
      (name) => JSON.parse(readFileSync(join(folder, name), 'utf8')).url === String(url),
    );
    const last = parts()
      .filter((name) => name.startsWith(card.slice(0, -5)))
      .sort((a, b) => Number(a.split('.')[1]) - Number(b.split('.')[1]))
      .at(-1);
    rmSync(join(folder, last));
    hub.fault({ host: 'cdn', path: MODEL_PATH, times: 1, garbage: true });
    assert.match((await failure(open())).text, /expected the bytes that the hub lists, sha256/);
    await open();
    // Nothing that would not be hashed takes the place of a damaged part.
    for (const part of parts()) {
      const bytes = readFileSync(join(folder, part));
      writeFileSync(join(folder, part), bytes.fill(65));
    }
    assert.match((await failure(open())).text, /expected a file as it was kept, found it damaged/);
    await open();
  });
});

test('a model is hashed piece by piece: the host, which copies the bytes, gets no whole file', async (t) => {
  const digest = t.mock.method(crypto.subtle, 'digest');
  await withEngine({ worker: false }, async (engine) => {
    const plan = await resolve('sinkscope/softmax');
    assert.match(plan.files.weights[0].sha256, /^[0-9a-f]{64}$/);
    await (await engine.open(modelFiles(plan, { cache: false }))).close();
  });
  const lengths = digest.mock.calls.map((call) => call.arguments[1].byteLength);
  assert.ok(!lengths.includes(weights.length), `${lengths}`);
});

test('two downloads of the same file at once both succeed', async () => {
  const results = await Promise.all([read({ version: 'c' }), read({ version: 'c' })]);
  for (const { content } of results) assert.ok(content.equals(weights));
  hub.reset();
  assert.ok((await read({ version: 'c' })).content.equals(weights));
  assert.equal(hub.log.length, 0);
});

test('where the cache cannot be written, the download continues and reports it', async () => {
  const file = join(folder, 'file');
  writeFileSync(file, '');
  process.env.SINKSCOPE_CACHE = join(file, 'below');
  try {
    // Each instance of the module has one store, so the query string imports another instance.
    const { openCached: openCachedElsewhere } =
      await import('../../wasm/loading/cache.ts?elsewhere');
    const notes = [];
    const options = { version: 'c', onNote: (note) => notes.push(note) };
    assert.ok((await read(options, Infinity, openCachedElsewhere)).content.equals(weights));
    assert.equal(notes.length, 1);
    assert.match(notes[0], /not kept: .*no room.*ENOTDIR/);
  } finally {
    process.env.SINKSCOPE_CACHE = folder;
  }
});

test('a stored model opens without a network', async () => {
  const options = { cache: true };
  const id = 'sinkscope/softmax';
  const openPlan = (plan) =>
    withEngine({ worker: true }, (engine) => engine.open(modelFiles(plan, options)));
  const plan = await resolve(id, options);
  await openPlan(plan);
  hub.reset();
  hub.fault({ path: /./, status: 503 });
  const secondPlan = await resolve(id, options);
  assert.deepEqual(secondPlan, { ...JSON.parse(JSON.stringify(plan)), remembered: true });
  await openPlan(secondPlan);
  hub.reset();
  hub.fault({ path: /./, status: 401 });
  assert.equal((await failure(resolve(id, options))).code, 'access');
  await cacheClear(id);
  assert.deepEqual(readdirSync(folder), []);
  hub.reset();
  hub.fault({ path: /./, status: 503 });
  assert.equal((await failure(resolve(id, options))).code, 'read');
  hub.reset();
  await resolve(id, options);
  const name = readdirSync(folder).find((name) => name.endsWith('.plan'));
  writeFileSync(join(folder, name), '{"files":{}}');
  hub.fault({ path: /./, status: 503 });
  assert.equal((await failure(resolve(id, options))).code, 'read');
});

test('no token is written anywhere', async () => {
  const token = TOKENS.member;
  const plan = await resolve('sinkscope/gated', { token, cache: true });
  await withEngine({ worker: true }, (engine) =>
    engine.open(modelFiles(plan, { token, cache: true })),
  );
  const cachedNames = readdirSync(folder);
  assert.ok(cachedNames.length >= 4);
  for (const name of cachedNames) {
    assert.ok(!readFileSync(join(folder, name)).includes(token), name);
    assert.ok(!name.includes(token));
  }
});
