/** Starts the worker of engine/thread.js in a browser; thread_node.js is the twin. */
import { reaching } from './reach.js';

/** @typedef {import('../engine/thread.js').Task} Task */
/** @typedef {{ defaultPolicy: unknown, createPolicy(name: string, rules: object): unknown }} Trusting */

/** A page's main thread may not block on others. */
export const canWait = () => typeof document === 'undefined';

/**
 * Allows our own scripts under a Trusted Types policy, which rejects plain text as a script's
 * address.
 */
function vouch() {
  const { trustedTypes } = /** @type {{ trustedTypes?: Trusting }} */ (globalThis);
  const { origin } = location;
  const createScriptURL = (/** @type {string} */ url) =>
    new URL(url).origin === origin ? url : null;
  if (!trustedTypes?.defaultPolicy) trustedTypes?.createPolicy('default', { createScriptURL });
}

/**
 * Bundlers recognize exactly this expression.
 * @param {() => void} onReady
 * @param {(why: string) => void} onEnd
 */
export function startThread(onReady, onEnd) {
  vouch();
  const worker = reaching(
    () => new Worker(new URL('../engine/thread.js', import.meta.url), { type: 'module' }),
  );
  worker.onmessage = onReady;
  worker.onerror = ({ message }) => onEnd(message || 'it could not be started');
  return {
    give: (/** @type {Task} */ task) => worker.postMessage(task),
    end: () => worker.terminate(),
  };
}
