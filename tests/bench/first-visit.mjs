/**
 * Counts at the server what a first visit to Start fetches: until the first sink; in the 20 seconds after navigation, by
 * the page, its workers and its service worker together; and with the exact weights, which a click then requests.
 *
 *     npm --prefix web run build && node tests/bench/first-visit.mjs
 *     SINKSCOPE_REQUESTS=1   what is fetched, file by file
 *
 * Four hosts: Python's, which compresses nothing and names a date only; Vite's, as web/serve starts it; one that
 * compresses by type and lets a browser keep files for ten minutes, as GitHub Pages does; and one that sends a
 * type and nothing else. Bytes are those of bodies as they are sent.
 */
import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createServer, request as ask } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { gzipSync } from 'node:zlib';
import { freePort, waitUntilListening } from '../browser/drivers.mjs';
import { CHROMIUM, TYPES, chromium, pageRoot, root } from '../browser/stage.mjs';

const WATCH_MS = 20_000;

const listen = (server) =>
  new Promise((done) => server.listen(0, '127.0.0.1', () => done(server.address().port)));

/** Starts a program that serves the page, behind a proxy that counts requests and bytes. */
async function startProgram(command, argv, options = {}) {
  const port = await freePort();
  const program = spawn(command, argv(String(port)), { stdio: 'ignore', ...options });
  await waitUntilListening(
    `http://127.0.0.1:${port}/`,
    new Promise((_, reject) => program.once('error', reject)),
  );
  return {
    answer: ({ method, url, headers }, response, sent) => {
      const onward = ask({ host: '127.0.0.1', port, method, path: url, headers }, (answer) => {
        response.writeHead(answer.statusCode, answer.headers);
        answer.on('data', (chunk) => sent(chunk.length));
        answer.pipe(response);
      });
      onward.on('error', () => response.destroy());
      onward.end();
    },
    close: () => program.kill(),
  };
}

/**
 * Starts a static host in this process. With `zips`, it compresses as GitHub Pages does: text, JSON
 * and WebAssembly, and no weights.
 */
function startHost(headers, zips) {
  const answer = async ({ url }, response, sent) => {
    const path = normalize(decodeURIComponent(new URL(url, 'http://x').pathname));
    const file = join(pageRoot, /\/$/.test(path) ? `${path}index.html` : path);
    const type = TYPES[extname(file)];
    try {
      const content = await readFile(file);
      const isZipped = zips && type;
      const bytes = isZipped ? gzipSync(content) : content;
      sent(bytes.length);
      response.writeHead(200, {
        ...headers,
        'content-type': type ?? 'application/octet-stream',
        ...(isZipped ? { 'content-encoding': 'gzip' } : {}),
      });
      response.end(bytes);
    } catch {
      response.writeHead(404).end();
    }
  };
  return { answer, close() {} };
}

const HOSTS = {
  'python3 -m http.server': () =>
    startProgram('python3', (port) => ['-m', 'http.server', port, '--directory', pageRoot]),
  'web/serve': () =>
    startProgram(
      join(root, 'web/node_modules/.bin/vite'),
      (port) => ['preview', '--strictPort', '--host', '127.0.0.1', '--port', port],
      { cwd: join(root, 'web') },
    ),
  'compressing, ten minutes': () => startHost({ 'cache-control': 'max-age=600' }, true),
  'a type alone': () => startHost({}, false),
};

/**
 * Visits the page once.
 * @returns the served files, each with its bytes and the time of its request
 */
async function visit(browser, host) {
  const served = [];
  const server = createServer((request, response) => {
    const file = { path: decodeURIComponent(request.url.split('?')[0]), bytes: 0, at: Date.now() };
    served.push(file);
    host.answer(request, response, (bytes) => (file.bytes += bytes));
  });
  const port = await listen(server);
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  const start = Date.now();
  await page.goto(`http://127.0.0.1:${port}/`, { waitUntil: 'commit' });
  await page.waitForFunction(() => performance.getEntriesByName('first-sink').length);
  const sink = await page.evaluate(
    () => performance.timeOrigin + performance.getEntriesByName('first-sink')[0].startTime,
  );
  await page.waitForTimeout(Math.max(0, start + WATCH_MS - Date.now()));
  const before = [...served];
  await page.getByRole('button', { name: /^Use exact weights/ }).click();
  await page.waitForFunction(() => !document.querySelector('.preview'));
  const all = [...served];
  await context.close();
  server.close();
  server.closeAllConnections();
  return { all, before, first: all.filter(({ at }) => at <= sink) };
}

const megabytes = (requests) =>
  (requests.reduce((sum, { bytes }) => sum + bytes, 0) / 1e6).toFixed(2);

const browser = await chromium.launch(CHROMIUM);
console.log(
  'host: to the first sink, MB in requests; in 20 s; with exact weights; files sent twice',
);
for (const [name, open] of Object.entries(HOSTS)) {
  const host = await open();
  const { all, before, first } = await visit(browser, host);
  host.close();
  const paths = new Set();
  const repeatedFiles = all.filter(
    ({ path, bytes }) => bytes && (paths.has(path) || !paths.add(path)),
  );
  const row = [
    `${megabytes(first)} in ${first.length}`,
    `${megabytes(before)} in ${before.length}`,
    `${megabytes(all)} in ${all.length}`,
    `${repeatedFiles.length}, ${megabytes(repeatedFiles)} MB`,
  ];
  console.log(`${name}: ${row.join('; ')}`);
  if (process.env.SINKSCOPE_REQUESTS)
    for (const sentFile of all)
      console.log(`  ${first.includes(sentFile) ? '*' : ' '} ${sentFile.bytes} ${sentFile.path}`);
}
await browser.close();
process.exit(0);
