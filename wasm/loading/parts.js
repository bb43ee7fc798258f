/** Stores a file as parts, with a card that describes the file. */
import { reasonOf } from './ask.js';
import { sha256 } from './hash.js';

/**
 * @typedef {object} Store
 * @property {'opfs' | 'folder'} kind
 * @property {(name: string, bytes: Uint8Array<ArrayBuffer>) => Promise<void>} put
 * @property {(name: string, into?: Uint8Array<ArrayBuffer>) => Promise<Uint8Array<ArrayBuffer> |
 * undefined>} get into: a buffer from an earlier call that may be overwritten
 * @property {(name: string) => Promise<void>} remove
 * @property {() => Promise<string[]>} names
 */
/**
 * sha256: of the whole file, once compared with what the hub lists.
 * @typedef {{ url: string, id: string, version: string, bytes: number, sha256?: string }} Card
 */
/**
 * checksum: of the part's bytes; older versions wrote none, or a hash.
 * @typedef {{ name: string, key: string, start: number, bytes: number, checksum?: string }} Part
 */

/**
 * A part is written when it is this large or this old, so that a slow connection loses seconds of
 * work, not megabytes.
 */
const PART_BYTES = 2 ** 23;
const PART_MS = 2000;
/** Smallest buffer of a part: a server may announce fewer bytes than it sends. */
const LEAST_BYTES = 2 ** 16;

/** The prime of the hash FNV-1a. */
const PRIME = 0x01000193;

/** Writes chunks as parts. `append` waits for the disk, so that no backlog builds up. */
export class Keeper {
  #store;
  #key;
  #card;
  #start;
  #onNote;
  /** The buffer of the current part, which all parts share, and the number of bytes in it. */
  #part = new Uint8Array();
  #bytes = 0;
  #since = performance.now();
  #failed = false;

  /**
   * @param {Store} store
   * @param {string} key
   * @param {Card} card
   * @param {number} start position of the first chunk in the file
   * @param {((note: string) => void) | undefined} onNote
   */
  constructor(store, key, card, start, onNote) {
    this.#store = store;
    this.#key = key;
    this.#card = card;
    this.#start = start;
    this.#onNote = onNote;
  }

  begin() {
    return this.#put(`${this.#key}.json`, bytesOfCard(this.#card));
  }

  /** @param {Uint8Array} chunk */
  async append(chunk) {
    if (!this.#part.length) {
      const rest = Math.max(LEAST_BYTES, this.#card.bytes - this.#start);
      this.#part = new Uint8Array(Math.min(PART_BYTES, rest));
    }
    for (let at = 0; at < chunk.length && !this.#failed;) {
      const piece = chunk.subarray(at, at + this.#part.length - this.#bytes);
      this.#part.set(piece, this.#bytes);
      this.#bytes += piece.length;
      at += piece.length;
      const isOld = performance.now() - this.#since > PART_MS;
      if (this.#bytes === this.#part.length || isOld) await this.flush();
    }
  }

  async flush() {
    if (this.#failed || this.#bytes === 0) return;
    const part = this.#part.subarray(0, this.#bytes);
    const start = this.#start;
    this.#bytes = 0;
    this.#start += part.length;
    this.#since = performance.now();
    await this.#put(`${this.#key}.${start}.${part.length}.${checksumOf(part)}`, part);
  }

  /**
   * Continues the download without the cache when the disk or a quota is full.
   * @param {string} name
   * @param {Uint8Array<ArrayBuffer>} bytes
   */
  async #put(name, bytes) {
    try {
      await this.#store.put(name, bytes);
    } catch (error) {
      this.#failed = true;
      await removeKey(this.#store, this.#key).catch(() => {});
      this.#onNote?.(`not kept: the browser or the disk has no room for it (${reasonOf(error)})`);
    }
  }
}

/**
 * @param {Store} store
 * @param {string} key
 * @returns {Promise<Card | undefined>}
 */
export async function readCard(store, key) {
  try {
    const bytes = await store.get(`${key}.json`);
    const card = JSON.parse(new TextDecoder().decode(bytes));
    const texts = [card.url, card.id, card.version].every((text) => typeof text === 'string');
    return texts && Number.isSafeInteger(card.bytes) ? card : undefined;
  } catch {
    return undefined;
  }
}

/** @param {Card} card */
export const bytesOfCard = (card) => new TextEncoder().encode(JSON.stringify(card));

/**
 * Returns 128 bits of a hash; every host with a store also has crypto.
 * @param {Uint8Array | string} data
 */
export const hashOf = async (data) => (await sha256(data))?.slice(0, 32) ?? '';

/**
 * FNV-1a over words in two chains detects damaged parts. SHA-256 takes three times as long as the
 * disk and protects no better, since an attacker who changes a part can rename it.
 * @param {Uint8Array} bytes
 */
export function checksumOf(bytes) {
  const aligned = bytes.byteOffset % 4 ? bytes.slice() : bytes;
  const words = new Int32Array(aligned.buffer, aligned.byteOffset, (aligned.length >> 3) * 2);
  const rest = aligned.subarray(words.byteLength);
  let even = rest.reduce((sum, byte) => Math.imul(sum ^ byte, PRIME), aligned.length);
  let odd = ~even;
  for (let i = 0; i < words.length; i += 2) {
    even = Math.imul(even ^ words[i], PRIME);
    odd = Math.imul(odd ^ words[i + 1], PRIME);
  }
  return [even, odd].map((one) => (one >>> 0).toString(16).padStart(8, '0')).join('');
}

/**
 * @param {string} address
 * @param {string} version
 */
export const keyOf = (address, version) => hashOf(`${address}\n${version}`);

/**
 * @param {string} name
 * @returns {Part | undefined}
 */
export function partOf(name) {
  const match = /^([0-9a-f]{32})\.(\d+)\.(\d+)(?:\.(?:[0-9a-f]{32}|([0-9a-f]{16})))?$/.exec(name);
  return match
    ? { name, key: match[1], start: Number(match[2]), bytes: Number(match[3]), checksum: match[4] }
    : undefined;
}

/**
 * Returns a file's contiguous parts, from its first byte on.
 * @param {string[]} names
 * @param {string} key
 */
export function chain(names, key) {
  const parts = names.flatMap((name) => partOf(name) ?? []).filter((part) => part.key === key);
  // Two pages may have fetched the same file: of parts with the same start, the longest wins.
  parts.sort((a, b) => a.bytes - b.bytes);
  const byStart = new Map(parts.map((part) => [part.start, part]));
  /** @type {Part[]} */
  const contiguous = [];
  let end = 0;
  for (let part = byStart.get(0); part; part = byStart.get(end)) {
    contiguous.push(part);
    end += part.bytes;
    // An empty part would be its own successor.
    if (part.bytes === 0) break;
  }
  return contiguous;
}

/**
 * @param {Store} store
 * @param {string} key
 */
export async function removeKey(store, key) {
  const names = (await store.names()).filter((name) => name.startsWith(`${key}.`));
  await Promise.all(names.map((name) => store.remove(name)));
}
