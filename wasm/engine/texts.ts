/**
 * Fetches the texts of a build's tables for readers. The engine works without them, so they are a
 * separate file.
 */
import { ask } from '../loading/ask.ts';
import { SinkscopeError, parseJson } from '../abi/errors.ts';
import type { Describe } from '../abi/types.ts';

export async function readTexts(address: URL, { version, abi }: Describe): Promise<Describe> {
  const text = await (await ask(address)).text();
  const texts: Describe = parseJson(text, 'read', address.href);
  if (texts?.version !== version || texts.abi !== abi) {
    const actual = `version ${texts?.version} with ABI ${texts?.abi}`;
    const expected = `version ${version} with ABI ${abi}`;
    throw new SinkscopeError('abi', address.href, `expected ${expected}, found ${actual}`);
  }
  return texts;
}
