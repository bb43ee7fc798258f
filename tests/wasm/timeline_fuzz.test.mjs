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
import { JUNK, spoil } from './helper.mjs';
import {
  CHECKPOINTS,
  bytesOf,
  fixture,
  numbersOf,
  sha256,
  withFolder,
  write,
} from './timelines.mjs';

const { FUZZ_SECONDS = 1, FUZZ_SEED = 1 } = process.env;
const LIMIT_MS = 60_000;

const STRUCTURE = '{}[]",:0-eE\\';

function scratchBytes(bytes, below) {
  const copy = Buffer.from(bytes);
  if (below(4) === 0) return copy.subarray(0, below(copy.length));
  for (let n = 1 + below(4); n > 0; n--) copy[below(copy.length)] = below(256);
  return copy;
}

function misspelled(text, below) {
  const index = below(text.length);
  return text.slice(0, index) + STRUCTURE[below(STRUCTURE.length)] + text.slice(index + 1);
}

function spoilEntry(fileTable, below) {
  const checkpoint = fileTable['index.json'].checkpoints[below(CHECKPOINTS.length)];
  const isInside = below(2) === 0;
  const bytes = fileTable[checkpoint.file];
  fileTable[checkpoint.file] = isInside
    ? gzipSync(scratchBytes(gunzipSync(bytes), below))
    : scratchBytes(bytes, below);
  if (below(4) === 0) return;
  checkpoint.bytes = fileTable[checkpoint.file].length;
  checkpoint.sha256 = sha256(fileTable[checkpoint.file]);
}

const DAMAGES = [
  () => {},
  spoilEntry,
  (fileTable, below) => (fileTable['index.json'] = spoil(fileTable['index.json'], below, JUNK)),
  (fileTable, below) =>
    (fileTable['index.json'] = misspelled(JSON.stringify(fileTable['index.json']), below)),
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
  const endTime = performance.now() + 1000 * FUZZ_SECONDS;
  await withFolder(async (folder) => {
    // A slow machine gets its rounds, too.
    for (; performance.now() < endTime || counts.rounds < 50; counts.rounds++) {
      const damage = DAMAGES[below(DAMAGES.length)];
      let fileTable;
      const address = write(folder, fixture(), (files) => damage((fileTable = files), below));
      const begin = performance.now();
      const error = await check(address, fileTable['index.json']).then(
        () => null,
        (error) => error,
      );
      const milliseconds = performance.now() - begin;
      const place = `round ${counts.rounds}`;
      if (error) {
        assert.equal(error.name, 'SinkscopeError', `${place}: ${error.stack}`);
        assert.match(error.code, /^(bad_file|read)$/, place);
        assert.ok(error.where && error.text, `${place}: ${error}`);
        assert.notEqual(damage, DAMAGES[0], `${place}: ${error}`);
        counts.refused++;
      } else counts.opened++;
      assert.ok(milliseconds < LIMIT_MS, `${place}: ${milliseconds} ms`);
    }
  });
  console.log(JSON.stringify(counts));
  assert.ok(counts.opened > 1 && counts.refused > 1, JSON.stringify(counts));
});
