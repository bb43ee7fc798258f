/** The worker: a desk behind messages. */
import { expose, proxy, transferHandlers } from 'comlink';
import { holdSign, workerEndpoint } from '#host';
import { packError } from '../abi/errors.js';
import { openDesk } from './backend.js';

/** @typedef {typeof door} Door */

const door = {
  /**
   * Holds a sign of life of that name, if the host has such.
   * @param {string} name
   */
  async sign(name) {
    return holdSign(name);
  },

  /**
   * @param {string} address of the binary
   * @param {import('./backend.js').Report} report
   * @param {import('./thread_pool.js').Shared} [shared]
   */
  async open(address, report, shared) {
    return proxy(await openDesk(address, report, shared));
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
