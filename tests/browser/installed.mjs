/** Installs the output of `npm pack` into an empty Vite project, builds it, and opens it. */
import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import { installInto } from '../installed.mjs';
import { randomModel } from '../wasm/helper.mjs';
import { openSite } from './site.mjs';
import { root } from './stage.mjs';

const MAIN = `
import { createEngine } from 'sinkscope';
globalThis.look = async (options) => {
  const engine = await createEngine({ base: new URL('engine/', document.baseURI), ...options });
  const at = (name) => new URL('model/' + name, document.baseURI);
  const model = await engine.open({ config: at('config.json'), weights: at('model.safetensors') });
  const run = await model.run(Array.from({ length: 99 }, (_, i) => 5 * i));
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

/** Makes the project as a reader would: binaries are in the public folder of Vite. */
async function buildProject() {
  const folder = await installInto('installed-vite', FILES);
  mkdirSync(join(folder, 'public/engine'), { recursive: true });
  for (const name of ['sinkscope.wasm', 'sinkscope.threads.wasm'])
    cpSync(join(folder, 'node_modules/sinkscope', name), join(folder, 'public/engine', name));
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

/** The largest allowed download of a page that runs a model, compressed and without the model, in bytes. */
const DOWNLOAD_BYTES_MAX = 134_000;

async function serve(folder, headers) {
  const sent = new Map();
  const site = await openSite((path) => {
    const file = join(folder, path === '/' ? 'index.html' : path);
    if (existsSync(file) && !path.startsWith('/model/'))
      sent.set(file, gzipSync(readFileSync(file), { level: 9 }).length);
    return file;
  }, headers);
  return { ...site, sent };
}

const ISOLATING_HEADERS = {
  'Document-Isolation-Policy': 'isolate-and-credentialless',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};

export const installed = {
  async 'the packed package works in a Vite project; threads share a large model where memory can be shared, and give the same bits'({
    browser,
  }) {
    const dist = await buildProject();
    const { config, weights } = randomModel({ L: 2, D: 512, F: 2048, V: 2048, context: 512 });
    mkdirSync(join(dist, 'model'), { recursive: true });
    writeFileSync(join(dist, 'model/config.json'), config);
    writeFileSync(join(dist, 'model/model.safetensors'), weights);
    const results = [];
    for (const headers of [{}, ISOLATING_HEADERS]) {
      const { origin, sent } = await serve(dist, headers);
      const page = await (await browser.newContext()).newPage();
      await page.goto(origin);
      await page.waitForFunction(() => globalThis.look);
      assert.equal(await page.evaluate(() => crossOriginIsolated), headers === ISOLATING_HEADERS);
      for (const options of [{ threads: 3 }, { threads: 3, worker: false }, { threads: 1 }]) {
        results.push(await page.evaluate((more) => globalThis.look(more), options));
        if (results.length > 1) continue;
        const bytes = [...sent.values()].reduce((a, b) => a + b, 0);
        assert.ok(bytes <= DOWNLOAD_BYTES_MAX, `${bytes} bytes: ${[...sent.keys()].join(' ')}`);
      }
      const shared = [...sent.keys()].filter((path) => /thread/.test(path));
      assert.equal(shared.length > 1, headers === ISOLATING_HEADERS, shared.join(' '));
    }
    for (const alpha of results) assert.deepEqual(alpha, results[0]);
    assert.ok(results[0].length > 99);
  },
};
