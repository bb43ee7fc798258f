/** Reads folders that command/out_folder.ts replaces whole. */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * A subfolder with the next files of its folder. One rename creates it; then its files replace those
 * of the folder, one after the other. While it exists, its files count, so that a reader finds all
 * old files or all new ones at every moment.
 */
export const NEXT_FOLDER = '.sinkscope-next';

/** Returns the path of a file in a folder, also while the folder is being replaced. */
export async function currentPath(folder: string, name: string) {
  const nextPath = join(folder, NEXT_FOLDER, name);
  return (await stat(nextPath).catch(() => undefined)) ? nextPath : join(folder, name);
}
