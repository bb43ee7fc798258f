/** Where `train --out` writes. It is made, and written to, before the first step: hours are not lost to a typo. */
import { randomUUID } from 'node:crypto';
import { lstat, mkdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { SinkscopeError } from '../abi/errors.js';
import { codeOf } from './text_file.js';

/** A file system that does not answer for so long is given up. */
const PATIENCE_MS = 30_000;

/** @typedef {{ path: string, data: string | Uint8Array }} File */

/**
 * Makes the folder and tries it.
 * @param {string} folder
 * @param {readonly string[]} [paths] files that will be written: none may be a device, a link or a folder
 * @param {number} [patience] milliseconds that one operation may take
 */
export async function openOut(folder, paths = [], patience = PATIENCE_MS) {
  /**
   * @template T
   * @param {string} path
   * @param {() => Promise<T>} work
   * @returns {Promise<T>}
   */
  const attempt = async (path, work) => {
    /** @type {NodeJS.Timeout | undefined} */
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(
        () => reject(new Error(`no answer within ${patience / 1000} s`)),
        patience,
      );
    });
    try {
      return await /** @type {Promise<T>} */ (Promise.race([work(), late]));
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
  const makeFolder = (/** @type {string} */ path) => attempt(path, () => madeFolder(path));
  /**
   * Beside the file and then in its place: the old file stays whole until then, and no pipe is opened.
   * @param {File} file
   */
  const write = ({ path, data }) => {
    const place = join(folder, path);
    return attempt(place, async () => {
      await expectReplaceable(place);
      const beside = `${place}.partial`;
      await rm(beside, { force: true });
      await writeFile(beside, data, { flag: 'wx' });
      await rename(beside, place);
    });
  };
  await makeFolder(resolve(folder));
  for (const path of paths)
    await attempt(join(folder, path), () => expectReplaceable(join(folder, path)));
  const trial = join(folder, `.sinkscope-trial-${randomUUID()}`);
  await attempt(trial, async () => {
    await writeFile(trial, '', { flag: 'wx' });
    await rm(trial);
  });
  return {
    /** @param {readonly File[]} files */
    async write(files) {
      for (const file of files) await write(file);
    },
  };
}

/**
 * Renaming would replace a device, a pipe or a link itself, and the system may need it.
 * @param {string} place
 */
async function expectReplaceable(place) {
  const there = await lstat(place).catch((error) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (!there || there.isFile()) return;
  const kind = there.isDirectory()
    ? 'a folder'
    : there.isSymbolicLink()
      ? 'a link'
      : 'a device or a pipe';
  throw new SinkscopeError(
    'write',
    `--out: ${place}`,
    `expected a regular file or none, found ${kind}`,
  );
}

/**
 * One level after the other: Node's own recursive mkdir never ends in /proc.
 * @param {string} path absolute
 */
async function madeFolder(path) {
  const there = await stat(path).catch((error) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (there?.isDirectory()) return;
  if (there) throw Object.assign(new Error('a file'), { code: 'a file of this name' });
  if (dirname(path) !== path) await madeFolder(dirname(path));
  await mkdir(path).catch((error) => {
    if (error.code !== 'EEXIST') throw error;
  });
}
