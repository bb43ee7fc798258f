/** Files that a browser may have cached as something else, a login page perhaps. */
import { request } from '#host';

/**
 * Reads once; what is damaged is fetched past the browser's cache, which keeps the new answer, and read again.
 * @template Result
 * @param {URL} address
 * @param {() => Promise<Result>} read
 * @param {(error: unknown) => boolean} isDamaged whether another answer of the server may help
 * @returns {Promise<Result>}
 */
export async function readRenewing(address, read, isDamaged) {
  try {
    return await read();
  } catch (error) {
    if (!isDamaged(error)) throw error;
    // Whether it came or not, the next reading says.
    await request(address, { cache: 'reload' }).then(
      (fresh) => fresh.arrayBuffer(),
      () => {},
    );
    return read();
  }
}
