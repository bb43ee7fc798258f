/**
 * Measures how long a page that only runs the package takes in Chromium to open a cached GPT-2 of random weights:
 * seconds in all, for reading and in the core. Prints medians of ROUNDS=7.
 *
 *     node tests/bench/cached.mjs [SHAPE.TYPE]     default gpt2.f32, after building the binaries
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { openHub } from '../hub/server.mjs';
import { CHROMIUM, chromium, root, servePackagePage } from './package_page.mjs';
import { randomFile } from './peers/gguf.mjs';
import { median } from './peers/table.mjs';

const file = process.argv[2] ?? 'gpt2.f32';
const rounds = Number(process.env.ROUNDS ?? 7);
const folder = join(root, '.build/bench/cached');

/** Runs in the page. Opens the model each time in a new engine, as each visit does. */
const PAGE_SCRIPT = `
import { createEngine } from 'sinkscope';
globalThis.open = async (weights) => {
  const engine = await createEngine({ base: new URL('engine/', document.baseURI), workers: 1 });
  const start = performance.now();
  let read = 0;
  const onProgress = ({ stage }) => stage === 'open' && (read ||= performance.now() - start);
  await engine.open({ weights: { ...weights, cache: true } }, { onProgress });
  const all = performance.now() - start;
  await engine.close();
  return { all, read, core: all - read };
};
`;
rmSync(join(folder, 'profile'), { recursive: true, force: true });
const server = await servePackagePage(folder, PAGE_SCRIPT);
const hub = await openHub();
const NAME = 'sinkscope/quantized';
const { revisions } = hub.repository(NAME);
revisions.main.files['model.gguf'] = Buffer.from(randomFile(...file.split('.')));
const weights = {
  url: `${hub.endpoint}/${NAME}/resolve/main/model.gguf`,
  version: 'main',
  id: NAME,
  bytes: revisions.main.files['model.gguf'].length,
};
// The browser has a profile, which keeps files on the disk; a private window would keep them in memory.
const browser = await chromium.launchPersistentContext(join(folder, 'profile'), CHROMIUM);
const page = await browser.newPage();
page.on('console', (message) => console.error(message.text()));
await page.goto(server.address);
await page.waitForFunction(() => globalThis.open);
const times = [];
for (let round = 0; round <= rounds; round++) {
  const requestCount = hub.log.length;
  const visit = await page.evaluate((from) => globalThis.open(from), weights);
  if (round && hub.log.length > requestCount)
    throw new Error('expected a cached file, found a request to the hub');
  times.push(visit);
}
const [first, ...laterTimes] = times;
const seconds = (milliseconds) => (milliseconds / 1000).toFixed(2);
console.log(`${file}, from the hub of this machine: ${seconds(first.all)} s`);
for (const [part, name] of Object.entries({ all: 'from the cache', read: 'read', core: 'core' }))
  console.log(`${name}: ${seconds(median(laterTimes.map((time) => time[part])))} s`);
await browser.close();
rmSync(join(folder, 'profile'), { recursive: true, force: true });
process.exit();
