/** How Node.js starts the worker of text/guard.js; text_browser.js is the twin. */
import { Worker } from 'node:worker_threads';

/** With the few things of a browser's worker that are used. */
export function startWorker() {
  const worker = new Worker(new URL('../text/worker.js', import.meta.url));
  // Once it has been loaded, whoever waits for an answer has a timer that keeps the process alive.
  worker.once('message', () => worker.unref());
  const line = {
    /** @type {(event: { data: import('../text/worker.js').Answer }) => void} */
    onmessage() {},
    /** @type {(event: { message: string }) => void} */
    onerror() {},
    postMessage: (/** @type {unknown} */ message) => worker.postMessage(message),
    terminate: () => void worker.terminate(),
  };
  worker.on('message', (data) => line.onmessage({ data }));
  worker.on('error', (error) => line.onerror(error));
  return line;
}
