/** Implements the host interface for Node.js; browser.js is the twin. */
import { parentPort } from 'node:worker_threads';
import { openAsBlob } from 'node:fs';
import { open, readdir, stat } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { basename, join, sep } from 'node:path';

/**
 * Posts messages to a worker, or from within a worker to its parent.
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
 * Returns a Blob that can be posted; for a Blob on a file, the stream of its bytes.
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
 * Works like fetch, which has no file addresses in Node.js.
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
 * Wraps the stream; `close` runs after its last byte or when it is cancelled.
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

/** Lets pending messages in. */
export function pause() {
  return new Promise((resolve) => setImmediate(resolve));
}

/**
 * Returns the files at a path as lazily read Blobs; undefined when the path does not exist. An
 * index may name shards in subfolders, so those are listed too.
 * @param {string} path
 * @returns {Promise<import('../loading/loading.js').DiskFile[] | undefined>}
 */
export async function diskFiles(path) {
  const stats = await stat(path).catch(() => undefined);
  if (!stats) return undefined;
  if (!stats.isDirectory()) return [{ path: basename(path), file: await openAsBlob(path) }];
  const top = await readdir(path);
  const recursive = top.some((name) => name.endsWith('.index.json'));
  const names = recursive ? await readdir(path, { recursive }) : top;
  const files = await Promise.all(
    names.map(async (name) => {
      const full = join(path, name);
      if (!(await stat(full)).isFile()) return [];
      return [{ path: name.replaceAll(sep, '/'), file: await openAsBlob(full) }];
    }),
  );
  return files.flat();
}
