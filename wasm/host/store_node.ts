/** Stores bytes by name in one folder; store_browser.ts is the counterpart. */
import { randomUUID } from 'node:crypto';
import { mkdir, readFile, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Store } from './types.ts';

/** Opens SINKSCOPE_CACHE, or else `sinkscope` in the cache folder of the user. */
export async function openStore(): Promise<Store | undefined> {
  const { SINKSCOPE_CACHE, XDG_CACHE_HOME } = process.env;
  const cacheRoot = XDG_CACHE_HOME || join(homedir(), '.cache');
  const folder = SINKSCOPE_CACHE || join(cacheRoot, 'sinkscope');
  const pathOf = (name: string) => join(folder, name);
  return {
    async put(name, bytes) {
      await mkdir(folder, { recursive: true });
      // A rename makes the write atomic for concurrent readers and writers.
      const temporaryPath = pathOf(`${name}.${randomUUID()}.tmp`);
      await writeFile(temporaryPath, bytes);
      await rename(temporaryPath, pathOf(name));
    },
    get: (name) => readFile(pathOf(name)).catch(() => undefined),
    remove: (name) => rm(pathOf(name), { force: true }),
    names: () => readdir(folder).catch(() => []),
  };
}
