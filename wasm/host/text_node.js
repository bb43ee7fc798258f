/** Starts the worker of text/guard.js in Node.js; text_browser.js is the twin. */
import { Worker } from 'node:worker_threads';

/** Imitates the few members of a browser's Worker that the guard uses. */
export function startWorker() {
  const worker = new Worker(new URL('../text/worker.js', import.meta.url));
  // A loaded worker need not keep the process alive: a caller that waits for an answer has a timer
  // that does.
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
