/** What a browser does in its own way; node.js is the twin. Workers import it, so it starts none. */

/**
 * How messages pass to a worker, or from inside of it to the page.
 * @param {Pick<Worker, 'postMessage' | 'addEventListener'>} other
 * @returns {import('../engine/messages.js').Port}
 */
export const portTo = (other) => ({
  post: (message, moved) => other.postMessage(message, moved),
  listen: (hear) => other.addEventListener('message', ({ data }) => hear(data)),
});

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

/**
 * Where the package lies; undefined in a bundle that does not say it. `import.meta.url` would say it too, but some
 * bundlers write the path on the builder's machine in its place, and do so for a call of `import.meta.resolve`, too.
 * @returns {string | undefined}
 */
export function home() {
  const { resolve } = import.meta;
  return resolve?.('../');
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

/**
 * A page knows no paths.
 * @param {string} _path
 * @returns {Promise<import('../loading/loading.js').DiskFile[] | undefined>}
 */
export async function diskFiles(_path) {
  return undefined;
}
