/** Starts the worker of engine/thread.js in Node.js; thread_browser.js is the twin. */
import { Worker } from 'node:worker_threads';

/** @typedef {import('../engine/thread.js').Task} Task */

export const canWait = () => true;

/**
 * @param {() => void} onReady
 * @param {(why: string) => void} onEnd
 */
export function startThread(onReady, onEnd) {
  const worker = new Worker(new URL('../engine/thread.js', import.meta.url));
  worker.once('message', onReady);
  worker.on('error', (error) => onEnd(String(error)));
  worker.on('exit', (code) => onEnd(`exit code ${code}`));
  return {
    give: (/** @type {Task} */ task) => worker.postMessage(task),
    end: () => void worker.terminate(),
  };
}
