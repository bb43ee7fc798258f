/** Starts the engine's worker in Node.js; start_browser.ts is the counterpart. */
import { Worker } from 'node:worker_threads';
import { portTo } from './node.ts';

/** Starts the worker. `endReason` says how it ended, which Node.js always reports. */
export function startWorker() {
  const worker = new Worker(new URL('../engine/worker.ts', import.meta.url));
  const endReason: Promise<string> = new Promise((resolve) => {
    worker.on('error', (error) => resolve(String(error)));
    worker.on('messageerror', (error) => resolve(String(error)));
    worker.on('exit', (code) => resolve(`exit code ${code}`));
  });
  return {
    port: portTo(worker),
    endReason,
    watch(_lock: string) {},
    terminate: () => void worker.terminate(),
  };
}
