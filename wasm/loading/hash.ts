/** Computes SHA-256 hashes by the host's crypto or, as that cannot, piece by piece. */
import { expect } from '../abi/errors.ts';

/** Returns the SHA-256 in hexadecimal, of a text's UTF-8; undefined in a page of plain http. */
export async function sha256(data: Uint8Array | string): Promise<string | undefined> {
  const isHashable = typeof data === 'string' || data instanceof Uint8Array;
  expect(isHashable, 'data', 'a string or a Uint8Array', data);
  if (!globalThis.crypto?.subtle) return undefined;
  const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data;
  const hash = await crypto.subtle.digest('SHA-256', bytes as BufferSource);
  return hex(new Uint8Array(hash));
}

const hex = (bytes: Uint8Array) =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

/** Creates a hash that takes pieces, since the host's crypto needs a copy of all bytes. */
export async function createSha256(): Promise<{
  update(piece: Uint8Array): void;
  digest(): string;
}> {
  // Lazy import: only models of a hub need this module.
  const { sha256 } = await import('@noble/hashes/sha2.js');
  const hash = sha256.create();
  return { update: (piece) => void hash.update(piece), digest: () => hex(hash.digest()) };
}

const FNV_PRIME = 0x01000193;

/**
 * Returns a checksum, FNV-1a over words, that finds damaged parts; SHA-256 takes three times as
 * long as the disk and protects no better, since who changes a part can rename it.
 */
export function checksumOf(bytes: Uint8Array) {
  const alignedBytes = bytes.byteOffset % 4 ? bytes.slice() : bytes;
  const words = new Int32Array(
    alignedBytes.buffer,
    alignedBytes.byteOffset,
    (alignedBytes.length >> 3) * 2,
  );
  const lastBytes = alignedBytes.subarray(words.byteLength);
  let checksum = lastBytes.reduce(
    (sum, byte) => Math.imul(sum ^ byte, FNV_PRIME),
    alignedBytes.length,
  );
  let oddChecksum = ~checksum;
  for (let i = 0; i < words.length; i += 2) {
    checksum = Math.imul(checksum ^ words[i], FNV_PRIME);
    oddChecksum = Math.imul(oddChecksum ^ words[i + 1], FNV_PRIME);
  }
  return [checksum, oddChecksum].map((sum) => (sum >>> 0).toString(16).padStart(8, '0')).join('');
}
