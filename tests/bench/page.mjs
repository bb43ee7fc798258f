/** Measurements of the built page (npm --prefix web run build) and of the package in Chromium. */
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { readFile, readdir } from 'node:fs/promises';
import { extname, join, resolve } from 'node:path';
import { gzipSync } from 'node:zlib';
import { TYPES, openSite } from '../browser/site.mjs';
import { CHROMIUM, chromium, pageRoot, root, setSavesData } from '../browser/stage.mjs';
import { openHub } from '../hub/server.mjs';
import { randomFile } from './peers/gguf.mjs';

const VIEWPORT = { width: 1280, height: 800 };

/**
 * Serves the built page as GitHub Pages does: text, JSON and WebAssembly are compressed, weights are not, and a browser
 * may keep files for ten minutes. `served` lists what was sent.
 */
async function servePage() {
  const zipped = new Map();
  const served = [];
  const site = await openSite(async (path) => {
    const file = join(pageRoot, path.endsWith('/') ? `${path}index.html` : path);
    const type = TYPES[extname(file)];
    if (!existsSync(file)) return undefined;
    if (!zipped.has(file)) {
      const content = await readFile(file);
      zipped.set(file, type ? gzipSync(content) : content);
    }
    const body = zipped.get(file);
    served.push({ path, bytes: body.length, at: Date.now() });
    const headers = { 'cache-control': 'max-age=600' };
    if (type) headers['content-encoding'] = 'gzip';
    return { body, type: type ?? 'application/octet-stream', headers };
  });
  return { ...site, served };
}

const bytesOf = (files) => files.reduce((sum, { bytes }) => sum + bytes, 0);
const megabytes = (files) => `${(bytesOf(files) / 1e6).toFixed(2)} MB in ${files.length}`;

async function openSink(context, address) {
  const page = await context.newPage();
  await page.goto(address, { waitUntil: 'commit' });
  await page.waitForFunction(() => performance.getEntriesByName('first-sink').length);
  const [start, picture, sink] = await page.evaluate(() => [
    performance.timeOrigin,
    ...['first-picture', 'first-sink'].map(
      (name) => performance.getEntriesByName(name)[0].startTime,
    ),
  ]);
  return { page, start, picture, sink };
}

/** Waits until Start has the numbers of both models; returns the milliseconds since navigation. */
async function bothAfter(page) {
  await page.waitForFunction(
    () =>
      document.querySelectorAll('.twin > strong').length === 2 &&
      !document.querySelector('.start-saved'),
  );
  return page.evaluate(() => performance.now());
}

/**
 * A first visit, service worker included, without and with Save-Data: until the first picture, which is a saved one, until
 * the first sink, which a model has computed in this visit, and all that follows it.
 */
export async function* visit() {
  const browser = await chromium.launch(CHROMIUM);
  for (const savesData of [false, true]) {
    const { served, address, close } = await servePage();
    const context = await browser.newContext({ viewport: VIEWPORT });
    await context.addInitScript(setSavesData, savesData);
    const { page, start, picture, sink } = await openSink(context, address);
    // The page requests the engine and the models while it draws the first picture, the second model while it draws a sink.
    const servedUntil = (ms, laterPaths) =>
      served.filter(({ path, at }) => at <= start + ms && !laterPaths.test(path));
    const early = servedUntil(picture, /\.gz$|\/engine\/|worker/);
    const first = servedUntil(sink, /\/sigmoid\//);
    await page.waitForTimeout(20_000);
    await page.waitForFunction(() => document.body.dataset.busy === undefined);
    const twice = served.filter(({ path }, i) => served.findIndex((s) => s.path === path) < i);
    const kind = savesData ? 'with Save-Data' : 'a visit';
    console.log(
      `${kind}: to the first picture ${megabytes(early)}; to the first sink ${megabytes(first)}; in all ${megabytes(served)}`,
    );
    console.log(`sent twice ${megabytes(twice)}`);
    await context.close();
    close();
  }
  const { address, close } = await servePage();
  const work = (conditions, msOf) => async () => {
    const fresh = await browser.newContext({ viewport: VIEWPORT, serviceWorkers: 'block' });
    if (conditions)
      fresh.on('page', async (opened) => {
        const devtools = await fresh.newCDPSession(opened);
        await devtools.send('Network.emulateNetworkConditions', conditions);
      });
    const ms = await msOf(await openSink(fresh, address));
    await fresh.close();
    return ms;
  };
  const rate = 10e6 / 8;
  const line = { offline: false, latency: 20, downloadThroughput: rate, uploadThroughput: rate };
  for (const [title, msOf] of [
    ['first picture after navigation', ({ picture }) => picture],
    ['first sink after navigation', ({ sink }) => sink],
  ]) {
    const subjects = [
      { name: 'on localhost', work: work(undefined, msOf) },
      { name: 'at 10 Mbit/s', work: work(line, msOf) },
    ];
    yield { title, subjects };
  }
  const msOfBoth = async ({ page, sink }) => (await bothAfter(page)) - sink;
  const both = [{ name: 'at 10 Mbit/s', work: work(line, msOfBoth) }];
  yield { title: 'numbers of both models after the first sink', subjects: both };
  await browser.close();
  close();
}

/** Processor time of the main thread, which other programs do not affect, for each of `count` acts. */
async function mainThread(browser, page, count, act) {
  const settle = () => page.waitForFunction(() => document.body.dataset.busy === undefined);
  await settle();
  await browser.startTracing(page, { categories: ['toplevel', '__metadata'] });
  for (let i = 0; i < count; i++) await act(i);
  await settle();
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString());
  const threadOf = ({ pid, tid }) => `${pid} ${tid}`;
  const isMain = ({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain';
  const threads = new Set(traceEvents.filter(isMain).map(threadOf));
  const isTask = (event) => /RunTask$/.test(event.name) && threads.has(threadOf(event));
  const tasks = traceEvents.filter(isTask);
  // Tasks of two names nest, and the outer name comes first.
  const outer = tasks.filter(({ name }) => name === tasks[0].name);
  return outer.reduce((sum, { tdur = 0 }) => sum + tdur / 1000, 0) / count;
}

export async function* keys() {
  const { address, close } = await servePage();
  const browser = await chromium.launch(CHROMIUM);
  const context = await browser.newContext({ viewport: VIEWPORT, serviceWorkers: 'block' });
  for (const room of ['start', 'explore']) {
    const { page } = await openSink(context, `${address}#room=${room}`);
    await page.click('textarea');
    await page.keyboard.press('End');
    const type = (i) => page.keyboard.type('once more '[i % 10], { delay: 120 });
    const box = await page.locator('[data-view="attention"] .heatmap').first().boundingBox();
    const hover = async (i) => {
      await page.mouse.move(box.x + 6 + 4 * i, box.y + box.height - 8 - 3 * i);
      await page.waitForTimeout(25);
    };
    const subjects = [
      { name: 'a key', work: () => mainThread(browser, page, 20, type) },
      { name: 'a hovered cell', work: () => mainThread(browser, page, 40, hover) },
    ];
    yield { title: `${room}: main thread`, subjects };
    await page.close();
  }
  await browser.close();
  close();
}

/** Milliseconds from navigation to the first `count` figures of a page. */
async function drawnAfter(browser, address, count) {
  const context = await browser.newContext({ viewport: VIEWPORT, serviceWorkers: 'block' });
  const page = await context.newPage();
  await page.addInitScript(() => {
    globalThis.drawn = [];
    addEventListener('run', () => globalThis.drawn.push(performance.now()));
    // The first figure of a lesson may be below the fold, so the page scrolls to it at once.
    addEventListener('DOMContentLoaded', () =>
      document.querySelector('sink-scope').scrollIntoView(),
    );
  });
  await page.goto(address, { waitUntil: 'commit' });
  await page.waitForFunction((wanted) => globalThis.drawn.length >= wanted, count);
  const ms = await page.evaluate((wanted) => globalThis.drawn[wanted - 1], count);
  await context.close();
  return ms;
}

export async function* embeds() {
  const { address, close } = await servePage();
  const browser = await chromium.launch(CHROMIUM);
  const five = `${address}examples/five.html`;
  const after = (url, count) => () => drawnAfter(browser, url, count);
  const learn = (await readdir(join(pageRoot, 'learn'))).filter((name) => /^\d/.test(name)).sort();
  yield {
    title: 'figures after navigation',
    subjects: [
      { name: 'the first of five embeds', work: after(five, 1) },
      { name: 'all five', work: after(five, 5) },
      ...learn.map((name) => ({ name, work: after(`${address}learn/${name}/index.html`, 1) })),
    ],
  };
  await browser.close();
  close();
}

/** Opens the model each time in a new engine, as each visit does. */
const CACHED_PAGE = `
import { createEngine } from 'sinkscope';
globalThis.open = async (weights) => {
  const engine = await createEngine({ base: new URL('engine/', document.baseURI), workers: 1 });
  const start = performance.now();
  await engine.open({ weights: { ...weights, cache: true } });
  const ms = performance.now() - start;
  await engine.close();
  return ms;
};
`;

/** Builds a page that only runs the npm package, by Vite, and serves it with the binaries in engine/. */
async function servePackagePage(folder, script, binaries) {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'main.js'), script);
  const icon = '<link rel="icon" href="data:,">';
  const html = `<!doctype html><title>bench</title>${icon}<script type="module" src="./main.js"></script>`;
  writeFileSync(join(folder, 'index.html'), html);
  const vite = await import(join(root, 'web/node_modules/vite/dist/node/index.js'));
  await vite.build({
    ...{ root: folder, configFile: false, logLevel: 'error', base: './' },
    resolve: { alias: { sinkscope: join(root, 'wasm/index.ts') } },
    ...{ worker: { format: 'es' }, build: { target: 'es2022' } },
  });
  return openSite((path) =>
    path.startsWith('/engine/')
      ? join(binaries, path.slice('/engine/'.length))
      : join(folder, 'dist', path),
  );
}

/** A GPT-2 of random weights that an earlier visit keeps on the disk: a private window would keep it in memory. */
export async function* cached({ binaries }) {
  const folder = resolve('.build/bench/cached');
  rmSync(folder, { recursive: true, force: true });
  const { address, close } = await servePackagePage(folder, CACHED_PAGE, resolve(binaries[0]));
  const hub = await openHub();
  const NAME = 'sinkscope/quantized';
  const content = Buffer.from(randomFile('gpt2', 'f32'));
  hub.repository(NAME).revisions.main.files['model.gguf'] = content;
  const url = `${hub.endpoint}/${NAME}/resolve/main/model.gguf`;
  const weights = { url, version: 'main', id: NAME, bytes: content.length };
  const browser = await chromium.launchPersistentContext(join(folder, 'profile'), CHROMIUM);
  const page = await browser.newPage();
  await page.goto(address);
  await page.waitForFunction(() => globalThis.open);
  const openModel = () => page.evaluate((from) => globalThis.open(from), weights);
  console.log(`from the hub of this machine: ${(await openModel()).toFixed(0)} ms`);
  const requests = hub.log.length;
  yield { title: 'opening GPT-2 F32', subjects: [{ name: 'from the cache', work: openModel }] };
  if (hub.log.length > requests) throw new Error('expected a cached file, found a request');
  await browser.close();
  close();
  rmSync(folder, { recursive: true, force: true });
}
