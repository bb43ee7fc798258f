/** Fetches the texts of a build's tables, a separate file that the engine works without. */
import { SinkscopeError, parseJson } from '../abi/errors.ts';
import { readUtf8 } from '../loading/files.ts';
import type { Describe } from '../abi/types.ts';

export async function readTexts(address: URL, { version, abi }: Describe): Promise<Describe> {
  const texts: Describe = parseJson(await readUtf8(address), 'read', address.href);
  if (texts?.version !== version || texts.abi !== abi) {
    const actual = `version ${texts?.version} with ABI ${texts?.abi}`;
    const expected = `version ${version} with ABI ${abi}`;
    throw new SinkscopeError('abi', address.href, `expected ${expected}, found ${actual}`);
  }
  return texts;
}
