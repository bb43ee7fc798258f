/** What the tables of a build say to a reader. No engine needs it, so that it is a file beside the binaries. */
import { ask } from '../loading/ask.js';
import { SinkscopeError } from './errors.js';

/** @typedef {import('../sinkscope.js').Describe} Describe */

/**
 * @param {URL} address
 * @param {Describe} describe of the build that the texts are wanted of
 * @returns {Promise<Describe>}
 */
export async function readTexts(address, { version, abi, kernels }) {
  const text = await (await ask(address)).text();
  /** @type {Describe} */
  let found;
  try {
    found = JSON.parse(text);
  } catch (error) {
    throw new SinkscopeError('read', address.href, `expected JSON: ${String(error)}`);
  }
  if (found?.version !== version || found.abi !== abi) {
    const actual = `version ${found?.version} with ABI ${found?.abi}`;
    const expected = `version ${version} with ABI ${abi}`;
    throw new SinkscopeError('abi', address.href, `expected ${expected}, found ${actual}`);
  }
  return { ...found, kernels };
}
