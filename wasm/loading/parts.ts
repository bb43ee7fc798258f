/** Stores a file as parts, with a card that describes the file. */
import { reasonOf } from './ask.ts';
import { checksumOf, sha256 } from './hash.ts';
import type { Store } from '../host/types.ts';

/** `sha256` is the hash of the whole file, once it was compared with the hub's. */
export type Card = { url: string; id: string; version: string; bytes: number; sha256?: string };
export type Part = { name: string; key: string; start: number; bytes: number; checksum: string };

/** A part is written at this size or age, so that a slow connection loses only seconds of work. */
const PART_BYTES = 2 ** 23;
const PART_MS = 2000;
/** Smallest buffer of a part: a server may announce fewer bytes than it sends. */
const BUFFER_BYTES_MIN = 2 ** 16;

/** Writes chunks as parts. `append` waits for the disk, so that no backlog builds up. */
export class PartWriter {
  #store;
  #key;
  #card;
  #start;
  #onNote;
  /** The buffer of the current part, which all parts share, and the number of bytes in it. */
  #part = new Uint8Array();
  #bytes = 0;
  #startTime = performance.now();
  #hasFailed = false;

  /** @param start position of the first chunk in the file */
  constructor(
    store: Store,
    key: string,
    card: Card,
    start: number,
    onNote: ((note: string) => void) | undefined,
  ) {
    this.#store = store;
    this.#key = key;
    this.#card = card;
    this.#start = start;
    this.#onNote = onNote;
  }

  begin() {
    return this.#put(`${this.#key}.json`, bytesOfCard(this.#card));
  }

  async append(chunk: Uint8Array) {
    if (!this.#part.length) {
      const remainingBytes = Math.max(BUFFER_BYTES_MIN, this.#card.bytes - this.#start);
      this.#part = new Uint8Array(Math.min(PART_BYTES, remainingBytes));
    }
    for (let offset = 0; offset < chunk.length && !this.#hasFailed;) {
      const piece = chunk.subarray(offset, offset + this.#part.length - this.#bytes);
      this.#part.set(piece, this.#bytes);
      this.#bytes += piece.length;
      offset += piece.length;
      const isOld = performance.now() - this.#startTime > PART_MS;
      if (this.#bytes === this.#part.length || isOld) await this.flush();
    }
  }

  async flush() {
    if (this.#hasFailed || this.#bytes === 0) return;
    const part = this.#part.subarray(0, this.#bytes);
    const start = this.#start;
    this.#bytes = 0;
    this.#start += part.length;
    this.#startTime = performance.now();
    await this.#put(`${this.#key}.${start}.${part.length}.${checksumOf(part)}`, part);
  }

  /** Writes a file. If the disk or a quota is full, the download continues without the cache. */
  async #put(name: string, bytes: Uint8Array<ArrayBuffer>) {
    try {
      await this.#store.put(name, bytes);
    } catch (error) {
      this.#hasFailed = true;
      await removeKey(this.#store, this.#key).catch(() => {});
      this.#onNote?.(`not kept: the browser or the disk has no room for it (${reasonOf(error)})`);
    }
  }
}

export async function readCard(store: Store, key: string): Promise<Card | undefined> {
  const card = await readStoredJson(store, `${key}.json`);
  const areTexts = [card?.url, card?.id, card?.version].every((text) => typeof text === 'string');
  return areTexts && Number.isSafeInteger(card.bytes) ? card : undefined;
}

/** Returns undefined if the store lacks the file or it is no JSON. */
export async function readStoredJson(store: Store, name: string) {
  try {
    return JSON.parse(new TextDecoder().decode(await store.get(name)));
  } catch {
    return undefined;
  }
}

export const bytesOfCard = (card: Card) => new TextEncoder().encode(JSON.stringify(card));

/** Returns 128 bits of the SHA-256, in hexadecimal; every host with a store has crypto. */
export const hashOf = async (data: Uint8Array | string) => (await sha256(data))?.slice(0, 32) ?? '';

export const keyOf = (address: string, version: string) => hashOf(`${address}\n${version}`);

export function partOf(name: string): Part | undefined {
  const match = /^([0-9a-f]{32})\.(\d+)\.(\d+)\.([0-9a-f]{16})$/.exec(name);
  return match
    ? { name, key: match[1], start: Number(match[2]), bytes: Number(match[3]), checksum: match[4] }
    : undefined;
}

export function contiguousParts(names: string[], key: string) {
  const parts = names.flatMap((name) => partOf(name) ?? []).filter((part) => part.key === key);
  // Two pages may have fetched the same file: of parts with the same start, the longest wins.
  parts.sort((a, b) => a.bytes - b.bytes);
  const byStart = new Map(parts.map((part) => [part.start, part]));
  const chain: Part[] = [];
  let end = 0;
  for (let part = byStart.get(0); part; part = byStart.get(end)) {
    chain.push(part);
    end += part.bytes;
    // An empty part would be its own successor.
    if (part.bytes === 0) break;
  }
  return chain;
}

export async function removeKey(store: Store, key: string) {
  const names = (await store.names()).filter((name) => name.startsWith(`${key}.`));
  await Promise.all(names.map((name) => store.remove(name)));
}
