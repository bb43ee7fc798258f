/**
 * Opens randomly damaged timelines. Each must give the weights that its index names, or fail with a
 * code and a place, within a time limit.
 *
 *     FUZZ_SECONDS=300 FUZZ_SEED=2 node --test tests/wasm/timeline_fuzz.test.mjs
 */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { gunzipSync, gzipSync } from 'node:zlib';
import { openTimeline } from '../../wasm/index.ts';
import { randomBits } from '../../wasm/engine/random.ts';
import {
  CHECKPOINTS,
  bytesOf,
  fixture,
  numbersOf,
  sha256,
  withFolder,
  write,
} from './timelines.mjs';

const { FUZZ_SECONDS = 3, FUZZ_SEED = 1 } = process.env;
const LIMIT = 5000;

const JUNK = [
  null,
  true,
  -1,
  0,
  0.5,
  1e9,
  1e308,
  '',
  '../x',
  '\u0000',
  [],
  {},
  [[]],
  [1e9],
  'index.json',
];
const STRUCTURE = '{}[]",:0-eE\\';

function mutated(value, below) {
  if (typeof value !== 'object' || value === null || below(9) === 0)
    return JUNK[below(JUNK.length)];
  const copy = Array.isArray(value) ? [...value] : { ...value };
  const keys = Object.keys(copy);
  if (keys.length === 0) return JUNK[below(JUNK.length)];
  const key = keys[below(keys.length)];
  const fate = below(10);
  if (fate === 0) delete copy[key];
  else if (fate === 1 && Array.isArray(copy)) copy.push(copy[key]);
  else copy[key] = mutated(copy[key], below);
  return copy;
}

function scratched(bytes, below) {
  const copy = Buffer.from(bytes);
  if (below(4) === 0) return copy.subarray(0, below(copy.length));
  for (let n = 1 + below(4); n > 0; n--) copy[below(copy.length)] = below(256);
  return copy;
}

function misspelled(text, below) {
  const at = below(text.length);
  return text.slice(0, at) + STRUCTURE[below(STRUCTURE.length)] + text.slice(at + 1);
}

function spoil(made, below) {
  const one = made['index.json'].checkpoints[below(CHECKPOINTS.length)];
  const isInside = below(2) === 0;
  const bytes = made[one.file];
  made[one.file] = isInside
    ? gzipSync(scratched(gunzipSync(bytes), below))
    : scratched(bytes, below);
  if (below(4) === 0) return;
  one.bytes = made[one.file].length;
  one.sha256 = sha256(made[one.file]);
}

const DAMAGES = [
  () => {},
  spoil,
  (made, below) => (made['index.json'] = mutated(made['index.json'], below)),
  (made, below) => (made['index.json'] = misspelled(JSON.stringify(made['index.json']), below)),
];

async function check(address, content) {
  const timeline = await openTimeline(address);
  const index = JSON.parse(typeof content === 'string' ? content : JSON.stringify(content));
  for (const [i, { step }] of [...timeline.checkpoints.entries()].reverse()) {
    const numbers = numbersOf((await timeline.open(step)).weights);
    assert.equal(numbers.length, timeline.parameters);
    assert.equal(sha256(bytesOf(numbers)), index.checkpoints[i].weights_sha256);
  }
}

test('randomly damaged timelines give their weights or an error', async () => {
  const random = randomBits(Number(FUZZ_SEED));
  const below = (n) => random() % n;
  const counts = { rounds: 0, opened: 0, refused: 0 };
  const until = performance.now() + 1000 * FUZZ_SECONDS;
  await withFolder(async (folder) => {
    for (; performance.now() < until; counts.rounds++) {
      const damage = DAMAGES[below(DAMAGES.length)];
      let made;
      const address = write(folder, fixture(), (files) => damage((made = files), below));
      const begin = performance.now();
      const error = await check(address, made['index.json']).then(
        () => null,
        (error) => error,
      );
      const spent = performance.now() - begin;
      const place = `round ${counts.rounds}`;
      if (error) {
        assert.equal(error.name, 'SinkscopeError', `${place}: ${error.stack}`);
        assert.match(error.code, /^(bad_file|read)$/, place);
        assert.ok(error.where && error.text, `${place}: ${error}`);
        assert.notEqual(damage, DAMAGES[0], `${place}: ${error}`);
        counts.refused++;
      } else counts.opened++;
      assert.ok(spent < LIMIT, `${place}: ${spent} ms`);
    }
  });
  console.log(JSON.stringify(counts));
  assert.ok(counts.opened > 1 && counts.refused > 1, JSON.stringify(counts));
});
