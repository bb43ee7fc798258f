/** Recovers files that a browser cached wrongly, such as a login page in their place. */
import { request } from '#host';

/**
 * Reads a file; a damaged one is fetched again past the browser's cache, which keeps the new answer, and
 * read again.
 * @param isDamaged whether a new answer of the server may help
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
    await request(address, { cache: 'reload' }).then(
      (fresh) => fresh.arrayBuffer(),
      () => {},
    );
    return read();
  }
}
