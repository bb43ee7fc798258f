/** Reads the files of a model from any source into the module's memory. */
import { MEMORY_BYTES } from '../abi/memory.ts';
import { placeOf, reasonOf, type RequestOptions } from './ask.ts';
import { fetchFile } from './download.ts';
import { SinkscopeError, readError } from '../abi/errors.ts';
import { createSha256 } from './hash.ts';
import { createMeter } from './meter.ts';
import { piecesOf } from './pieces.ts';
import type { Module } from '../abi/module.ts';
import type { StreamSource } from '../host/types.ts';
import type { OpenedFile } from './cache.ts';
import type { ReadFacts, RemoteFile } from './types.ts';
export type { ReadFacts } from './types.ts';

export type Source = import('./types.ts').Source | StreamSource;
type Report = (done: number, total: number, facts?: ReadFacts) => void;
type OnBytes = (address: number, bytes: number) => Promise<void>;
type Hash = Awaited<ReturnType<typeof createSha256>>;

/** Limit on the bytes of a file that is read at once: a config.json or a tokenizer is shorter. */
const TEXT_BYTES_MAX = 2 ** 26;

export async function readConfig(config: string | Source, signal: AbortSignal) {
  if (typeof config === 'string') return new TextEncoder().encode(config);
  return readAll(config, signal);
}

/** Reads a small file, under the limits of a download: silence, redirects, decompressed size. */
export async function readAll(
  source: Source,
  signal: AbortSignal = new AbortController().signal,
  requestOptions: RequestOptions = {},
): Promise<Uint8Array> {
  if (source instanceof Uint8Array) return source;
  const { stream } = await openSource(source, signal, () => {}, requestOptions);
  const { name, remote } = describeSource(source);
  const chunks = [];
  let bytes = 0;
  for await (const chunk of checkedPieces(stream, name, signal, { isLocal: !remote })) {
    bytes += chunk.length;
    if (bytes > TEXT_BYTES_MAX) {
      const text = `expected at most ${TEXT_BYTES_MAX} bytes, more came`;
      throw new SinkscopeError('too_large', name, text);
    }
    chunks.push(chunk.slice());
  }
  const out = new Uint8Array(bytes);
  let offset = 0;
  for (const chunk of chunks) {
    out.set(chunk, offset);
    offset += chunk.length;
  }
  return out;
}

export async function readUtf8(
  source: Source,
  signal?: AbortSignal,
  requestOptions?: RequestOptions,
) {
  return new TextDecoder().decode(await readAll(source, signal, requestOptions));
}

/** Fills a block with weights, which the caller releases; `onBytes` gets the part that is read. */
export async function readWeights(
  module: Module,
  weights: Source,
  signal: AbortSignal,
  report: Report,
  onBytes?: OnBytes,
) {
  if (weights instanceof Uint8Array) {
    const address = module.reserve(Math.max(weights.length, 1));
    module.bytes(address, weights.length).set(weights);
    report(weights.length, weights.length);
    return { address, bytes: weights.length };
  }
  const { name, remote } = describeSource(weights);
  const reporter = makeReporter(report);
  const file = await openSource(weights, signal, reporter.note);
  const { bytes, stream } = file;
  // The hub may list no hash; then nothing is compared, even if an earlier visit compared the file.
  const needsHash = remote?.sha256 !== undefined && remote.sha256 !== file.sha256;
  const hash = needsHash ? await createSha256() : undefined;
  const pieces = checkedPieces(stream, name, signal, { isLocal: !remote, hash });
  reporter.progress(0, bytes ?? NaN);
  const block =
    bytes === undefined
      ? await readUnknownLength(module, pieces, name, reporter.progress)
      : await readKnownLength(module, pieces, bytes, name, reporter.progress, onBytes);
  if (!hash || !remote) return block;
  try {
    const digest = hash.digest();
    await checkDigest(digest, remote, name);
    await file.saveHash?.(digest);
  } catch (error) {
    module.release(block.address);
    throw error;
  }
  return block;
}

/** Throws if a download's hash is not the hub's, and removes the download from the cache. */
async function checkDigest(
  digest: string,
  { sha256: expected, id, cache }: RemoteFile,
  where: string,
) {
  if (digest === expected) return;
  if (cache && id) await (await import('./cache.ts')).cacheClear(id);
  const retryHint = cache ? ', which is not kept: try again' : '';
  throw readError(
    where,
    `expected the bytes that the hub lists, sha256 ${expected}, found ${digest}${retryHint}`,
  );
}

function makeReporter(report: Report) {
  const measure = createMeter();
  let lastProgress = { done: 0, total: NaN };
  let lastingNote: string | undefined;
  const send = (note: string | undefined) =>
    report(lastProgress.done, lastProgress.total, {
      ...measure(lastProgress.done, lastProgress.total),
      ...(note ? { note } : {}),
    });
  return {
    progress(done: number, total: number) {
      lastProgress = { done, total };
      send(lastingNote);
    },
    /** Reports why reading pauses; later reports repeat the note, unless it is transient. */
    note(text: string, isTransient: boolean) {
      if (!isTransient) lastingNote = text;
      send(text);
    },
  };
}

async function openSource(
  source: Exclude<Source, Uint8Array>,
  signal: AbortSignal,
  note: (note: string, isTransient: boolean) => void,
  { tries, wait, stall, onRetry, httpCache }: RequestOptions = {},
): Promise<OpenedFile> {
  if (source instanceof Blob) return { bytes: source.size, stream: source.stream() };
  if ('stream' in source) return source;
  const { url, token, cache, version, id, bytes } = toRemote(source);
  const noteRetry = ({ reason }: { reason: string }) => note(reason, true);
  const onNote = (text: string) => note(text, false);
  const options = {
    ...{ signal, token, version, id, bytes, tries, wait, stall },
    ...{ onRetry: onRetry ?? noteRetry, onNote, httpCache, sharesBuffer: true },
  };
  const address = new URL(url);
  if (!cache) return fetchFile(address, options);
  // Lazy import: only cached downloads need this module.
  const { openCached } = await import('./cache.ts');
  return openCached(address, options);
}

const toRemote = (source: URL | RemoteFile): RemoteFile =>
  source instanceof URL ? { url: source } : source;

function describeSource(source: Source): { name: string; bytes?: number; remote?: RemoteFile } {
  if (source instanceof Uint8Array) return { name: 'file', bytes: source.length };
  if (source instanceof Blob)
    return { name: 'name' in source ? String(source.name) : 'weights', bytes: source.size };
  if ('stream' in source) return source;
  const remote = toRemote(source);
  return { name: placeOf(new URL(remote.url)), bytes: remote.bytes, remote };
}

export const nameOf = (source: Source) => describeSource(source).name;

/** Returns the size of a source; NaN if only its server knows. */
export const sizeOf = (source: Source) => describeSource(source).bytes ?? NaN;

function unreadableText(error: unknown) {
  const name = error instanceof Error ? error.name : String(error);
  const actual = 'one that was moved, changed or removed since it was chosen';
  return `expected a file that can be read to its end, found ${actual} (${name})`;
}

/** Copies chunks as they arrive into a block, so that the page never holds the file twice. */
async function readKnownLength(
  module: Module,
  pieces: AsyncIterable<Uint8Array>,
  length: number,
  where: string,
  report: Report,
  onBytes?: OnBytes,
) {
  const address = module.reserve(Math.max(length, 1));
  const isDue = createReportTimer();
  let count = 0;
  try {
    for await (const chunk of pieces) {
      if (count + chunk.length > length)
        throw readError(where, `${length} bytes were announced, more came`);
      module.bytes(address + count, chunk.length).set(chunk);
      count += chunk.length;
      await onBytes?.(address, count);
      if (count === length || isDue()) report(count, length);
    }
    return { address, bytes: count };
  } catch (error) {
    module.release(address);
    throw error;
  }
}

/** Collects the chunks of a file of unknown length and copies them at the end. */
async function readUnknownLength(
  module: Module,
  pieces: AsyncIterable<Uint8Array>,
  where: string,
  report: Report,
) {
  const chunks = [];
  const isDue = createReportTimer();
  let bytes = 0;
  for await (const chunk of pieces) {
    bytes += chunk.length;
    if (bytes > MEMORY_BYTES - module.size)
      throw new SinkscopeError(
        'too_large',
        where,
        `expected at most ${MEMORY_BYTES - module.size} bytes, for which there is room, more came`,
      );
    chunks.push(chunk.slice());
    if (isDue()) report(bytes, NaN);
  }
  const address = module.reserve(Math.max(bytes, 1));
  let chunkAddress = address;
  for (const chunk of chunks) {
    module.bytes(chunkAddress, chunk.length).set(chunk);
    chunkAddress += chunk.length;
  }
  return { address, bytes };
}

/** Its result says whether a report is due: chunks come by the thousand. */
export function createReportTimer(milliseconds: number = 33) {
  let lastTime = performance.now();
  return () => {
    const isDue = performance.now() - lastTime > milliseconds;
    if (isDue) lastTime = performance.now();
    return isDue;
  };
}

/** Iterates over a stream's pieces, each valid until the next, and updates `hash` with them. */
async function* checkedPieces(
  stream: ReadableStream<Uint8Array>,
  where: string,
  signal: AbortSignal,
  { isLocal, hash }: { isLocal: boolean; hash?: Hash },
) {
  const pieces = piecesOf(stream);
  // Stops at once on an abort, even while the server is silent.
  const cancel = () => void pieces.cancel(signal.reason).catch(() => {});
  signal.addEventListener('abort', cancel);
  try {
    for (;;) {
      signal.throwIfAborted();
      const piece = await pieces.next().catch((error) => {
        if (error instanceof SinkscopeError) throw error;
        throw readError(where, isLocal ? unreadableText(error) : `broke off: ${reasonOf(error)}`);
      });
      signal.throwIfAborted();
      if (!piece) return;
      hash?.update(piece);
      yield piece;
    }
  } finally {
    signal.removeEventListener('abort', cancel);
    cancel();
  }
}
