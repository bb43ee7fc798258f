/** Serves a site with an origin of its own, for tests and measurements that do not need the built page's. */
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';

export const TYPES = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
  '.css': 'text/css',
  '.json': 'application/json',
  '.wasm': 'application/wasm',
  '.svg': 'image/svg+xml',
};
const MISSING = { status: 404, body: undefined };

async function readAnswer(name) {
  const file = name.endsWith('/') ? join(name, 'index.html') : name;
  try {
    return { type: TYPES[extname(file)] ?? 'application/octet-stream', body: await readFile(file) };
  } catch {
    return MISSING;
  }
}

/**
 * Serves what `answerTo` returns for a path: the name of a file, or of a folder with a page, that ends with a slash; an
 * answer, by default a page; or undefined where there is none.
 * @typedef {{ body?: string | Uint8Array, type?: string, status?: number, headers?: Record<string, string> }} Answer
 * @param {(path: string) => string | Answer | undefined | Promise<string | Answer | undefined>} answerTo
 * @param {Record<string, string>} headers the headers of each answer
 */
export async function openSite(answerTo, headers = {}) {
  const server = createServer(async ({ url }, response) => {
    const found = await answerTo(normalize(decodeURIComponent(new URL(url, 'http://x').pathname)));
    const answer = typeof found === 'string' ? await readAnswer(found) : (found ?? MISSING);
    const { body, type = 'text/html', status = 200, headers: ownHeaders } = answer;
    response.writeHead(status, { 'content-type': type, ...headers, ...ownHeaders }).end(body);
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  server.unref();
  const origin = `http://127.0.0.1:${server.address().port}`;
  return { origin, address: `${origin}/`, close: () => server.close() };
}
