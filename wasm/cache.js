/**
 * What was downloaded, kept for the next visit: finished files, and what came of unfinished ones.
 *
 * A file is kept in parts, each whole or not there. The names say all that has to be known of a part:
 * `<key>.<first byte>.<bytes>`; beside them `<key>.json` says of what file they are. So a page that
 * is closed in the middle of a download loses one part, and no file is ever held in memory.
 */
import { openStore } from '#store';
import { placeOf } from './ask.js';
import { openDownload } from './download.js';
import { SinkscopeError } from './errors.js';

/**
 * @typedef {object} Store
 * @property {'opfs' | 'cache' | 'folder'} kind
 * @property {(name: string, bytes: Uint8Array<ArrayBuffer>) => Promise<void>} put
 * @property {(name: string) => Promise<Uint8Array | undefined>} get
 * @property {(name: string) => Promise<void>} remove
 * @property {() => Promise<string[]>} names
 */
/** @typedef {{ url: string, id: string, version: string, bytes: number }} Card */
/** @typedef {{ name: string, key: string, start: number, bytes: number }} Part */
/**
 * @typedef {import('./download.js').DownloadOptions & {
 *   id?: string,
 *   onNote?: (note: string) => void,
 * }} KeepOptions
 * id: the name under which it is listed and cleared; onNote: told once when nothing can be kept.
 */

/** A part is written when it is this large, or this old: a slow line loses seconds, not megabytes. */
const PART_BYTES = 2 ** 23;
const PART_MS = 2000;

/** @type {Promise<Store | undefined> | undefined} */
let opening;
const store = () => (opening ??= openStore());

/** Where downloads are kept: 'none' where this place allows no keeping. */
export async function cacheKind() {
  return (await store())?.kind ?? 'none';
}

/**
 * The files that are kept, whole or in part.
 * @returns {Promise<import('./sinkscope.js').CachedFile[]>}
 */
export async function cacheList() {
  const kept = await store();
  const names = kept ? await kept.names() : [];
  const files = names.filter((name) => name.endsWith('.json')).map((name) => name.slice(0, -5));
  const listed = await Promise.all(
    files.map(async (key) => {
      const card = await readCard(key);
      if (!card) return [];
      const bytes = chain(names, key).reduce((sum, part) => sum + part.bytes, 0);
      const { id, url, bytes: total } = card;
      return [{ id, url, bytes, total, complete: bytes === total }];
    }),
  );
  return listed.flat();
}

/** How many bytes are kept, in all. */
export async function cacheBytes() {
  const names = (await (await store())?.names()) ?? [];
  return names.reduce((sum, name) => sum + (partOf(name)?.bytes ?? 0), 0);
}

/**
 * Forgets one model, or one address, or all.
 * @param {string} [id]
 */
export async function cacheClear(id) {
  const kept = await store();
  if (!kept) return;
  const names = await kept.names();
  if (id === undefined) {
    await Promise.all(names.map((name) => kept.remove(name)));
    return;
  }
  for (const name of names.filter((name) => name.endsWith('.json'))) {
    const key = name.slice(0, -5);
    const card = await readCard(key);
    if (card && (card.id === id || card.url === id)) await removeKey(kept, key);
  }
}

/**
 * Like openDownload, but through the cache: what is kept is not fetched, what is fetched is kept. A
 * file whose address says its version is not even asked about.
 * @param {URL} address
 * @param {KeepOptions} options
 * @returns {Promise<{ bytes: number | undefined, stream: ReadableStream<Uint8Array> }>}
 */
export async function openCached(address, options) {
  options = { ...options, unstored: true };
  const kept = await store();
  if (kept && options.version) {
    const card = await readCard(await keyOf(address, options.version));
    if (card) return new Kept(kept, card, address, options).open();
  }
  const download = await openDownload(address, options);
  const version = options.version ?? download.tag;
  if (!kept || !version || download.bytes === undefined) {
    options.onNote?.(kept ? 'not kept: the server tells no size or ETag' : 'not kept: no storage');
    return download;
  }
  const id = options.id ?? address.href;
  const card = { url: address.href, id, version, bytes: download.bytes };
  return new Kept(kept, card, address, options, download.stream).open();
}

/** A file that is read from its parts as far as they go, and from the network behind them. */
class Kept {
  #store;
  #card;
  #address;
  #options;
  #key = '';
  /** @type {Part[]} */
  #parts = [];
  #position = 0;
  #first;
  /** @type {ReadableStreamDefaultReader<Uint8Array> | undefined} */
  #network;
  /** @type {Keeper | undefined} */
  #keeper;

  /**
   * @param {Store} store
   * @param {Card} card
   * @param {URL} address
   * @param {KeepOptions} options
   * @param {ReadableStream<Uint8Array>} [first] the answer that told the version, from byte 0
   */
  constructor(store, card, address, options, first) {
    this.#store = store;
    this.#card = card;
    this.#address = address;
    this.#options = options;
    this.#first = first;
  }

  async open() {
    this.#key = await keyOf(this.#address, this.#card.version);
    this.#parts = chain(await this.#store.names(), this.#key);
    const kept = this.#parts.reduce((sum, part) => sum + part.bytes, 0);
    if (kept > this.#card.bytes) this.#parts = [];
    if (this.#parts.length > 0) await this.#leaveFirst();
    const stream = new ReadableStream(
      {
        pull: (controller) => this.#pull(controller),
        cancel: (reason) => this.#end(reason),
      },
      { highWaterMark: 0 },
    );
    return { bytes: this.#card.bytes, stream };
  }

  async #leaveFirst() {
    await this.#first?.cancel().catch(() => {});
    this.#first = undefined;
  }

  /** @param {ReadableStreamDefaultController<Uint8Array>} controller */
  async #pull(controller) {
    try {
      this.#options.signal?.throwIfAborted();
      const chunk = (await this.#fromParts()) ?? (await this.#fromNetwork());
      if (chunk) controller.enqueue(chunk);
      else {
        await this.#keeper?.flush();
        controller.close();
      }
    } catch (error) {
      // What came is not lost: the next attempt begins behind it.
      await this.#keeper?.flush();
      throw error;
    }
  }

  async #fromParts() {
    const part = this.#parts.shift();
    if (!part) return undefined;
    const bytes = await this.#store.get(part.name).catch(() => undefined);
    if (bytes?.length !== part.bytes) {
      this.#parts = [];
      await this.#store.remove(part.name);
      return undefined;
    }
    this.#position += bytes.length;
    return bytes;
  }

  async #fromNetwork() {
    if (this.#position === this.#card.bytes && !this.#first) return undefined;
    this.#network ??= await this.#connect();
    const { done, value } = await this.#network.read();
    if (done) return undefined;
    this.#position += value.length;
    await this.#keeper?.append(value);
    return value;
  }

  async #connect() {
    const from = this.#position;
    const stream = this.#first ?? (await this.#rest(from));
    this.#first = undefined;
    this.#keeper = new Keeper(this.#store, this.#key, this.#card, from, this.#options.onNote);
    await this.#keeper.begin();
    return stream.getReader();
  }

  /** @param {number} from */
  async #rest(from) {
    const { bytes, tag, stream } = await openDownload(this.#address, { ...this.#options, from });
    if (bytes === this.#card.bytes && tag === this.#card.version) return stream;
    await stream.cancel();
    await removeKey(this.#store, this.#key);
    const { url, version } = this.#card;
    const found = `${bytes} bytes of ${tag}`;
    const text = `expected ${this.#card.bytes} bytes of ${version}, found ${found}; try again`;
    throw new SinkscopeError('read', placeOf(new URL(url)), text);
  }

  /** @param {unknown} reason */
  async #end(reason) {
    await this.#leaveFirst();
    await this.#network?.cancel(reason).catch(() => {});
    await this.#keeper?.flush();
  }
}

/** Writes chunks as parts. Whoever appends waits for the disk, so nothing piles up. */
class Keeper {
  #store;
  #key;
  #card;
  #start;
  #onNote;
  /** @type {Uint8Array[]} */
  #chunks = [];
  #bytes = 0;
  #since = performance.now();
  #failed = false;

  /**
   * @param {Store} store
   * @param {string} key
   * @param {Card} card
   * @param {number} start where the first chunk stands in the file
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
    const text = JSON.stringify(this.#card);
    return this.#put(`${this.#key}.json`, new TextEncoder().encode(text));
  }

  /** @param {Uint8Array} chunk */
  async append(chunk) {
    if (this.#failed) return;
    // A copy, for the reader of the stream may transfer what it got.
    this.#chunks.push(chunk.slice());
    this.#bytes += chunk.length;
    const isOld = performance.now() - this.#since > PART_MS;
    if (this.#bytes >= PART_BYTES || isOld) await this.flush();
  }

  async flush() {
    if (this.#failed || this.#bytes === 0) return;
    const part = new Uint8Array(this.#bytes);
    let at = 0;
    for (const chunk of this.#chunks) {
      part.set(chunk, at);
      at += chunk.length;
    }
    const start = this.#start;
    this.#chunks = [];
    this.#bytes = 0;
    this.#start += part.length;
    this.#since = performance.now();
    await this.#put(`${this.#key}.${start}.${part.length}`, part);
  }

  /**
   * A full disk, or a quota, must not end the download: it goes on, and nothing more is kept.
   * @param {string} name
   * @param {Uint8Array<ArrayBuffer>} bytes
   */
  async #put(name, bytes) {
    try {
      await this.#store.put(name, bytes);
    } catch (error) {
      this.#failed = true;
      await removeKey(this.#store, this.#key).catch(() => {});
      this.#onNote?.(`not kept: the browser or the disk has no room for it (${String(error)})`);
    }
  }
}

/**
 * @param {string} key
 * @returns {Promise<Card | undefined>}
 */
async function readCard(key) {
  try {
    const bytes = await (await store())?.get(`${key}.json`);
    const card = JSON.parse(new TextDecoder().decode(bytes));
    const texts = [card.url, card.id, card.version].every((text) => typeof text === 'string');
    return texts && Number.isSafeInteger(card.bytes) ? card : undefined;
  } catch {
    return undefined;
  }
}

/**
 * @param {URL} address
 * @param {string} version
 */
async function keyOf(address, version) {
  const text = new TextEncoder().encode(`${address.href}\n${version}`);
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', text));
  return Array.from(hash.subarray(0, 16), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/**
 * @param {string} name
 * @returns {Part | undefined}
 */
function partOf(name) {
  const match = /^([0-9a-f]{32})\.(\d+)\.(\d+)$/.exec(name);
  return match
    ? { name, key: match[1], start: Number(match[2]), bytes: Number(match[3]) }
    : undefined;
}

/**
 * The parts of a file from its first byte on, without a gap.
 * @param {string[]} names
 * @param {string} key
 */
function chain(names, key) {
  const parts = names.flatMap((name) => partOf(name) ?? []).filter((part) => part.key === key);
  // Two pages may have fetched the same file: of parts that begin alike, the longest counts.
  parts.sort((a, b) => a.bytes - b.bytes);
  const byStart = new Map(parts.map((part) => [part.start, part]));
  /** @type {Part[]} */
  const found = [];
  let end = 0;
  for (let part = byStart.get(0); part; part = byStart.get(end)) {
    found.push(part);
    end += part.bytes;
    // A part of nothing would be its own successor.
    if (part.bytes === 0) break;
  }
  return found;
}

/**
 * @param {Store} store
 * @param {string} key
 */
async function removeKey(store, key) {
  const names = (await store.names()).filter((name) => name.startsWith(`${key}.`));
  await Promise.all(names.map((name) => store.remove(name)));
}
