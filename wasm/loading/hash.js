/** Hashes by the host's own means, or piece by piece, which the host's cannot do. */
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
  return hex(new Uint8Array(hash));
}

/** @param {Uint8Array} bytes */
const hex = (bytes) => Array.from(bytes, (one) => one.toString(16).padStart(2, '0')).join('');

/**
 * A hash of what comes in pieces: the host's own copies all that it hashes, which of a large model is half a
 * gigabyte.
 * @returns {Promise<{ update(piece: Uint8Array): void, digest(): string }>} digest: hexadecimal
 */
export async function createSha256() {
  // Who opens no model of a hub never downloads this module.
  const { sha256 } = await import('@noble/hashes/sha2.js');
  const hash = sha256.create();
  return { update: (piece) => void hash.update(piece), digest: () => hex(hash.digest()) };
}
