/** What `npm pack` makes, installed into an empty Vite project, built there, and opened. */
import assert from 'node:assert/strict';
import { cpSync, mkdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import { installInto } from '../installed.mjs';
import { root } from './stage.mjs';

const MAIN = `
import { createEngine } from 'sinkscope';
globalThis.look = async (options) => {
  const engine = await createEngine({ base: new URL('engine/', document.baseURI), ...options });
  const at = (name) => new URL('model/' + name, document.baseURI);
  const model = await engine.open({ config: at('config.json'), weights: at('model.safetensors') });
  const run = await model.run([0, 17, 392]);
  const { data } = await run.metric('alpha');
  await engine.close();
  return [...data];
};
`;
const FILES = {
  'package.json': '{ "type": "module", "private": true }',
  'index.html': '<!doctype html><title>v</title><script type="module" src="./main.js"></script>',
  'main.js': MAIN,
};
const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.wasm': 'application/wasm' };

/** The project as its own readers would make it: binaries and model lie in Vite's public folder. */
async function build() {
  const folder = installInto('installed-vite', FILES);
  for (const into of ['engine', 'model'])
    mkdirSync(join(folder, 'public', into), { recursive: true });
  for (const name of ['sinkscope.wasm', 'sinkscope.simd.wasm'])
    cpSync(join(folder, 'node_modules/sinkscope', name), join(folder, 'public/engine', name));
  for (const name of ['config.json', 'model.safetensors'])
    cpSync(join(root, 'models/zoo/softmax', name), join(folder, 'public/model', name));
  const vite = await import(pathToFileURL(join(root, 'web/node_modules/vite/dist/node/index.js')));
  await vite.build({
    root: folder,
    configFile: false,
    logLevel: 'error',
    base: './',
    worker: { format: 'es' },
  });
  return join(folder, 'dist');
}

/** What a page downloads, compressed, to run a model: all but the model. */
const MOST = 100 * 1024;

async function serve(folder) {
  const sent = new Map();
  const server = createServer(async ({ url }, response) => {
    const path = join(folder, url === '/' ? 'index.html' : new URL(url, 'http://x').pathname);
    const bytes = await readFile(path).catch(() => undefined);
    if (bytes && !path.includes('/model/')) sent.set(path, gzipSync(bytes, { level: 9 }).length);
    response
      .writeHead(bytes ? 200 : 404, { 'content-type': TYPES[extname(path)] ?? '' })
      .end(bytes);
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  server.unref();
  return { origin: `http://127.0.0.1:${server.address().port}/`, sent };
}

export const installed = {
  async 'the packed package works in an empty Vite project, in a worker and without'({ browser }) {
    const { origin, sent } = await serve(await build());
    const page = await (await browser.newContext()).newPage();
    await page.goto(origin);
    await page.waitForFunction(() => globalThis.look);
    const aside = await page.evaluate(() => globalThis.look({ worker: true }));
    assert.ok(aside.length > 0 && aside.every((x) => x >= 0 && x <= 1));
    const bytes = [...sent.values()].reduce((a, b) => a + b, 0);
    assert.ok(bytes <= MOST, `${bytes} bytes: ${[...sent.keys()].join(' ')}`);
    assert.deepEqual(await page.evaluate(() => globalThis.look({ worker: false })), aside);
    return `${bytes} bytes, gzip`;
  },
};
