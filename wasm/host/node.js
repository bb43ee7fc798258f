/** What Node.js does in its own way; browser.js is the twin. */
import { parentPort } from 'node:worker_threads';
import { open } from 'node:fs/promises';
import { availableParallelism } from 'node:os';

/**
 * How messages pass to a worker, or from inside of it to its maker.
 * @param {import('node:worker_threads').Worker | import('node:worker_threads').MessagePort} other
 * @returns {import('../engine/messages.js').Port}
 */
export const portTo = (other) => ({
  post: (message, moved) =>
    other.postMessage(message, /** @type {import('node:worker_threads').Transferable[]} */ (moved)),
  listen: (hear) => other.on('message', hear),
});

export function workerPort() {
  if (!parentPort) throw new Error('worker.js runs in a worker only');
  return portTo(parentPort);
}

/**
 * Node.js reports the end of every thread, so no lock is needed.
 * @param {string} _name
 */
export async function holdLivenessLock(_name) {
  return true;
}

/** @returns {string | undefined} */
export const home = () => new URL('..', import.meta.url).href;

export const hasWorkers = true;

export const canShare = () => true;

export const cores = availableParallelism;

/**
 * A Blob as it can be posted: of a Blob on a file, the stream of its bytes.
 * @param {Blob} blob
 * @returns {Blob | import('../loading/files.js').Streamed}
 */
export function portable(blob) {
  try {
    return structuredClone(blob);
  } catch {
    const name = 'name' in blob ? String(blob.name) : 'weights';
    return { stream: blob.stream(), bytes: blob.size, name };
  }
}

/**
 * Like fetch, which knows no files in Node.js.
 * @param {URL} address
 * @param {RequestInit} [init]
 * @returns {Promise<Response>}
 */
export async function request(address, init) {
  if (address.protocol !== 'file:') return fetch(address, init);
  const file = await open(address);
  const { size } = await file.stat();
  const stream = /** @type {ReadableStream<Uint8Array>} */ (
    /** @type {unknown} */ (file.readableWebStream({ type: 'bytes' }))
  );
  const type = address.pathname.endsWith('.wasm') ? 'application/wasm' : '';
  const headers = { 'content-length': String(size), 'content-type': type };
  return new Response(
    closing(stream, () => file.close()),
    { headers },
  );
}

/**
 * The stream, and what is to be done after its last byte or when it is given up.
 * @param {ReadableStream<Uint8Array>} stream
 * @param {() => Promise<void>} close
 */
function closing(stream, close) {
  const reader = stream.getReader();
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await reader.read();
      if (!done) return controller.enqueue(value);
      await close();
      controller.close();
    },
    async cancel() {
      await reader.cancel().catch(() => {});
      await close();
    },
  });
}

/** Lets messages in. */
export function pause() {
  return new Promise((resolve) => setImmediate(resolve));
}
