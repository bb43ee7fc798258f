/** What a browser does in its own way; node.js is the twin. */
import { reaching } from './reach.js';

/**
 * How messages pass to a worker, or from inside of it to the page.
 * @param {Pick<Worker, 'postMessage' | 'addEventListener'>} other
 * @returns {import('../engine/messages.js').Port}
 */
const portTo = (other) => ({
  post: (message, moved) => other.postMessage(message, moved),
  listen: (hear) => other.addEventListener('message', ({ data }) => hear(data)),
});

/**
 * Starts the worker; bundlers recognise this very expression. `ended` says in words how it came to
 * its end. A browser reports only some ends; `watch` finds the others by a liveness lock.
 */
export function startWorker() {
  const worker = reaching(
    () => new Worker(new URL('../engine/worker.js', import.meta.url), { type: 'module' }),
  );
  const over = new AbortController();
  /** @type {(why: string) => void} */
  let end = () => {};
  /** @type {Promise<string>} */
  const ended = new Promise((resolve) => (end = resolve));
  worker.addEventListener('error', ({ message }) => end(message || 'it could not be started'));
  worker.addEventListener('messageerror', () => end('a message could not be read'));
  return {
    port: portTo(worker),
    ended,
    /**
     * Waits for the liveness lock that the worker holds: the browser frees it when the worker ends.
     * @param {string} lock
     */
    watch(lock) {
      const { signal } = over;
      navigator.locks.request(lock, { signal }, () => end('without a word')).catch(() => {});
    },
    terminate() {
      over.abort();
      worker.terminate();
    },
  };
}

export const workerPort = () => portTo(/** @type {Worker} */ (/** @type {unknown} */ (globalThis)));

/**
 * Holds a lock of that name as long as this worker lives; false where there are no locks.
 * @param {string} name
 * @returns {Promise<boolean>}
 */
export function holdLivenessLock(name) {
  return new Promise((resolve) => {
    const hold = () => {
      resolve(true);
      return new Promise(() => {});
    };
    if (!navigator.locks) resolve(false);
    else navigator.locks.request(name, hold).catch(() => resolve(false));
  });
}

export const hasWorkers = typeof Worker === 'function';

/** Whether memory can be shared: only in a page whose headers set it apart from other sites. */
export const canShare = () => globalThis.crossOriginIsolated === true;

export const cores = () => navigator.hardwareConcurrency || 1;

/**
 * A Blob as it can be posted: here, any.
 * @param {Blob} blob
 * @returns {Blob | import('../loading/files.js').Streamed}
 */
export function portable(blob) {
  return blob;
}

/**
 * @param {URL} address
 * @param {RequestInit} [init]
 */
export function request(address, init) {
  return fetch(address, init);
}

/** Lets messages in. Timers are held back to 4 ms when nested, a port is not. */
export function pause() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve(undefined);
    };
    port2.postMessage(0);
  });
}
