// Checks that checkpoints decode to the bits that the packer had, and that damage is refused with its place.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { createEngine, measure, openTimeline, openTokenizer } from '../../wasm/index.ts';
import { cutText } from '../../wasm/internal.ts';
import { binaries, failure, root } from './helper.mjs';
import {
  CHECKPOINTS,
  bytesOf,
  fixture,
  numbersOf,
  sha256,
  withFolder,
  write,
} from './timelines.mjs';

const zoo = new URL('models/zoo/', root);

test('every checkpoint decodes to its bits, in whatever order checkpoints are opened', async () => {
  await withFolder(async (folder) => {
    const smallTimeline = fixture();
    const address = write(folder, smallTimeline);
    const timeline = await openTimeline(address);
    assert.deepEqual([timeline.recipe, timeline.seed, timeline.parameters], ['small', 1, 19]);
    assert.deepEqual(timeline.checkpoints[1].measured, { sink_1: 1, loss: 2 });
    assert.deepEqual(timeline.log[1], { step: 5, loss: 6 });
    for (const i of [2, 0, 1, 1, 2, 1, 0]) {
      const { config, weights } = await timeline.open(CHECKPOINTS[i].step);
      assert.equal(config, '{"small": true}');
      assert.deepEqual(
        bytesOf(numbersOf(weights)),
        bytesOf(smallTimeline.weights[i]),
        `checkpoint ${i}`,
      );
    }
  });
});

test('checkpoints opened at the same time do not disturb each other', async () => {
  await withFolder(async (folder) => {
    const smallTimeline = fixture();
    const timeline = await openTimeline(write(folder, smallTimeline));
    const models = await Promise.all([20, 7, 0, 20].map((step) => timeline.open(step)));
    [2, 1, 0, 2].forEach((i, n) =>
      assert.deepEqual(bytesOf(numbersOf(models[n].weights)), bytesOf(smallTimeline.weights[i])),
    );
  });
});

/** Replaces a file and its length in the index, and also the hash unless the test needs a mismatch. */
function swap(files, i, bytes, isHashed = true) {
  const checkpoint = files['index.json'].checkpoints[i];
  files[checkpoint.file] = bytes;
  checkpoint.bytes = bytes.length;
  if (isHashed) checkpoint.sha256 = sha256(bytes);
}

const FILES = {
  'cut off': [
    (m) => (m['0007.gz'] = m['0007.gz'].subarray(0, -3)),
    '0007.gz',
    /expected \d+ bytes, found/,
  ],
  'a bit flipped': [(m) => (m['0007.gz'][15] ^= 4), '0007.gz', /expected sha256/],
  'no gzip': [(m) => swap(m, 1, Buffer.from('hello')), '0007.gz', /expected a gzip file/],
  'too little in it': [
    (m) => swap(m, 1, gzipSync(Buffer.alloc(33))),
    '0007.gz',
    /expected 34 bytes in it, found 33/,
  ],
  'too much in it': [
    (m) => swap(m, 1, gzipSync(Buffer.alloc(1e7))),
    '0007.gz',
    /expected 34 bytes in it, found more/,
  ],
  'other steps': [
    (m) => swap(m, 1, gzipSync(Buffer.alloc(34))),
    '0007.gz: weights',
    /expected sha256/,
  ],
};

test('an index with sizes beyond memory is rejected with its size', async (t) => {
  const Float32 = globalThis.Float32Array;
  t.after(() => (globalThis.Float32Array = Float32));
  await withFolder(async (folder) => {
    const smallTimeline = fixture();
    smallTimeline.index.tensors[1].shape = [2 ** 28 - 14];
    const timeline = await openTimeline(write(folder, smallTimeline));
    globalThis.Float32Array = class extends Float32 {
      constructor(...args) {
        if (args[0] === 2 ** 28) throw new RangeError('Array buffer allocation failed');
        super(...args);
      }
    };
    const error = await failure(timeline.open(0));
    assert.deepEqual([error.code, /index\.json$/.test(error.where)], ['no_memory', true]);
    assert.match(error.text, /1073741824 bytes/);
  });
});

test('a damaged file is rejected by its name, and checkpoints before it still open', async () => {
  for (const [name, [damage, where, text]] of Object.entries(FILES))
    await withFolder(async (folder) => {
      const timeline = await openTimeline(write(folder, fixture(), damage));
      await timeline.open(0);
      for (let round = 0; round < 2; round++) {
        const error = await failure(timeline.open(7));
        assert.equal(error.code, 'bad_file', name);
        assert.ok(error.where.endsWith(where), `${name}: ${error.where}`);
        assert.match(error.text, text, name);
      }
    });
});

test('a missing step is rejected with the list of stored steps', async () => {
  await withFolder(async (folder) => {
    const timeline = await openTimeline(write(folder, fixture()));
    const { code, text } = await failure(timeline.open(8));
    assert.deepEqual([code, text], ['argument', 'expected one of 0, 7, 20, got 8']);
  });
});

async function serve(folder, use, answer = (response, bytes) => response.end(bytes)) {
  const requests = [];
  const server = createServer((request, response) => {
    const name = request.url.split('/').pop();
    requests.push(name);
    answer(response, readFileSync(join(folder, name)), name, request);
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  try {
    await use(new URL(`http://127.0.0.1:${server.address().port}/index.json`), requests);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

test('each file is fetched once, when a checkpoint first needs it', async () => {
  await withFolder(async (folder) => {
    write(folder, fixture());
    await serve(folder, async (address, requests) => {
      const timeline = await openTimeline(address);
      await timeline.preload(7);
      await Promise.all([timeline.open(7), timeline.open(0), timeline.open(7)]);
      assert.deepEqual(requests, ['index.json', '0000.gz', '0007.gz', 'config.json']);
      timeline.forget();
      await timeline.open(0);
      assert.deepEqual(requests.slice(4), ['0000.gz']);
    });
  });
});

test('a server that decompresses .gz by itself gives the same weights', async () => {
  await withFolder(async (folder) => {
    const smallTimeline = fixture();
    write(folder, smallTimeline);
    const unpack = (response, bytes, name) =>
      response.end(name.endsWith('.gz') ? gunzipSync(bytes) : bytes);
    await serve(
      folder,
      async (address) => {
        const { weights } = await (await openTimeline(address)).open(20);
        assert.deepEqual(bytesOf(numbersOf(weights)), bytesOf(smallTimeline.weights[2]));
      },
      unpack,
    );
  });
});

async function until(condition) {
  while (!condition()) await new Promise((done) => setTimeout(done, 10));
}

test('a download stops when its only caller aborts, and continues if another caller waits', async () => {
  await withFolder(async (folder) => {
    const smallTimeline = fixture();
    write(folder, smallTimeline);
    const requestedFiles = [];
    const closedRequests = [];
    let release = () => {};
    const releasePromise = new Promise((done) => (release = done));
    const holdResponse = (response, bytes, name, request) => {
      if (name.endsWith('.gz')) requestedFiles.push(name);
      if (name.endsWith('.gz')) request.socket.on('close', () => closedRequests.push(name));
      if (!name.endsWith('.gz')) response.end(bytes);
      else void releasePromise.then(() => response.end(bytes));
    };
    await serve(
      folder,
      async (address) => {
        const timeline = await openTimeline(address);
        const [firstController, secondController] = [new AbortController(), new AbortController()];
        const farPromise = timeline.open(20, { signal: firstController.signal });
        const nearPromise = timeline.open(0, { signal: secondController.signal });
        await until(() => requestedFiles.length === 3);
        firstController.abort(new Error('outdated'));
        await assert.rejects(farPromise, /outdated/);
        await until(() => closedRequests.length >= 2);
        assert.deepEqual(closedRequests.sort(), ['0007.gz', '0020.gz']);
        release();
        assert.deepEqual(
          bytesOf(numbersOf((await nearPromise).weights)),
          bytesOf(smallTimeline.weights[0]),
        );
        const { weights } = await timeline.open(20);
        assert.deepEqual(bytesOf(numbersOf(weights)), bytesOf(smallTimeline.weights[2]));
      },
      holdResponse,
    );
  });
});

const cards = JSON.parse(readFileSync(new URL('index.json', zoo)));
const PACKED_MODELS = cards.filter(({ timeline }) => timeline).map(({ id }) => id);

for (const id of PACKED_MODELS)
  test(`${id}: decoded weights have the hashes of the Python packer`, async () => {
    const address = new URL(`${id}/timeline/index.json`, zoo);
    const timeline = await openTimeline(address);
    const index = JSON.parse(readFileSync(address));
    const { checkpoints } = timeline;
    // To decode the last one adds up all: one model is opened at every step, and at one of them again.
    const opened = id === 'softmax' ? [...checkpoints, checkpoints[3]] : checkpoints.slice(-1);
    for (const { step } of opened) {
      const { weights } = await timeline.open(step);
      const { weights_sha256 } = index.checkpoints.find((checkpoint) => checkpoint.step === step);
      assert.equal(sha256(bytesOf(numbersOf(weights))), weights_sha256, `step ${step}`);
    }
  });

// PyTorch measured the packer's weights; the core measures the decoded ones.
test('a decoded model has the metrics of the index, over 100 held-out sequences', async () => {
  const step = 1400;
  const folder = new URL('softmax/', zoo);
  const timeline = await openTimeline(new URL('timeline/index.json', folder));
  const tokenizer = openTokenizer(readFileSync(new URL('tokenizer.json', folder), 'utf8'));
  const texts = JSON.parse(readFileSync(new URL('heldout.json', zoo)));
  const options = { tokens: 64, sequences: 100, special: ['<s>'], lines: false };
  const engine = await createEngine({ base: binaries, worker: false });
  const model = await engine.open(await timeline.open(step));
  const { metrics } = await measure(model, await cutText(tokenizer, texts, options));
  await engine.close();
  const { stored } = timeline.checkpoints.find((checkpoint) => checkpoint.step === step);
  const largestOf = (name, stride = 1) =>
    Math.max(...metrics[name].mean.filter((_, i) => i % stride === 0));
  const measures = {
    sink_1: 100 * metrics.sink_ratio.mean[0],
    loss: metrics.loss_mean.mean[0],
    alpha_max: largestOf('alpha', 64),
  };
  // Sink_1 is the share of 2400 maps: one map within rounding of eps changes it by 0.04 percentage points.
  for (const [name, tolerance] of Object.entries({ sink_1: 0.05, loss: 0.001, alpha_max: 0.001 }))
    assert.ok(
      Math.abs(measures[name] - stored[name]) <= tolerance,
      `${name}: ${measures[name]}, stored ${stored[name]}`,
    );
});
