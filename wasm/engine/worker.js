/** The worker: a backend behind messages. */
import { expose, proxy, transferHandlers } from 'comlink';
import { holdLivenessLock, workerEndpoint } from '#host';
import { packError } from '../abi/errors.js';
import { openBackend } from './backend.js';

/** @typedef {typeof door} Door */

const door = {
  /**
   * Holds a liveness lock of that name, if the host has locks.
   * @param {string} name
   */
  async holdLock(name) {
    return holdLivenessLock(name);
  },

  /**
   * @param {string} address of the binary
   * @param {import('./backend.js').Report} report
   * @param {import('./thread_pool.js').Shared} [shared]
   */
  async open(address, report, shared) {
    return proxy(await openBackend(address, report, shared));
  },
};

// Of an Error comlink keeps the message alone; what is thrown otherwise arrives whole.
const thrown = transferHandlers.get('throw');
if (thrown) {
  transferHandlers.set('throw', {
    ...thrown,
    serialize: (caught) => {
      const { value } = /** @type {{ value: unknown }} */ (caught);
      return [{ isError: false, value: packError(value) }, []];
    },
  });
}

expose(door, workerEndpoint());
