/** Starts the worker of engine/thread.ts in a browser; thread_node.ts is the twin. */
import { reaching } from './reach.ts';
import type { Task } from '../engine/thread.ts';

type Trusting = { defaultPolicy: unknown; createPolicy(name: string, rules: object): unknown };

/** A page's main thread may not block on others. */
export const canWait = () => typeof document === 'undefined';

/**
 * Allows our own scripts under a Trusted Types policy, which rejects plain text as a script's
 * address.
 */
function vouch() {
  const { trustedTypes } = globalThis as { trustedTypes?: Trusting };
  const { origin } = location;
  const createScriptURL = (url: string) => (new URL(url).origin === origin ? url : null);
  if (!trustedTypes?.defaultPolicy) trustedTypes?.createPolicy('default', { createScriptURL });
}

/** Bundlers recognize exactly this expression. */
export function startThread(onReady: () => void, onEnd: (why: string) => void) {
  vouch();
  const worker = reaching(
    () => new Worker(new URL('../engine/thread.ts', import.meta.url), { type: 'module' }),
  );
  worker.onmessage = onReady;
  worker.onerror = ({ message }) => onEnd(message || 'it could not be started');
  return {
    give: (task: Task) => worker.postMessage(task),
    end: () => worker.terminate(),
  };
}
