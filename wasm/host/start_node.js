/** Starts the engine's worker in Node.js; start_browser.js is the twin. */
import { Worker } from 'node:worker_threads';
import { portTo } from './node.js';

/** Starts the worker. `ended` resolves to a sentence on how it ended; Node.js reports every end. */
export function startWorker() {
  const worker = new Worker(new URL('../engine/worker.js', import.meta.url));
  /** @type {Promise<string>} */
  const ended = new Promise((resolve) => {
    worker.on('error', (error) => resolve(String(error)));
    worker.on('messageerror', (error) => resolve(String(error)));
    worker.on('exit', (code) => resolve(`exit code ${code}`));
  });
  return {
    port: portTo(worker),
    ended,
    watch(/** @type {string} */ _sign) {},
    terminate: () => void worker.terminate(),
  };
}
