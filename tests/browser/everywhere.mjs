/**
 * Runs the steps that must work in every browser: one list of steps, three drivers.
 *
 *     tests/node tests/browser/everywhere.mjs [firefox webkit chromium]
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openResults } from '../results.mjs';
import { drivers } from './drivers.mjs';
import { ggufOfZoo } from './gguf.mjs';
import { createHost, pageRoot } from './stage.mjs';

const LIMIT_MS = 180_000;
const FINDING = '[data-finding]';
const MAP = '[data-view="attention"] .heatmap';

async function until(browser, what, look, ...values) {
  const end = performance.now() + LIMIT_MS;
  for (;;) {
    const result = await browser.evaluate(look, ...values);
    if (result) return result;
    assert.ok(performance.now() < end, `${what}: not within ${LIMIT_MS} ms`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

const textOf = (browser, selector) =>
  browser.evaluate((s) => document.querySelector(s)?.textContent.trim() ?? '', selector);

/** Waits until no computation runs and the sentence states a number. */
const ready = (browser) =>
  until(
    browser,
    'a finding',
    (s) =>
      document.body.dataset.busy === undefined &&
      /\d%|\d of/.test(document.querySelector(s)?.textContent),
    FINDING,
  );

const steps = {
  async 'opens with a sentence and a map'(browser, address) {
    await browser.open(`${address}#room=explore`);
    await ready(browser);
    const colors = await until(
      browser,
      'a map',
      (s) => {
        const canvas = document.querySelector(s)?.querySelector('canvas');
        if (!canvas?.width) return 0;
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        const colorCount = new Set(new Uint32Array(data.buffer)).size;
        return colorCount > 3 && colorCount;
      },
      MAP,
    );
    const mark = await browser.evaluate(
      () => performance.getEntriesByName('first-sink')[0]?.startTime,
    );
    return `${colors} colors, first sink after ${Math.round(mark)} ms`;
  },

  async 'follows a text that is typed'(browser) {
    await browser.type('textarea', 'The cat sat on');
    await until(browser, 'the words', () =>
      /The\s*cat\s*sat\s*on/.test(
        [...document.querySelectorAll('.chip')].map((chip) => chip.textContent).join(''),
      ),
    );
    await ready(browser);
  },

  async 'follows the keyboard on the map'(browser) {
    await browser.evaluate((s) => document.querySelector(s).focus(), MAP);
    const read = () => browser.evaluate(() => document.querySelector('.readout')?.textContent);
    for (const key of ['ArrowDown', 'ArrowDown']) await browser.press(key);
    const readout = await until(browser, 'a cell is read', () =>
      [...document.querySelectorAll('.readout')]
        .map((element) => element.textContent)
        .find((text) => /query \d/.test(text)),
    );
    await browser.press('ArrowDown');
    await until(
      browser,
      'the next cell is read',
      (oldText) =>
        [...document.querySelectorAll('.readout')].some(
          (element) => /query \d/.test(element.textContent) && element.textContent !== oldText,
        ),
      readout,
    );
    return (await read())?.slice(0, 40);
  },

  async 'generates words that the views follow'(browser) {
    const count = () => browser.evaluate(() => document.querySelectorAll('.chip').length);
    const oldCount = await count();
    await browser.evaluate(() =>
      [...document.querySelectorAll('button')]
        .find((button) => /^Generate/.test(button.textContent.trim()))
        .click(),
    );
    await until(
      browser,
      'new words',
      (n) => document.querySelectorAll('.chip').length >= n + 4,
      oldCount,
    );
    await ready(browser);
    return `${(await count()) - oldCount} tokens`;
  },

  async 'opens a GGUF file of the reader'(browser, _, gguf) {
    await browser.click('#header .tools button');
    await until(
      browser,
      'the dialog',
      () => document.querySelector('#open .file:not(.folder) input') !== null,
    );
    await browser.upload('#open .file:not(.folder) input', gguf);
    await until(browser, 'the model', () => /from your disk/.test(document.body.textContent));
    await ready(browser);
    assert.match(await textOf(browser, 'body'), /own\.F16\.gguf/);
  },

  async 'says what to do when it is opened as a file'(browser) {
    await browser.open(pathToFileURL(join(pageRoot, 'index.html')).href);
    const isShown = () => {
      const fallback = document.querySelector('#plain');
      return (
        fallback !== null &&
        getComputedStyle(fallback).visibility === 'visible' &&
        fallback.querySelector('img').naturalWidth > 0
      );
    };
    await until(browser, 'the picture', isShown);
    assert.match(await textOf(browser, '#plain'), /Serve its folder/);
  },

  async 'compares six models'(browser, address) {
    await browser.open('about:blank');
    await browser.open(`${address}#room=compare&input=heldout`);
    await until(browser, 'six models', () => {
      const counts = [...document.querySelectorAll('.model .count')];
      return counts.length === 6 && counts.every(({ textContent }) => /\d/.test(textContent));
    });
  },

  async 'is cross-origin isolated on a later visit, and shows the same'(browser, address) {
    await browser.open('about:blank');
    await browser.open(`${address}#room=explore`);
    await ready(browser);
    const sentence = await textOf(browser, FINDING);
    await until(browser, 'a service worker', () => navigator.serviceWorker.controller !== null);
    await browser.open('about:blank');
    await browser.open(`${address}#room=explore`);
    await ready(browser);
    assert.equal(await browser.evaluate(() => crossOriginIsolated), true);
    assert.equal(await textOf(browser, FINDING), sentence);
  },
};

const browserNames = process.argv.length > 2 ? process.argv.slice(2) : ['firefox', 'webkit'];
const folder = await mkdtemp(join(tmpdir(), 'sinkscope-'));
const gguf = join(folder, 'own.F16.gguf');
await writeFile(gguf, await ggufOfZoo('softmax'));
const host = createHost();
await new Promise((done) => host.listen(0, '127.0.0.1', done));
const address = `http://127.0.0.1:${host.address().port}/`;
const results = openResults(browserNames.join('-'));

for (const name of browserNames) {
  const startTime = performance.now();
  const browser = await drivers[name]().catch((error) => {
    results.fail(`${name} starts`, error);
  });
  if (!browser) continue;
  for (const [what, step] of Object.entries(steps)) {
    const start = performance.now();
    try {
      const note = await step(browser, address, gguf);
      const time = `${Math.round(performance.now() - start)} ms`;
      results.pass(`${browser.version} ${what}`, note ? `${time}, ${note}` : time);
    } catch (error) {
      results.fail(`${browser.version} ${what}`, error);
    }
  }
  await browser.close();
  console.log(`     ${browser.version}: ${Math.round((performance.now() - startTime) / 1000)} s`);
}
host.close();
await rm(folder, { recursive: true });
process.exit(results.close());
