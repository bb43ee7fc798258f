/** Starts the worker of text/guard.ts in Node.js; text_browser.ts is the counterpart. */
import { Worker } from 'node:worker_threads';

export function startWorker() {
  const worker = new Worker(new URL('../text/worker.ts', import.meta.url));
  // A caller that waits for an answer has a timer, so the worker need not keep the process alive.
  worker.once('message', () => worker.unref());
  const workerShape = {
    onmessage(_event: { data: unknown }) {},
    onerror(_event: { message: string }) {},
    postMessage: (message: unknown) => worker.postMessage(message),
    terminate: () => void worker.terminate(),
  };
  worker.on('message', (data: unknown) => workerShape.onmessage({ data }));
  worker.on('error', (error) => workerShape.onerror(error));
  return workerShape;
}
