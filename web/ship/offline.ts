/** Builds the service worker, once everything else lies in its place. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { build } from 'vite';
import { filesOf } from './parts.ts';

/** Read by hosts, by people, or by pages of others. */
const NOT_LOADED = /^(_headers|NOTICES\.\S*|(examples|cards|plates)\/.*)$/;

/**
 * Cached when first used: engines that train, multiply in eight bits or in relaxed floats, or do without SIMD; recordings;
 * the course's pictures.
 */
const ON_DEMAND =
  /^(engine\/.*(\.(lab|int8|relaxed)\..*|sinkscope\.wasm)|recordings\/.*|assets\/[^/]*\.svg)$/;

/**
 * @param out the built page
 * @param zoo where its models lie, below `out`; of these only `first` are fetched ahead
 */
export async function buildServiceWorker(
  out: string,
  zoo: string,
  first: readonly string[],
): Promise<void> {
  const isAhead = (file: string) =>
    first.includes(file) || !(file.startsWith(zoo) || ON_DEMAND.test(file));
  const hashes = Object.fromEntries(
    filesOf(out)
      .filter((file) => !NOT_LOADED.test(file))
      .map((file) => [file, hashOf(readFileSync(join(out, file)))]),
  );
  /** Some servers unpack what ends in .gz by themselves. */
  const listed = (file: string, hash: Buffer) =>
    file.endsWith('.gz')
      ? [short(hash), short(hashOf(gunzipSync(readFileSync(join(out, file)))))]
      : [short(hash)];
  // The address of an asset, an engine and a model has a hash; the others need one beside them.
  const files = Object.entries(hashes)
    .filter(([file]) => isAhead(file))
    .map(([url, hash]) => ({
      url,
      revision: /^(assets|engine|recordings|zoo)\//.test(url) ? null : short(hash),
    }));
  await build({
    configFile: false,
    publicDir: false,
    logLevel: 'warn',
    define: {
      FILES: JSON.stringify(files),
      ZOO: JSON.stringify(zoo),
      HASHES: JSON.stringify(
        Object.fromEntries(
          Object.entries(hashes).map(([file, hash]) => [
            // The folder of the zoo, before hundreds of names, would be much of the file.
            file.startsWith(zoo) ? `/${file.slice(zoo.length)}` : file,
            listed(file, hash).join(' '),
          ]),
        ),
      ),
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

const hashOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest();
/** 48 bits distinguish a file from another that took its place by mistake. */
const short = (hash: Buffer) => hash.toString('hex').slice(0, 12);
