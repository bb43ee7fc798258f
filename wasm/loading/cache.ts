/**
 * Caches downloads for the next visit: finished files, and the parts of unfinished ones.
 *
 * A file consists of parts, which are written atomically. The name of a part holds all data about
 * it: `<key>.<first byte>.<bytes>.<checksum>`. The card `<key>.json` describes the file. A page that closes
 * during a download loses at most one part, and no file is held in memory.
 */
import { openStore } from '#store';
import { placeOf } from './ask.ts';
import { fetchFile, type DownloadOptions } from './download.ts';
import { readError } from '../abi/errors.ts';
import { checksumOf } from './hash.ts';
import {
  PartWriter,
  bytesOfCard,
  contiguousParts,
  keyOf,
  partOf,
  readCard,
  readStoredJson,
  removeKey,
} from './parts.ts';
import type { Store } from '../host/types.ts';
import type { Card, Part } from './parts.ts';
import type { Plan, CachedFile } from './types.ts';

export type OpenedFile = {
  bytes: number | undefined;
  stream: ReadableStream<Uint8Array>;
  /** SHA-256 of the whole file, if an earlier visit compared it with the one that the hub lists. */
  sha256?: string;
  /** Stores this hash for later visits, once this visit has compared it. */
  saveHash?: (sha256: string) => Promise<void>;
};

type CacheOptions = DownloadOptions & {
  id?: string;
  /** Called once if the download cannot be cached. */
  onNote?: (note: string) => void;
};

let storePromise: Promise<Store | undefined> | undefined;
const getStore = () => (storePromise ??= openStore());

/**
 * Lists cached files, including unfinished ones, from which the next download continues.
 * @example for (const { id, bytes, total } of await cacheList()) show(id, bytes / total);
 */
export async function cacheList(): Promise<CachedFile[]> {
  const cache = await getStore();
  if (!cache) return [];
  const names = await cache.names();
  const keys = names.filter((name) => name.endsWith('.json')).map((name) => name.slice(0, -5));
  const cards = await Promise.all(keys.map((key) => readCard(cache, key)));
  return cards.flatMap((card, i) => {
    if (!card) return [];
    const bytes = contiguousParts(names, keys[i]).reduce((sum, part) => sum + part.bytes, 0);
    const { id, url, bytes: total } = card;
    return [{ id, url, bytes, total, complete: bytes === total }];
  });
}

/**
 * Returns the total size of the cached files.
 * @example label.textContent = `${(await cacheBytes()) / 1e6} MB`;
 */
export async function cacheBytes(): Promise<number> {
  const names = (await (await getStore())?.names()) ?? [];
  return names.reduce((sum, name) => sum + (partOf(name)?.bytes ?? 0), 0);
}

/**
 * Removes the cached files of one name or address, or all files.
 * @example await cacheClear('owner/name');
 */
export async function cacheClear(id?: string): Promise<void> {
  const cache = await getStore();
  if (!cache) return;
  const names = await cache.names();
  if (id === undefined) {
    await Promise.all(names.map((name) => cache.remove(name)));
    return;
  }
  for (const name of names.filter((name) => name.endsWith('.json'))) {
    const key = name.slice(0, -5);
    const card = await readCard(cache, key);
    if (card && (card.id === id || card.url === id)) await removeKey(cache, key);
  }
  for (const name of names.filter((name) => name.endsWith('.plan')))
    if ((await readPlan(cache, name))?.id === id) await cache.remove(name);
}

/** Caches a plan by the requested address, so that a cached model opens without a network. */
export async function rememberPlan(address: string, plan: Plan) {
  const cache = await getStore();
  if (!cache) return;
  const bytes = new TextEncoder().encode(JSON.stringify(plan));
  const name = `${await keyOf(address, 'plan')}.plan`;
  // A full disk is no failure: the caller already has the plan.
  await cache.put(name, bytes).catch(() => {});
}

export async function recallPlan(address: string): Promise<Plan | undefined> {
  const cache = await getStore();
  return cache && readPlan(cache, `${await keyOf(address, 'plan')}.plan`);
}

async function readPlan(cache: Store, name: string): Promise<Plan | undefined> {
  const plan = await readStoredJson(cache, name);
  return Array.isArray(plan?.files?.weights) ? plan : undefined;
}

/** Reads through the cache, without a request for a complete file whose version is named. */
export async function openCached(address: URL, options: CacheOptions): Promise<OpenedFile> {
  options = { ...options, httpCache: 'no-store' };
  const cache = await getStore();
  if (cache && options.version) {
    const card = await readCard(cache, await keyOf(address.href, options.version));
    if (card) return new CachedDownload(cache, card, address, options).open();
  }
  const download = await fetchFile(address, options);
  const version = options.version ?? download.tag;
  if (!cache || !version || download.bytes === undefined) {
    options.onNote?.(cache ? 'not kept: the server sends no size or ETag' : 'not kept: no storage');
    return download;
  }
  const id = options.id ?? address.href;
  const card = { url: address.href, id, version, bytes: download.bytes };
  return new CachedDownload(cache, card, address, options, download.stream).open();
}

class CachedDownload {
  #store;
  #card;
  #address;
  #options;
  #key = '';
  #parts: Part[] = [];
  #position = 0;
  /** The buffer of the last part, which the next read reuses. */
  #buffer = undefined as Uint8Array<ArrayBuffer> | undefined;
  /**
   * True if an earlier visit compared the hash of all parts, so that they need not be hashed again.
   */
  #isHashChecked = false;
  #firstBody;
  #networkReader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #writer: PartWriter | undefined;

  /** @param firstBody body of the response that named the version, from byte 0 */
  constructor(
    store: Store,
    card: Card,
    address: URL,
    options: CacheOptions,
    firstBody?: ReadableStream<Uint8Array>,
  ) {
    this.#store = store;
    this.#card = card;
    this.#address = address;
    this.#options = options;
    this.#firstBody = firstBody;
  }

  async open() {
    this.#key = await keyOf(this.#address.href, this.#card.version);
    this.#parts = contiguousParts(await this.#store.names(), this.#key);
    const cachedBytes = this.#parts.reduce((sum, part) => sum + part.bytes, 0);
    if (cachedBytes > this.#card.bytes) {
      this.#parts = [];
      await removeKey(this.#store, this.#key);
    }
    if (this.#parts.length > 0 && this.#firstBody) {
      await this.#cancelFirstBody();
      // There is a response only if the parts have no readable card, so a card is written.
      await this.#makeWriter(0).begin();
    }
    const stream = new ReadableStream(
      {
        pull: (controller) => this.#pull(controller),
        cancel: (reason) => this.#cancel(reason),
      },
      { highWaterMark: 0 },
    );
    const { bytes, sha256 } = this.#card;
    this.#isHashChecked = cachedBytes === bytes && sha256 !== undefined;
    const saveHash = (hash: string) => this.#saveHash(hash);
    return { bytes, stream, ...(this.#isHashChecked ? { sha256 } : { saveHash }) };
  }

  async #saveHash(sha256: string) {
    const card = await readCard(this.#store, this.#key);
    if (card)
      await this.#store.put(`${this.#key}.json`, bytesOfCard({ ...card, sha256 })).catch(() => {});
  }

  async #cancelFirstBody() {
    await this.#firstBody?.cancel().catch(() => {});
    this.#firstBody = undefined;
  }

  async #pull(controller: ReadableStreamDefaultController<Uint8Array>) {
    try {
      this.#options.signal?.throwIfAborted();
      const chunk = (await this.#readPart()) ?? (await this.#readNetwork());
      if (chunk) controller.enqueue(chunk);
      else {
        await this.#writer?.flush();
        controller.close();
      }
    } catch (error) {
      // Cached bytes survive: the next attempt continues after them.
      await this.#writer?.flush();
      throw error;
    }
  }

  async #readPart() {
    const part = this.#parts.shift();
    if (!part) return undefined;
    const bytes = await this.#store.get(part.name, this.#buffer).catch(() => undefined);
    if (!bytes || checksumOf(bytes) !== part.checksum) {
      this.#parts = [];
      await this.#store.remove(part.name);
      if (this.#isHashChecked)
        throw this.#makeError('expected a file as it was kept, found it damaged; try again');
      return undefined;
    }
    this.#position += bytes.length;
    return (this.#buffer = bytes);
  }

  async #readNetwork() {
    const isComplete = this.#position === this.#card.bytes;
    if (isComplete && !this.#firstBody && !this.#networkReader) return undefined;
    this.#networkReader ??= await this.#connect();
    const { done, value } = await this.#networkReader.read();
    if (done) return undefined;
    this.#position += value.length;
    await this.#writer?.append(value);
    return value;
  }

  async #connect() {
    const position = this.#position;
    const stream = this.#firstBody ?? (await this.#fetchFrom(position));
    this.#firstBody = undefined;
    this.#writer = this.#makeWriter(position);
    await this.#writer.begin();
    return stream.getReader();
  }

  #makeWriter(from: number) {
    return new PartWriter(this.#store, this.#key, this.#card, from, this.#options.onNote);
  }

  async #fetchFrom(from: number) {
    const { bytes, tag, stream } = await fetchFile(this.#address, { ...this.#options, from });
    if (bytes === this.#card.bytes && tag === this.#card.version) return stream;
    await stream.cancel();
    await removeKey(this.#store, this.#key);
    const { version } = this.#card;
    const actual = `${bytes} bytes of ${tag}`;
    throw this.#makeError(
      `expected ${this.#card.bytes} bytes of ${version}, found ${actual}; try again`,
    );
  }

  #makeError(text: string) {
    return readError(placeOf(new URL(this.#card.url)), text);
  }

  async #cancel(reason: unknown) {
    await this.#cancelFirstBody();
    await this.#networkReader?.cancel(reason).catch(() => {});
    await this.#writer?.flush();
  }
}
