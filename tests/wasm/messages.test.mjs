/** Tests calls between a page and its worker, over ports with both ends in the test. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { SinkscopeError } from '../../wasm/abi/errors.ts';
import { answerCalls, callThrough, transfer } from '../../wasm/engine/messages.ts';
import { randomBits } from '../../wasm/engine/random.ts';

function ports() {
  const log = [];
  const hears = [];
  const port = (i) => ({
    post: (message, moved) => {
      log.push([message, moved]);
      void Promise.resolve().then(() => hears[1 - i]?.(message));
    },
    listen: (hear) => (hears[i] = hear),
  });
  return { log, near: port(0), far: port(1) };
}

test('each call gets its own answer, in whatever order answers arrive', async () => {
  const { log, near, far } = ports();
  const calls = callThrough(near, () => {});
  let release = () => {};
  const held = new Promise((done) => (release = done));
  const late = async (x) => (await held, x + 1);
  answerCalls(far, () => ({ late, double: (x) => 2 * x, nothing: () => undefined }));
  const first = calls.late(1);
  assert.deepEqual([await calls.double(4), await calls.nothing()], [8, undefined]);
  release();
  assert.equal(await first, 2);
  assert.deepEqual(
    log.slice(0, 2).map(([{ id, name, args }]) => [id, name, args]),
    [
      [1, 'late', [1]],
      [2, 'double', [4]],
    ],
  );
  assert.equal(await Promise.resolve(calls).then((same) => same === calls), true);
});

test('transferred buffers are moved, as arguments and as answers', async () => {
  const { log, near, far } = ports();
  const calls = callThrough(near, () => {});
  const [one, other] = [new ArrayBuffer(1), new ArrayBuffer(2)];
  answerCalls(far, () => ({ give: () => transfer({ other }, [other]) }));
  const sent = { one };
  assert.equal(transfer(sent, [one]), sent);
  await calls.give('plain', sent, null);
  assert.deepEqual(
    log.map(([, moved]) => moved),
    [[one], [other]],
  );
});

test('an error arrives as a value with its place, a report reaches its listener, and a stray answer is dropped', async () => {
  const { near, far } = ports();
  const reports = [];
  const calls = callThrough(near, (...report) => reports.push(report));
  const refuse = () => {
    throw new SinkscopeError('read', 'a file', 'expected bytes');
  };
  answerCalls(far, () => ({ refuse }));
  await assert.rejects(calls.refuse(), (error) => {
    assert.deepEqual(error, { code: 'read', where: 'a file', text: 'expected bytes' });
    return true;
  });
  await assert.rejects(calls.missing(), ({ code }) => code === 'internal');
  far.post({ report: [1, 'run', 2, 3] }, []);
  far.post({ id: 99, value: 1 }, []);
  far.post({ id: 98, thrown: 1 }, []);
  await new Promise(setImmediate);
  assert.deepEqual(reports, [[1, 'run', 2, 3]]);
});

test('random bits are those of splitmix32', () => {
  for (const seed of [0, 1, 2 ** 32 - 1]) {
    let state = BigInt(seed);
    const wide = (x) => BigInt.asUintN(32, x);
    const expected = Array.from({ length: 5 }, () => {
      state = wide(state + 0x9e3779b9n);
      let bits = wide((state ^ (state >> 16n)) * 0x21f0aaadn);
      bits = wide((bits ^ (bits >> 15n)) * 0x735a2d97n);
      return Number(bits ^ (bits >> 15n));
    });
    const random = randomBits(seed);
    assert.deepEqual(
      expected.map(() => random()),
      expected,
    );
  }
});
