import { test } from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { createServer } from 'node:http';
import { binaries, root, withEngine, failure } from './helper.mjs';
import { loadModule } from '../../wasm/engine/load_module.ts';

const sizeLimits = {
  'sinkscope.wasm': 112 * 1024,
  'sinkscope.threads.wasm': 111 * 1024,
  'sinkscope.lab.wasm': 133 * 1024,
  'sinkscope.lab.threads.wasm': 132 * 1024,
};
const names = Object.keys(sizeLimits);
const read = (name) => readFileSync(new URL(name, binaries));

// Matches the exports that Emscripten adds by itself, in which its versions differ.
const toolchain =
  /^(memory|_initialize|__indirect_function_table|__errno_location|_?_?emscripten_.*|stack.*)$/;

for (const name of names) {
  test(`${name} exports what exports.txt lists, and imports only a shared memory or nothing`, async () => {
    const module = await WebAssembly.compile(read(name));
    const listed = readFileSync(new URL('wasm/abi/exports.txt', root), 'utf8')
      .trim()
      .split('\n')
      .filter((line) => name.includes('lab') || !/_train|_recording/.test(line))
      .filter((line) => name.includes('threads') || !line.includes('_pool'));
    const exportedNames = WebAssembly.Module.exports(module).map((entry) => entry.name);
    assert.deepEqual(
      exportedNames.filter((name) => !toolchain.test(name)).sort(),
      listed.map((name) => name.replace(/^_/, '')).sort(),
    );
    const importedNames = WebAssembly.Module.imports(module).map(
      (entry) => `${entry.module}.${entry.name}`,
    );
    const memory = name.includes('threads') ? ['env.memory'] : [];
    assert.deepEqual(importedNames, memory);
  });

  test(`${name} is at most ${sizeLimits[name]} bytes compressed`, () => {
    const size = gzipSync(read(name), { level: 9 }).length;
    console.log(`${name}: ${statSync(new URL(name, binaries)).size} bytes, ${size} compressed`);
    assert.ok(size <= sizeLimits[name], `${size} bytes`);
  });
}

test('a host without SIMD is told that it needs it', async (t) => {
  const { validate } = WebAssembly;
  WebAssembly.validate = () => false;
  try {
    t.assert.snapshot(await failure(loadModule(new URL('package.json', root))));
  } finally {
    WebAssembly.validate = validate;
  }
});

test('a wrong type, a missing file or a wrong file from a server is reported', async () => {
  const answers = {
    '/octets/sinkscope.wasm': ['application/octet-stream', read(names[0])],
    '/typed/sinkscope.wasm': ['application/wasm', read(names[0])],
    '/page/sinkscope.wasm': ['text/html', '<!doctype html>'],
  };
  const server = createServer(({ url }, response) => {
    const [type, body] = answers[url] ?? ['text/plain', ''];
    response.writeHead(answers[url] ? 200 : 404, { 'content-type': type }).end(body);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const entryAt = (path) => ({
    base: `http://127.0.0.1:${server.address().port}/${path}`,
  });
  try {
    for (const path of ['octets', 'typed/']) {
      await withEngine(entryAt(path), async (engine) => assert.ok(engine.describe.metrics.length));
    }
    for (const path of ['page', 'missing']) {
      await assert.rejects(withEngine(entryAt(path)), { code: 'read' });
    }
  } finally {
    server.close();
  }
});
