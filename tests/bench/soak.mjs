/**
 * Measures memory over a long visit: opens and closes models, then makes runs, in one engine or in one tab.
 *
 *     node --expose-gc tests/bench/soak.mjs engine|page [switches=1000] [runs=10000]
 *
 * Prints a line of MB after the warm-up of a phase and ten more lines, and exits with 1 if one of these is over 5%
 * above the first. `wasm` is the memory of the engine, `heap` the JavaScript heap after a collection, `process` the
 * memory of the process of Node.js or of the tab.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CHROMIUM, createHost, root } from '../browser/stage.mjs';
import { bytesOf, renderers } from './process.mjs';

const GROWTH_MAX = 1.05;
/**
 * Number of repetitions before the first line: the browser compiles hot functions and fills its lists of slow frames.
 */
const WARM_UP = 1000;
const MB = 1e6;
const [where = 'engine', switches = '1000', runs = '10000'] = process.argv.slice(2);

/** Returns the bytes of a process's own memory, without pages of files, which depend on the machine. */
const resident = (pid) => bytesOf(pid, 'RssAnon');

async function inEngine() {
  const { createEngine } = await import('../../wasm/index.ts');
  const engine = await createEngine({ worker: false });
  const cards = JSON.parse(await readFile(join(root, 'models/zoo/index.json')));
  const models = await Promise.all(
    cards.slice(0, 9).map(async ({ id }) => ({
      config: await readFile(join(root, 'models/zoo', id, 'config.json')),
      weights: await readFile(join(root, 'models/zoo', id, 'model.safetensors')),
    })),
  );
  const tokens = (seed, T) =>
    Array.from({ length: T }, (_, t) => (t ? (seed * 7 + t * 31) % 1000 : 1));
  const measure = async (model, seed, T) => {
    const run = await model.run(tokens(seed, T));
    await run.metric('sink_ratio', { eps: 0.3 });
    await run.close();
  };
  const keptModel = await engine.open(models[0]);
  return {
    async switchTo(i) {
      const model = await engine.open(models[i % models.length]);
      await measure(model, i, 32);
      await model.close();
    },
    run: (i) => measure(keptModel, i, 8 + (i % 57)),
    async sizes() {
      globalThis.gc?.();
      const { heapUsed } = process.memoryUsage();
      return { wasm: await engine.memory(), heap: heapUsed, process: await resident(process.pid) };
    },
    close: () => engine.close(),
  };
}

async function inPage() {
  const { createRequire } = await import('node:module');
  const require = createRequire(join(root, 'web/package.json'));
  const browser = await require('playwright-core').chromium.launch({
    ...CHROMIUM,
    args: [...CHROMIUM.args, '--js-flags=--expose-gc'],
  });
  const host = createHost();
  await new Promise((done) => host.listen(0, '127.0.0.1', done));
  const context = await browser.newContext({ serviceWorkers: 'block' });
  const page = await context.newPage();
  const debug = await context.newCDPSession(page);
  await page.goto(`http://127.0.0.1:${host.address().port}/`);
  await page.waitForFunction(() => performance.getEntriesByName('first-sink').length > 0);
  const ids = await page.evaluate(async () => {
    const zoo = performance
      .getEntriesByType('resource')
      .find(({ name }) => /\/zoo\/\w+\/index\.json/.test(name));
    return (await (await fetch(zoo.name)).json()).map(({ id }) => id).slice(0, 9);
  });
  const follow = (hash) =>
    page.evaluate(async (hash) => {
      location.hash = hash;
      await new Promise((done) => addEventListener('hashchange', done, { once: true }));
      const waitUntilIdle = () =>
        new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      do await waitUntilIdle();
      while (document.body.dataset.busy !== undefined);
    }, hash);
  return {
    switchTo: (i) => follow(`room=explore&shown=${ids[i % ids.length]}&T=32`),
    run: (i) => follow(`room=explore&shown=softmax&input=random&T=32&seed=${i}`),
    async sizes() {
      for (const thread of [page, ...page.workers()]) await thread.evaluate(() => globalThis.gc());
      await debug.send('HeapProfiler.collectGarbage');
      const { usedSize } = await debug.send('Runtime.getHeapUsage');
      const { nodes, jsEventListeners } = await debug.send('Memory.getDOMCounters');
      const process = Math.max(...(await Promise.all((await renderers()).map(resident))));
      return { heap: usedSize, process, nodes: nodes * MB, listeners: jsEventListeners * MB };
    },
    async close() {
      await browser.close();
      host.close();
    },
  };
}

async function phase(name, count, step, sizes) {
  let first;
  let worst = { share: 0, what: '' };
  const startTime = performance.now();
  for (let i = 1 - WARM_UP; i <= count; i++) {
    await step(i + WARM_UP);
    if (i < 0 || i % Math.ceil(count / 10)) continue;
    const currentSizes = await sizes();
    const sizeTexts = Object.entries(currentSizes).map(
      ([what, bytes]) => `${what} ${(bytes / MB).toFixed(1)}`,
    );
    console.log(
      `${name} ${i}\t${sizeTexts.join('\t')}\t${Math.round((performance.now() - startTime) / 1000)} s`,
    );
    first ??= currentSizes;
    for (const [what, bytes] of Object.entries(currentSizes))
      if (bytes / first[what] > worst.share) worst = { share: bytes / first[what], what };
  }
  const isFlat = worst.share <= GROWTH_MAX;
  console.log(
    `${name}: at most ${((worst.share - 1) * 100).toFixed(1)} % over the warm-up (${worst.what})`,
  );
  return isFlat;
}

const subject = await { engine: inEngine, page: inPage }[where]();
const isFlat = [
  await phase('switch', Number(switches), subject.switchTo, subject.sizes),
  await phase('run', Number(runs), subject.run, subject.sizes),
];
await subject.close();
process.exit(isFlat.every(Boolean) ? 0 : 1);
