// Tests vocabularies of words and of bytes, and their merges: every bound, and the sentence of every error.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { MergeRanks, TokenIds } from '../../wasm/text/merges.ts';
import { createSurfaceReader } from '../../wasm/text/surface.ts';
import {
  checkId,
  checkVocab,
  findSpace,
  tokenNameOf,
  parseObject,
  rankMerges,
  tokenizerOfVocabulary,
} from '../../wasm/text/vocabulary.ts';
import { tokenizerOfWords } from '../../wasm/text/words.ts';
import { errorOf, randomBelow, sequence, special, templateOf } from './helper.mjs';

const assertRefused = (t, use) => t.assert.snapshot(errorOf(use));

test('every merge has its rank, and no other pair has one', () => {
  const nextInt = randomBelow(1);
  const key = (left, right) => JSON.stringify([`${left}`, `${right}`]);
  for (let count = 0; count < 300; count++) {
    const expectedRanks = new Map();
    // Pairs with the same left or right token are the likeliest to be mixed up.
    while (expectedRanks.size < count % 12)
      expectedRanks.set(key(nextInt(9), nextInt(9)), expectedRanks.size);
    const ranks = new MergeRanks(expectedRanks.size);
    for (const [pair, rank] of expectedRanks)
      ranks.add(...JSON.parse(pair).map(Number), rank, 100 + rank);
    for (let left = 0; left < 9; left++)
      for (let right = 0; right < 9; right++) {
        const pair = key(left, right);
        assert.equal(ranks.get(left, right), expectedRanks.get(pair), pair);
      }
    for (const rank of expectedRanks.values()) assert.equal(ranks.mergedIdOf(rank), 100 + rank);
  }
  const repeatedPair = new MergeRanks(2);
  repeatedPair.add(3, 4, 0, 5);
  repeatedPair.add(3, 4, 1, 5);
  assert.equal(repeatedPair.get(3, 4), 1);
});

test('each token is found by any range of a text, and the last of equal ones has the id', () => {
  const letters = ['a', 'b', '\u0120', '\ud83d\ude00'];
  const words = letters.flatMap((first) => ['', ...letters].map((second) => first + second));
  for (let count = 0; count <= words.length; count++) {
    // A vocabulary may have ids without a token.
    const texts = [];
    words.slice(0, count).forEach((word, i) => (texts[3 * i] = word));
    const ids = new TokenIds(texts);
    assert.equal(ids.count, count);
    for (const [i, word] of words.entries()) {
      const expectedId = i < count ? 3 * i : undefined;
      assert.equal(ids.idOf(word), expectedId);
      assert.equal(ids.idOf(`x${word}b`, 1, 1 + word.length), expectedId);
    }
    assert.equal(ids.idOf(''), undefined);
  }
  const repeats = [];
  const repeatedIds = new TokenIds(['a', 'b', 'a', 'a'], (...ids) => repeats.push(ids));
  const sharedText = [repeatedIds.idOf('a'), repeatedIds.idOf('b'), repeatedIds.count];
  assert.deepEqual([repeats, ...sharedText], [[[2, 0], [3, 2]], 3, 1, 4]); // prettier-ignore
});

test('both parts of a merge and their concatenation must be tokens', (t) => {
  const ids = new TokenIds(['a', 'b', 'ab', '##b', 'a b', 'a ba', 'ax', 'xa']);
  const idOf = (token) => ids.idOf(token);
  const rank = (merges, skipped) => rankMerges(merges, ids, 'place', skipped);
  const rankOf = (ranks, left, right) => ranks.get(idOf(left), idOf(right));
  assert.equal(rankOf(rank(['a b']), 'a', 'b'), 0);
  assert.equal(rank(['a b']).mergedIdOf(0), idOf('ab'));
  const twoRanks = rank(['a b', ['a b', 'a']]);
  assert.deepEqual(
    [rankOf(twoRanks, 'a', 'b'), rankOf(twoRanks, 'a b', 'a'), rankOf(twoRanks, 'b', 'a')],
    [0, 1, undefined],
  );
  assert.equal(rankOf(rank(['a ##b'], 2), 'a', '##b'), 0);
  // The next token is the merged one, has its length alone, or its length and one of its parts.
  const tokens = ['a', 'b', 'ab', 'bb', 'aa', 'ba', 'bab'];
  const merges = ['a b', 'b b', 'b a', 'a a', 'b ab', 'ba b'];
  const ranked = rankMerges(merges, new TokenIds(tokens), 'place');
  assert.deepEqual(
    merges.map((_, i) => tokens[ranked.mergedIdOf(i)]),
    merges.map((merge) => merge.replace(' ', '')),
  );
  for (const merges of [
    ['a b', 'c b'],
    ['a x'],
    ['x a'],
    ['a c'],
    ['b a'],
    ['a ##b'],
    ...[['a'], ['a b c'], [['a']], [['a', 'b', 'a']], [['a', 1]], [{ length: 2 }], [null]].map(
      (merges) => merges,
    ),
  ])
    assertRefused(t, () => rank(merges));
});

test('the two tokens of a merge are separated by one space', (t) => {
  assert.equal(findSpace('a bc', 'x', 1), 1);
  for (const line of ['a', 'a b c', 'a ', ' a', ' ', '', `${'a'.repeat(79)}bc`])
    assertRefused(t, () => findSpace(line, 'x', 1));
});

test('a token id must be an integer below 2^21 and unique', (t) => {
  checkVocab({ a: 0, b: 2097151, c: 7 }, 'x');
  checkId(0, 'x');
  const longToken = 'b'.repeat(79);
  for (const id of [2097152, -1, 0.5, '1', undefined, `${longToken}cd`]) {
    assertRefused(t, () => checkId(id, 'x'));
    assertRefused(t, () => checkVocab({ [`${longToken}cd`]: id }, 'x'));
  }
  assertRefused(t, () => checkVocab({ a: 1, b: 0, c: 0 }, 'x'));
  assertRefused(t, () => checkVocab({}, 'x'));
});

test('a configuration is accepted as an object or as JSON', (t) => {
  const plainObject = { a: 1 };
  assert.equal(parseObject(plainObject, 'x'), plainObject);
  assert.deepEqual(parseObject('{"a":1}', 'x'), plainObject);
  for (const value of ['[1]', '1', 'null', '"a"', [1], null, undefined, 1])
    assertRefused(t, () => parseObject(value, 'x'));
});

test('the name of a special token is a string, or an object with one', () => {
  const settings = { a: 'x', b: { content: 'y' }, c: '', d: { content: '' }, e: null, f: {}, g: 3 };
  const names = Object.keys({ ...settings, h: 0 }).map((key) => tokenNameOf(settings, key));
  assert.deepEqual(names, ['x', 'y', ...Array(6).fill(undefined)]);
});

const END_TOKEN = '<|endoftext|>';
const addedToken = (id, content) => ({ id, content, normalized: false, special: true });

test('vocab.json with merges.txt becomes a tokenizer with BOS, EOS and added tokens', (t) => {
  const vocab = { a: 0, b: 1, ab: 2, '<s>': 3, '</s>': 4, [END_TOKEN]: 5 };
  const convert = (config, map, table = vocab) => tokenizerOfVocabulary(table, 'a b', config, map);
  const { [END_TOKEN]: _end, ...vocabWithoutEnd } = vocab;

  const result = convert();
  assert.deepEqual(result.config, { bos_token: END_TOKEN, eos_token: END_TOKEN });
  assert.deepEqual(result.json.added_tokens, [addedToken(5, END_TOKEN)]);
  assert.equal(result.json.post_processor, null);
  assert.deepEqual(result.json.model.merges, ['a b']);
  assert.equal(result.json.pre_tokenizer.add_prefix_space, false);
  assert.deepEqual(convert({}, {}, vocabWithoutEnd).config, { bos_token: null, eos_token: null });
  assert.deepEqual(convert({}, {}, vocabWithoutEnd).json.added_tokens, []);

  const namedTokens = { bos_token: '<s>', eos_token: { content: '</s>' }, pad_token: 'lost' };
  const namedResult = convert(
    { add_bos_token: true, add_eos_token: true, add_prefix_space: true },
    namedTokens,
    vocabWithoutEnd,
  );
  assert.deepEqual(namedResult.json.added_tokens, [addedToken(3, '<s>'), addedToken(4, '</s>')]);
  assert.deepEqual(
    namedResult.json.post_processor,
    templateOf(special('<s>'), sequence, special('</s>')),
  );
  assert.equal(namedResult.json.pre_tokenizer.add_prefix_space, true);
  assert.deepEqual([namedResult.config.bos_token, namedResult.config.eos_token], ['<s>', '</s>']);
  // tokenizer_config.json takes precedence, and only the value true counts.
  const last = convert(
    { bos_token: '</s>', add_bos_token: 1, add_eos_token: 'yes', add_prefix_space: 1 },
    namedTokens,
  );
  assert.deepEqual([last.config.bos_token, last.json.post_processor], ['</s>', null]);
  assert.equal(last.json.pre_tokenizer.add_prefix_space, false);
  assert.deepEqual(
    convert({ add_bos_token: true }, {}).json.post_processor,
    templateOf(special(END_TOKEN), sequence),
  );

  const decoder = {
    7: { content: '<x>', special: false, lstrip: true },
    3: { content: '<s>', special: false },
  };
  assert.deepEqual(convert({ ...namedTokens, added_tokens_decoder: decoder }).json.added_tokens, [
    { id: 3, content: '<s>', special: false },
    { id: 7, content: '<x>', special: false, lstrip: true },
    addedToken(4, '</s>'),
  ]);
  for (const token of [{}, { content: '' }, { content: 3 }, null])
    assertRefused(t, () => convert({ added_tokens_decoder: { 7: token } }));
  for (const role of ['bos', 'eos'])
    assertRefused(t, () => convert({ [`add_${role}_token`]: true }, {}, vocabWithoutEnd));
  for (const [config, map, where] of [
    ['{', {}, 'tokenizer_config.json'],
    [{}, '{', 'special_tokens_map.json'],
  ])
    assert.throws(() => convert(config, map), { where, text: /^is not JSON: / });
});

test('a vocabulary and merges that disagree are rejected before use', (t) => {
  assertRefused(t, () => tokenizerOfVocabulary({ a: 0, b: 0 }, ''));
  assertRefused(t, () => tokenizerOfVocabulary({ a: 0, b: 1 }, 'a b'));
});

test('merges.txt may begin with a comment, has no repeated lines, and its empty lines are skipped', (t) => {
  const vocab = { a: 0, b: 1, ab: 2, ba: 3, '#version': 4, '#versiona': 5 };
  const merges = (lines) => tokenizerOfVocabulary(vocab, lines).json.model.merges;
  assert.deepEqual(merges('#version: 0.2\na b\r\n\nb a\n'), ['a b', 'b a']);
  assert.deepEqual(merges('a b\n#version a'), ['a b', '#version a']);
  assert.deepEqual(merges(''), []);
  assertRefused(t, () => merges('#version: 0.2\n\na b\na b'));
  assertRefused(t, () => merges('#version: 0.2\n\na b\nab'));
});

test('vocab.txt has no line twice, and the tokens for the unknown and around a text', (t) => {
  for (const lines of [
    '[UNK]\n\n[CLS]\n[SEP]\n[CLS]',
    '[UNK]\n[SEP]',
    '[CLS]\n[SEP]',
    '[CLS]\n[UNK]',
    '\n',
  ])
    assertRefused(t, () => tokenizerOfWords(lines));
  const settings = { tokenize_chinese_chars: false, strip_accents: true, cls_token: 'hi' };
  const { json } = tokenizerOfWords('[UNK]\n[SEP]\nhi', settings);
  assert.deepEqual(
    json.added_tokens.map(({ id }) => id),
    [0, 1, 2],
  );
  const { handle_chinese_chars, strip_accents } = json.normalizer;
  assert.deepEqual([handle_chinese_chars, strip_accents], [false, true]);
  assert.deepEqual(json.post_processor, templateOf(special('hi'), sequence, special('[SEP]')));
});

test('the text of a token depends on the model and the decoder of its file', () => {
  const fileOf = (model) => ({ model });
  const bytes = { ...fileOf({}), decoder: { type: 'ByteLevel' } };
  const addedTokens = [
    { content: '\u2581x', normalized: true },
    { content: '\u2581y', normalized: false },
    { content: 'Ġz' },
  ];
  const read = (file, ...tokens) => tokens.map(createSurfaceReader(file, addedTokens));
  assert.deepEqual(
    read(fileOf({}), '\u2581a\u2581', '<0x41>', '<0xfF>', '<0x4>', 'a<0x41>', '\u2581x', '\u2581y'),
    [' a ', Uint8Array.of(0x41), '<0xfF>', '<0x4>', 'a<0x41>', ' x', '\u2581y'],
  );
  assert.deepEqual(read(bytes, 'Ġa', '漢', '\u2581x', '\u2581y', 'Ġz'), [
    ' a',
    Uint8Array.of(0),
    '\u2581x',
    '\u2581y',
    'Ġz',
  ]);
  const nestedStages = { pretokenizers: [{ type: 'Fuse' }, { pretokenizers: [bytes.decoder] }] };
  assert.deepEqual(read({ ...fileOf({}), pre_tokenizer: nestedStages }, 'Ġa'), [' a']);
  const pieces = fileOf({ type: 'WordPiece', continuing_subword_prefix: '##' });
  assert.deepEqual(read(pieces, '##a', 'a##', '\u2581', '##'), ['a', 'a##', '\u2581', '']);
  const suffixFile = fileOf({ type: 'BPE', end_of_word_suffix: '</w>' });
  assert.deepEqual(read(suffixFile, 'ab</w>', '</w>a', '\u2581a</w>'), ['ab', '</w>a', ' a']);
});
