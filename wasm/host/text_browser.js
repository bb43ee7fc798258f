/** How a browser starts the worker of text/guard.js; text_node.js is the twin. */
import { reaching } from './reach.js';

/** Bundlers recognize this very expression. */
export function startWorker() {
  return reaching(
    () => new Worker(new URL('../text/worker.js', import.meta.url), { type: 'module' }),
  );
}
