/** Tests how a store writes, names, chains and forgets the parts of a file. */
import assert from 'node:assert/strict';
import test from 'node:test';
import {
  PartWriter,
  bytesOfCard,
  contiguousParts,
  hashOf,
  keyOf,
  partOf,
  readCard,
  removeKey,
} from '../../wasm/loading/parts.ts';
import { checksumOf } from '../../wasm/loading/hash.ts';

const KEY = 'a'.repeat(32);
const OTHER_KEY = 'b'.repeat(32);
const card = { url: 'https://a.example/w', id: 'a/b', version: 'c', bytes: 100 };

/** Returns a store in memory, in which `room` writes succeed. */
function memory(room = Infinity) {
  const files = new Map();
  return {
    files,
    async put(name, bytes) {
      if (room-- <= 0) throw new Error('the disk is full');
      files.set(name, bytes.slice());
    },
    get: async (name) => files.get(name),
    remove: async (name) => void files.delete(name),
    names: async () => [...files.keys()],
  };
}

const file = new Uint8Array(21 * 2 ** 20);
for (let i = 0; i < file.length; i++) file[i] = i % 251;
const numberedBytes = (length, from = 0) => file.subarray(from, from + length);
/** Lists the parts in a store by first byte and length; asserts that each has its checksum and the file's bytes. */
const layout = ({ files }) =>
  [...files].flatMap(([name, bytes]) => {
    const part = partOf(name);
    if (!part) return [];
    assert.equal(part.checksum, checksumOf(bytes));
    const expected = numberedBytes(part.bytes, part.start);
    assert.ok(Buffer.from(bytes).equals(expected), name);
    return [[part.start, part.bytes]];
  });

test('chunks are joined to parts of eight MiB, and flush() writes the rest', async () => {
  const MIB = 2 ** 20;
  const store = memory();
  const keeper = new PartWriter(store, KEY, { ...card, bytes: 20 * MIB }, 0);
  await keeper.begin();
  assert.deepEqual(await readCard(store, KEY), { ...card, bytes: 20 * MIB });
  for (let start = 0; start < 20 * MIB; start += 5 * MIB)
    await keeper.append(numberedBytes(5 * MIB, start));
  assert.deepEqual(layout(store), [
    [0, 8 * MIB],
    [8 * MIB, 8 * MIB],
  ]);
  await keeper.flush();
  await keeper.flush();
  assert.deepEqual(layout(store).at(-1), [16 * MIB, 4 * MIB]);
  assert.equal(store.files.size, 4);
});

test('a chunk larger than a part is cut into parts', async (t) => {
  const MIB = 2 ** 20;
  let calls = 0;
  t.mock.method(performance, 'now', () => (calls++ < 99 ? 0 : assert.fail('a part without end')));
  const store = memory();
  const keeper = new PartWriter(store, KEY, { ...card, bytes: 20 * MIB }, 0);
  await keeper.append(numberedBytes(20 * MIB));
  await keeper.flush();
  const parts = [0, 8, 16].map((start) => [start * MIB, Math.min(8, 20 - start) * MIB]);
  assert.deepEqual(layout(store), parts);
});

test('the buffer of a part fits the remaining bytes, at least 64 KiB and at most 8 MiB', async () => {
  for (const [bytes, start, lengthMax] of [
    [100_000, 0, 100_000],
    [100_000, 20_000, 80_000],
    [100_000, 40_000, 65_536],
    [10, 0, 65_536],
    [2 ** 30, 0, 2 ** 23],
  ]) {
    const store = memory();
    const keeper = new PartWriter(store, KEY, { ...card, bytes }, start);
    await keeper.append(numberedBytes(lengthMax - 1, start));
    assert.deepEqual(layout(store), []);
    await keeper.append(numberedBytes(2, start + lengthMax - 1));
    assert.deepEqual(layout(store), [[start, lengthMax]]);
    await keeper.flush();
    assert.deepEqual(layout(store).at(-1), [start + lengthMax, 1]);
  }
});

test('on a slow line a part is written after two seconds', async (t) => {
  let time = 1000;
  t.mock.method(performance, 'now', () => time);
  const store = memory();
  const keeper = new PartWriter(store, KEY, { ...card, bytes: 2 ** 20 }, 0);
  await keeper.append(numberedBytes(5));
  time += 2000;
  await keeper.append(numberedBytes(5, 5));
  assert.deepEqual(layout(store), []);
  time += 1;
  await keeper.append(numberedBytes(5, 10));
  assert.deepEqual(layout(store), [[0, 15]]);
  time += 2000;
  await keeper.append(numberedBytes(5, 15));
  assert.equal(store.files.size, 1);
  time += 1;
  await keeper.append(numberedBytes(5, 20));
  assert.deepEqual(layout(store), [
    [0, 15],
    [15, 10],
  ]);
});

test('a full disk is reported once; the file is deleted and other files stay', async (t) => {
  for (const room of [1, 2]) {
    const store = memory(room + 1);
    await store.put(`${OTHER_KEY}.json`, Uint8Array.of(1));
    const notes = [];
    const keeper = new PartWriter(store, KEY, { ...card, bytes: 10 }, 0, (note) =>
      notes.push(note),
    );
    await keeper.begin();
    await keeper.append(numberedBytes(65_536));
    await keeper.append(numberedBytes(2 * 65_536, 65_536));
    await keeper.flush();
    t.assert.snapshot(notes);
    assert.deepEqual([...store.files.keys()], [`${OTHER_KEY}.json`]);
  }
});

test('an incomplete or damaged card is ignored', async () => {
  const store = memory();
  const read = (value) => {
    store.files.set(`${KEY}.json`, new TextEncoder().encode(value));
    return readCard(store, KEY);
  };
  assert.deepEqual(await read(JSON.stringify(card)), card);
  assert.deepEqual(bytesOfCard(card), store.files.get(`${KEY}.json`));
  for (const key of Object.keys(card)) {
    assert.equal(await read(JSON.stringify({ ...card, [key]: undefined })), undefined, key);
    const otherValue = key === 'bytes' ? '100' : 100;
    assert.equal(await read(JSON.stringify({ ...card, [key]: otherValue })), undefined, key);
  }
  assert.equal(await read('{'), undefined);
  assert.equal(await readCard(store, OTHER_KEY), undefined);
});

test('the name of a part encodes its range and its checksum', () => {
  const checksum = '0123456789abcdef';
  const name = `${KEY}.5.10.${checksum}`;
  assert.deepEqual(partOf(name), { name, key: KEY, start: 5, bytes: 10, checksum });
  for (const name of [
    `${KEY}.json`,
    `${KEY}.5`,
    `${KEY}.5.10`,
    `${KEY}.5.10.0`,
    `x${KEY}.5.10.${checksum}`,
    `${KEY}.5.10.${checksum}.tmp`,
    `${KEY.slice(1)}.5.10.${checksum}`,
  ])
    assert.equal(partOf(name), undefined, name);
});

test('a chain begins at the first byte, takes the longest part each time, and ends at a gap', () => {
  const name = (start, bytes, key = KEY) => `${key}.${start}.${bytes}.${'0'.repeat(16)}`;
  const layoutOf = (...names) =>
    contiguousParts(names, KEY).map(({ start, bytes }) => [start, bytes]);
  assert.deepEqual(layoutOf(), []);
  assert.deepEqual(layoutOf(name(5, 5)), []);
  const otherNames = [name(0, 99, OTHER_KEY), 'x.json'];
  assert.deepEqual(layoutOf(name(15, 1), name(5, 10), name(0, 5), ...otherNames), [
    [0, 5],
    [5, 10],
    [15, 1],
  ]);
  for (const sameStart of [
    [name(0, 5), name(0, 9)],
    [name(0, 9), name(0, 5)],
  ])
    assert.deepEqual(layoutOf(...sameStart, name(5, 2), name(10, 1)), [[0, 9]]);
  assert.deepEqual(layoutOf(name(0, 0), name(0, 5)), [[0, 5]]);
  assert.deepEqual(layoutOf(name(0, 0)), [[0, 0]]);
});

test('a checksum combines two FNV-1a chains over words, then the remaining bytes', () => {
  // The length and the bytes after the last full pair of words begin the first chain; its complement, the second.
  const step = (sum, word) =>
    Number((BigInt.asUintN(32, BigInt(sum ^ word)) * 0x01000193n) % 2n ** 32n);
  const expected = (bytes) => {
    const words = Math.floor(bytes.length / 8) * 8;
    const view = new DataView(Uint8Array.from(bytes).buffer);
    let evenChecksum = bytes.length;
    for (let i = words; i < bytes.length; i++) evenChecksum = step(evenChecksum, bytes[i]);
    let oddChecksum = ~evenChecksum;
    for (let i = 0; i < words; i += 8) {
      evenChecksum = step(evenChecksum, view.getInt32(i, true));
      oddChecksum = step(oddChecksum, view.getInt32(i + 4, true));
    }
    return [evenChecksum, oddChecksum]
      .map((checksum) => (checksum >>> 0).toString(16).padStart(8, '0'))
      .join('');
  };
  for (const length of [0, 1, 7, 8, 9, 15, 16, 31]) {
    const bytes = numberedBytes(length, 3).slice();
    assert.equal(checksumOf(bytes), expected(bytes), `${length} bytes`);
    // The checksum does not depend on the offset of the bytes in their buffer.
    for (const start of [1, 4]) {
      const unalignedView = new Uint8Array(length + 8);
      unalignedView.set(bytes, start);
      assert.equal(checksumOf(unalignedView.subarray(start, start + length)), expected(bytes));
    }
  }
});

test('the key of a file is half of the SHA-256 of its address and version', async () => {
  assert.equal(await hashOf(''), 'e3b0c44298fc1c149afbf4c8996fb924');
  assert.equal(await keyOf('a', 'b'), await hashOf('a\nb'));
  const store = memory();
  for (const name of [`${KEY}.json`, `${KEY}.0.5`, `${OTHER_KEY}.0.5`, KEY])
    store.files.set(name, 0);
  await removeKey(store, KEY);
  assert.deepEqual([...store.files.keys()], [`${OTHER_KEY}.0.5`, KEY]);
});
