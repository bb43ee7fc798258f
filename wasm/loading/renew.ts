/** Recovers files that a browser cached wrongly, such as a login page in their place. */
import { readAll } from './files.ts';

/** Reads a file again past the browser's cache if an error says that it is damaged. */
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
