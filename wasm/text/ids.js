/** Token ids as text: what a model without a tokenizer reads and writes. */
import { expect } from '../abi/errors.js';

/** An id, and what stands between it and the one before: a comma, white space, or its own number sign alone. */
const ID = /(\s*,\s*|\s*)#?(\d{1,9})(?!\d)/y;

const piece = (/** @type {number} */ id) => `#${id}`;

/**
 * The ids of `1, 2, 3`, `1 2 3` or `#1#2#3`.
 * @param {string} text
 * @param {string} where
 * @returns {import('./text.js').Token[]}
 */
export function readIds(text, where) {
  /** @type {import('./text.js').Token[]} */
  const tokens = [];
  const list = text.trimEnd();
  for (let at = 0; at < list.length; at = ID.lastIndex) {
    ID.lastIndex = at;
    const [all, between, digits] = ID.exec(list) ?? ['', '', ''];
    const isApart = at === 0 ? !between.includes(',') : all !== digits;
    expect(digits !== '' && isApart, where, 'token ids such as 1, 2, 3', text.slice(0, 80));
    const [id, end] = [Number(digits), ID.lastIndex];
    tokens.push({ id, text: piece(id), start: at + between.length, end, special: false });
  }
  return tokens;
}

/**
 * What stands for the tokenizer of a model that comes without one: what it writes it also reads.
 * @returns {import('./text.js').GuardedTokenizer}
 */
export const idTokenizer = () => ({
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
