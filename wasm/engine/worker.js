/** The worker: a desk behind messages. Results are transferred, errors travel as values. */
import { expose, releaseProxy, transfer } from 'comlink';
import { workerEndpoint } from '#host';
import { openDesk } from './desk.js';
import { packError } from '../border/errors.js';

/** @type {import('./desk.js').Desk | undefined} */
let desk;

/**
 * Loads the binary, then calls the desk.
 * @param {string} method
 * @param {...any} args
 */
async function call(method, ...args) {
  try {
    if (method === 'load') {
      desk = await openDesk(args[0]);
      return { value: undefined };
    }
    const value = await /** @type {any} */ (desk)[method](...args);
    return transfer({ value }, buffers(value));
  } catch (error) {
    return { error: packError(error) };
  } finally {
    // A callback is a port, and an open port lives for ever.
    for (const arg of args) if (typeof arg === 'function') arg[releaseProxy]();
  }
}

/**
 * The buffers of the tensors in a result; they are copies already, so they can be given away. A list
 * out of a file's metadata has none.
 * @param {any} value
 * @returns {ArrayBuffer[]}
 */
function buffers(value) {
  if (Array.isArray(value)) return value.flatMap(({ data }) => (data ? [data.buffer] : []));
  return value?.att ? [value.att.data.buffer] : [];
}

expose(call, await workerEndpoint());
