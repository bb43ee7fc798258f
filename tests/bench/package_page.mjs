// Builds a page that only runs the npm package, by Vite, and serves it, for benchmarks in a browser.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

export { CHROMIUM, chromium } from '../browser/chromium.mjs';

export const root = fileURLToPath(new URL('../../', import.meta.url));
const vite = await import(pathToFileURL(join(root, 'web/node_modules/vite/dist/node/index.js')));

const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.wasm': 'application/wasm' };

/**
 * Builds a page and serves it.
 * @param {string} folder where the page is built
 * @param {string} main the script of the page, which imports sinkscope and finds the binaries in engine/
 * @param {Record<string, string>} [headers] headers of every answer
 */
export async function servePackagePage(folder, main, headers = {}) {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'main.js'), main);
  writeFileSync(
    join(folder, 'index.html'),
    '<!doctype html><title>bench</title><link rel="icon" href="data:,"><script type="module" src="./main.js"></script>',
  );
  await vite.build({
    root: folder,
    configFile: false,
    logLevel: 'error',
    base: './',
    resolve: { alias: { sinkscope: join(root, 'wasm/index.ts') } },
    worker: { format: 'es' },
    build: { target: 'es2022' },
  });
  const server = createServer(({ url }, response) => {
    const path = url === '/' ? '/index.html' : new URL(url, 'http://x').pathname;
    const file = path.startsWith('/engine/')
      ? join(root, '.build/wasm', path.slice('/engine/'.length))
      : join(folder, 'dist', path);
    const exists = existsSync(file);
    response.writeHead(exists ? 200 : 404, {
      'content-type': TYPES[extname(file)] ?? '',
      ...headers,
    });
    response.end(exists ? readFileSync(file) : undefined);
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return { address: `http://127.0.0.1:${server.address().port}/`, close: () => server.close() };
}
