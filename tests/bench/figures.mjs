/**
 * Measures when figures are drawn on other people's pages and in lessons, in Chromium on localhost: the seconds from
 * navigation to the first and the last figure of a page with five embeds, and to the first figure of each lesson, and
 * the bytes that each lesson fetches before and with that figure. Seconds are medians of three visits and need an
 * otherwise idle machine.
 *
 *     npm --prefix web run build && node tests/bench/figures.mjs [LESSON]
 */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { CHROMIUM, chromium, pageRoot } from '../browser/stage.mjs';
import { median } from './peers/table.mjs';
import { serveZipped, table } from './zipped.mjs';

const { served, address, close } = await serveZipped();
const browser = await chromium.launch(CHROMIUM);

/**
 * Returns the milliseconds from navigation to each of the first `count` figures, and the bytes until the first figure.
 */
async function visit(path, count) {
  served.length = 0;
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    serviceWorkers: 'block',
  });
  const page = await context.newPage();
  await page.addInitScript(() => {
    globalThis.drawn = [];
    addEventListener('run', () => globalThis.drawn.push(performance.now()));
    // The first figure of a lesson may be below the fold, so the page scrolls to it at once.
    addEventListener('DOMContentLoaded', () =>
      document.querySelector('sink-scope').scrollIntoView(),
    );
  });
  await page.goto(address + path, { waitUntil: 'commit' });
  await page.waitForFunction((drawCount) => globalThis.drawn.length >= drawCount, count, {
    timeout: 60_000,
  });
  const { drawn, since } = await page.evaluate(() => ({
    drawn: globalThis.drawn,
    since: performance.timeOrigin,
  }));
  await context.close();
  const isModel = ({ path }) => /^\/(zoo|engine|recordings)\//.test(path);
  const servedFiles = served.filter(({ at }) => at <= since + drawn[0]);
  const bytesOf = (files) => files.reduce((sum, { bytes }) => sum + bytes, 0);
  return {
    drawn,
    all: bytesOf(servedFiles),
    text: bytesOf(servedFiles.filter((file) => !isModel(file))),
  };
}

const results = table();
async function measure(name, path, count) {
  const visits = [];
  for (let i = 0; i < 4; i++) {
    const visitOnce = await visit(path, count);
    // The first visit is not counted: it fills the cache of the server.
    if (i) visits.push(visitOnce);
  }
  const medianSeconds = (place) =>
    (median(visits.map(({ drawn }) => drawn[place])) / 1000).toFixed(2);
  results.row(`${name}: first figure`, medianSeconds(0), 's', 1);
  if (count > 1) results.row(`${name}: all ${count}`, medianSeconds(count - 1), 's', 2);
  const medianKilobytes = (pick) => (median(visits.map(pick)) / 1000).toFixed(0);
  results.row(
    `${name}: page, scripts, styles and pictures until then`,
    medianKilobytes(({ text }) => text),
    'KB',
  );
  results.row(
    `${name}: the same with engine and weights`,
    medianKilobytes(({ all }) => all),
    'KB',
  );
}

const [wantedLesson = ''] = process.argv.slice(2);
if (!wantedLesson) await measure('five embeds', 'examples/five.html', 5);
const lessons = (await readdir(join(pageRoot, 'learn')))
  .filter((name) => /^\d/.test(name) && name.startsWith(wantedLesson))
  .sort();
for (const slug of lessons)
  await measure(`lesson ${parseInt(slug)}`, `learn/${slug}/index.html`, 1);
await browser.close();
close();
results.print();
process.exit(0);
