/** Opens the folder of --out, tested before the command computes: a typo must not cost hours. */
import { randomUUID } from 'node:crypto';
import { lstat, mkdir, readdir, rename, rm, rmdir, stat, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { SinkscopeError } from '../abi/errors.ts';
import { NEXT_FOLDER } from '../host/node_folder.ts';
import { codeOf } from './text_file.ts';

/** Milliseconds until a silent file system, such as a lost network mount, counts as failed. */
const PATIENCE_MS = 30_000;

/** Begins the names of what only a killed command leaves behind; the number of its process comes next. */
const TEMPORARY_PREFIX = '.sinkscope-part-';

const temporaryName = () => `${TEMPORARY_PREFIX}p${process.pid}-${randomUUID()}`;

export type OutFile = { path: string; data: string | Uint8Array };

/**
 * Creates the folder and tests it, and that `paths` are no device, link or folder.
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
      const text = `expected a folder that can be written to, found ${codeOf(error)}`;
      throw new SinkscopeError('write', `--out: ${path}`, text);
    } finally {
      clearTimeout(timer);
    }
  };
  /** Renames a file that was written beside: the old one stays intact, and no pipe is opened. */
  const writeOne = ({ path, data }: OutFile) => {
    const target = join(folder, path);
    return attempt(target, async () => {
      await expectReplaceable(target);
      await removeTemporaries(folder);
      const temporaryPath = join(folder, temporaryName());
      try {
        await writeFile(temporaryPath, data, { flag: 'wx', flush: true });
        await rename(temporaryPath, target);
      } catch (error) {
        await rm(temporaryPath, { force: true }).catch(() => {});
        throw error;
      }
    });
  };
  const writeAll = async (files: readonly OutFile[]) => {
    await attempt(folder, () => removeTemporaries(folder));
    const temporaryFolder = join(folder, temporaryName());
    try {
      await attempt(folder, () => mkdir(temporaryFolder));
      for (const { path, data } of files)
        await attempt(join(folder, path), async () => {
          await expectReplaceable(join(folder, path));
          await writeFile(join(temporaryFolder, path), data, { flag: 'wx', flush: true });
        });
      await attempt(folder, () => replaceFiles(folder, temporaryFolder));
    } catch (error) {
      await rm(temporaryFolder, { recursive: true, force: true }).catch(() => {});
      throw error;
    }
  };
  await attempt(resolve(folder), () => createFolder(resolve(folder)));
  for (const path of paths)
    await attempt(join(folder, path), () => expectReplaceable(join(folder, path)));
  const trial = join(folder, temporaryName());
  await attempt(trial, async () => {
    await writeFile(trial, '', { flag: 'wx' });
    await rm(trial, { force: true });
  });
  return {
    /** Writes files whole: at every moment a reader finds all of the old ones or all of these. */
    write: (files: readonly OutFile[]) =>
      files.length === 1 ? writeOne(files[0]) : writeAll(files),
  };
}

/** Removes what killed commands left, so that the disk does not fill up; another command may be writing beside. */
async function removeTemporaries(folder: string) {
  for (const name of await readdir(folder))
    if (name.startsWith(TEMPORARY_PREFIX) && !isProcess(/-p(\d+)-/.exec(name)?.[1]))
      await rm(join(folder, name), { recursive: true, force: true });
}

/** Whether a process with this number runs on this machine; false for none. */
function isProcess(number: string | undefined): boolean {
  try {
    return number !== undefined && process.kill(Number(number), 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

async function replaceFiles(folder: string, newFolder: string) {
  for (let isPlaced = false; !isPlaced;) {
    // A killed command may have stopped in the middle of the moves.
    await moveNextFiles(folder);
    isPlaced = await rename(newFolder, join(folder, NEXT_FOLDER)).then(
      () => true,
      (error) => {
        if (['ENOTEMPTY', 'EEXIST'].includes(error.code)) return false;
        throw error;
      },
    );
  }
  await moveNextFiles(folder);
}

async function moveNextFiles(folder: string) {
  const nextFolder = join(folder, NEXT_FOLDER);
  for (const name of (await readdir(nextFolder).catch(ignoreMissing)) ?? [])
    await rename(join(nextFolder, name), join(folder, name)).catch(ignoreMissing);
  await rmdir(nextFolder).catch(ignoreMissing);
}

function ignoreMissing(error: NodeJS.ErrnoException) {
  if (error.code !== 'ENOENT') throw error;
}

/** Throws for all but a regular file: a rename would replace what the system may need. */
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

/** Creates an absolute path folder by folder: Node.js's recursive mkdir never ends in /proc. */
async function createFolder(path: string) {
  const stats = await stat(path).catch(ignoreMissing);
  if (stats?.isDirectory()) return;
  if (stats) throw Object.assign(new Error('a file'), { code: 'a file of this name' });
  if (dirname(path) !== path) await createFolder(dirname(path));
  await mkdir(path).catch((error) => {
    if (error.code !== 'EEXIST') throw error;
  });
}
