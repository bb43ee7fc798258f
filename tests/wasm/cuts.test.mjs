// Tests that files are split into texts and texts are cut into prompts as tests/golden/cuts.json says, by which
// tests/record/test_cuts.py tests the Python package and web/test/question.test.ts the page.
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { openTokenizer } from '../../wasm/index.ts';
import { cutText, cutTokens, splitText } from '../../wasm/internal.ts';
import { golden, root } from './helper.mjs';

const { splits, cuts, texts, T } = JSON.parse(readFileSync(new URL('cuts.json', golden), 'utf8'));

for (const { file, ...expected } of splits) {
  test(`${JSON.stringify(file)} is split into lines, blocks and one text`, () => {
    for (const [splitting, parts] of Object.entries(expected))
      assert.deepEqual(splitText(file, splitting), parts, splitting);
  });
}

for (const [path, expected] of Object.entries(cuts)) {
  const tokenizer = openTokenizer(readFileSync(new URL(path, root), 'utf8'));
  test(`${path}: the beginnings of texts, and the consecutive pieces of one text`, async () => {
    const options = { tokens: T, sequences: 99 };
    assert.deepEqual(await cutText(tokenizer, texts, options), expected.beginnings);
    assert.deepEqual(await cutText(tokenizer, texts.at(-1), options), expected['last text']);
    const pieces = cutTokens(tokenizer.encode(texts.at(-1)), T, 2);
    assert.deepEqual(
      pieces.map((piece) => piece.map(({ id }) => id)),
      expected['last text'].slice(0, 2),
    );
  });
}

test('a wrong way of splitting and a length without room are refused', () => {
  assert.throws(() => splitText('a', 'words'), { code: 'argument', where: 'splitting' });
  const special = { id: 0, text: '<s>', start: 0, end: 0, special: true };
  const tokens = [special, { ...special, id: 5, special: false }];
  assert.throws(() => cutTokens(tokens, 1), { code: 'argument', where: 'length' });
  assert.deepEqual(cutTokens([special], 1), []);
});

test('a long run of blank lines is split in time linear in its length', () => {
  assert.deepEqual(splitText(`${'\n'.repeat(2e6)}a${'\n'.repeat(2e6)}b`, 'blocks'), ['a', 'b']);
  assert.equal(splitText(`a${'\n'.repeat(2e6)}b`, 'whole')[0].length, 2e6 + 2);
});
