/** Reads text files, which may hold something else or never end. */
import { createReadStream } from 'node:fs';
import { SinkscopeError } from '../abi/errors.js';

/** Larger than any corpus for the command line, and smaller than the longest string of the host. */
const BYTES_MAX = 256 * 2 ** 20;

/**
 * Reads a UTF-8 file, a pipe or a device.
 * @param {string} path
 * @param {string} where the option that names the path
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
      if (bytes > BYTES_MAX)
        throw refuse(`expected at most ${BYTES_MAX} bytes of text, found more`);
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
 * Returns the texts of a .json file that is a list of them; undefined for any other file.
 * @param {string} path
 * @param {string} text content of the file
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
