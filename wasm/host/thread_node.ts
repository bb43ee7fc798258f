/** Starts the worker of engine/thread.ts in Node.js; thread_browser.ts is the counterpart. */
import { Worker } from 'node:worker_threads';

export const canWait = () => true;

export function startThread(onReady: () => void, onEnd: (reason: string) => void) {
  const worker = new Worker(new URL('../engine/thread.ts', import.meta.url));
  worker.once('message', onReady);
  worker.on('error', (error) => onEnd(String(error)));
  worker.on('exit', (code) => onEnd(`exit code ${code}`));
  return { give: (task: unknown) => worker.postMessage(task), end: () => void worker.terminate() };
}
