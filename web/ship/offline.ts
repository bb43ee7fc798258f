/** Builds the service worker, after all other files. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { build } from 'vite';
import { HASH_BYTES, packList } from '../sw/listed.ts';
import { filesOf } from './parts.ts';

/** Files that the page never loads: hosts, people or pages of other sites read them. */
const UNLOADED_FILES = /^(_headers|NOTICES\.\S*|(examples|cards)\/.*)$/;

/** Cached at first use: engines for training, recordings and what reads them, pictures, lazy parts of rooms. */
const ON_DEMAND_FILES =
  /^(engine\/.*\.lab\..*|recordings\/.*|assets\/([^/]*\.svg|(remedies|lab|pair|pictures|trainer|recording|open_recordings)-[^/]*\.(js|css)))$/;

/** Builds the service worker into the built page `out`; `precached` are files of the models in its folder `zoo`. */
export async function buildServiceWorker(
  out: string,
  zoo: string,
  precached: readonly string[],
): Promise<void> {
  const isPrecached = (file: string) =>
    precached.includes(file) || !(file.startsWith(zoo) || ON_DEMAND_FILES.test(file));
  const files = filesOf(out)
    .filter((file) => !UNLOADED_FILES.test(file))
    .map((path) => {
      const bytes = readFileSync(join(out, path));
      // Some servers unpack .gz files on their own.
      const contents = path.endsWith('.gz') ? [bytes, gunzipSync(bytes)] : [bytes];
      return { path, ahead: isPrecached(path), hashes: contents.map(hashOf) };
    });
  await build({
    configFile: false,
    publicDir: false,
    logLevel: 'warn',
    define: {
      ZOO: JSON.stringify(zoo),
      LIST: JSON.stringify(packList(files, zoo)),
      'process.env.NODE_ENV': '"production"',
    },
    build: {
      outDir: out,
      emptyOutDir: false,
      license: { fileName: 'NOTICES.sw.md' },
      rollupOptions: {
        input: join(import.meta.dirname, '../sw/sw.ts'),
        output: { format: 'iife', entryFileNames: 'sw.js' },
      },
    },
  });
}

/** Returns the first bits of a file's hash, enough to notice another file that took its place by mistake. */
const hashOf = (bytes: Buffer) =>
  createHash('sha256').update(bytes).digest().subarray(0, HASH_BYTES).toString('base64');
