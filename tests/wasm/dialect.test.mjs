// A tokenizer.json in the words that both libraries read alike, and what is mended in the library itself.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import {
  WORDS,
  isolate,
  mendDecoder,
  mendModel,
  mendNormalizer,
  translate,
} from '../../wasm/text/dialect.js';
import { letters } from '../../wasm/text/surface.js';

const split = (Regex) => ({
  type: 'Split',
  pattern: { Regex },
  behavior: 'Isolated',
  invert: false,
});
const bytes = { type: 'ByteLevel', add_prefix_space: false, use_regex: false };
const space = { type: 'Replace', pattern: { Regex: '\\A(?=[^ ])' }, content: ' ' };
const sequence = (...pretokenizers) => ({ type: 'Sequence', pretokenizers });

/** What the pre-tokenizer of a file becomes. */
const stagesOf = (pre_tokenizer, model) => translate({ model, pre_tokenizer }).pre_tokenizer;

test('stages of the pre-tokenizer that both libraries read otherwise are replaced, others are kept', () => {
  const kept = { type: 'Whitespace' };
  const given = (change) => ({ type: 'ByteLevel', ...change });
  const unk = { type: 'WordLevel' };
  for (const [stage, wanted] of [
    [kept, kept],
    [given({}), sequence(split(WORDS), bytes)],
    [given({ use_regex: true, add_prefix_space: false }), sequence(split(WORDS), bytes)],
    [given({ use_regex: false }), bytes],
    [given({ use_regex: false, trim_offsets: true }), { ...bytes, trim_offsets: true }],
    [given({ use_regex: false, add_prefix_space: true }), sequence(space, bytes)],
    [given({ add_prefix_space: true }), sequence(space, split(WORDS), bytes)],
    [{ type: 'Digits', individual_digits: true }, split('\\p{N}')],
    [{ type: 'Digits', individual_digits: false }, split('\\p{N}+')],
    [{ type: 'Digits' }, split('\\p{N}+')],
    [
      { type: 'FixedLength', length: 1 },
      { type: 'FixedLength', length: 1 },
    ],
    [sequence(kept, sequence(given({}), kept)), sequence(kept, split(WORDS), bytes, kept)],
    [sequence(kept), kept],
    [sequence(), sequence()],
    [{ type: 'Sequence' }, { type: 'Sequence' }],
    [
      { type: 'Other', pretokenizers: [given({})] },
      { type: 'Other', pretokenizers: [given({})] },
    ],
  ])
    assert.deepEqual(stagesOf(stage, unk), wanted, JSON.stringify(stage));
  const none = { model: unk, pre_tokenizer: null };
  assert.equal(translate(none), none);
});

test('a way to split becomes a pattern whose matches are the pieces', () => {
  const at = (behavior, invert) => ({ type: 'Split', pattern: { Regex: 'a' }, behavior, invert });
  const previous = '[\\s\\S]*?(?:a)|[\\s\\S]+';
  const next = '(?:a)(?:(?!a)[\\s\\S])*|(?:(?!a)[\\s\\S])+';
  for (const [behavior, invert, wanted] of [
    ['Isolated', false, split('a')],
    ['Isolated', true, split('a')],
    ['Contiguous', false, split('(?:a)+')],
    ['Contiguous', true, split('(?:a)+')],
    ['MergedWithPrevious', false, split(previous)],
    ['MergedWithPrevious', true, split(next)],
    ['MergedWithNext', false, split(next)],
    ['MergedWithNext', true, split(previous)],
    ['Removed', false, at('Removed', false)],
    ['Removed', true, at('Removed', true)],
  ])
    assert.deepEqual(stagesOf(at(behavior, invert), {}), wanted, `${behavior} ${invert}`);
  for (const behavior of ['Sideways', undefined])
    assert.throws(() => stagesOf(at(behavior, true), {}), {
      code: 'bad_tokenizer',
      where: 'pre_tokenizer.behavior',
      text: `expected a way to split, got "${behavior}"`,
    });
});

test('the source of a pattern: a text has its signs escaped, a contraction knows the long s', () => {
  const removed = (pattern) => ({ type: 'Split', pattern, behavior: 'Removed' });
  for (const [pattern, wanted] of [
    [{ String: '\\^$.*+?()[]{}|-a' }, '\\\\\\^\\$\\.\\*\\+\\?\\(\\)\\[\\]\\{\\}\\|-a'],
    [{ String: '' }, ''],
    [{ Regex: 'a.b', String: 'c' }, 'a.b'],
    [{ Regex: "(?i:'s|'t)|(?i:'s|x)" }, "(?i:'s|'\u017f|'t)|(?i:'s|'\u017f|x)"],
  ])
    assert.deepEqual(stagesOf(removed(pattern), {}), removed({ Regex: wanted }), wanted);
});

test('a pattern that is none is refused with its place, however deep it is', () => {
  const wrong = (type) => ({ type, pattern: { Glob: 1 } });
  const text = 'expected a Regex or a String, got {"Glob":1}';
  const kept = { type: 'Whitespace' };
  for (const [change, where] of [
    [{ normalizer: wrong('Replace') }, 'normalizer'],
    [
      { normalizer: { type: 'Sequence', normalizers: [kept, wrong('Split')] } },
      'normalizer.normalizers.1',
    ],
    [
      { pre_tokenizer: sequence(sequence(wrong('Split'))) },
      'pre_tokenizer.pretokenizers.0.pretokenizers.0',
    ],
    [{ decoder: { type: 'Sequence', decoders: [wrong('Replace')] } }, 'decoder.decoders.0'],
  ])
    assert.throws(() => translate({ model: {}, ...change }), {
      code: 'bad_tokenizer',
      where: `${where}.pattern`,
      text,
    });
  // Other stages may have what they like.
  const other = { model: {}, normalizer: wrong('Precompiled'), pre_tokenizer: wrong('Other') };
  assert.deepEqual(translate(other), other);
});

test('pieces of a fixed length have one', () => {
  for (const length of [0, -1, 1.5, '2', undefined])
    assert.throws(() => stagesOf({ type: 'FixedLength', length }, {}), {
      where: 'pre_tokenizer.length',
      text: `expected a length above 0, got ${JSON.stringify(length)}`,
    });
});

test('a byte that no token writes is dropped, unless there is a token for the unknown', () => {
  const vocab = Object.fromEntries([...letters.keys()].map((letter, id) => [letter, id]));
  const { '!': _mark, Ā: _nul, ...some } = vocab;
  const drop = { type: 'Replace', pattern: { Regex: '[\\u{100}\\u{21}]' }, content: '' };
  const stage = { ...bytes };
  for (const [model, wanted] of [
    [{ type: 'BPE', vocab }, bytes],
    [{ type: 'BPE', vocab: some }, sequence(bytes, drop)],
    [{ type: 'BPE', vocab: some, unk_token: null }, sequence(bytes, drop)],
    [{ type: 'BPE', vocab: some, unk_token: '?' }, bytes],
    [{ type: 'Unigram', vocab: some }, bytes],
    [undefined, bytes],
  ])
    assert.deepEqual(stagesOf(stage, model), wanted);
  const words = { type: 'Whitespace' };
  assert.deepEqual(stagesOf(words, { type: 'BPE', vocab: some }), words);
  assert.deepEqual(isolate('x'), split('x'));
});

test('spaces are put around every Chinese character that BERT lists', () => {
  const blocks = [
    ['\u3400', '\u4dbf'],
    ['\u4e00', '\u9fff'],
    ['\uf900', '\ufaff'],
    ['\u{20000}', '\u{2a6df}'],
    ['\u{2a700}', '\u{2ceaf}'],
    ['\u{2f800}', '\u{2fa1f}'],
  ];
  const normalizer = { tokenize_chinese_chars: () => 'no' };
  const inner = { tokenize_chinese_chars: () => 'no' };
  const others = { normalizers: [{}, { normalizers: [inner] }] };
  mendNormalizer(normalizer);
  mendNormalizer(others);
  mendNormalizer(null);
  assert.deepEqual(Object.keys(others.normalizers[0]), []);
  for (const stage of [normalizer, inner]) {
    const put = (text) => stage.tokenize_chinese_chars(text);
    for (const [first, last] of blocks) {
      assert.equal(put(`a${first}${last}b`), `a ${first}  ${last} b`);
      const [before, after] = [first.codePointAt(0) - 1, last.codePointAt(0) + 1];
      const outside = String.fromCodePoint(before, after);
      if (first !== '\u4e00') assert.equal(put(outside), outside, outside);
    }
  }
});

test('a word that WordPiece lacks is kept, one that it has is cut as ever', () => {
  const pieces = {
    long: ['[UNK]'],
    lost: ['[UNK]'],
    hi: ['hi'],
    his: ['hi', '##s'],
    odd: ['[UNK]', 'x'],
  };
  const model = (type) => ({
    config: { type },
    unk_token: '[UNK]',
    tokens_to_ids: new Map([
      ['[UNK]', 0],
      ['long', 0],
      ['hi', 2],
    ]),
    encode(words) {
      assert.equal(this.unk_token, '[UNK]');
      return words.flatMap((word) => pieces[word]);
    },
  });
  const words = Object.keys(pieces);
  const [mended, other] = [model('WordPiece'), model('BPE')];
  mendModel(mended);
  mendModel(other);
  assert.deepEqual(mended.encode(words), ['[UNK]', 'lost', 'hi', 'hi', '##s', '[UNK]', 'x']);
  assert.deepEqual(other.encode(words), ['[UNK]', '[UNK]', 'hi', 'hi', '##s', '[UNK]', 'x']);
  mendModel({});
});

test('each byte of what is no UTF-8 reads as one sign, and a byte order mark is kept', () => {
  const [plain, fallback] = [{ config: { type: 'Fuse' } }, { config: { type: 'ByteFallback' } }];
  mendDecoder({ decoders: [plain, { decoders: [fallback] }] });
  mendDecoder(undefined);
  assert.ok(!('text_decoder' in plain));
  const read = (...bytes) => fallback.text_decoder.decode(Uint8Array.from(bytes));
  assert.equal(read(0xef, 0xbb, 0xbf, 0x61), '\ufeffa');
  assert.equal(read(0xf0, 0x9f, 0x98), '\ufffd\ufffd\ufffd');
  assert.equal(read(0xc3, 0xa9), 'é');
});
