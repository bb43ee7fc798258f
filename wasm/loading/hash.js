/** Hashes with the host's crypto, or piece by piece, which the host's cannot do. */
import { expect } from '../abi/errors.js';

/**
 * Hashes bytes, or a text as UTF-8; undefined without crypto, as on a page of plain http.
 * @param {Uint8Array | string} data
 */
export async function sha256(data) {
  const isHashable = typeof data === 'string' || data instanceof Uint8Array;
  expect(isHashable, 'data', 'a string or a Uint8Array', data);
  if (!globalThis.crypto?.subtle) return undefined;
  const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data;
  const hash = await crypto.subtle.digest('SHA-256', /** @type {BufferSource} */ (bytes));
  return hex(new Uint8Array(hash));
}

/** @param {Uint8Array} bytes */
const hex = (bytes) => Array.from(bytes, (one) => one.toString(16).padStart(2, '0')).join('');

/**
 * Makes a hash of pieces: the host's own would need a copy of all bytes, half a gigabyte for a
 * large model.
 * @returns {Promise<{ update(piece: Uint8Array): void, digest(): string }>} digest: hexadecimal
 */
export async function createSha256() {
  // Lazy import: models of a hub only.
  const { sha256 } = await import('@noble/hashes/sha2.js');
  const hash = sha256.create();
  return { update: (piece) => void hash.update(piece), digest: () => hex(hash.digest()) };
}
