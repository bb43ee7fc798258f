/** Starts the worker of engine/thread.ts in a browser; thread_node.ts is the counterpart. */
import { startFromAnyOrigin } from './reach.ts';

type TrustedTypes = { defaultPolicy: unknown; createPolicy(name: string, rules: object): unknown };

/** Returns whether this thread may block to wait for others: the main thread of a page may not. */
export const canWait = () => typeof document === 'undefined';

/** Allows scripts of this origin where Trusted Types reject plain text as their address. */
function allowOwnScripts() {
  const { trustedTypes } = globalThis as { trustedTypes?: TrustedTypes };
  const { origin } = location;
  const createScriptURL = (url: string) => (new URL(url).origin === origin ? url : null);
  if (!trustedTypes?.defaultPolicy) trustedTypes?.createPolicy('default', { createScriptURL });
}

/** Starts a thread with the expression that bundlers recognize; they recognize no other. */
export function startThread(onReady: () => void, onEnd: (reason: string) => void) {
  allowOwnScripts();
  const worker = startFromAnyOrigin(
    () => new Worker(new URL('../engine/thread.ts', import.meta.url), { type: 'module' }),
  );
  worker.onmessage = onReady;
  worker.onerror = ({ message }) => onEnd(message || 'it could not be started');
  return { give: (task: unknown) => worker.postMessage(task), end: () => worker.terminate() };
}
