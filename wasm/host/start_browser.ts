/** Starts the engine's worker in a browser; start_node.ts is the counterpart. */
import { portTo } from './browser.ts';
import { startFromAnyOrigin } from './reach.ts';

/**
 * Starts the worker with the expression that bundlers recognize; they recognize no other. `endReason`
 * resolves to a sentence on how the worker ended. A browser reports only some ends; `watch` detects
 * the others by a liveness lock.
 */
export function startWorker() {
  const worker = startFromAnyOrigin(
    () => new Worker(new URL('../engine/worker.ts', import.meta.url), { type: 'module' }),
  );
  const controller = new AbortController();
  let end: (reason: string) => void = () => {};
  const endReason: Promise<string> = new Promise((resolve) => (end = resolve));
  worker.addEventListener('error', ({ message }) => end(message || 'it could not be started'));
  worker.addEventListener('messageerror', () => end('a message could not be read'));
  return {
    port: portTo(worker),
    endReason,
    /** Waits for the liveness lock that the worker holds: the browser frees it when the worker ends. */
    watch(lock: string) {
      const { signal } = controller;
      navigator.locks.request(lock, { signal }, () => end('without a word')).catch(() => {});
    },
    terminate() {
      controller.abort();
      worker.terminate();
    },
  };
}
