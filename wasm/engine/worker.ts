/** The worker holds a backend and answers messages. */
import { holdLivenessLock, workerPort } from '#host';
import { openBackend, type Backend } from './backend.ts';
import { answerCalls } from './messages.ts';
import type { ThreadOptions } from './thread_pool.ts';

export type Starter = typeof starter;

let backend: Backend | undefined;
const port = workerPort();

/** Answers calls until the backend has started. */
const starter = {
  holdLock: holdLivenessLock,

  async start(address: string, threadOptions?: ThreadOptions) {
    backend = await openBackend(address, (...report) => port.post({ report }, []), threadOptions);
  },
};

answerCalls(port, () => backend ?? starter);
