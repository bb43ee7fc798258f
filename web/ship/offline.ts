/** Builds the service worker, once everything else lies in its place. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'vite';
import { filesOf } from './parts.ts';

/** Read by hosts, by people, by pages of others, or by those who open a lab or choose eight bits. */
const NOT_LOADED = /^(_headers|NOTICES\.\S*|examples\/.*|engine\/.*\.(lab|eight)\..*)$/;

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
    first.includes(file) || !(file.startsWith(zoo) || NOT_LOADED.test(file));
  const files = filesOf(out)
    .filter(isAhead)
    .map((url) => ({ url, revision: url.includes('/') ? null : revision(join(out, url)) }));
  await build({
    configFile: false,
    publicDir: false,
    logLevel: 'warn',
    define: {
      FILES: JSON.stringify(files),
      ZOO: JSON.stringify(zoo),
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

/** What lies in a folder bears a hash in its address; what does not needs one beside it. */
function revision(file: string): string {
  return createHash('sha256').update(readFileSync(file)).digest('hex').slice(0, 16);
}
