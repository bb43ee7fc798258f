/** Starts the worker of text/guard.ts in a browser; text_node.ts is the counterpart. */
import { startFromAnyOrigin } from './reach.ts';

/** Starts the worker with the expression that bundlers recognize; they recognize no other. */
export function startWorker() {
  return startFromAnyOrigin(
    () => new Worker(new URL('../text/worker.ts', import.meta.url), { type: 'module' }),
  );
}
