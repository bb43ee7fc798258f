/** Reads and writes token ids as text, for models without a tokenizer. */
import { expect } from '../abi/errors.ts';
import type { Token, GuardedTokenizer } from './types.ts';

/** Matches an id and its separator: a comma, white space, or only its own number sign. */
const ID = /(\s*,\s*|\s*)#?(\d{1,9})(?!\d)/y;

const piece = (id: number) => `#${id}`;

/** Parses ids from `1, 2, 3`, `1 2 3` or `#1#2#3`. */
export function readIds(text: string, where: string): Token[] {
  const tokens: Token[] = [];
  const list = text.trimEnd();
  for (let at = 0; at < list.length; at = ID.lastIndex) {
    ID.lastIndex = at;
    const [match, between, digits] = ID.exec(list) ?? ['', '', ''];
    const isSeparated = at === 0 ? !between.includes(',') : match !== digits;
    expect(digits !== '' && isSeparated, where, 'token ids such as 1, 2, 3', text.slice(0, 80));
    const [id, end] = [Number(digits), ID.lastIndex];
    tokens.push({ id, text: piece(id), start: at + between.length, end, special: false });
  }
  return tokens;
}

/** Replaces the tokenizer of a model that has none; it can read what it writes. */
export const idTokenizer = (): GuardedTokenizer => ({
  size: Infinity,
  bos: null,
  special: [],
  specials: [],
  async encode(text, { special = 'auto', bos = 'auto' } = {}) {
    expect(typeof text === 'string', 'text', 'a string', text);
    expect(typeof special === 'string', 'special', 'none, for the model has no tokenizer', special);
    expect(bos !== true, 'bos', 'false, for the model has no tokenizer', bos);
    return readIds(text, 'text of a model without a tokenizer');
  },
  decode: async (ids) => Array.from(ids, piece).join(''),
  piece,
  close() {},
});
