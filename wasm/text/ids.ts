/** Reads and writes token ids as text, for models without a tokenizer. */
import { expect } from '../abi/errors.ts';
import type { Token, GuardedTokenizer } from './types.ts';

/** Matches an id with its separator: a comma, white space, or only its number sign. */
const ID_PATTERN = /(\s*,\s*|\s*)#?(\d{1,9})(?!\d)/y;

const textOfId = (id: number) => `#${id}`;

/** Parses ids from `1, 2, 3`, `1 2 3` or `#1#2#3`. */
export function readIds(text: string, where: string, hint?: string): Token[] {
  const tokens: Token[] = [];
  const trimmedText = text.trimEnd();
  for (let offset = 0; offset < trimmedText.length; offset = ID_PATTERN.lastIndex) {
    ID_PATTERN.lastIndex = offset;
    const [match, separator, digits] = ID_PATTERN.exec(trimmedText) ?? ['', '', ''];
    const isSeparated = offset === 0 ? !separator.includes(',') : match !== digits;
    const expected = `token ids such as 1, 2, 3${hint ? ` (${hint})` : ''}`;
    expect(digits !== '' && isSeparated, where, expected, text.slice(0, 80));
    const [id, end] = [Number(digits), ID_PATTERN.lastIndex];
    tokens.push({ id, text: textOfId(id), start: offset + separator.length, end, special: false });
  }
  return tokens;
}

/**
 * Makes the tokenizer of a model without one: texts are lists of ids, decoded ones as well.
 * @param hint says how the model gets a tokenizer
 */
export const idTokenizer = (hint?: string): GuardedTokenizer => ({
  size: Infinity,
  bos: null,
  special: [],
  specials: [],
  async encode(text, { special = 'auto' } = {}) {
    expect(typeof text === 'string', 'text', 'a string', text);
    expect(typeof special === 'string', 'special', 'none, for the model has no tokenizer', special);
    return readIds(text, 'text of a model without a tokenizer', hint);
  },
  decode: async (ids) => Array.from(ids, textOfId).join(''),
  piece: textOfId,
  close() {},
});
