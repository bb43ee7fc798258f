/** Starts the worker of text/guard.ts in a browser; text_node.ts is the twin. */
import { reaching } from './reach.ts';

/** Bundlers recognize exactly this expression. */
export function startWorker() {
  return reaching(
    () => new Worker(new URL('../text/worker.ts', import.meta.url), { type: 'module' }),
  );
}
