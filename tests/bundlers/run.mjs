/**
 * Builds a page on the packed package with each bundler. In Chromium the page runs a model in a worker and reads a map.
 * Another page imports a bundle from another origin, as notebooks on the web do.
 *
 *     tests/setup bundlers && tests/node tests/bundlers/run.mjs [a part of a bundler's name]
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdir, readFile, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { createEngine, openTokenizer } from '../../wasm/index.ts';
import { CHROMIUM, chromium, root } from '../browser/chromium.mjs';
import { openSite } from '../browser/site.mjs';
import { installInto } from '../installed.mjs';
import { openResults } from '../results.mjs';

const require = createRequire(import.meta.url);
const load = async (name) => import(pathToFileURL(require.resolve(name)).href);
const PATIENCE_MS = 240_000;

/** The script of the page, which returns the prompt's map as numbers. `base` is the folder of the binaries. */
const LOOK = `
import { createEngine, guardTokenizer } from 'sinkscope';

export async function look(prompt, address, base) {
  const at = (file) => new URL(file, address);
  const engine = await createEngine(base ? { base } : {});
  const json = await (await fetch(at('tokenizer.json'))).text();
  const tokenizer = await guardTokenizer({ tokenizer: json });
  const tokens = (await tokenizer.encode(prompt)).map(({ id }) => id);
  const model = await engine.open({ config: at('config.json'), weights: at('model.safetensors') });
  const run = await model.run(tokens);
  const map = await run.field('att', { layer: 2, head: 1 });
  return Array.from(map.data);
}
globalThis.look = look;
`;
const PAGE = (script) =>
  `<!doctype html><html><title>A page</title><script type="module" src="${script}"></script></html>`;

/** For each bundler, the files of the project, and a function that builds it and returns the folder of the site. */
const BUNDLERS = {
  Vite: {
    files: { 'index.html': PAGE('./main.js'), 'main.js': LOOK },
    async build(folder) {
      const { build } = await load('vite');
      const worker = { format: 'es' };
      await build({ root: folder, base: './', configFile: false, logLevel: 'error', worker });
      return 'dist';
    },
  },
  'webpack 5': {
    files: { 'main.js': LOOK, 'index.html': PAGE('./bundle.js') },
    async build(folder) {
      const { default: webpack } = await load('webpack');
      const output = { path: join(folder, 'dist'), filename: 'bundle.js' };
      const said = await new Promise((done, fail) =>
        webpack(
          { mode: 'production', context: folder, entry: './main.js', output },
          (error, stats) => (error ? fail(error) : done(stats)),
        ),
      );
      const { errors, warnings } = said.toJson({ all: false, errors: true, warnings: true });
      const texts = [...errors, ...warnings].map(({ message }) => message);
      // Webpack's warnings about large files are advice for any page, and would be noise here.
      assert.deepEqual(
        texts.filter((text) => !/size limit|code splitting/.test(text)),
        [],
      );
      await writeFile(join(folder, 'dist/index.html'), PAGE('./bundle.js'));
      return 'dist';
    },
  },
  esbuild: {
    files: { 'main.js': LOOK },
    async build(folder) {
      const { build } = await load('esbuild');
      // esbuild does not bundle workers, so each worker is an entry, at the path where the bundle looks for it.
      const workers = ['engine/worker', 'engine/thread', 'text/worker'];
      await build({
        absWorkingDir: folder,
        entryPoints: [
          { in: './main.js', out: 'js/main' },
          ...workers.map((path) => ({ in: `sinkscope/${path}.js`, out: path })),
        ],
        ...{ bundle: true, format: 'esm', minify: true, outdir: 'dist', logLevel: 'error' },
      });
      await writeFile(join(folder, 'dist/index.html'), PAGE('./js/main.js'));
      return 'dist';
    },
  },
  Parcel: {
    files: {
      'index.html': PAGE('./main.js'),
      'main.js': LOOK,
    },
    async build(folder) {
      const options = ['--no-scope-hoist', '--no-cache', '--no-source-maps', '--dist-dir', 'dist'];
      const parcel = require.resolve('parcel/lib/bin.js');
      await program(folder, process.execPath, parcel, 'build', 'index.html', ...options);
      return 'dist';
    },
  },
  'Next.js (Turbopack)': {
    files: {
      'package.json': '{ "private": true }',
      'next.config.mjs': `export default { output: 'export', turbopack: { root: ${JSON.stringify(root)} } };\n`,
      'look.js': LOOK,
      'app/layout.js':
        'export default ({ children }) => <html lang="en"><body>{children}</body></html>;\n',
      'app/page.js': `'use client';
import { useEffect } from 'react';
import { look } from '../look.js';
export default function Page() {
  useEffect(() => { globalThis.look = look; });
  return <p>A page</p>;
}
`,
    },
    async build(folder) {
      for (const name of ['next', 'react', 'react-dom'])
        await symlink(
          dirname(require.resolve(`${name}/package.json`)),
          join(folder, '../node_modules', name),
        ).catch((error) => assert.equal(error.code, 'EEXIST'));
      await program(folder, process.execPath, require.resolve('next/dist/bin/next'), 'build');
      return 'out';
    },
  },
};

/** Runs a program, and ends it with all its children if it takes too long. */
function program(folder, command, ...args) {
  const env = { ...process.env, NEXT_TELEMETRY_DISABLED: '1', CI: '1' };
  const child = spawn(command, args, { cwd: folder, env, detached: true });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (bytes) => (said += bytes));
  const late = setTimeout(() => process.kill(-child.pid, 'SIGKILL'), PATIENCE_MS);
  return new Promise((done, fail) =>
    child.on('exit', (code, signal) => {
      clearTimeout(late);
      if (code === 0) done(said);
      else fail(new Error(`${signal ? `no end within ${PATIENCE_MS / 1000} s` : code}: ${said}`));
    }),
  );
}

/** Starts a static server that pages of other origins may read, like the servers of packages. */
const serve = (folders) =>
  openSite(
    (path) => {
      const [front, folder] = Object.entries(folders).find(([front]) => path.startsWith(front));
      return join(folder, path.slice(front.length) || 'index.html');
    },
    { 'access-control-allow-origin': '*' },
  );

async function expectNoPath(folder) {
  for (const name of await readdir(folder, { recursive: true })) {
    const file = join(folder, name);
    if (!(await stat(file)).isFile() || !/\.(js|mjs|html|json|txt|map)$/.test(name)) continue;
    const text = await readFile(file, 'utf8');
    assert.ok(!text.includes(root.slice(0, -1)), `${name}: a path of this machine`);
  }
}

const PROMPT = 'Once upon a time there was a king who had a golden ball.';
const model = join(root, 'models/zoo/softmax');

async function expected() {
  const read = (name) => readFile(join(model, name));
  const tokenizer = openTokenizer(String(await read('tokenizer.json')));
  const engine = await createEngine({ workers: 1 });
  const opened = await engine.open({
    config: await read('config.json'),
    weights: await read('model.safetensors'),
  });
  const run = await opened.run(tokenizer.encode(PROMPT).map(({ id }) => id));
  const { data } = await run.field('att', { layer: 2, head: 1 });
  await engine.close();
  return [...data];
}

/** Opens a page and asserts that it returns the expected map, computed by this number of workers, with no other warning. */
async function look(browser, { page: address, files, script, map, workers = 2, warning }) {
  const page = await browser.newPage();
  const said = [];
  page.on('console', (message) => said.push(message.text()));
  page.on('pageerror', (error) => said.push(error.message));
  await page.goto(address);
  if (script) await page.addScriptTag({ type: 'module', content: `import '${script}';` });
  await page.waitForFunction(() => globalThis.look, undefined, { timeout: PATIENCE_MS });
  const found = await page.evaluate(
    ([prompt, at]) => globalThis.look(prompt, `${at}model/`, `${at}binaries/`),
    [PROMPT, files],
  );
  assert.deepEqual(found, map);
  assert.equal(page.workers().length, workers, 'workers');
  const warnings = said.filter((text) => !/favicon|404/.test(text));
  if (warning) assert.match(warnings.join(), warning);
  else assert.deepEqual(warnings, []);
  const refused = await page.evaluate(
    ([prompt, at]) => globalThis.look(prompt, `${at}model/`).then(String, (error) => error.message),
    [PROMPT, files],
  );
  assert.match(refused, /base/);
  assert.doesNotMatch(refused, /file:/);
  await page.close();
}

const wanted = process.argv[2] ?? '';
const folder = await installInto('bundlers', {
  // Parcel looks for its options beside the lock file.
  'package.json':
    '{ "private": true, "type": "module", "@parcel/resolver-default": { "packageExports": true } }',
  'package-lock.json': '{}',
});
const map = await expected();
const browser = await chromium.launch(CHROMIUM);
const results = openResults('bundlers');
const check = async (name, work) => {
  const start = performance.now();
  try {
    await work();
    results.pass(name, `${((performance.now() - start) / 1000).toFixed(0)} s`);
  } catch (error) {
    results.fail(name, error);
  }
};
const shared = { '/model/': model, '/binaries/': join(folder, 'node_modules/sinkscope') };
for (const [name, { files, build }] of Object.entries(BUNDLERS)) {
  if (!name.includes(wanted)) continue;
  const project = join(folder, name.replace(/\W+/g, '-'));
  await check(name, async () => {
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(join(project, path)), { recursive: true });
      await writeFile(join(project, path), text);
    }
    const built = join(project, await build(project));
    await expectNoPath(built);
    const site = await serve({ ...shared, '/': built });
    await look(browser, { page: site.address, files: site.address, map });
    site.close();
  });
  if (name !== 'esbuild') continue;
  const built = join(project, 'dist');
  await check('import from another origin', async () => {
    const site = await serve({ ...shared, '/': built });
    await mkdir(join(folder, 'page'), { recursive: true });
    await writeFile(join(folder, 'page/index.html'), '<!doctype html><title>A notebook</title>');
    const page = await serve({ '/': join(folder, 'page') });
    const script = `${site.address}js/main.js`;
    await look(browser, { page: page.address, files: site.address, script, map });
    site.close();
    page.close();
  });
  await check('a bundle that lacks the worker of the engine', async () => {
    await rm(join(built, 'engine'), { recursive: true });
    const site = await serve({ ...shared, '/': built });
    const warning = /engine runs in the page's own thread/;
    await look(browser, { page: site.address, files: site.address, map, workers: 1, warning });
    site.close();
  });
}
await browser.close();
process.exitCode = results.close();
