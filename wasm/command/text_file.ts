/** Reads text files, which may hold something else or never end. */
import { createReadStream } from 'node:fs';
import { SinkscopeError } from '../abi/errors.ts';

/**
 * The largest text file that is read: larger than any corpus for the command line, and smaller than
 * the longest string of the host.
 */
const BYTES_MAX = 256 * 2 ** 20;

/**
 * Reads a UTF-8 file, a pipe or a device.
 * @param where the option that names the path
 */
export async function readText(path: string, where: string) {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const readError = (text: string) => new SinkscopeError('read', `${where}: ${path}`, text);
  let text = '';
  let bytes = 0;
  try {
    for await (const chunk of createReadStream(path)) {
      bytes += chunk.length;
      if (bytes > BYTES_MAX)
        throw readError(`expected at most ${BYTES_MAX} bytes of text, found more`);
      text += decoder.decode(chunk, { stream: true });
    }
    return text + decoder.decode();
  } catch (error) {
    if (error instanceof SinkscopeError) throw error;
    if (error instanceof TypeError)
      throw readError(`expected UTF-8 text, found other bytes before byte ${bytes}`);
    throw readError(`expected a file of text, found none that can be read (${codeOf(error)})`);
  }
}

/**
 * Returns the texts of a .json file that holds a list of texts; undefined for any other file.
 * @param text content of the file
 */
export function parseTextList(path: string, text: string): string[] | undefined {
  if (!/\.json$/i.test(path)) return undefined;
  try {
    const list: unknown = JSON.parse(text);
    return Array.isArray(list) && list.every((item) => typeof item === 'string') ? list : undefined;
  } catch {
    return undefined;
  }
}

export function codeOf(error: unknown) {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error);
}
