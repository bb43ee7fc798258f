/** The files of a model, from wherever they come, into the memory of the module. */
import { placeOf, reasonOf } from './ask.js';
import { fetchFile } from './download.js';
import { SinkscopeError } from '../abi/errors.js';
import { createSha256 } from './hash.js';
import { createMeter } from './meter.js';
import { piecesOf } from './pieces.js';

/** @typedef {import('../abi/module.js').Module} Module */
/** @typedef {{ stream: ReadableStream<Uint8Array>, bytes: number, name: string }} Streamed a file on its way */
/** @typedef {import('../sinkscope.js').Source | Streamed} Source */
/** @typedef {import('../sinkscope.js').ReadFacts} ReadFacts */
/** @typedef {(done: number, total: number, facts?: ReadFacts) => void} Report */
/** @typedef {import('../sinkscope.js').RemoteFile} RemoteFile */
/**
 * sha256: that of the whole file, where it was compared on an earlier visit; approve: called with it when it was
 * compared now.
 * @typedef {{ bytes: number | undefined, stream: ReadableStream<Uint8Array>, sha256?: string,
 *   approve?: (sha256: string) => Promise<void> }} Opened
 */
/** @typedef {Awaited<ReturnType<typeof createSha256>>} Hash */

/** All that 32 bits can address. */
const MOST_BYTES = 2 ** 32;

/** No config.json or tokenizer is as long as this; what is, is something else. */
const LONGEST_TEXT = 2 ** 26;

/**
 * @param {string | Source} config
 * @param {AbortSignal} signal
 */
export async function readConfig(config, signal) {
  if (typeof config === 'string') return new TextEncoder().encode(config);
  return readAll(config, signal);
}

/**
 * A small file as one piece.
 * @param {Source} source
 * @param {AbortSignal} [signal]
 * @returns {Promise<Uint8Array>}
 */
export async function readAll(source, signal = new AbortController().signal) {
  if (source instanceof Uint8Array) return source;
  const { stream } = await openSource(source, signal, () => {});
  const where = nameOf(source);
  const isLocal = isOfDisk(source);
  const kept = [];
  let bytes = 0;
  for await (const chunk of chunks(stream, where, signal, { isLocal })) {
    bytes += chunk.length;
    if (bytes > LONGEST_TEXT) {
      throw new SinkscopeError('read', where, `expected at most ${LONGEST_TEXT} bytes, more came`);
    }
    kept.push(chunk.slice());
  }
  const all = new Uint8Array(bytes);
  let at = 0;
  for (const chunk of kept) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
}

/**
 * Reserves a block for the weights and fills it; the caller releases it.
 * @param {Module} module
 * @param {Source} weights
 * @param {AbortSignal} signal
 * @param {Report} report in bytes
 */
export async function readWeights(module, weights, signal, report) {
  if (weights instanceof Uint8Array) {
    const address = module.reserve(Math.max(weights.length, 1));
    module.bytes(address, weights.length).set(weights);
    report(weights.length, weights.length);
    return { address, bytes: weights.length };
  }
  const where = nameOf(weights);
  const reporter = makeReporter(report);
  const opened = await openSource(weights, signal, reporter.note);
  const { bytes, stream } = opened;
  const expected = isOfDisk(weights) ? undefined : remote(weights).sha256;
  // Who names no hash has nothing compared, though an earlier visit may have compared the file.
  const isDue = expected !== undefined && expected !== opened.sha256;
  const hash = isDue ? await createSha256() : undefined;
  const pieces = chunks(stream, where, signal, { isLocal: isOfDisk(weights), hash });
  reporter.progress(0, bytes ?? NaN);
  const filled =
    bytes === undefined
      ? await gather(module, pieces, where, reporter.progress)
      : await fill(module, pieces, bytes, where, reporter.progress);
  if (!hash || isOfDisk(weights)) return filled;
  try {
    const found = hash.digest();
    await compare(found, remote(weights), where);
    await opened.approve?.(found);
  } catch (error) {
    module.release(filled.address);
    throw error;
  }
  return filled;
}

/**
 * What came is what the hub lists, or it is not kept.
 * @param {string} found
 * @param {RemoteFile} file
 * @param {string} where
 */
async function compare(found, { sha256: expected, id, cache }, where) {
  if (found === expected) return;
  if (cache && id) await (await import('./cache.js')).cacheClear(id);
  const removed = cache ? ', which is not kept: try again' : '';
  throw new SinkscopeError(
    'read',
    where,
    `expected the bytes that the hub lists, sha256 ${expected}, found ${found}${removed}`,
  );
}

/**
 * Adds to each report the rate, the seconds that remain, and what is to be said.
 * @param {Report} report
 */
function makeReporter(report) {
  const measure = createMeter();
  let last = { done: 0, total: NaN };
  /** @type {string | undefined} */
  let lasting;
  const add = (/** @type {string | undefined} */ note) =>
    report(last.done, last.total, { ...measure(last.done, last.total), ...(note ? { note } : {}) });
  return {
    /** @type {Report} */
    progress(done, total) {
      last = { done, total };
      add(lasting);
    },
    /**
     * Reported at once, for a pause should have its reason beside it; and with all that follows, unless
     * it passes with the next byte.
     * @param {string} text
     * @param {boolean} passes
     */
    note(text, passes) {
      if (!passes) lasting = text;
      add(text);
    },
  };
}

/**
 * @param {Exclude<Source, Uint8Array>} source
 * @param {AbortSignal} signal
 * @param {(note: string, passes: boolean) => void} note
 * @returns {Promise<Opened>}
 */
async function openSource(source, signal, note) {
  if (source instanceof Blob) return { bytes: source.size, stream: source.stream() };
  if ('stream' in source) return source;
  const { url, token, cache, version, id, bytes } = remote(source);
  const onRetry = (/** @type {{ reason: string }} */ { reason }) => note(reason, true);
  const onNote = (/** @type {string} */ text) => note(text, false);
  const options = { signal, token, version, id, bytes, onRetry, onNote, reuses: true };
  const address = new URL(url);
  if (!cache) return fetchFile(address, options);
  // Who keeps no model never downloads this module.
  const { openCached } = await import('./cache.js');
  return openCached(address, options);
}

/**
 * @param {URL | RemoteFile} source
 * @returns {RemoteFile}
 */
function remote(source) {
  return source instanceof URL ? { url: source } : source;
}

/** @param {Source} source */
const isOfDisk = (source) => source instanceof Blob || 'stream' in source;

/** @param {unknown} error of a file that was there when it was chosen */
function lost(error) {
  const name = error instanceof Error ? error.name : String(error);
  const found = 'one that was moved, changed or removed since it was chosen';
  return `expected a file that can be read to its end, found ${found} (${name})`;
}

/** @param {Source} source */
function nameOf(source) {
  if (source instanceof Uint8Array) return 'file';
  if (source instanceof Blob) return 'name' in source ? String(source.name) : 'weights';
  if ('stream' in source) return source.name;
  return placeOf(new URL(remote(source).url));
}

/**
 * Copies chunks into place as they arrive: the page never holds the file twice.
 * @param {Module} module
 * @param {AsyncIterable<Uint8Array>} pieces
 * @param {number} length
 * @param {string} where
 * @param {Report} report
 */
async function fill(module, pieces, length, where, report) {
  const address = module.reserve(Math.max(length, 1));
  const isDue = clock();
  let done = 0;
  try {
    for await (const chunk of pieces) {
      if (done + chunk.length > length) {
        throw new SinkscopeError('read', where, `${length} bytes were announced, more came`);
      }
      module.bytes(address + done, chunk.length).set(chunk);
      done += chunk.length;
      if (done === length || isDue()) report(done, length);
    }
    return { address, bytes: done };
  } catch (error) {
    module.release(address);
    throw error;
  }
}

/**
 * Like fill, but of unknown length: the chunks are kept until the end.
 * @param {Module} module
 * @param {AsyncIterable<Uint8Array>} pieces
 * @param {string} where
 * @param {Report} report
 */
async function gather(module, pieces, where, report) {
  const kept = [];
  const isDue = clock();
  let bytes = 0;
  for await (const chunk of pieces) {
    bytes += chunk.length;
    if (bytes > MOST_BYTES - module.size)
      throw new SinkscopeError(
        'too_large',
        where,
        `expected at most ${MOST_BYTES - module.size} bytes, for which there is room, more came`,
      );
    kept.push(chunk.slice());
    if (isDue()) report(bytes, NaN);
  }
  const address = module.reserve(Math.max(bytes, 1));
  let at = address;
  for (const chunk of kept) {
    module.bytes(at, chunk.length).set(chunk);
    at += chunk.length;
  }
  return { address, bytes };
}

/** Chunks may come by the thousand; a reader sees thirty reports a second at most. */
function clock() {
  let last = performance.now();
  return () => {
    const due = performance.now() - last > 33;
    if (due) last = performance.now();
    return due;
  };
}

/**
 * What comes of a stream; each piece is good until the next is asked for.
 * @param {ReadableStream<Uint8Array>} stream
 * @param {string} where
 * @param {AbortSignal} signal
 * @param {{ isLocal?: boolean, hash?: Hash }} [options] isLocal: whether it is a file of this machine; hash: of all
 *   that came
 */
async function* chunks(stream, where, signal, { isLocal = false, hash } = {}) {
  const pieces = piecesOf(stream);
  // A server that falls silent is left at once, not when its next byte comes.
  const stop = () => void pieces.cancel(signal.reason).catch(() => {});
  signal.addEventListener('abort', stop);
  try {
    for (;;) {
      signal.throwIfAborted();
      const piece = await pieces.next().catch((error) => {
        if (error instanceof SinkscopeError) throw error;
        throw new SinkscopeError(
          'read',
          where,
          isLocal ? lost(error) : `broke off: ${reasonOf(error)}`,
        );
      });
      signal.throwIfAborted();
      if (!piece) return;
      hash?.update(piece);
      yield piece;
    }
  } finally {
    signal.removeEventListener('abort', stop);
    stop();
  }
}

/**
 * How many bytes a source has; NaN where only its server knows.
 * @param {Source} source
 */
export function sizeOf(source) {
  if (source instanceof Uint8Array) return source.length;
  if (source instanceof Blob) return source.size;
  if ('stream' in source) return source.bytes;
  return remote(source).bytes ?? NaN;
}
