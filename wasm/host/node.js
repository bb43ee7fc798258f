/** What Node.js does in its own way; browser.js is the twin. */
import { Worker, parentPort } from 'node:worker_threads';
import { open } from 'node:fs/promises';
// @ts-expect-error comlink has no types for this file
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs';

/** A comlink endpoint with the two things the client needs besides: terminate and errors. */
export async function startWorker() {
  const worker = new Worker(new URL('../engine/worker.js', import.meta.url));
  const listen = (/** @type {string} */ type, /** @type {any} */ listener) =>
    type === 'error' ? worker.on('error', listener) : endpoint.addEventListener(type, listener);
  const endpoint = nodeEndpoint(worker);
  return { ...endpoint, addEventListener: listen, terminate: () => worker.terminate() };
}

export async function workerEndpoint() {
  if (!parentPort) throw new Error('worker.js runs in a worker only');
  return nodeEndpoint(parentPort);
}

export const hasWorkers = true;

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
