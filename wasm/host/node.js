/** What Node.js does in its own way; browser.js is the twin. */
import { parentPort } from 'node:worker_threads';
import { openAsBlob } from 'node:fs';
import { open, readdir, stat } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { basename, join, sep } from 'node:path';

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

/**
 * The files at a path, to be read when they are asked for; undefined where there is none. Folders within a folder
 * are read, too, where an index may name shards there.
 * @param {string} path
 * @returns {Promise<import('../loading/loading.js').DiskFile[] | undefined>}
 */
export async function diskFiles(path) {
  const there = await stat(path).catch(() => undefined);
  if (!there) return undefined;
  if (!there.isDirectory()) return [{ path: basename(path), file: await openAsBlob(path) }];
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
