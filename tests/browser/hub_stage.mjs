/** Opens a page that only runs the package, and the hub from which it loads models. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openHub } from '../hub/server.mjs';
import { openSite } from './site.mjs';
import { root } from './stage.mjs';

const source = join(root, '.build/hub-source');
const builtFolder = join(root, '.build/hub-page');

const HTML = '<!doctype html><title>hub</title><script type="module" src="./page.js"></script>';
const PAGE = `
import * as sinkscope from 'sinkscope';
import * as internal from 'sinkscope/internal.ts';
import { openCached } from 'sinkscope/loading/cache.ts';
globalThis.sinkscope = { ...sinkscope, ...internal };
globalThis.openCached = openCached;
`;

/** Builds the page as a bundle, like the real page, because a worker has no import map. */
async function build() {
  await mkdir(source, { recursive: true });
  await writeFile(join(source, 'index.html'), HTML);
  await writeFile(join(source, 'page.js'), PAGE);
  const vite = await import(pathToFileURL(join(root, 'web/node_modules/vite/dist/node/index.js')));
  await vite.build({
    root: source,
    configFile: false,
    logLevel: 'error',
    base: './',
    resolve: {
      alias: [
        { find: /^sinkscope$/, replacement: join(root, 'wasm/index.ts') },
        { find: /^sinkscope\//, replacement: join(root, 'wasm/') },
      ],
    },
    worker: { format: 'es' },
    build: { outDir: builtFolder, emptyOutDir: true, target: 'es2022' },
  });
}

let serving;
const buildAndServe = async () => {
  await build();
  const folderOf = (path) => (path.endsWith('.wasm') ? join(root, '.build') : builtFolder);
  return (await openSite((path) => join(folderOf(path), path))).address;
};
/** The hub of each browser: two browsers run tests at once, and each test resets its hub. */
const hubs = new WeakMap();

/**
 * Opens the page on its own origin, with an empty cache, and resets the faults of the hub.
 * @param {{ browser: import('playwright-core').Browser }} stage
 * @param {string} [script] script that runs before that of the page
 */
export async function openHubPage({ browser }, script) {
  serving ??= buildAndServe();
  if (!hubs.has(browser)) hubs.set(browser, openHub());
  const [origin, hub] = await Promise.all([serving, hubs.get(browser)]);
  hub.reset();
  const context = await browser.newContext();
  const page = await context.newPage();
  page.origin = origin;
  if (script) await page.addInitScript(script);
  await page.addInitScript(HELPERS, hub.endpoint);
  await visit(page);
  return { page, hub };
}

export async function visit(page) {
  await page.goto(page.origin);
  await page.waitForFunction(() => globalThis.sinkscope !== undefined);
}

function HELPERS(endpoint) {
  const tool = {
    endpoint,

    resolve: (id, options) =>
      globalThis.sinkscope.resolveHub(id, { endpoint, wait: 5, tries: 3, ...options }),

    /** Returns the sink scores of a fixed run, on which two ways of loading must agree. */
    async alpha(files, options = {}) {
      const { worker = true, ...others } = options;
      const engine = await globalThis.sinkscope.createEngine({ base: '/wasm/', worker });
      try {
        const model = await engine.open(files, others);
        const run = await model.run([0, 5, 17, 300, 42]);
        return [...(await run.metric('alpha')).data];
      } finally {
        await engine.close();
      }
    },

    async load(id, { worker, token, onProgress, signal, cache = true } = {}) {
      const plan = await tool.resolve(id, { token });
      const files = globalThis.sinkscope.modelFiles(plan, { cache, token });
      return tool.alpha(files, { worker, onProgress, signal });
    },

    /** Returns a promise's error as a value that can leave the page. */
    failure: (promise) =>
      promise.then(
        () => ({ code: 'none' }),
        ({ name, code, message }) => ({ name, code, message }),
      ),
  };
  globalThis.tool = tool;
}
