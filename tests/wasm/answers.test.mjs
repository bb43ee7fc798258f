// Tests that every small answer of a server has its limits: silence, endless bytes, a compressed flood, endless redirects.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { gzipSync } from 'node:zlib';
import { after, before, beforeEach, test } from 'node:test';
import { findPlan, openTimeline, resolveHub } from '../../wasm/index.ts';
import { readRenewing } from '../../wasm/loading/renew.ts';
import { readTexts } from '../../wasm/engine/texts.ts';
import { failure } from './helper.mjs';

const FLOOD_BYTES = 2 ** 27;
const flood = gzipSync(Buffer.alloc(FLOOD_BYTES, 0x20));
const LIST = {
  siblings: [{ rfilename: 'config.json' }, { rfilename: 'model.safetensors', size: 9 }],
};

let server;
let origin;
/** The path at which the server misbehaves, and how. */
let fault;
let requests;
let sentBytes;

const FAULTS = {
  silence: (response) => response.writeHead(200).write('{'),
  endless(response) {
    const spaces = Buffer.alloc(2 ** 20, 0x20);
    const send = () => {
      while (!response.destroyed && response.write(spaces)) sentBytes += spaces.length;
    };
    response.writeHead(200).on('drain', send);
    send();
  },
  compressed: (response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end(flood),
  redirects: (response, url) => response.writeHead(302, { location: `${url}?again` }).end(),
};

before(async () => {
  server = createServer(({ url, method }, response) => {
    requests++;
    const { pathname } = new URL(url, origin);
    if (fault.path.test(pathname) && method === 'GET')
      return FAULTS[fault.kind](response, pathname);
    if (/^\/api\//.test(pathname)) return response.end(JSON.stringify(LIST));
    if (/config\.json|model\.safetensors/.test(pathname)) return response.end('{}');
    response.writeHead(404).end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  origin = `http://127.0.0.1:${server.address().port}`;
});
after(() => {
  server.closeAllConnections();
  server.close();
});
beforeEach(() => {
  requests = 0;
  sentBytes = 0;
});

const CALLERS = {
  'the list of a hub': [
    /^\/api\//,
    (options) => resolveHub('o/n', { endpoint: origin, ...options }),
  ],
  'a config of a hub': [
    /config\.json$/,
    (options) => resolveHub('o/n', { endpoint: origin, ...options }),
  ],
  'a config in a folder': [
    /config\.json$/,
    (options) => findPlan(new URL(`${origin}/m/`), options),
  ],
  'the index of a timeline': [/index\.json$/, () => openTimeline(new URL(`${origin}/index.json`))],
  'the texts of the tables': [/texts\.json$/, () => readTexts(new URL(`${origin}/texts.json`), {})],
};

for (const [name, [path, read]] of Object.entries(CALLERS))
  for (const [kind, code, sentence] of [
    ['silence', 'read', /no (byte|answer) came for 500 ms/],
    ['endless', 'too_large', /^expected at most 67108864 bytes, more came$/],
    ['compressed', 'too_large', /^expected at most 67108864 bytes, more came$/],
    ['redirects', 'read', /redirect count exceeded$/],
  ]) {
    // These callers wait a minute, without an option for it.
    const hasOptions = read.length > 0;
    if (kind === 'silence' && !hasOptions) continue;
    // What the host decompresses comes to every caller like other bytes.
    if (kind === 'compressed' && name !== 'the list of a hub') continue;
    test(`${name} is limited: ${kind}`, async () => {
      fault = { path, kind };
      const options = kind === 'silence' ? { stall: 500 } : {};
      const { code: foundCode, text } = await failure(read(options));
      assert.match(text, sentence);
      assert.equal(foundCode, code);
      // Node.js follows twenty redirects; the index of a timeline is read again where the browser's cache may be damaged.
      assert.ok(requests <= 3 * 21, `${requests} requests`);
      assert.ok(sentBytes < 2 ** 28, `${sentBytes} bytes`);
    });
  }

test('a damaged file that is fetched again has the limits, too', async (t) => {
  const requests = [];
  const body = () => {
    const pull = (controller) => controller.enqueue(new Uint8Array(2 ** 20));
    return new ReadableStream({ type: 'bytes', pull });
  };
  t.mock.method(globalThis, 'fetch', async (_, { cache }) => {
    requests.push(cache);
    return new Response(body());
  });
  const reads = [() => Promise.reject(new Error('damaged')), async () => 'whole'];
  const read = () => reads.shift()();
  assert.equal(await readRenewing(new URL('https://a.example/x'), read, () => true), 'whole');
  assert.deepEqual(requests, ['reload']);
});
