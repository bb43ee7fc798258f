/** Downloads a file completely, over as many connections as that takes. */
import { STALL_MS, ask, backoffWait, placeOf, reasonOf, reportAndWait } from './ask.ts';
import { SinkscopeError, readError } from '../abi/errors.ts';
import { piecesOf, wholePiecesOf } from './pieces.ts';
import type { RequestOptions } from './ask.ts';

export type DownloadOptions = RequestOptions & {
  from?: number;
  /** Set if the content of the address never changes, for example because it holds a commit. */
  version?: string;
  bytes?: number;
  /** True if all chunks share one buffer, so that each is valid only until the next read. */
  sharesBuffer?: boolean;
};

const DEFAULT_TRIES = 5;
const NO_TAG_TEXT = 'expected an ETag to go on from there, found none';

/**
 * Whether this host can request an uncompressed answer. A browser gets compressed answers unless
 * the request has a range, and their bytes can be neither counted nor continued. In practice only
 * small files come compressed, because weights do not shrink.
 */
const CAN_REQUEST_PLAIN = new Request('http://localhost', {
  headers: { 'accept-encoding': 'identity' },
}).headers.has('accept-encoding');

/**
 * Requests a file; the promise resolves once the server has answered.
 * @returns bytes: size of the whole file, although the stream begins at
 * `from`; tag: the ETag or the date that identifies this version of the file
 * @throws {SinkscopeError} as `ask` does; the stream fails with 'read' when the download cannot
 * continue
 */
export async function fetchFile(
  address: URL,
  options: DownloadOptions,
): Promise<{
  bytes: number | undefined;
  tag: string | undefined;
  stream: ReadableStream<Uint8Array>;
}> {
  const download = new Download(address, options);
  await download.connect();
  return { bytes: download.total, tag: download.tag, stream: download.stream() };
}

class Download {
  #address;
  #options;
  #position;
  /** Bytes at the start of the response that were already delivered. */
  #skipCount = 0;
  #failures = 0;
  #canUseRange = true;
  #hasResponse = false;
  /** True if the announced size may be that of a compressed response. */
  #mayBeCompressed = false;
  /** Size of the whole file, if the current response states it. */
  #statedTotal = undefined as number | undefined;
  /** The first strong ETag: later responses must have it even if the address holds a commit. */
  #etag = undefined as string | undefined;
  #abortController = new AbortController();
  #reader: ReturnType<typeof piecesOf> | undefined;
  total: number | undefined;
  tag: string | undefined;

  constructor(address: URL, options: DownloadOptions) {
    const { signal, from = 0, version, bytes } = options;
    this.#address = address;
    this.#options = { ...options, signal: this.#abortController.signal };
    this.#position = from;
    this.tag = version;
    this.total = bytes;
    if (signal?.aborted) this.#abortController.abort(signal.reason);
    const passAbort = () => this.#abortController.abort(signal?.reason);
    signal?.addEventListener('abort', passAbort);
    this.#detachSignal = () => signal?.removeEventListener('abort', passAbort);
  }

  #detachSignal;

  async connect() {
    try {
      const response = await this.#ask();
      const body = this.#checkResponse(response);
      this.#reader = this.#options.sharesBuffer ? piecesOf(body) : wholePiecesOf(body);
    } catch (error) {
      if (!this.#reader) this.#detachSignal();
      throw error;
    }
  }

  /** Requests the whole file where a server refuses ranges to pages of other sites. */
  async #ask() {
    const headers = this.#headers();
    try {
      return await ask(this.#address, { ...this.#options, headers });
    } catch (error) {
      const isRangeRefused = headers.range && error instanceof SinkscopeError && error.cause;
      if (!isRangeRefused || error.code !== 'read') throw error;
      this.#canUseRange = false;
      return ask(this.#address, { ...this.#options, headers: this.#headers(), tries: 1 });
    }
  }

  #headers() {
    const headers: Record<string, string> = CAN_REQUEST_PLAIN
      ? { 'accept-encoding': 'identity' }
      : {};
    if (this.#position > 0 && this.#canUseRange) headers.range = `bytes=${this.#position}-`;
    // Another site would have to allow if-range (CORS preflight): the response is checked instead.
    const isSameSite = CAN_REQUEST_PLAIN || this.#address.origin === globalThis.location?.origin;
    const { version } = this.#options;
    if (headers.range && this.tag && !version && isSameSite) headers['if-range'] = this.tag;
    return headers;
  }

  #checkResponse(answer: Response) {
    const { start, total: announcedTotal } = rangeOf(answer, this.#position);
    // A captive portal, or a site that answers everything with its own page, has no model file.
    if (
      /^text\/html\b/i.test(answer.headers.get('content-type') ?? '') &&
      !isHtmlAddress(this.#address)
    )
      throw this.#makeError('expected a file, found a web page (text/html)');
    const etag = strongTag(answer);
    if (this.#etag && etag && etag !== this.#etag)
      throw this.#makeError(
        `broke off after ${this.#position} bytes: expected to go on with ${this.#etag}, found ${etag}`,
      );
    this.#etag ??= etag;
    this.#statedTotal = announcedTotal;
    this.#mayBeCompressed = mayBeCompressed(answer);
    // A known size takes precedence over one that may be that of a compressed response.
    const total = this.#mayBeCompressed ? (this.total ?? announcedTotal) : announcedTotal;
    const tag = this.#options.version ?? tagOf(answer);
    // Without a tag a download may start over, but not continue.
    const hasChanged = tag !== this.tag || (tag === undefined && this.#position > 0);
    if (this.#hasResponse && hasChanged) {
      const text = tag ? `expected to go on with ${this.tag}, found ${tag}` : NO_TAG_TEXT;
      throw this.#makeError(`broke off after ${this.#position} bytes: ${text}`);
    }
    if (this.total !== undefined && total !== undefined && total !== this.total)
      throw this.#makeError(`expected ${this.total} bytes as announced, found ${total}`);
    // `>` would accept NaN, which a refused range may leave in both numbers.
    if (!(start <= this.#position && this.#position <= (total ?? Infinity)))
      throw this.#makeError(`expected byte ${this.#position}, found ${start} of ${total}`);
    this.#skipCount = this.#position - start;
    this.#hasResponse = true;
    this.tag ??= tag;
    this.total ??= total;
    return (answer.status === 416 ? undefined : answer.body) ?? new Blob([]).stream();
  }

  stream(): ReadableStream<Uint8Array> {
    return new ReadableStream(
      {
        pull: async (controller) => {
          const chunk = await this.#nextBytes().catch((error) => {
            this.#detachSignal();
            throw error;
          });
          if (chunk) return controller.enqueue(chunk);
          this.#detachSignal();
          controller.close();
        },
        cancel: (reason) => {
          this.#detachSignal();
          this.#abortController.abort(reason);
        },
      },
      // The stream fetches nothing before its first read.
      { highWaterMark: 0 },
    );
  }

  async #nextBytes() {
    for (;;) {
      try {
        if (!this.#reader) await this.connect();
        return await this.#read();
      } catch (error) {
        this.#disconnect();
        if (this.#abortController.signal.aborted) throw this.#abortController.signal.reason;
        if (error instanceof SinkscopeError) throw error;
        await this.#waitOrGiveUp(error);
      }
    }
  }

  async #waitOrGiveUp(error: unknown) {
    this.#failures++;
    const { tries = DEFAULT_TRIES } = this.#options;
    const reason = `broke off after ${this.#position} bytes: ${reasonOf(error)}`;
    const canContinue = this.#position === 0 || this.tag !== undefined;
    const failure = canContinue ? `${tries} tries brought nothing` : NO_TAG_TEXT;
    if (!canContinue || this.#failures >= tries)
      throw Object.assign(this.#makeError(`${reason}; ${failure}`), { cause: error });
    await reportAndWait(backoffWait(this.#failures, this.#options), reason, this.#options);
  }

  async #read() {
    for (;;) {
      const chunk = await this.#nextChunk();
      if (!chunk) return this.#checkEnd();
      const skipCount = Math.min(this.#skipCount, chunk.length);
      this.#skipCount -= skipCount;
      if (skipCount === chunk.length) continue;
      this.#failures = 0;
      this.#position += chunk.length - skipCount;
      if (this.#position > (this.total ?? Infinity)) this.#acceptExcess();
      return chunk.subarray(skipCount);
    }
  }

  /** Accepts more bytes than announced if that may be a compressed size; else throws. */
  #acceptExcess() {
    if (!this.#mayBeCompressed || this.#options.bytes !== undefined)
      throw this.#makeError(`${this.total} bytes were announced, more came`);
    this.total = undefined;
  }

  /** Returns the connection's next chunk; a silent connection counts as cut. */
  async #nextChunk() {
    const reader = this.#reader as ReturnType<typeof piecesOf>;
    const { stall = STALL_MS } = this.#options;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const silence: Promise<never> = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`no byte came for ${stall} ms`)), stall);
    });
    try {
      return await Promise.race([reader.next(), silence]);
    } finally {
      clearTimeout(timer);
    }
  }

  #checkEnd() {
    if (this.total === undefined || this.#position === this.total) return undefined;
    // A cut connection raises an error, so here the server itself sent too few bytes.
    if (this.#statedTotal === undefined || this.#position === this.#statedTotal)
      throw this.#makeError(
        `expected ${this.total} bytes, found a whole answer of ${this.#position}`,
      );
    throw new Error(`expected ${this.total} bytes, the connection ended`);
  }

  #disconnect() {
    void this.#reader?.cancel().catch(() => {});
    this.#reader = undefined;
  }

  #makeError(text: string) {
    return readError(placeOf(this.#address), text);
  }
}

function rangeOf(answer: Response, requestedStart: number) {
  const { status, headers } = answer;
  if (status === 416) {
    const total = Number(/^bytes \*\/(\d+)$/.exec(headers.get('content-range') ?? '')?.[1] ?? NaN);
    return { start: total, total };
  }
  const length = lengthOf(headers);
  if (status !== 206) return { start: 0, total: length };
  const range = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(headers.get('content-range') ?? '');
  const end = length === undefined ? undefined : requestedStart + length;
  // A server may hide Content-Range from pages of other sites.
  if (!range) return { start: requestedStart, total: end };
  return { start: Number(range[1]), total: range[2] === '*' ? undefined : Number(range[2]) };
}

const isCompressed = (headers: Headers) =>
  (headers.get('content-encoding') ?? 'identity') !== 'identity';

/** Returns the announced size of the body, unless it is that of a compressed body. */
function lengthOf(headers: Headers) {
  const length = Number(headers.get('content-length') ?? NaN);
  return isCompressed(headers) || !Number.isSafeInteger(length) ? undefined : length;
}

/** Returns whether the response may be compressed: a browser hides this for other sites. */
function mayBeCompressed({ type, status, headers }: Response) {
  return (
    type === 'cors' && status === 200 && !headers.has('content-encoding') && !CAN_REQUEST_PLAIN
  );
}

function strongTag({ headers }: Response) {
  const etag = headers.get('etag');
  return etag && !etag.startsWith('W/') ? etag : undefined;
}

const isHtmlAddress = (address: URL) => /\.html?$/i.test(address.pathname);

/** Returns a strong ETag, since a weak one promises less, or else the date of the last change. */
function tagOf(answer: Response) {
  const { headers } = answer;
  const date = isCompressed(headers) ? undefined : headers.get('last-modified');
  return strongTag(answer) ?? date ?? undefined;
}
