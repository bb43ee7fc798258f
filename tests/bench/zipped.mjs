/** Serves the built page with gzip, as a host does, and prints tables of results with their limits. */
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { extname, join, normalize } from 'node:path';
import { gzipSync } from 'node:zlib';
import { TYPES, pageRoot } from '../browser/stage.mjs';

/**
 * Starts the server.
 * @returns the address, and the files served since `served.length = 0`
 */
export async function serveZipped() {
  const zipped = new Map();
  const served = [];
  const server = createServer(async (request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, 'http://x').pathname));
    const file = join(pageRoot, path === '/' ? 'index.html' : path);
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
  return {
    served,
    address: `http://127.0.0.1:${server.address().port}/`,
    close: () => server.close(),
  };
}

export function table() {
  const rows = [];
  return {
    row: (what, value, unit, limit) =>
      rows.push([what, `${value} ${unit}`, limit === undefined ? '' : `${limit} ${unit}`]),
    print() {
      const widths = [0, 1, 2].map((i) => Math.max(...rows.map((cells) => cells[i].length)));
      for (const cells of rows)
        console.log(
          cells
            .map((cell, i) => (i ? cell.padStart(widths[i] + 2) : cell.padEnd(widths[i])))
            .join(''),
        );
    },
  };
}
