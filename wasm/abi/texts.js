/**
 * Fetches the texts of a build's tables for readers. The engine works without them, so they are a
 * separate file.
 */
import { ask } from '../loading/ask.js';
import { SinkscopeError } from './errors.js';

/** @typedef {import('../sinkscope.js').Describe} Describe */

/**
 * @param {URL} address
 * @param {Describe} describe describes the build whose texts are fetched
 * @returns {Promise<Describe>}
 */
export async function readTexts(address, { version, abi, kernels }) {
  const text = await (await ask(address)).text();
  /** @type {Describe} */
  let texts;
  try {
    texts = JSON.parse(text);
  } catch (error) {
    throw new SinkscopeError('read', address.href, `expected JSON: ${String(error)}`);
  }
  if (texts?.version !== version || texts.abi !== abi) {
    const actual = `version ${texts?.version} with ABI ${texts?.abi}`;
    const expected = `version ${version} with ABI ${abi}`;
    throw new SinkscopeError('abi', address.href, `expected ${expected}, found ${actual}`);
  }
  return { ...texts, kernels };
}
