/** The files of a model, from wherever they come, into the memory of the module. */
import { request } from '#host';
import { SinkscopeError } from './errors.js';

/** @typedef {import('./module.js').Module} Module */
/** @typedef {(done: number, total: number) => void} Report */
/** @typedef {import('./sinkscope.js').Source} Source */

/**
 * @param {string | Source} config
 * @param {AbortSignal} signal
 */
export async function readConfig(config, signal) {
  if (typeof config === 'string') return new TextEncoder().encode(config);
  if (config instanceof Uint8Array) return config;
  if (config instanceof Blob) return new Uint8Array(await config.arrayBuffer());
  const response = await answer(addressOf(config));
  signal.throwIfAborted();
  return new Uint8Array(await response.arrayBuffer());
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
  if (weights instanceof Blob) {
    return fill(module, weights.stream(), weights.size, 'weights', signal, report);
  }
  const address = addressOf(weights);
  const response = await answer(address);
  const body = response.body ?? new Blob([]).stream();
  const length = announced(response);
  if (length === undefined) return gather(module, body, signal, report);
  return fill(module, body, length, address.href, signal, report);
}

/** @param {URL | { url: URL | string }} source */
function addressOf(source) {
  return source instanceof URL ? source : new URL(source.url);
}

/** @param {URL} address */
async function answer(address) {
  try {
    const response = await request(address);
    if (response.ok) return response;
    throw new Error(`the server answered ${response.status}`);
  } catch (error) {
    throw new SinkscopeError('read', address.href, `could not be read: ${String(error)}`);
  }
}

/**
 * The size of the body, if it was announced; that of a compressed answer is another one.
 * @param {Response} response
 */
function announced(response) {
  const encoded = (response.headers.get('content-encoding') ?? 'identity') !== 'identity';
  const length = Number(response.headers.get('content-length') ?? NaN);
  return encoded || !Number.isSafeInteger(length) ? undefined : length;
}

/**
 * Copies chunks into place as they arrive: the page never holds the file twice.
 * @param {Module} module
 * @param {ReadableStream<Uint8Array>} stream
 * @param {number} length
 * @param {string} where
 * @param {AbortSignal} signal
 * @param {Report} report
 */
async function fill(module, stream, length, where, signal, report) {
  const address = module.reserve(Math.max(length, 1));
  const isDue = clock();
  let done = 0;
  try {
    for await (const chunk of chunks(stream, where, signal)) {
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
 * @param {ReadableStream<Uint8Array>} stream
 * @param {AbortSignal} signal
 * @param {Report} report
 */
async function gather(module, stream, signal, report) {
  const kept = [];
  const isDue = clock();
  let bytes = 0;
  for await (const chunk of chunks(stream, 'weights', signal)) {
    kept.push(chunk);
    bytes += chunk.length;
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
 * @param {ReadableStream<Uint8Array>} stream
 * @param {string} where
 * @param {AbortSignal} signal
 */
async function* chunks(stream, where, signal) {
  const reader = stream.getReader();
  // A server that falls silent is left at once, not when its next byte comes.
  const stop = () => void reader.cancel(signal.reason).catch(() => {});
  signal.addEventListener('abort', stop);
  try {
    for (;;) {
      signal.throwIfAborted();
      const { done, value } = await reader.read().catch((error) => {
        throw new SinkscopeError('read', where, `broke off: ${String(error)}`);
      });
      signal.throwIfAborted();
      if (done) return;
      yield value;
    }
  } finally {
    signal.removeEventListener('abort', stop);
    stop();
  }
}
