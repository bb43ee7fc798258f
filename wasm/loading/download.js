/** A file over the network, whole, whatever happens to the connections that carry it. */
import { STALL, ask, backOff, placeOf, reasonOf, retryAfter } from './ask.js';
import { SinkscopeError } from '../abi/errors.js';
import { piecesOf, wholePiecesOf } from './pieces.js';

/**
 * @typedef {import('./ask.js').Patience & {
 *   from?: number,
 *   version?: string,
 *   bytes?: number,
 *   reuses?: boolean,
 * }} DownloadOptions
 * from: the first byte wanted; version: what the address names never changes, for example because it
 * holds a commit; bytes: the size, where it is known already; reuses: what the stream gives is good until the
 * next is asked for.
 */

const TRIES = 5;
const NO_TAG = 'expected an ETag to go on from there, found none';

/**
 * Browsers ask for compressed answers, whose bytes can neither be counted nor continued, and let no
 * page forbid it, unless a range is wanted. Small files come so, and weights do not shrink.
 */
const MAY_ASK_PLAIN = new Request('http://localhost', {
  headers: { 'accept-encoding': 'identity' },
}).headers.has('accept-encoding');

/**
 * Asks for a file; the promise holds once the server has answered.
 * @param {URL} address
 * @param {DownloadOptions} options
 * @returns {Promise<{ bytes: number | undefined, tag: string | undefined,
 *   stream: ReadableStream<Uint8Array> }>} bytes of the whole file, though the stream begins at
 *   `from`; tag: the ETag or the date that identifies this version of the file
 * @throws {SinkscopeError} as `ask` does; the stream ends with 'read' when it cannot be continued
 */
export async function fetchFile(address, options) {
  const download = new Download(address, options);
  await download.connect();
  return { bytes: download.total, tag: download.tag, stream: download.stream() };
}

class Download {
  #address;
  #options;
  /** The position of the next byte in the file. */
  #position;
  /** Bytes of the answer that were handed out before: the server did not skip them. */
  #skip = 0;
  #failures = 0;
  #mayRange = true;
  #answered = false;
  /** The announced size may be that of a compressed answer. */
  #isBlind = false;
  /** Bytes of the whole file by the answer that is read; undefined: it does not say. */
  #announced = /** @type {number | undefined} */ (undefined);
  /** The first strong ETag, which all answers share, though the address names a commit. */
  #etag = /** @type {string | undefined} */ (undefined);
  #stop = new AbortController();
  /** @type {ReturnType<typeof piecesOf> | undefined} */
  #reader;
  /** @type {number | undefined} */
  total;
  /** @type {string | undefined} */
  tag;

  /**
   * @param {URL} address
   * @param {DownloadOptions} options
   */
  constructor(address, options) {
    const { signal, from = 0, version, bytes } = options;
    this.#address = address;
    this.#options = { ...options, signal: this.#stop.signal };
    this.#position = from;
    this.tag = version;
    this.total = bytes;
    if (signal?.aborted) this.#stop.abort(signal.reason);
    const pass = () => this.#stop.abort(signal?.reason);
    signal?.addEventListener('abort', pass);
    this.#release = () => signal?.removeEventListener('abort', pass);
  }

  #release;

  /** Asks for the rest of the file, from the next byte on. */
  async connect() {
    try {
      const answer = await this.#ask();
      const body = this.#accept(answer);
      this.#reader = this.#options.reuses ? piecesOf(body) : wholePiecesOf(body);
    } catch (error) {
      if (!this.#reader) this.#release();
      throw error;
    }
  }

  /** Some stores refuse a range to pages of other sites: then the whole file is asked for. */
  async #ask() {
    const headers = this.#headers();
    try {
      return await ask(this.#address, { ...this.#options, headers });
    } catch (error) {
      const mayBeTheRange = headers.range && error instanceof SinkscopeError && error.cause;
      if (!mayBeTheRange || error.code !== 'read') throw error;
      this.#mayRange = false;
      return ask(this.#address, { ...this.#options, headers: this.#headers(), tries: 1 });
    }
  }

  #headers() {
    /** @type {Record<string, string>} */
    const headers = MAY_ASK_PLAIN ? { 'accept-encoding': 'identity' } : {};
    if (this.#position > 0 && this.#mayRange) headers.range = `bytes=${this.#position}-`;
    // Another site would have to be asked whether it allows this one; what it answers is compared.
    const isNear = MAY_ASK_PLAIN || this.#address.origin === globalThis.location?.origin;
    const { version } = this.#options;
    if (headers.range && this.tag && !version && isNear) headers['if-range'] = this.tag;
    return headers;
  }

  /**
   * Compares the answer with what is known of the file.
   * @param {Response} answer
   */
  #accept(answer) {
    const { start, total: announced } = extent(answer, this.#position);
    // A portal, or a site that answers all with its own page, is no file of a model.
    if (/^text\/html\b/i.test(answer.headers.get('content-type') ?? '') && !isPage(this.#address))
      throw this.#error('expected a file, found a web page (text/html)');
    const etag = strongTag(answer);
    if (this.#etag && etag && etag !== this.#etag)
      throw this.#error(
        `broke off after ${this.#position} bytes: expected to go on with ${this.#etag}, found ${etag}`,
      );
    this.#etag ??= etag;
    this.#announced = announced;
    this.#isBlind = isBlind(answer);
    // Of two sizes the one that was known before counts, if the other may be of a compressed answer.
    const total = this.#isBlind ? (this.total ?? announced) : announced;
    const tag = this.#options.version ?? tagOf(answer);
    // Without any tag a download may start over, but not continue.
    const mayBeAnother = tag !== this.tag || (tag === undefined && this.#position > 0);
    if (this.#answered && mayBeAnother) {
      const text = tag ? `expected to go on with ${this.tag}, found ${tag}` : NO_TAG;
      throw this.#error(`broke off after ${this.#position} bytes: ${text}`);
    }
    if (this.total !== undefined && total !== undefined && total !== this.total) {
      throw this.#error(`expected ${this.total} bytes as announced, found ${total}`);
    }
    // Not >, for a refusal of the range may leave both untold.
    if (!(start <= this.#position && this.#position <= (total ?? Infinity))) {
      throw this.#error(`expected byte ${this.#position}, found ${start} of ${total}`);
    }
    this.#skip = this.#position - start;
    this.#answered = true;
    this.tag ??= tag;
    this.total ??= total;
    return (answer.status === 416 ? undefined : answer.body) ?? new Blob([]).stream();
  }

  /** @returns {ReadableStream<Uint8Array>} */
  stream() {
    return new ReadableStream(
      {
        pull: async (controller) => {
          const chunk = await this.#next().catch((error) => {
            this.#release();
            throw error;
          });
          if (chunk) return controller.enqueue(chunk);
          this.#release();
          controller.close();
        },
        cancel: (reason) => {
          this.#release();
          this.#stop.abort(reason);
        },
      },
      // Nothing is fetched before the first read.
      { highWaterMark: 0 },
    );
  }

  /** The next bytes, undefined at the end; through a new connection if need be. */
  async #next() {
    for (;;) {
      try {
        if (!this.#reader) await this.connect();
        return await this.#read();
      } catch (error) {
        this.#drop();
        if (this.#stop.signal.aborted) throw this.#stop.signal.reason;
        if (error instanceof SinkscopeError) throw error;
        await this.#despair(error);
      }
    }
  }

  /**
   * Waits before the next connection, or gives up.
   * @param {unknown} error
   */
  async #despair(error) {
    this.#failures++;
    const { tries = TRIES } = this.#options;
    const reason = `broke off after ${this.#position} bytes: ${reasonOf(error)}`;
    const mayGoOn = this.#position === 0 || this.tag !== undefined;
    if (!mayGoOn) throw this.#error(`${reason}; ${NO_TAG}`);
    if (this.#failures >= tries) throw this.#error(`${reason}; ${tries} tries brought nothing`);
    await retryAfter(backOff(this.#failures, this.#options), reason, this.#options);
  }

  async #read() {
    for (;;) {
      const chunk = await this.#chunk();
      if (!chunk) return this.#end();
      const skipped = Math.min(this.#skip, chunk.length);
      this.#skip -= skipped;
      if (skipped === chunk.length) continue;
      this.#failures = 0;
      this.#position += chunk.length - skipped;
      if (this.#position > (this.total ?? Infinity)) this.#exceed();
      return chunk.subarray(skipped);
    }
  }

  /** More came than was announced: of a compressed answer that may be. */
  #exceed() {
    if (!this.#isBlind || this.#options.bytes !== undefined) {
      throw this.#error(`${this.total} bytes were announced, more came`);
    }
    this.total = undefined;
  }

  /** What the connection brings next; a silent one counts as cut. */
  async #chunk() {
    const reader = /** @type {ReturnType<typeof piecesOf>} */ (this.#reader);
    const { stall = STALL } = this.#options;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    /** @type {Promise<never>} */
    const silence = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`no byte came for ${stall} ms`)), stall);
    });
    try {
      return await Promise.race([reader.next(), silence]);
    } finally {
      clearTimeout(timer);
    }
  }

  #end() {
    if (this.total === undefined || this.#position === this.total) return undefined;
    // Nothing was cut, for that is an error of the connection: it was all that the server had.
    if (this.#announced === undefined || this.#position === this.#announced)
      throw this.#error(`expected ${this.total} bytes, found a whole answer of ${this.#position}`);
    throw new Error(`expected ${this.total} bytes, the connection ended`);
  }

  #drop() {
    void this.#reader?.cancel().catch(() => {});
    this.#reader = undefined;
  }

  /** @param {string} text */
  #error(text) {
    return new SinkscopeError('read', placeOf(this.#address), text);
  }
}

/**
 * The position in the file at which an answer begins, and the length of the file if the answer says it.
 * @param {Response} answer
 * @param {number} wanted the byte that was asked for
 */
function extent(answer, wanted) {
  const { status, headers } = answer;
  if (status === 416) {
    const total = Number(/^bytes \*\/(\d+)$/.exec(headers.get('content-range') ?? '')?.[1] ?? NaN);
    return { start: total, total };
  }
  const length = lengthOf(headers);
  if (status !== 206) return { start: 0, total: length };
  const range = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(headers.get('content-range') ?? '');
  // A server may keep Content-Range from pages of other sites.
  if (!range) return { start: wanted, total: length === undefined ? length : wanted + length };
  return { start: Number(range[1]), total: range[2] === '*' ? undefined : Number(range[2]) };
}

/**
 * The size of the body, if it was announced; that of a compressed answer is another one.
 * @param {Headers} headers
 */
function lengthOf(headers) {
  const encoded = (headers.get('content-encoding') ?? 'identity') !== 'identity';
  const length = Number(headers.get('content-length') ?? NaN);
  return encoded || !Number.isSafeInteger(length) ? undefined : length;
}

/**
 * Whether a browser hides from the page if the answer was compressed, as it does for other sites.
 * @param {Response} answer
 */
function isBlind({ type, status, headers }) {
  return type === 'cors' && status === 200 && !headers.has('content-encoding') && !MAY_ASK_PLAIN;
}

/** @param {Response} answer */
function strongTag({ headers }) {
  const etag = headers.get('etag');
  return etag && !etag.startsWith('W/') ? etag : undefined;
}

/** @param {URL} address */
const isPage = (address) => /\.html?$/i.test(address.pathname);

/**
 * What two answers share only if they are of the same bytes: a weak ETag promises less.
 * @param {Response} answer
 */
function tagOf(answer) {
  const { headers } = answer;
  const etag = strongTag(answer);
  if (etag) return etag;
  const encoded = (headers.get('content-encoding') ?? 'identity') !== 'identity';
  return (encoded ? undefined : headers.get('last-modified')) ?? undefined;
}
