import { after, before, beforeEach, test } from 'node:test';
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { readFileSync } from 'node:fs';
import { fetchFile } from '../../wasm/loading/download.ts';
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
  const { bytes, stream } = await fetchFile(new URL(url), { wait: 5, ...options });
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return { bytes, content: Buffer.concat(chunks) };
}

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
  const { stream } = await fetchFile(new URL(url), { signal, wait: 5 });
  assert.equal(listeners(), 1);
  await stream.cancel();
  assert.equal(listeners(), 0, 'an unread stream');
});

test('empty files, and files compressed without a request for it, are read', async () => {
  hub.repository('sinkscope/softmax').revisions.main.files['empty.txt'] = Buffer.alloc(0);
  const emptyFile = `${hub.endpoint}/sinkscope/softmax/resolve/main/empty.txt`;
  const { bytes, stream } = await fetchFile(new URL(emptyFile), {});
  assert.equal(bytes, 0);
  hub.fault({ host: 'cdn', path: MODEL_PATH, gzip: true });
  const compressedFile = await read();
  assert.equal(compressedFile.bytes, undefined);
  assert.ok(compressedFile.content.equals(weights));
  assert.ok((await stream.getReader().read()).done);
});
