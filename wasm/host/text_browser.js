/** Starts the worker of text/guard.js in a browser; text_node.js is the twin. */
import { reaching } from './reach.js';

/** Bundlers recognize exactly this expression. */
export function startWorker() {
  return reaching(
    () => new Worker(new URL('../text/worker.js', import.meta.url), { type: 'module' }),
  );
}
