/** Hashes by the host's own means. */
import { expect } from '../abi/errors.js';

/**
 * Of bytes, or of a text as UTF-8; undefined where there is no crypto, as on a page of plain http.
 * @param {Uint8Array | string} data
 */
export async function sha256(data) {
  const isKnown = typeof data === 'string' || data instanceof Uint8Array;
  expect(isKnown, 'data', 'a string or a Uint8Array', data);
  if (!globalThis.crypto?.subtle) return undefined;
  const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data;
  const hash = await crypto.subtle.digest('SHA-256', /** @type {BufferSource} */ (bytes));
  return Array.from(new Uint8Array(hash), (one) => one.toString(16).padStart(2, '0')).join('');
}
