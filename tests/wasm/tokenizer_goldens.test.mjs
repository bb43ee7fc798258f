// Compares every tokenizer with the results of Hugging Face and SentencePiece on a thousand lines.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { openTokenizer } from '../../wasm/index.ts';
import { tokenizerOfGguf, tokenizerOfVocabulary } from '../../wasm/internal.ts';
import { AlignedText } from '../../wasm/text/aligned.ts';
import { createPreTokenizer } from '../../wasm/text/pre_tokenizers.ts';
import { tokenizerOfWords } from '../../wasm/text/words.ts';
import { golden as goldens, hashOf, softmax, spansOf, withoutSpecial } from './helper.mjs';

const folder = new URL('tokenizers/', goldens);
const read = (name, base = folder) => readFileSync(new URL(name, base), 'utf8');
const lines = JSON.parse(read('lines.json'));

const fromFile = (base) => openTokenizer(read('tokenizer.json', base));

function fromVocabulary(base) {
  const files = ['vocab.json', 'merges.txt', 'tokenizer_config.json'].map((name) =>
    read(name, base),
  );
  const { json, config } = tokenizerOfVocabulary(...files);
  return openTokenizer(json, config);
}

function fromGguf(name, change) {
  const metadata = { ...JSON.parse(read(name)), ...change };
  const { json, config } = tokenizerOfGguf((key) => metadata[key]);
  return openTokenizer(json, config);
}

function fromBert({ files, change }) {
  const file = JSON.parse(read('tokenizer.json', new URL(`${files}/`, folder)));
  Object.assign(file.normalizer, change);
  return openTokenizer(file);
}

/** By the name of a golden: its tokenizer, and the form to which its normalizer brings a text. */
const cases = {
  gpt2: () => ({ tokenizer: fromVocabulary(new URL('gpt2/', folder)), form: null }),
  opt: () => ({ tokenizer: fromVocabulary(new URL('opt/', folder)), form: null }),
  gptneox: () => ({ tokenizer: fromFile(new URL('gptneox/', folder)), form: 'NFC' }),
  bert: (golden) => ({ tokenizer: fromBert(golden) }),
  'bert-cased': (golden) => ({ tokenizer: fromBert(golden) }),
  zoo: () => ({ tokenizer: fromFile(softmax), form: null }),
  smollm2: ({ files }) => ({ tokenizer: fromGguf(files), form: null }),
  qwen2: ({ files, change }) => ({ tokenizer: fromGguf(files, change), form: 'NFC' }),
  qwen35: ({ files, change }) => ({ tokenizer: fromGguf(files, change), form: 'NFC' }),
  ...Object.fromEntries(
    'llama3 dbrx falcon bloom gpt-4o tekken seed-coder deepseek-v3'
      .split(' ')
      .map((name) => [
        name,
        ({ files, change }) => ({ tokenizer: fromGguf(files, change), form: null }),
      ]),
  ),
  sentencepiece: ({ files }) => ({ tokenizer: fromGguf(files) }),
  gemma: ({ files }) => ({ tokenizer: fromGguf(files) }),
};

const idsOf = (tokens) => tokens.map(({ id }) => id);
const characters = (text) => Array.from(text, (character) => character.codePointAt(0));

/** Marks lines without a comparable reference. */
const NO_HASH = '--------';

/** Fails with the first line that differs, and the number of differing lines; returns the compared lines. */
function compare(label, expected, actualOf) {
  const expectedHashes = expected.match(/.{8}/g);
  assert.equal(expectedHashes.length, lines.length);
  const comparedLines = expectedHashes.flatMap((hash, i) => (hash === NO_HASH ? [] : [i]));
  const wrongLines = comparedLines.filter((i) => expectedHashes[i] !== hashOf(actualOf(i)));
  const [firstWrong] = wrongLines;
  const difference =
    firstWrong === undefined
      ? ''
      : `${JSON.stringify(lines[firstWrong])} gives ${actualOf(firstWrong)}`;
  assert.equal(
    wrongLines.length,
    0,
    `${label}: ${wrongLines.length} of ${lines.length} lines differ: ${difference}`,
  );
  return comparedLines;
}

/** Bytes for which SmolLM2's vocabulary has no token; its own library drops them as well. */
const MISSING_CHARACTERS = /[\x04\x06\x13\x14\x16\x1d\u{40000}-\u{bffff}]/u;

test('vocab.txt, cased or uncased, gives the tokens of tokenizer.json with the same vocabulary', () => {
  const { model } = JSON.parse(read('bert/tokenizer.json'));
  const words = Object.entries(model.vocab).sort((a, b) => a[1] - b[1]);
  const text = words.map(([word]) => `${word}\r\n`).join('');
  for (const [name, config] of [
    ['bert', {}],
    ['bert-cased', { do_lower_case: false }],
  ]) {
    const { json, config: roles } = tokenizerOfWords(text, config);
    const tokenizer = openTokenizer(json, roles);
    checkCase(name, tokenizer, undefined, JSON.parse(read(`${name}.json`)));
    const kinds = tokenizer.specials.map((token) => token.kind);
    assert.deepEqual(kinds, ['pad', 'unk', 'cls', 'sep', 'mask']);
  }
});

/** Checks that byte-level tokens decode to the text, except for special tokens that are typed in it. */
function roundTrips(tokenizer, form) {
  const names = tokenizer.specials.map(({ text }) => text);
  const isWhole = (line) => !names.some((name) => line.includes(name));
  const known = tokenizer.encode('\x1d', { special: 'none' }).length > 0;
  const wholeLines = lines.filter(
    (line) => isWhole(line) && (known || !MISSING_CHARACTERS.test(line)),
  );
  for (const line of wholeLines) {
    const tokens = tokenizer.encode(line, { special: 'none' });
    assert.equal(tokenizer.decode(idsOf(tokens)), form ? line.normalize(form) : line);
  }
  return wholeLines.length;
}

/** Checks that spans follow each other; overlapping spans must share a part of one character. */
function coversLine(line, tokens) {
  let [last, end] = [0, 0];
  for (const { start, end: nextEnd } of tokens) {
    const isShared = end - start === String.fromCodePoint(line.codePointAt(start)).length;
    const fits = start === end || (start >= last && nextEnd >= end && isShared);
    assert.ok(fits, `${JSON.stringify(line)}: [${start}, ${nextEnd}) after [${last}, ${end})`);
    [last, end] = [start, nextEnd];
  }
  assert.equal(end, line.length);
}

function checkCase(name, tokenizer, form, golden) {
  const tokens = lines.map((line) => tokenizer.encode(line));
  const count = compare('ids', golden.ids, (i) => idsOf(tokens[i]));
  const { length: n } = compare('spans', golden.spans, (i) => spansOf(tokens[i]));
  compare('decoded', golden.decoded, (i) =>
    characters(tokenizer.decode(idsOf(withoutSpecial(tokens[i])))),
  );
  const sum = count.reduce((total, i) => total + tokens[i].length, 0);
  assert.equal(sum, golden.tokens);
  console.log(
    `${name}: ${sum} tokens of ${count.length} lines as expected, the spans of ${n} lines`,
  );
  if (form === undefined) return;
  console.log(`${name}: ${roundTrips(tokenizer, form)} lines read back byte for byte`);
}

for (const [name, open] of Object.entries(cases)) {
  test(`${name}: the ids, spans and decoded texts of a thousand lines are those of the golden`, () => {
    const golden = JSON.parse(read(`${name}.json`));
    const { tokenizer, form } = open(golden);
    checkCase(name, tokenizer, form, golden);
  });
}

test('gemma splits a run of spaces like SentencePiece, longest symbol first', () => {
  const golden = JSON.parse(read('gemma.json'));
  const { tokenizer } = cases.gemma(golden);
  golden.spaces.forEach((expected, n) => {
    const tokens = withoutSpecial(tokenizer.encode(`${' '.repeat(n)}x`));
    assert.deepEqual(idsOf(tokens), expected, `${n} spaces`);
  });
});

test('byte-level tokens cover every character, in order and without a gap', () => {
  for (const name of ['gpt2', 'opt', 'gptneox', 'zoo']) {
    const { tokenizer, form } = cases[name](JSON.parse(read(`${name}.json`)));
    // A character that absorbs the marks after it covers only itself, as in the tokenizers library.
    const keptLines = lines.filter((line) => form === null || line === line.normalize(form));
    for (const line of keptLines) coversLine(line, tokenizer.encode(line, { special: 'none' }));
  }
});

test('the patterns named in GGUF files split texts like the tokenizers library', () => {
  const metadata = JSON.parse(read('smollm2.gguf.json'));
  const { texts, pieces } = JSON.parse(read('pieces.json'));
  const allTexts = [...texts, ...lines.filter((_, i) => i % 5 === 0)];
  for (const [pre, hashes] of Object.entries(pieces)) {
    const values = { ...metadata, 'tokenizer.ggml.pre': pre };
    const { json } = tokenizerOfGguf((key) => values[key]);
    const preTokenize = createPreTokenizer(json.pre_tokenizer);
    const wrongTexts = allTexts.filter((text, i) => {
      const sizes = preTokenize(AlignedText.of(text)).map((piece) => piece.text.length);
      return hashOf(sizes) !== hashes.slice(8 * i, 8 * i + 8);
    });
    // The library uses the punctuation of an older Unicode than JavaScript.
    const newerCharacters = pre === 'falcon' ? /\u09fd/ : /^$/;
    assert.deepEqual(
      wrongTexts.filter((text) => !newerCharacters.test(text)),
      [],
      pre,
    );
  }
});
