/** Starts the worker of text/guard.ts in Node.js; text_browser.ts is the twin. */
import { Worker } from 'node:worker_threads';
import type { Answer } from '../text/worker.ts';

/** Imitates the few members of a browser's Worker that the guard uses. */
export function startWorker() {
  const worker = new Worker(new URL('../text/worker.ts', import.meta.url));
  // A loaded worker need not keep the process alive: a caller that waits for an answer has a timer
  // that does.
  worker.once('message', () => worker.unref());
  const line = {
    onmessage(_event: { data: Answer }) {},
    onerror(_event: { message: string }) {},
    postMessage: (message: unknown) => worker.postMessage(message),
    terminate: () => void worker.terminate(),
  };
  worker.on('message', (data) => line.onmessage({ data }));
  worker.on('error', (error) => line.onerror(error));
  return line;
}
