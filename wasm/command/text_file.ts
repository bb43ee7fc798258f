/** Reads files, which may hold something else or never end. */
import { createReadStream } from 'node:fs';
import { checkList } from '../abi/arguments.ts';
import { SinkscopeError, expect, parseJson, readError } from '../abi/errors.ts';

/** Larger than any corpus for the command line, smaller than the longest string of the host. */
const TEXT_BYTES_MAX = 256 * 2 ** 20;

/** The largest config or tokenizer that is read; the package has the same limit. */
export const JSON_BYTES_MAX = 64 * 2 ** 20;

/** Iterates over the pieces of a file, a pipe or a device; throws once it is longer than expected. */
async function* readPieces(path: string, bytesMax: number) {
  let bytes = 0;
  for await (const piece of createReadStream(path)) {
    bytes += piece.length;
    if (bytes > bytesMax) throw readError(path, `expected at most ${bytesMax} bytes, found more`);
    yield piece as Uint8Array;
  }
}

/** Reads a file, a pipe or a device. */
export async function readBytes(path: string, bytesMax: number) {
  try {
    const pieces = [];
    for await (const piece of readPieces(path, bytesMax)) pieces.push(piece);
    return new Uint8Array(Buffer.concat(pieces));
  } catch (error) {
    if (error instanceof SinkscopeError) throw error;
    throw readError(path, `expected a file, found none (${codeOf(error)})`);
  }
}

/** Reads a UTF-8 file, a pipe or a device, whose path the option `where` names. */
export async function readText(path: string, where: string) {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const textError = (text: string) => readError(`${where}: ${path}`, text);
  let text = '';
  let bytes = 0;
  try {
    for await (const piece of readPieces(path, TEXT_BYTES_MAX)) {
      bytes += piece.length;
      text += decoder.decode(piece, { stream: true });
    }
    return text + decoder.decode();
  } catch (error) {
    if (error instanceof SinkscopeError)
      throw textError(`expected at most ${TEXT_BYTES_MAX} bytes of text, found more`);
    if (error instanceof TypeError)
      throw textError(`expected UTF-8 text, found other bytes before byte ${bytes}`);
    throw textError(`expected a file of text, found none that can be read (${codeOf(error)})`);
  }
}

export const isJson = (path: string) => /\.json$/i.test(path);

/** @throws SinkscopeError naming the first item that is no text */
export function parseTexts(text: string, where: string): string[] {
  const list: unknown = parseJson(text, 'read', where);
  expect(Array.isArray(list), where, 'a JSON list of texts', list);
  return checkTexts(list as unknown[], where);
}

function checkTexts(list: readonly unknown[], where: string): string[] {
  checkList(list, 'text', where);
  return list as string[];
}

/**
 * Returns the texts of a .json file whose content is a list; undefined for others, which are texts themselves.
 * @throws SinkscopeError naming the first item that is no text
 */
export function parseTextList(path: string, text: string): string[] | undefined {
  if (!isJson(path)) return undefined;
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch {
    return undefined;
  }
  return Array.isArray(content) ? checkTexts(content, path) : undefined;
}

export const codeOf = (error: unknown) =>
  error instanceof Error && 'code' in error ? String(error.code) : String(error);
