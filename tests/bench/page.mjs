/**
 * What the page costs, in Chromium: main-thread work a key, a hovered cell and a step of the slider, the
 * longest task of each, bytes and requests to the first sink, and when it stands.
 *
 *     npm --prefix web run build && node tests/bench/page.mjs
 *     SINKSCOPE_PAGE=FOLDER  another build
 *
 * Bytes are counted as gzip would send them.
 */
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { extname, join, normalize } from 'node:path';
import { gzipSync } from 'node:zlib';
import { CHROMIUM, chromium, root } from '../browser/stage.mjs';

const folder = process.env.SINKSCOPE_PAGE ?? join(root, '.build/page');
const TYPES = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.json': 'application/json',
  '.wasm': 'application/wasm',
};

const zipped = new Map();
let served = [];
const server = createServer(async (request, response) => {
  const path = normalize(decodeURIComponent(new URL(request.url, 'http://x').pathname));
  const file = join(folder, path === '/' ? 'index.html' : path);
  try {
    if (!zipped.has(file)) zipped.set(file, gzipSync(await readFile(file)));
    const bytes = zipped.get(file);
    served.push({ path, bytes: bytes.length, at: Date.now() });
    const type = TYPES[extname(file)] ?? 'application/octet-stream';
    response.writeHead(200, {
      'content-type': type,
      'content-encoding': 'gzip',
      'content-length': bytes.length,
    });
    response.end(bytes);
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const address = `http://127.0.0.1:${server.address().port}/`;
const browser = await chromium.launch(CHROMIUM);

const open = async (hash = '', before = async () => {}) => {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 800 },
    serviceWorkers: 'block',
  });
  const page = await context.newPage();
  const devtools = await context.newCDPSession(page);
  await before(devtools);
  await page.addInitScript(() => {
    globalThis.tasks = [];
    new PerformanceObserver((list) => {
      for (const { duration, startTime } of list.getEntries())
        globalThis.tasks.push({ duration, startTime });
    }).observe({ type: 'longtask', buffered: true });
  });
  await page.goto(address + hash, { waitUntil: 'commit' });
  await page.waitForFunction(() => performance.getEntriesByName('first-sink').length);
  return { page, devtools, context };
};
const firstSink = (page) =>
  page.evaluate(() => performance.getEntriesByName('first-sink')[0].startTime);
const settle = async (page) => {
  await page.waitForFunction(() => document.body.dataset.busy === undefined);
  await page.waitForTimeout(120);
};
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

/** Seconds of script, style and layout of the main thread so far. */
async function work(devtools) {
  const { metrics } = await devtools.send('Performance.getMetrics');
  const of = (name) => metrics.find((one) => one.name === name).value;
  return of('TaskDuration');
}

/** Work of one act, and the longest task among all of them. */
async function costOf({ page, devtools }, count, act) {
  await devtools.send('Performance.enable');
  await settle(page);
  await page.evaluate(() => (globalThis.tasks.length = 0));
  const began = await work(devtools);
  for (let i = 0; i < count; i++) await act(i);
  await settle(page);
  const idle = await work(devtools);
  // What the page does while nothing is done belongs to nobody.
  await page.waitForTimeout(1000);
  const rest = (await work(devtools)) - idle;
  const longest = await page.evaluate(() =>
    Math.max(0, ...globalThis.tasks.map(({ duration }) => duration)),
  );
  return { each: (1000 * Math.max(0, idle - began - rest * 0.2)) / count, longest };
}

const rows = [];
const row = (what, value, unit, most) =>
  rows.push([what, `${value} ${unit}`, most === undefined ? '' : `${most} ${unit}`]);

// To the first sink, five times; the first fills the server's memory.
const times = [];
let first;
for (let i = 0; i < 6; i++) {
  served = [];
  const { page, context } = await open();
  const time = await firstSink(page);
  const then = time + (await page.evaluate(() => performance.timeOrigin));
  if (i) times.push(time);
  first ??= served.filter(({ at }) => at <= then);
  await context.close();
}
const bytes = first.reduce((sum, one) => sum + one.bytes, 0);
row('bytes (gzip) to the first sink', (bytes / 1e6).toFixed(2), 'MB', 2.5);
row('requests to the first sink', first.length, '', 12);
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
  const stand = await open(`#room=${room}`);
  const { page } = stand;
  await settle(page);
  await page.click('textarea');
  await page.keyboard.press('End');
  const typed = await costOf(stand, 20, async (i) => {
    await page.keyboard.type('once more '[i % 10]);
    await page.waitForTimeout(120);
  });
  row(`${room}: main thread, a key`, typed.each.toFixed(1), 'ms', 30);
  row(`${room}: longest task while typing`, typed.longest.toFixed(0), 'ms', 50);
  const box = await page.locator('[data-view="attention"] .heatmap').first().boundingBox();
  const hovered = await costOf(stand, 40, async (i) => {
    await page.mouse.move(box.x + 6 + 4 * i, box.y + box.height - 8 - 3 * i);
    await page.waitForTimeout(25);
  });
  row(`${room}: main thread, a hovered cell`, hovered.each.toFixed(1), 'ms', 8);
  row(`${room}: longest task while hovering`, hovered.longest.toFixed(0), 'ms', 50);
  await stand.context.close();
}
{
  const stand = await open('#room=training');
  await stand.page.waitForSelector('.walk input');
  await settle(stand.page);
  await stand.page.locator('.walk input').focus();
  // Once over all of them: what is fetched and decoded then is not drawn work.
  for (let i = 0; i < 8; i++) {
    await stand.page.keyboard.press('ArrowLeft');
    await settle(stand.page);
  }
  const walked = await costOf(stand, 8, async () => {
    await stand.page.keyboard.press('ArrowRight');
    await stand.page.waitForTimeout(250);
  });
  row('training: main thread, a step of the slider', walked.each.toFixed(1), 'ms', 50);
  row('training: longest task while dragging', walked.longest.toFixed(0), 'ms', 50);
  await stand.context.close();
}
{
  const stand = await open('#room=explore');
  await settle(stand.page);
  await stand.page.locator('summary', { hasText: 'go on writing' }).click();
  const made = await costOf(stand, 1, async () => {
    await stand.page.getByRole('button', { name: 'Generate 16 tokens' }).click();
    await stand.page.waitForFunction(() => document.querySelectorAll('.chip.made').length >= 16);
  });
  row('explore: longest task while generating', made.longest.toFixed(0), 'ms', 50);
}
await browser.close();
server.close();
const widths = [0, 1, 2].map((i) => Math.max(...rows.map((cells) => cells[i].length)));
console.log(
  rows
    .map((cells) =>
      cells.map((cell, i) => (i ? cell.padStart(widths[i] + 2) : cell.padEnd(widths[i]))),
    )
    .map((cells) => cells.join(''))
    .join('\n'),
);
process.exit(0);
