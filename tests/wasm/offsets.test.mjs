// Which characters of a text each token covers, worked out by hand.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { locate } from '../../wasm/text/offsets.js';

/** A token as it reads; <C3A9> stands for bytes. @param {string} token */
function surface(token) {
  return /^<([0-9A-F]{2})+>$/.test(token) ? Buffer.from(token.slice(1, -1), 'hex') : token;
}

/** @param {string} text @param {readonly string[]} tokens @returns {string} each span as start-end */
function spans(text, tokens, { normalizer = null, added = [], hasBlocks = false } = {}) {
  const library = { normalizer, added_tokens: added.map((content) => ({ content })) };
  const found = [...locate(text, tokens, surface, library, hasBlocks)];
  return found
    .map((at, i) => (i % 2 ? '-' : ' ') + at)
    .join('')
    .trim();
}

/** @param {[string, string, string, string][]} cases what, a text, its tokens, their spans */
function check(cases, options = {}) {
  for (const [what, text, tokens, wanted] of cases)
    assert.equal(spans(text, tokens === '' ? [] : tokens.split('|'), options), wanted, what);
}

test('tokens of a text that no normalizer touches lie where they were typed', () => {
  const borders = '\x7f\x80\u07ff\u0800\uffff\u{10000}z';
  check([
    ['no token', 'ab', '', ''],
    ['one after the other', 'abc', 'a|bc', '0-1 1-3'],
    ['one to four bytes', borders, [...borders].join('|'), '0-1 1-2 2-3 3-4 4-5 5-7 7-8'],
    ['halves of a character cover it', 'aéb', 'a|<C3>|<A9>|b', '0-1 1-2 1-2 2-3'],
    ['parts of an emoji cover both of its units', '😀b', '<F09F>|<9880>|b', '0-2 0-2 2-3'],
    ['a token may end inside of a character', 'aéb', '<61C3>|<A962>', '0-2 1-3'],
    ['a space that was put before the text is empty', 'ab', ' |ab', '0-0 0-2'],
    ['a space that was put before a token', 'ab', ' ab', '0-2'],
    ['a space that was put before a token inside', 'ab', 'a| b', '0-1 1-2'],
    ['a space that was typed', ' ab', ' |ab', '0-1 1-3'],
    ['a space before no part of a token', 'bcd', ' ab|c', '0-1 1-2'],
    ['another sign before a token is no space', 'ab', '!ab|b', '0-1 1-2'],
    ['a token without text is empty, inside of a character, too', 'é', '<C3>||<A9>', '0-1 0-0 0-1'],
    ['a block sign that does not mean a space', 'a\u2581b', 'a| |b', '0-1 1-1 2-3'],
  ]);
  check([['a block sign that means a space', 'a\u2581b', 'a| |b', '0-1 1-2 2-3']], {
    hasBlocks: true,
  });
});

test('what a tokenizer drops is skipped, and what is not found reaches to the next that is', () => {
  const dropped = (n) => `a${'x'.repeat(n)}b`;
  check([
    ['one character is dropped', 'axb', 'a|b', '0-1 2-3'],
    ['one behind a token with a space', 'axb', ' a|b', '0-1 2-3'],
    ['the walk looks 256 bytes ahead', dropped(255), 'a|b', '0-1 256-257'],
    ['the border of these', dropped(256), 'a|b', '0-1 257-258'],
    ['the walk looks no further', dropped(257), 'a|b', '0-1 1-259'],
    ['the walk does not look back', 'ab', 'a|a', '0-1 1-2'],
    ['an unknown one in the middle', 'aZYb', 'a|?|b', '0-1 1-3 3-4'],
    ['several unknown ones', 'aZYb', '?|?|b|?', '0-3 0-3 3-4 4-4'],
    ['an unknown one at the end', 'ab', 'a|?', '0-1 1-2'],
    ['one more than there is text', 'a', 'a|b', '0-1 1-1'],
    ['one that is longer than what is left', 'ab', 'a|bc', '0-1 1-2'],
    ['one of which only a part is there', 'xyb', 'xzb|b', '0-2 2-3'],
  ]);
});

const nfc = (text) => text.normalize('NFC');
const nfd = (text) => text.normalize('NFD');
const lower = (text) => text.toLowerCase();
const drop = (text) => text.replaceAll('x', '');
const join = (text) => text.replaceAll('ab', '!');
const part = (text) => text.replaceAll('c', 'xyz');
const prepend = (text) => `\u2581${text}`;

test('tokens of a text that a normalizer changed lie where their characters were typed', () => {
  check(
    [
      ['nothing changes', 'aé', 'a|é', '0-1 1-2'],
      ['a character and its mark become one', 'e\u0301a', 'é|a', '0-2 2-3'],
      ['Hangul letters become a syllable', 'a\u1112\u1161\u11abb', 'a|\ud55c|b', '0-1 1-4 4-5'],
    ],
    { normalizer: nfc },
  );
  check([['one becomes a character and its mark', 'éa', 'e|\u0301|a', '0-1 0-1 1-2']], {
    normalizer: nfd,
  });
  check(
    [
      ['marks stay apart', 'A\u0301\u0301B', 'a|\u0301|\u0301|b', '0-1 1-2 2-3 3-4'],
      ['an emoji with a mark', 'A😀\u0301B', 'a|😀|\u0301|b', '0-1 1-3 3-4 4-5'],
    ],
    { normalizer: lower },
  );
  check([['one becomes several', 'acb', 'a|x|yz|b', '0-1 1-2 1-2 2-3']], { normalizer: part });
  check(
    [
      ['several become one', 'cab', 'c|!', '0-1 1-3'],
      ['all become one', 'ab', '!', '0-2'],
    ],
    { normalizer: join },
  );
  check([['a character is dropped', 'axbx', 'a|b', '0-1 2-3']], { normalizer: drop });
  check([['spaces are dropped at the ends alone', ' a b c ', 'a| b| c', '1-2 2-4 4-6']], {
    normalizer: (text) => text.trim(),
  });
});

test('what is put before a text belongs to its first character', () => {
  check(
    [
      ['a sign of its own', 'ab', ' |a|b', '0-1 0-1 1-2'],
      ['the sign and the character', 'ab', ' a|b', '0-1 1-2'],
      ['an emoji has two units', '😀b', ' |😀|b', '0-2 0-2 2-3'],
      ['a text without a character', '', ' ', '0-0'],
    ],
    { normalizer: prepend, hasBlocks: true },
  );
  const both = (text) => prepend(nfc(text));
  check([['marks are joined, too', 'ae\u0301b', ' a|é|b', '0-1 1-3 3-4']], {
    normalizer: both,
    hasBlocks: true,
  });
  // Some texts may have nothing before them.
  const some = (text) => (text.startsWith('-') ? nfc(text) : both(text));
  check([['a text that is spared', '-e\u0301b', '-|é|b', '0-1 1-3 3-4']], { normalizer: some });
});

test('a normalizer does not touch added tokens, of which the longest is found first', () => {
  const checkWith = (normalizer, added, ...cases) => check(cases, { normalizer, added });
  checkWith(
    nfc,
    ['<E>', '<e\u0301>'],
    ['none that is in the text', 'e\u0301a', 'é|a', '0-2 2-3'],
    ['one in the middle', 'e\u0301<E>e\u0301b', 'é|<E>|é|b', '0-2 2-5 5-7 7-8'],
    ['one with a mark', 'a<e\u0301>b', 'a|<e\u0301>|b', '0-1 1-5 5-6'],
  );
  const letters = ['<D>', '<B>', '<F>'];
  const two = ['two of them', 'A<B>C<D>E', 'a|<B>|c|<D>|e', '0-1 1-4 4-5 5-8 8-9'];
  checkWith(lower, letters, two);
  const begins = ['one that begins another', 'abcabc', 'abc|abc', '0-3 3-6'];
  checkWith(part, ['ab', 'abc'], begins);
  checkWith(part, ['abc', 'ab'], begins);
  checkWith(part, ['.*'], ['signs of patterns', 'c.*c', 'xyz|.*|xyz', '0-1 1-3 3-4']);
  checkWith(join, ['<s>'], ['several become one behind it', '<s>cab', '<s>|c|!', '0-3 3-4 4-6']);
  const before = ['what is put before each', 'a<s>b', '\u2581a|<s>|\u2581|b', '0-1 1-4 4-5 4-5'];
  checkWith(prepend, ['<s>'], before);
});

test('a character is normalized once, however often it comes', () => {
  let count = 0;
  const normalizer = (text) => {
    count++;
    return lower(text);
  };
  const text = 'Ab'.repeat(1000);
  assert.match(spans(text, [...lower(text)], { normalizer }), / 1998-1999 1999-2000$/);
  // The whole, what is put before it, and two characters.
  assert.equal(count, 4);
});
