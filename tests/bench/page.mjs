/**
 * Measures what the page costs in Chromium: the work of the main thread for a key, a hovered cell and a step of the
 * slider, the longest task of each, bytes and requests until the first sink, and when the sink is drawn.
 * Work is processor time; results in seconds need an otherwise idle machine.
 *
 *     npm --prefix web run build && node tests/bench/page.mjs
 *     SINKSCOPE_PAGE=FOLDER  another build
 *     SINKSCOPE_REQUESTS=1   what is fetched to the first sink
 *
 * Bytes are counted after gzip.
 */
import { CHROMIUM, chromium } from '../browser/stage.mjs';
import { median } from './peers/table.mjs';
import { serveZipped, table } from './zipped.mjs';

const { served, address, close } = await serveZipped();
const browser = await chromium.launch(CHROMIUM);

const open = async (hash = '', before = async () => {}) => {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 800 },
    serviceWorkers: 'block',
  });
  const page = await context.newPage();
  await before(await context.newCDPSession(page));
  await page.goto(address + hash, { waitUntil: 'commit' });
  await page.waitForFunction(() => performance.getEntriesByName('first-sink').length);
  return { page, context };
};
const firstSink = (page) =>
  page.evaluate(() => performance.getEntriesByName('first-sink')[0].startTime);
const settle = async (page) => {
  await page.waitForFunction(() => document.body.dataset.busy === undefined);
  await page.waitForTimeout(120);
};

/**
 * Measures the tasks of the page's main thread in milliseconds of processor time, which other processes do not affect.
 * `each`: all tasks, by act; `longest`: the longest task; `workers`: the tasks of its workers, by act.
 */
async function costOf({ page }, count, action) {
  await settle(page);
  await browser.startTracing(page, { categories: ['toplevel', '__metadata'] });
  for (let i = 0; i < count; i++) await action(i);
  await settle(page);
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString());
  const threadOf = ({ pid, tid }) => `${pid} ${tid}`;
  const tasksOf = (thread) => {
    const threads = new Set(
      traceEvents
        .filter(({ name, args }) => name === 'thread_name' && args.name === thread)
        .map(threadOf),
    );
    return traceEvents
      .filter((event) => /RunTask$/.test(event.name) && threads.has(threadOf(event)))
      .filter(({ name }, _, names) => name === names[0].name)
      .map(({ tdur = 0 }) => tdur / 1000);
  };
  const tasks = tasksOf('CrRendererMain');
  if (!tasks.length) throw new Error('the trace has no tasks of the main thread');
  const millisecondsEach = (all) => all.reduce((a, b) => a + b, 0) / count;
  const workers = millisecondsEach(tasksOf('DedicatedWorker thread'));
  return { each: millisecondsEach(tasks), longest: Math.max(...tasks), workers };
}

const { row, print } = table();

// The first visit only fills the cache of the server.
const times = [];
let first;
for (let i = 0; i < 6; i++) {
  served.length = 0;
  const { page, context } = await open();
  const time = await firstSink(page);
  const sinkTime = time + (await page.evaluate(() => performance.timeOrigin));
  if (i) times.push(time);
  first ??= served.filter(({ at }) => at <= sinkTime);
  await context.close();
}
const bytes = first.reduce((sum, file) => sum + file.bytes, 0);
row('bytes (gzip) to the first sink', (bytes / 1e6).toFixed(2), 'MB', 1.4);
row('requests to the first sink', first.length, '', 10);
row('first sink on localhost, median of 5', (median(times) / 1000).toFixed(2), 's', 0.6);
const slow = [];
for (let i = 0; i < 3; i++) {
  const { page, context } = await open('', async (devtools) => {
    await devtools.send('Network.enable');
    const line = (10e6 / 8) | 0;
    await devtools.send('Network.emulateNetworkConditions', {
      offline: false,
      latency: 20,
      downloadThroughput: line,
      uploadThroughput: line,
    });
  });
  slow.push(await firstSink(page));
  await context.close();
}
row('first sink at 10 Mbit/s, median of 3', (median(slow) / 1000).toFixed(2), 's', 2.5);

for (const room of ['start', 'explore']) {
  const visit = await open(`#room=${room}`);
  const { page } = visit;
  await settle(page);
  await page.click('textarea');
  await page.keyboard.press('End');
  const typed = await costOf(visit, 20, async (i) => {
    await page.keyboard.type('once more '[i % 10]);
    await page.waitForTimeout(120);
  });
  row(`${room}: main thread, a key`, typed.each.toFixed(1), 'ms', 30);
  row(`${room}: workers, a key`, typed.workers.toFixed(1), 'ms', 12);
  row(`${room}: longest task while typing`, typed.longest.toFixed(0), 'ms', 50);
  const box = await page.locator('[data-view="attention"] .heatmap').first().boundingBox();
  const hovered = await costOf(visit, 40, async (i) => {
    await page.mouse.move(box.x + 6 + 4 * i, box.y + box.height - 8 - 3 * i);
    await page.waitForTimeout(25);
  });
  row(`${room}: main thread, a hovered cell`, hovered.each.toFixed(1), 'ms', 8);
  row(`${room}: longest task while hovering`, hovered.longest.toFixed(0), 'ms', 50);
  await visit.context.close();
}
{
  const visit = await open('#room=training');
  await visit.page.waitForSelector('.walk input');
  await settle(visit.page);
  await visit.page.locator('.walk input').focus();
  // A first pass fetches and decodes all steps, so that the measured pass only draws.
  for (let i = 0; i < 8; i++) {
    await visit.page.keyboard.press('ArrowLeft');
    await settle(visit.page);
  }
  const walked = await costOf(visit, 8, async () => {
    await visit.page.keyboard.press('ArrowRight');
    await visit.page.waitForTimeout(250);
  });
  row('training: main thread, a step of the slider', walked.each.toFixed(1), 'ms', 50);
  row('training: longest task while dragging', walked.longest.toFixed(0), 'ms', 50);
  await visit.context.close();
}
{
  const visit = await open('#room=explore');
  await settle(visit.page);
  await visit.page.locator('summary', { hasText: 'Generate text' }).click();
  const generationCost = await costOf(visit, 1, async () => {
    await visit.page.getByRole('button', { name: 'Generate 16 tokens' }).click();
    await visit.page.waitForFunction(() => document.querySelectorAll('.chip.made').length >= 16);
  });
  row('explore: longest task while generating', generationCost.longest.toFixed(0), 'ms', 50);
}
await browser.close();
close();
if (process.env.SINKSCOPE_REQUESTS)
  for (const { path, bytes: size } of first) console.log(`${size} ${path}`);
print();
process.exit(0);
