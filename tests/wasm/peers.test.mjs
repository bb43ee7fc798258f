// Tests which engines the measurement `peers` (tests/bench) takes for right, and its medians.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { median } from '../bench/median.mjs';
import { refusal, TOLERANCE } from '../bench/peers/refusal.mjs';
import { TABLE, textName, textOf } from '../bench/peers/works.mjs';
import { root } from './helper.mjs';

const { files } = JSON.parse(readFileSync(new URL('tests/golden/peers.json', root), 'utf8'));
const expected = files['gpt2.f32'].decode;
const rightAnswer = () => ({
  tokens: expected.likeliest.map(([token, logp]) => ({ token, p: Math.exp(logp) })),
  att: Float32Array.from(expected.att),
});

test("every text of the table has PyTorch's answer", () => {
  for (const [file, rows] of Object.entries(TABLE))
    for (const row of rows) assert.ok(files[file]?.[textName(row)], `${file}, ${row}`);
});

test('an engine that agrees with PyTorch is accepted', () => {
  assert.equal(refusal(rightAnswer(), expected, TOLERANCE.exact), undefined);
  const { tokens } = rightAnswer();
  assert.equal(refusal({ tokens, att: [] }, expected, TOLERANCE.exact), undefined, 'without maps');
});

test('a wrong answer is rejected, with the actual and the expected one', () => {
  const assertWrong = (change, tolerance = TOLERANCE.exact) => {
    const answer = rightAnswer();
    change(answer);
    return refusal(answer, expected, tolerance);
  };
  const [token] = expected.likeliest[3];
  const scaleProbability = (factor) => (answer) => (answer.tokens[3].p *= factor);
  assert.match(
    assertWrong(scaleProbability(1.01)),
    new RegExp(`^log p of token ${token} is -\\d.*, by PyTorch -\\d`),
  );
  assert.equal(
    assertWrong(scaleProbability(1.01), TOLERANCE.rounded),
    undefined,
    '8 bits may differ so much',
  );
  assert.match(assertWrong(scaleProbability(1.2), TOLERANCE.rounded), /^log p/);
  assert.match(
    assertWrong((answer) => answer.tokens.splice(3, 1)),
    /is -Infinity, by PyTorch/,
  );
  assert.match(
    assertWrong((answer) => (answer.tokens[0].p = NaN)),
    /is NaN, by PyTorch/,
  );
  assert.match(
    assertWrong((answer) => (answer.att[5] += 1e-4)),
    /^a map gives key 5 0\.0095/,
  );
  assert.match(
    assertWrong((answer) => (answer.att = answer.att.slice(0, 2))),
    /key 2 undefined/,
  );
  assert.match(refusal(rightAnswer(), undefined, TOLERANCE.exact), /was not asked/);
});

test('the median of an even number of times is the mean of the middle two', () => {
  assert.equal(median([30, 1, 2]), 2);
  assert.equal(median([4, 100, 1, 2]), 3);
});

test('the ids of a text are in the vocabulary, and decoding adds eight tokens', () => {
  for (const row of TABLE['zoo.f32']) {
    const { tokens, steps } = textOf('zoo.f32', row);
    assert.ok([...tokens, ...steps].every((id) => id >= 0 && id < 1024));
    assert.equal(steps.length, row === 'decode' ? 8 : 0);
  }
});
