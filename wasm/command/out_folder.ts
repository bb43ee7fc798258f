/**
 * Opens the folder that --out writes to. It is created and tested before the command computes, so
 * that a typo does not cost hours.
 */
import { randomUUID } from 'node:crypto';
import { lstat, mkdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { SinkscopeError } from '../abi/errors.ts';
import { codeOf } from './text_file.ts';

/** Milliseconds until a silent file system, such as a lost network mount, counts as failed. */
const PATIENCE_MS = 30_000;

type OutFile = { path: string; data: string | Uint8Array };

/**
 * Creates the folder and tests it.
 * @param paths files that will be written: none may be a device, a link or a folder
 * @param patience milliseconds that each operation may take
 */
export async function openOut(
  folder: string,
  paths: readonly string[] = [],
  patience: number = PATIENCE_MS,
) {
  const attempt = async <T>(path: string, work: () => Promise<T>): Promise<T> => {
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise((_, reject) => {
      timer = setTimeout(
        () => reject(new Error(`no answer within ${patience / 1000} s`)),
        patience,
      );
    });
    try {
      return await (Promise.race([work(), timeout]) as Promise<T>);
    } catch (error) {
      if (error instanceof SinkscopeError) throw error;
      throw new SinkscopeError(
        'write',
        `--out: ${path}`,
        `expected a folder that can be written to, found ${codeOf(error)}`,
      );
    } finally {
      clearTimeout(timer);
    }
  };
  /**
   * Writes a temporary file and renames it: the old file stays intact until then, and no pipe is
   * opened.
   */
  const write = ({ path, data }: OutFile) => {
    const target = join(folder, path);
    return attempt(target, async () => {
      await expectReplaceable(target);
      const temporaryPath = `${target}.partial`;
      await rm(temporaryPath, { force: true });
      await writeFile(temporaryPath, data, { flag: 'wx' });
      await rename(temporaryPath, target);
    });
  };
  await attempt(resolve(folder), () => createFolder(resolve(folder)));
  for (const path of paths)
    await attempt(join(folder, path), () => expectReplaceable(join(folder, path)));
  const trial = join(folder, `.sinkscope-trial-${randomUUID()}`);
  await attempt(trial, async () => {
    await writeFile(trial, '', { flag: 'wx' });
    await rm(trial);
  });
  return {
    async write(files: readonly OutFile[]) {
      for (const file of files) await write(file);
    },
  };
}

function ignoreMissing(error: NodeJS.ErrnoException) {
  if (error.code !== 'ENOENT') throw error;
}

/**
 * Throws for a folder, a link, a device or a pipe. Renaming a file onto such a path would replace
 * something that the system may need.
 */
async function expectReplaceable(path: string) {
  const stats = await lstat(path).catch(ignoreMissing);
  if (!stats || stats.isFile()) return;
  const kind = stats.isDirectory()
    ? 'a folder'
    : stats.isSymbolicLink()
      ? 'a link'
      : 'a device or a pipe';
  throw new SinkscopeError(
    'write',
    `--out: ${path}`,
    `expected a regular file or none, found ${kind}`,
  );
}

/**
 * Creates a folder and its missing parents, each in turn, because the recursive mkdir of Node.js never
 * ends in /proc.
 * @param path absolute
 */
async function createFolder(path: string) {
  const stats = await stat(path).catch(ignoreMissing);
  if (stats?.isDirectory()) return;
  if (stats) throw Object.assign(new Error('a file'), { code: 'a file of this name' });
  if (dirname(path) !== path) await createFolder(dirname(path));
  await mkdir(path).catch((error) => {
    if (error.code !== 'EEXIST') throw error;
  });
}
