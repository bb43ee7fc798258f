/** A file of text, of which nothing is known before it is read: it may be none, or never end. */
import { createReadStream } from 'node:fs';
import { SinkscopeError } from '../abi/errors.js';

/** More than any corpus that the command line is made for, and less than a string can hold. */
const LIMIT = 256 * 2 ** 20;

/**
 * The text of a UTF-8 file, a pipe or a device.
 * @param {string} path
 * @param {string} where the option that names it
 */
export async function readText(path, where) {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const refuse = (/** @type {string} */ text) =>
    new SinkscopeError('read', `${where}: ${path}`, text);
  let text = '';
  let bytes = 0;
  try {
    for await (const chunk of createReadStream(path)) {
      bytes += chunk.length;
      if (bytes > LIMIT) throw refuse(`expected at most ${LIMIT} bytes of text, found more`);
      text += decoder.decode(chunk, { stream: true });
    }
    return text + decoder.decode();
  } catch (error) {
    if (error instanceof SinkscopeError) throw error;
    if (error instanceof TypeError)
      throw refuse(`expected UTF-8 text, found other bytes before byte ${bytes}`);
    throw refuse(`expected a file of text, found none that can be read (${codeOf(error)})`);
  }
}

/**
 * The texts of a .json file that is a list of them; undefined for any other file.
 * @param {string} path
 * @param {string} text what the file holds
 * @returns {string[] | undefined}
 */
export function listOf(path, text) {
  if (!/\.json$/i.test(path)) return undefined;
  try {
    /** @type {unknown} */
    const list = JSON.parse(text);
    return Array.isArray(list) && list.every((one) => typeof one === 'string') ? list : undefined;
  } catch {
    return undefined;
  }
}

/** @param {unknown} error */
export function codeOf(error) {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error);
}
