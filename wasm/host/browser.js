/** What a browser does in its own way; node.js is the twin. */

/** Starts the worker; bundlers recognise this very expression. */
export async function startWorker() {
  return new Worker(new URL('../engine/worker.js', import.meta.url), { type: 'module' });
}

/** The side of the worker that talks to the page: comlink's default. */
export async function workerEndpoint() {
  return undefined;
}

export const hasWorkers = typeof Worker === 'function';

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
