/** Recovers files that a browser cached wrongly, such as a login page in their place. */
import { request } from '#host';

/**
 * Reads once; a damaged file is fetched past the browser's cache, which keeps the new answer, and
 * read again.
 * @template Result
 * @param {URL} address
 * @param {() => Promise<Result>} read
 * @param {(error: unknown) => boolean} isDamaged whether a new answer of the server may help
 * @returns {Promise<Result>}
 */
export async function readRenewing(address, read, isDamaged) {
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
