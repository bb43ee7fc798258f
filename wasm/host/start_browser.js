/** Starts the engine's worker in a browser; start_node.js is the twin. */
import { portTo } from './browser.js';
import { reaching } from './reach.js';

/**
 * Starts the worker; bundlers recognize exactly this expression. `ended` resolves to a sentence on
 * how it ended. A browser reports only some ends; `watch` detects the others by a liveness lock.
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
