/** The worker holds a backend and answers messages. */
import { holdLivenessLock, workerPort } from '#host';
import { openBackend } from './backend.js';
import { answer } from './messages.js';

/** @typedef {typeof door} Door */

/** @type {import('./backend.js').Backend | undefined} */
let backend;
const port = workerPort();

/** Answers until there is a backend. */
const door = {
  holdLock: holdLivenessLock,

  /**
   * @param {string} address of the binary
   * @param {import('./thread_pool.js').Shared} [shared]
   */
  async start(address, shared) {
    backend = await openBackend(address, (...report) => port.post({ report }, []), shared);
  },
};

answer(port, () => backend ?? door);
