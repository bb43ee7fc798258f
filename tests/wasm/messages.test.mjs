/** Tests calls between a page and its worker, over ports with both ends in the test. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { SinkscopeError } from '../../wasm/abi/errors.ts';
import { answerCalls, callThrough, transfer } from '../../wasm/engine/messages.ts';
import { randomBits } from '../../wasm/engine/random.ts';

function ports() {
  const log = [];
  const listeners = [];
  const port = (i) => ({
    post: (message, moved) => {
      log.push([message, moved]);
      void Promise.resolve().then(() => listeners[1 - i]?.(message));
    },
    listen: (onMessage) => (listeners[i] = onMessage),
  });
  return { log, nearPort: port(0), farPort: port(1) };
}

test('each call gets its own answer, in whatever order answers arrive', async () => {
  const { log, nearPort, farPort } = ports();
  const calls = callThrough(nearPort, () => {});
  let release = () => {};
  const releasePromise = new Promise((done) => (release = done));
  const addLater = async (x) => (await releasePromise, x + 1);
  answerCalls(farPort, () => ({ late: addLater, double: (x) => 2 * x, nothing: () => undefined }));
  const firstCall = calls.late(1);
  assert.deepEqual([await calls.double(4), await calls.nothing()], [8, undefined]);
  release();
  assert.equal(await firstCall, 2);
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
  const { log, nearPort, farPort } = ports();
  const calls = callThrough(nearPort, () => {});
  const [firstBuffer, secondBuffer] = [new ArrayBuffer(1), new ArrayBuffer(2)];
  answerCalls(farPort, () => ({ give: () => transfer({ other: secondBuffer }, [secondBuffer]) }));
  const message = { one: firstBuffer };
  assert.equal(transfer(message, [firstBuffer]), message);
  await calls.give('plain', message, null);
  assert.deepEqual(
    log.map(([, moved]) => moved),
    [[firstBuffer], [secondBuffer]],
  );
});

test('an error arrives as a value with its place, a report reaches its listener, and a stray answer is dropped', async () => {
  const { nearPort, farPort } = ports();
  const reports = [];
  const calls = callThrough(nearPort, (...report) => reports.push(report));
  const refuse = () => {
    throw new SinkscopeError('read', 'a file', 'expected bytes');
  };
  answerCalls(farPort, () => ({ refuse }));
  await assert.rejects(calls.refuse(), (error) => {
    assert.deepEqual(error, { code: 'read', where: 'a file', text: 'expected bytes' });
    return true;
  });
  await assert.rejects(calls.missing(), ({ code }) => code === 'internal');
  farPort.post({ report: [1, 'run', 2, 3] }, []);
  farPort.post({ id: 99, value: 1 }, []);
  farPort.post({ id: 98, thrown: 1 }, []);
  await new Promise(setImmediate);
  assert.deepEqual(reports, [[1, 'run', 2, 3]]);
});

test('random bits are those of splitmix32', () => {
  for (const seed of [0, 1, 2 ** 32 - 1]) {
    let state = BigInt(seed);
    const toUint32 = (x) => BigInt.asUintN(32, x);
    const expected = Array.from({ length: 5 }, () => {
      state = toUint32(state + 0x9e3779b9n);
      let bits = toUint32((state ^ (state >> 16n)) * 0x21f0aaadn);
      bits = toUint32((bits ^ (bits >> 15n)) * 0x735a2d97n);
      return Number(bits ^ (bits >> 15n));
    });
    const random = randomBits(seed);
    assert.deepEqual(
      expected.map(() => random()),
      expected,
    );
  }
});
