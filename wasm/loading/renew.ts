/** Recovers files that a browser cached wrongly, such as a login page in their place. */
import { readAll } from './files.ts';

/**
 * Reads a file. If the file is damaged, this function fetches it again, so that the browser's cache
 * holds the new answer, and reads it again.
 * @param isDamaged whether an error means that the file is damaged
 */
export async function readRenewing<Result>(
  address: URL,
  read: () => Promise<Result>,
  isDamaged: (error: unknown) => boolean,
): Promise<Result> {
  try {
    return await read();
  } catch (error) {
    if (!isDamaged(error)) throw error;
    // The second read reports any failure of this fetch.
    await readAll(address, undefined, { tries: 1, httpCache: 'reload' }).catch(() => {});
    return read();
  }
}
