// Tests how the package reads the metadata of a GGUF file, in this thread and in a worker.
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { Worker } from 'node:worker_threads';
import { createServer } from 'node:http';
import { copyHeader, decodeValue, readMetadata } from '../../wasm/abi/metadata.ts';
import { openPlan } from '../../wasm/load/open_plan.ts';
import { entry, ggufHeader, headerOf } from '../gguf.mjs';
import { files, golden, tiny, withEngine } from './helper.mjs';

const weights = readFileSync(new URL('gguf-llama-gqa-f32/model.gguf', golden));

for (const worker of [false, true]) {
  test(`metadata values and lists are read ${worker ? 'from a worker' : 'in this thread'}`, async () => {
    await withEngine({ worker }, async (engine) => {
      const model = await engine.open({ weights });
      assert.equal(await model.metadata('general.architecture'), 'llama');
      assert.equal(await model.metadata('llama.block_count'), model.architecture.L);
      const tokens = await model.metadata('tokenizer.ggml.tokens');
      assert.equal(tokens.length, model.architecture.V);
      assert.ok(tokens.every((token) => typeof token === 'string'));
      const types = await model.metadata('tokenizer.ggml.token_type');
      assert.ok(types.length === tokens.length && types.every(Number.isInteger));
      assert.equal(await model.metadata('no.such.key'), undefined);
      await assert.rejects(model.metadata(7), { code: 'argument' });
      await model.close();
      await assert.rejects(model.metadata('general.architecture'), { code: 'closed' });

      const otherModel = await engine.open(files(tiny));
      assert.equal(await otherModel.metadata('general.architecture'), undefined);
    });
  });
}

test('a byte order mark in a token is kept as a character', async () => {
  const markedWeights = Buffer.from(weights);
  markedWeights.write('\ufeff', markedWeights.indexOf('t10'));
  await withEngine({}, async (engine) => {
    const model = await engine.open({ weights: markedWeights });
    const tokens = await model.metadata('tokenizer.ggml.tokens');
    assert.deepEqual(tokens.slice(9, 12), ['t9', '\ufeff', 't11']);
  });
});

test('texts decode together as each does alone, also those that are UTF-8 only together', () => {
  const decode = (/** @type {Uint8Array[]} */ texts) => {
    const parts = texts.flatMap((text) => {
      const length = Buffer.alloc(8);
      length.writeBigUInt64LE(BigInt(text.length));
      return [length, text];
    });
    const raw = { bytes: Buffer.concat(parts), type: 8, count: texts.length, isArray: true };
    return decodeValue(raw, 'key');
  };
  const alone = new TextDecoder('utf-8', { ignoreBOM: true });
  const words = ['', '\ufeff', 'a', '\u0120the', '\u6f22\u5b57', '\ud83d\ude00!', '\0', '\uffff'];
  const [start, end] = [Buffer.of(0x78, 0xc4), Buffer.of(0xa0, 0x79)];
  const broken = [Buffer.of(0xff), Buffer.of(0xed, 0xa0, 0x80), start, end, end, start];
  for (const texts of [
    words.map((word) => Buffer.from(word)),
    [],
    [start, end],
    [end, start],
    broken,
  ])
    assert.deepEqual(
      decode(texts),
      texts.map((text) => alone.decode(text)),
    );
  assert.deepEqual(decode(words.map((word) => Buffer.from(word))), words);
  assert.deepEqual(
    decode(broken.map((text) => Buffer.concat([Buffer.from('\u{1f600}'), text]))).length,
    6,
  );
});

test('numbers of every type of the format are read, single and in lists', () => {
  // By the type's id in the format: the method of Node.js that writes a value, its size, and two values.
  const types =
    /** @type {[number, (bytes: Buffer, value: any, at: number) => void, number, any[]][]} */ ([
      [0, (b, v, at) => b.writeUInt8(v, at), 1, [255, 1]],
      [1, (b, v, at) => b.writeInt8(v, at), 1, [-128, 1]],
      [2, (b, v, at) => b.writeUInt16LE(v, at), 2, [65_534, 1]],
      [3, (b, v, at) => b.writeInt16LE(v, at), 2, [-32_767, 1]],
      [4, (b, v, at) => b.writeUInt32LE(v, at), 4, [4_294_967_294, 1]],
      [5, (b, v, at) => b.writeInt32LE(v, at), 4, [-2_147_483_647, 1]],
      [6, (b, v, at) => b.writeFloatLE(v, at), 4, [-0.15625, 2]],
      [10, (b, v, at) => b.writeBigUInt64LE(BigInt(v), at), 8, [2 ** 52 + 1, 1]],
      [11, (b, v, at) => b.writeBigInt64LE(BigInt(v), at), 8, [-(2 ** 52) - 1, 1]],
      [12, (b, v, at) => b.writeDoubleLE(v, at), 8, [0.1, -2]],
    ]);
  const decode = (/** @type {Buffer} */ bytes, type, count, isArray) =>
    decodeValue({ bytes, type, count, isArray }, 'key');
  for (const [type, write, size, values] of types) {
    const bytes = Buffer.alloc(2 * size);
    values.forEach((value, i) => write(bytes, value, i * size));
    assert.deepEqual(decode(bytes, type, 2, true), values, `type ${type}`);
    assert.equal(decode(bytes, type, 1, false), values[0]);
  }
  assert.deepEqual(decode(Buffer.of(0, 1, 2), 7, 3, true), [false, true, true]);
  assert.throws(() => decode(Buffer.alloc(8), 13, 1, false), { code: 'unsupported' });
});

test('the header of a file is known once its last byte is there, whatever the bytes before say', () => {
  const header = copyHeader(new Uint8Array(weights));
  assert.equal(header.length, weights.indexOf('token_embd.weight') - 8);
  for (let n = 0; n < header.length; n++)
    assert.equal(copyHeader(header.subarray(0, n)), undefined);
  const read = readMetadata(header);
  assert.equal(read('llama.block_count'), 2);
  const twice = ggufHeader(['first', 'second'].map((text) => entry('key', 8, text)));
  assert.equal(readMetadata(twice)('key'), 'first');
  assert.equal(readMetadata(headerOf({}))('key'), undefined);
  // Each of the first bytes with each of some values: the header ends within the bytes, or there is none.
  for (let i = 0; i < 200; i++)
    for (const value of [0, 1, 8, 9, 127, 255]) {
      const bytes = Uint8Array.from(header);
      bytes[i] = value;
      const copy = copyHeader(bytes);
      assert.ok(copy === undefined || copy.length <= header.length);
    }
});

test('the header comes once, while the weights are on their way to a worker', async (t) => {
  let proceed = () => {};
  const waiting = new Promise((resolve) => (proceed = resolve));
  const server = createServer(async (_, response) => {
    response.writeHead(200, { 'content-length': weights.length });
    response.write(weights.subarray(0, weights.length / 2));
    await waiting;
    response.end(weights.subarray(weights.length / 2));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const url = new URL(`http://127.0.0.1:${server.address().port}/model.gguf`);
  await withEngine({ worker: true }, async (engine) => {
    const headers = [];
    const onHeader = (header) => {
      headers.push(header);
      proceed();
    };
    const stages = [];
    const onProgress = ({ stage }) => void stages.push(stage);
    const model = await engine.open({ weights: url }, { onHeader, onProgress });
    assert.deepEqual(headers, [copyHeader(new Uint8Array(weights))]);
    assert.equal(model.header, headers[0]);
    assert.ok(!stages.includes('header'), 'the header is no progress');
  });
});

test('the header is found in any piece of the first file, and in no other file', async (t) => {
  const pieces = [1000, 2000, 2100, weights.length].map((end, i, ends) =>
    weights.subarray(ends[i - 1] ?? 0, end),
  );
  let headerCount = 0;
  const onHeader = () => void headerCount++;
  async function* stream() {
    for (const [i, piece] of pieces.entries()) {
      if (i === 2) assert.equal(headerCount, 1);
      yield new Uint8Array(piece);
    }
  }
  const headers = { 'content-length': weights.length };
  t.mock.method(globalThis, 'fetch', async () => new Response(stream(), { headers }));
  await withEngine({}, async (engine) => {
    const url = new URL('http://127.0.0.1/model.gguf');
    await engine.open({ weights: url }, { onHeader });
    assert.equal(headerCount, 1);
    await assert.rejects(engine.open({ weights: [weights, weights] }, { onHeader }));
    assert.equal(headerCount, 2);
  });
});

test('a model and its tokenizer open together, and the one closes if the other fails', async (t) => {
  const tokens = ['<unk>', 'a'];
  const header = headerOf({
    ...{ 'tokenizer.ggml.model': 'llama', 'tokenizer.ggml.tokens': tokens },
    ...{ 'tokenizer.ggml.token_type': [2, 1], 'tokenizer.ggml.scores': [0, -1.5] },
  });
  const plan = { id: 'own', format: 'gguf', files: { weights: [{ name: 'a', url: 'http://a/' }] } };
  let closedCount = 0;
  const model = { close: async () => void closedCount++ };
  const open = (end, ...headers) => ({
    open: async (_, { onHeader }) => {
      for (const bytes of headers) onHeader(bytes);
      return end();
    },
  });
  const opened = () => ({ ...model, header });
  for (const headers of [[], [header], [header, header]]) {
    const { tokenizer } = await openPlan(open(opened, ...headers), plan, {});
    assert.equal(tokenizer.size, tokens.length);
    tokenizer.close();
  }
  assert.equal(closedCount, 0);
  await assert.rejects(openPlan(open(opened, headerOf({})), plan, {}), { code: 'unsupported' });
  assert.equal(closedCount, 1);
  const broken = open(() => Promise.reject(new Error('cut')), header);
  const ended = new Promise((resolve) =>
    t.mock.method(Worker.prototype, 'terminate', async () => resolve()),
  );
  await assert.rejects(openPlan(broken, plan, {}), /cut/);
  await ended;
});
