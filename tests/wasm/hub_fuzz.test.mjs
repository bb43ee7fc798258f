import { test } from 'node:test';
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { planFiles, resolveHub } from '../../wasm/index.ts';
import { JUNK, randomBelow, spoil } from './helper.mjs';

const JUNK_VALUES = [...JUNK, 'a'.repeat(5000)];
const mutated = (value, random) => spoil(value, random, JUNK_VALUES);

const listed = ['config.json', 'model.safetensors.index.json', 'tokenizer.json', 'a.safetensors'];
const LISTING = {
  sha: 'c'.repeat(40),
  gated: false,
  cardData: { license: 'mit' },
  tags: ['license:mit'],
  siblings: listed.map((rfilename) =>
    rfilename.endsWith('.json') ? { rfilename } : { rfilename, size: 100, lfs: { size: 100 } },
  ),
};
const INDEX = { metadata: {}, weight_map: { w: 'a.safetensors', v: 'a.safetensors' } };
const CONFIG = { num_hidden_layers: 2, hidden_size: 8, num_attention_heads: 2, vocab_size: 10 };

async function check(promise) {
  try {
    for (const plan of [await promise].flat()) {
      assert.ok(Number.isFinite(plan.bytes) && plan.bytes >= 0, `${plan.bytes}`);
      assert.ok(plan.memory >= plan.bytes);
      assert.ok(plan.files.weights.every((file) => typeof file.name === 'string'));
      assert.ok(plan.license === undefined || typeof plan.license === 'string');
    }
    return 1;
  } catch (error) {
    assert.equal(error.name, 'SinkscopeError', error.stack);
    assert.ok(error.code && error.text);
    return 0;
  }
}

test('random lists, configs and indexes end in a plan or an error', async () => {
  const random = randomBelow(7);
  let servedFiles = {};
  const server = createServer(({ url }, response) => {
    const entry = Object.entries(servedFiles).find(([name]) => url.includes(name))?.[1];
    if (entry === undefined) return response.writeHead(404).end();
    response.end(JSON.stringify(entry));
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const endpoint = `http://127.0.0.1:${server.address().port}`;
  let plans = 0;
  const rounds = 100 * Number(process.env.SINKSCOPE_TRIALS ?? 1);
  try {
    for (let i = 0; i < rounds; i++) {
      const original = { 'api/models': LISTING, 'index.json': INDEX, 'config.json': CONFIG };
      const brokenName = Object.keys(original)[i % 3];
      servedFiles = { ...original, [brokenName]: mutated(original[brokenName], random) };
      const id = i % 5 ? 'a/b' : 'a/b:x.gguf';
      plans += await check(resolveHub(id, { endpoint, wait: 1, tries: 1 }));
    }
  } finally {
    server.closeAllConnections();
    server.close();
  }
  // Plans and refusals must both occur, or the test would test nothing.
  assert.ok(plans > rounds / 10 && plans < (rounds * 9) / 10, `${plans} plans`);
});

test('a thousand random folders end in plans or an error', async () => {
  const random = randomBelow(11);
  const names = [
    ...listed,
    'x.gguf',
    'y-00001-of-00002.gguf',
    'README.md',
    'b/config.json',
    '/',
    '',
  ];
  const texts = [
    () => JSON.stringify(mutated(INDEX, random)),
    () => JSON.stringify(CONFIG),
    () => '{',
  ];
  let plans = 0;
  for (let i = 0; i < 1000; i++) {
    const files = Array.from({ length: random(7) }, () => ({
      path: names[random(names.length)],
      file: new Blob([texts[random(texts.length)]()]),
    }));
    plans += await check(planFiles(files));
  }
  assert.ok(plans > 100 && plans < 900, `${plans} plans`);
});
