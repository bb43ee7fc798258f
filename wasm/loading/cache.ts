/**
 * Caches downloads for the next visit: finished files, and the parts of unfinished ones.
 *
 * A file consists of parts, which are written atomically. Their names hold all data about a part:
 * `<key>.<first byte>.<bytes>.<checksum>`; `<key>.json` describes the file. A page that closes
 * during a download loses at most one part, and no file is held in memory.
 */
import { openStore } from '#store';
import { placeOf } from './ask.ts';
import { fetchFile } from './download.ts';
import { SinkscopeError } from '../abi/errors.ts';
import {
  Keeper,
  bytesOfCard,
  chain,
  checksumOf,
  keyOf,
  partOf,
  readCard,
  removeKey,
} from './parts.ts';
import type { DownloadOptions } from './download.ts';
import type { Opened } from './files.ts';
import type { Store, Card, Part } from './parts.ts';
import type { Plan, CachedFile } from './types.ts';

/**
 * id: the name under which it is listed and cleared; onNote: called once if the download cannot be
 * kept.
 */
type KeepOptions = DownloadOptions & {
  id?: string;
  onNote?: (note: string) => void;
};

let opening: Promise<Store | undefined> | undefined;
const store = () => (opening ??= openStore());

/**
 * Returns where downloads are stored: in the origin private file system (OPFS) or in a folder
 * (Node.js).
 * @example const keeps = (await cacheKind()) !== 'none';
 */
export async function cacheKind(): Promise<'opfs' | 'folder' | 'none'> {
  return (await store())?.kind ?? 'none';
}

/**
 * Lists cached files, including unfinished ones, from which the next download continues.
 * @example for (const { id, bytes, total } of await cacheList()) show(id, bytes / total);
 */
export async function cacheList(): Promise<CachedFile[]> {
  const cache = await store();
  if (!cache) return [];
  const names = await cache.names();
  const files = names.filter((name) => name.endsWith('.json')).map((name) => name.slice(0, -5));
  const listed = await Promise.all(
    files.map(async (key) => {
      const card = await readCard(cache, key);
      if (!card) return [];
      const bytes = chain(names, key).reduce((sum, part) => sum + part.bytes, 0);
      const { id, url, bytes: total } = card;
      return [{ id, url, bytes, total, complete: bytes === total }];
    }),
  );
  return listed.flat();
}

/** @example label.textContent = `${(await cacheBytes()) / 1e6} MB`; */
export async function cacheBytes(): Promise<number> {
  const names = (await (await store())?.names()) ?? [];
  return names.reduce((sum, name) => sum + (partOf(name)?.bytes ?? 0), 0);
}

/**
 * Removes the files of a name or an address, or all.
 * @example await cacheClear('owner/name');
 */
export async function cacheClear(id?: string): Promise<void> {
  const cache = await store();
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
  for (const name of names.filter((name) => name.endsWith('.plan'))) {
    if ((await readPlan(cache, name))?.id === id) await cache.remove(name);
  }
}

/**
 * Caches a plan, so that a cached model opens without a network.
 * @param address the requested address
 */
export async function rememberPlan(address: string, plan: Plan) {
  const cache = await store();
  if (!cache) return;
  const bytes = new TextEncoder().encode(JSON.stringify(plan));
  const name = `${await keyOf(address, 'plan')}.plan`;
  // A full disk is no failure: the caller already has the plan.
  await cache.put(name, bytes).catch(() => {});
}

export async function recallPlan(address: string): Promise<Plan | undefined> {
  const files = await store();
  return files && readPlan(files, `${await keyOf(address, 'plan')}.plan`);
}

async function readPlan(kept: Store, name: string): Promise<Plan | undefined> {
  try {
    const plan = JSON.parse(new TextDecoder().decode(await kept.get(name)));
    return Array.isArray(plan.files.weights) ? plan : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Works like fetchFile, but through the cache: cached bytes are not fetched, fetched bytes are
 * cached. An address that names its version is not requested at all.
 */
export async function openCached(address: URL, options: KeepOptions): Promise<Opened> {
  options = { ...options, unstored: true };
  const cache = await store();
  if (cache && options.version) {
    const card = await readCard(cache, await keyOf(address.href, options.version));
    if (card) return new Kept(cache, card, address, options).open();
  }
  const download = await fetchFile(address, options);
  const version = options.version ?? download.tag;
  if (!cache || !version || download.bytes === undefined) {
    options.onNote?.(cache ? 'not kept: the server sends no size or ETag' : 'not kept: no storage');
    return download;
  }
  const id = options.id ?? address.href;
  const card = { url: address.href, id, version, bytes: download.bytes };
  return new Kept(cache, card, address, options, download.stream).open();
}

/** Reads a file from its cached parts and then from the network. */
class Kept {
  #store;
  #card;
  #address;
  #options;
  #key = '';
  #parts: Part[] = [];
  #position = 0;
  /** The buffer of the last part, which the next read reuses. */
  #read = undefined as Uint8Array<ArrayBuffer> | undefined;
  /** True when an earlier visit compared the hash of all parts, which need not be hashed again. */
  #isApproved = false;
  #first;
  #network: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #keeper: Keeper | undefined;

  /** @param first the response that named the version, from byte 0 */
  constructor(
    store: Store,
    card: Card,
    address: URL,
    options: KeepOptions,
    first?: ReadableStream<Uint8Array>,
  ) {
    this.#store = store;
    this.#card = card;
    this.#address = address;
    this.#options = options;
    this.#first = first;
  }

  async open() {
    this.#key = await keyOf(this.#address.href, this.#card.version);
    this.#parts = chain(await this.#store.names(), this.#key);
    const cachedBytes = this.#parts.reduce((sum, part) => sum + part.bytes, 0);
    if (cachedBytes > this.#card.bytes) {
      this.#parts = [];
      await removeKey(this.#store, this.#key);
    }
    if (this.#parts.length > 0 && this.#first) {
      await this.#leaveFirst();
      // The store has parts without a readable card.
      await this.#keeperFrom(0).begin();
    }
    const stream = new ReadableStream(
      {
        pull: (controller) => this.#pull(controller),
        cancel: (reason) => this.#end(reason),
      },
      { highWaterMark: 0 },
    );
    const { bytes, sha256 } = this.#card;
    this.#isApproved = cachedBytes === bytes && sha256 !== undefined;
    const approve = (hash: string) => this.#approve(hash);
    return { bytes, stream, ...(this.#isApproved ? { sha256 } : { approve }) };
  }

  /** Records that the cached file has the hash that the hub lists. */
  async #approve(sha256: string) {
    const card = await readCard(this.#store, this.#key);
    if (card)
      await this.#store.put(`${this.#key}.json`, bytesOfCard({ ...card, sha256 })).catch(() => {});
  }

  async #leaveFirst() {
    await this.#first?.cancel().catch(() => {});
    this.#first = undefined;
  }

  async #pull(controller: ReadableStreamDefaultController<Uint8Array>) {
    try {
      this.#options.signal?.throwIfAborted();
      const chunk = (await this.#fromParts()) ?? (await this.#fromNetwork());
      if (chunk) controller.enqueue(chunk);
      else {
        await this.#keeper?.flush();
        controller.close();
      }
    } catch (error) {
      // Cached bytes survive: the next attempt continues after them.
      await this.#keeper?.flush();
      throw error;
    }
  }

  async #fromParts() {
    const part = this.#parts.shift();
    if (!part) return undefined;
    const bytes = await this.#store.get(part.name, this.#read).catch(() => undefined);
    const { checksum } = part;
    const isComplete = bytes?.length === part.bytes;
    if (!isComplete || (checksum && checksumOf(bytes) !== checksum)) {
      this.#parts = [];
      await this.#store.remove(part.name);
      if (this.#isApproved)
        throw this.#error('expected a file as it was kept, found it damaged; try again');
      return undefined;
    }
    this.#position += bytes.length;
    return (this.#read = bytes);
  }

  async #fromNetwork() {
    const isComplete = this.#position === this.#card.bytes;
    if (isComplete && !this.#first && !this.#network) return undefined;
    this.#network ??= await this.#connect();
    const { done, value } = await this.#network.read();
    if (done) return undefined;
    this.#position += value.length;
    await this.#keeper?.append(value);
    return value;
  }

  async #connect() {
    const position = this.#position;
    const stream = this.#first ?? (await this.#rest(position));
    this.#first = undefined;
    this.#keeper = this.#keeperFrom(position);
    await this.#keeper.begin();
    return stream.getReader();
  }

  #keeperFrom(from: number) {
    return new Keeper(this.#store, this.#key, this.#card, from, this.#options.onNote);
  }

  async #rest(from: number) {
    const { bytes, tag, stream } = await fetchFile(this.#address, { ...this.#options, from });
    if (bytes === this.#card.bytes && tag === this.#card.version) return stream;
    await stream.cancel();
    await removeKey(this.#store, this.#key);
    const { version } = this.#card;
    const actual = `${bytes} bytes of ${tag}`;
    throw this.#error(
      `expected ${this.#card.bytes} bytes of ${version}, found ${actual}; try again`,
    );
  }

  #error(text: string) {
    return new SinkscopeError('read', placeOf(new URL(this.#card.url)), text);
  }

  async #end(reason: unknown) {
    await this.#leaveFirst();
    await this.#network?.cancel(reason).catch(() => {});
    await this.#keeper?.flush();
  }
}
