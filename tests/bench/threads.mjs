/**
 * Compares one thread with several, interleaved on one cross-origin isolated page: a GPT-2 of random weights.
 *
 *     node tests/bench/threads.mjs [THREADS]     medians of ROUNDS=7, after web/serve --build-only
 */
import { join } from 'node:path';
import { CHROMIUM, chromium, root, servePackagePage } from './package_page.mjs';
import { median } from './peers/table.mjs';

const threads = Number(process.argv[2] ?? 2);
const rounds = Number(process.env.ROUNDS ?? 7);
const folder = join(root, '.build/bench/threads');

/** Runs in the page. Times the rows in turn and returns the milliseconds of each. */
const PAGE_SCRIPT = `
import { createEngine } from 'sinkscope';
import { randomFile } from ${JSON.stringify(join(root, 'tests/bench/peers/gguf.mjs'))};

const FIELDS = ['att', 'seen', 'q', 'k', 'v', 'hidden', 'att_out', 'mlp_out', 'next'];
const TOKENS = 16;
const ROWS = [
  ['T=256, maps + all logits', 256, [...FIELDS, 'logits']],
  ['T=256, maps + last row', 256, FIELDS],
  ['T=64, maps + last row', 64, FIELDS],
  ['a token after 64', 64, FIELDS, TOKENS],
  ['summary of T=256', 256, FIELDS, 0, true],
];

globalThis.measure = async (counts, rounds) => {
  const weights = new Blob([randomFile('gpt2', 'f32')]);
  const engines = [];
  const models = [];
  for (const threads of counts) {
    const base = new URL('engine/', document.baseURI);
    engines.push(await createEngine({ base, threads, workers: 1 }));
    models.push(await engines.at(-1).open({ weights }));
  }
  const { metrics } = engines[0].describe;
  const summary = metrics.filter((metric) => metric.summary && metric.fields.every((field) => FIELDS.includes(field)));
  const reads = summary.map(({ name }) => ({ metric: name }));
  const time = async (model, T, fields, count, measures) => {
    const ids = Array.from({ length: T }, (_, i) => (i * 7919) % 50257);
    const capacity = T + TOKENS;
    let start = performance.now();
    const run = await model.run(ids, { fields, capacity });
    if (count) {
      start = performance.now();
      for await (const _ of run.generate({ count }));
    }
    if (measures) {
      start = performance.now();
      await run.read(reads);
    }
    const ms = (performance.now() - start) / (count || 1);
    const { data } = await run.field('next');
    await run.close();
    return { ms, bits: new Uint32Array(data.buffer).reduce((a, b) => Math.imul(a, 31) + b, 0) };
  };
  const rows = [];
  for (const [name, ...what] of ROWS) {
    const times = counts.map(() => []);
    const bits = new Set();
    for (let round = 0; round <= rounds; round++)
      for (const [i, model] of models.entries()) {
        const result = await time(model, ...what);
        bits.add(result.bits);
        if (round) times[i].push(result.ms);
      }
    rows.push({ name, times, same: bits.size === 1 });
  }
  for (const engine of engines) await engine.close();
  return rows;
};
`;
const server = await servePackagePage(folder, PAGE_SCRIPT, {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
});
const browser = await chromium.launch(CHROMIUM);
const page = await browser.newPage();
page.on('console', (message) => console.error(message.text()));
await page.goto(server.address);
await page.waitForFunction(() => globalThis.measure);
const rows = await page.evaluate(
  ([counts, count]) => globalThis.measure(counts, count),
  [[1, threads], rounds],
);
console.log(`GPT-2 shape, F32, ms: one thread, ${threads} threads, times as fast`);
for (const { name, times, same } of rows) {
  const [msOfOne, msOfSeveral] = times.map(median);
  const ratio = (msOfOne / msOfSeveral).toFixed(2);
  console.log(
    `${name}: ${msOfOne.toFixed(1)}, ${msOfSeveral.toFixed(1)}, ${ratio}${same ? '' : ' OTHER BITS'}`,
  );
}
await browser.close();
server.close();
