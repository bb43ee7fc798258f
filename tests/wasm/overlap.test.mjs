// Calls on a run that are not awaited: each sees the result of the one before.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { Chain, runInTurn } from '../../wasm/engine/chain.ts';
import { randomBits } from '../../wasm/engine/random.ts';
import { files, tiny, withEngine } from './helper.mjs';

const turn = () => new Promise(setImmediate);
const CAPACITY = 12;
const FIELDS = ['hidden', 'loss', 'att', 'next', 'q', 'k'];
const READS = [{ field: 'tokens' }, { field: 'hidden' }, { field: 'loss' }, { metric: 'alpha' }];
const COMPARED = 'hidden_change';

/** Returns the outcome of a promise, so that two can be compared. @param {Promise<unknown>} promise */
const outcome = (promise) =>
  promise.then(
    (value) => ({ value }),
    ({ code, where, message }) => (code ? { code, where } : { message }),
  );

async function drawOne(run, seed) {
  const drawn = [];
  for await (const { token, position, att } of run.generate({ count: 1, temperature: 1, seed }))
    drawn.push({ token, position, att });
  return drawn;
}

const strings = (ids) => ids.map(String);

/**
 * Makes random calls on two runs, most of them before earlier ones have ended. Then repeats each call, in the
 * order in which the calls began, on new runs of the tokens at that point.
 */
async function storm(model, seed, count) {
  const draw = randomBits(seed);
  const random = (below) => draw() % below;
  const { V } = model.architecture;
  const idsOf = (n) => Array.from({ length: n }, () => random(V));
  const options = { fields: FIELDS, capacity: CAPACITY };
  const starts = [idsOf(4), idsOf(5)];
  const runs = await Promise.all(starts.map((ids) => model.run(ids, options)));
  const tokens = starts.map((ids) => [...ids]);
  const fresh = (i) => model.run(tokens[i], options);
  const using = async (made, use) => {
    try {
      return await use(made);
    } finally {
      await made.close();
    }
  };

  const KINDS = {
    update(i) {
      const ids = random(3)
        ? [...runs[i].tokens.slice(0, 3), ...idsOf(random(9))]
        : idsOf(1 + random(14));
      if (!random(6)) ids[0] = V;
      const controller = new AbortController();
      const { signal } = controller;
      const ended = outcome(runs[i].update(ids, random(3) ? {} : { signal }));
      const stop = () => controller.abort(new Error('enough'));
      if (!random(3)) void (random(2) ? turn().then(stop) : stop());
      return {
        ended,
        async check(came) {
          if (came.message === 'enough') return;
          const isRefused = ids.length > CAPACITY || ids.length < 1 || ids[0] === V;
          assert.equal(came.code, isRefused ? 'argument' : undefined);
          if (!isRefused) tokens[i] = ids;
        },
      };
    },
    read(i) {
      const ended = outcome(runs[i].read(READS));
      return { ended, again: () => fresh(i).then((run) => using(run, () => run.read(READS))) };
    },
    compare(i) {
      const ended = outcome(runs[i].metric(COMPARED, { base: runs[1 - i] }));
      const again = async () =>
        using(await fresh(i), async (run) =>
          using(await fresh(1 - i), (base) => run.metric(COMPARED, { base })),
        );
      return { ended, again };
    },
    generate(i) {
      const seed = random(1000);
      const ended = outcome(drawOne(runs[i], seed));
      const again = async () => {
        const run = await fresh(i);
        return using(run, async () => {
          const drawn = await drawOne(run, seed);
          tokens[i] = [...run.tokens];
          return drawn;
        });
      };
      return { ended, again };
    },
    begin(i) {
      const ids = random(2) ? [...runs[i].tokens] : idsOf(4);
      const edits = random(2) ? [] : [{ kind: 'silence', layer: 1, head: 0 }];
      const layer = random(2) ? undefined : 1;
      const begun = (run) =>
        model
          .run(ids, { fields: FIELDS, edits, from: { run, layer } })
          .then((made) => using(made, () => made.read(READS)));
      const ended = outcome(begun(runs[i]));
      return { ended, again: async () => using(await fresh(i), begun) };
    },
    record(i) {
      const ended = outcome(runs[i].record({ strings }));
      return { ended, again: async () => using(await fresh(i), (run) => run.record({ strings })) };
    },
  };

  const names = Object.keys(KINDS);
  const acts = [];
  for (let n = 0; n < count; n++) {
    const kind = random(4) ? names[random(names.length)] : 'update';
    acts.push({ kind, ...KINDS[kind](random(2)) });
    if (!random(3)) await turn();
    if (!random(12)) await acts.at(-1).ended;
  }
  const closing = runs.map((run) => run.close());
  const late = await outcome(runs[0].field('loss'));
  assert.deepEqual(late, { code: 'closed', where: 'run' });
  await Promise.all(closing);
  const kinds = new Set();
  for (const [n, { kind, ended, again, check }] of acts.entries()) {
    const came = await ended;
    const where = `act ${n}, ${kind}, seed ${seed}`;
    if (again) assert.deepEqual(came, await outcome(again()), where);
    await check?.(came);
    kinds.add(`${kind} ${came.code ?? came.message ?? 'done'}`);
  }
  assert.deepEqual(
    runs.map((run) => [...run.tokens]),
    tokens,
  );
  return kinds;
}

for (const worker of [false, true])
  test(`calls that are not awaited run in order ${worker ? 'in a worker' : 'in this thread'}`, async () => {
    await withEngine({ worker }, async (engine) => {
      const model = await engine.open(files(tiny));
      const kinds = new Set();
      let memory;
      for (const seed of [1, 2, 3, 4, 5, 6]) {
        for (const kind of await storm(model, seed, 60)) kinds.add(kind);
        if (seed === 3) memory = await engine.memory();
      }
      assert.equal(await engine.memory(), memory);
      // The random calls must include every kind with each of its outcomes.
      for (const one of [
        'update done',
        'update enough',
        'update argument',
        'read done',
        'compare done',
        'compare bad_request',
        'generate done',
        'generate argument',
        'begin done',
        'begin bad_request',
        'record done',
      ])
        assert.ok(kinds.has(one), `${one} is not among ${[...kinds]}`);
    });
  });

test('reads run together, a change waits for earlier reads, and later calls wait for the change', async () => {
  const chain = new Chain();
  const began = [];
  const ends = {};
  const act = (name) => () => {
    began.push(name);
    return new Promise((resolve, reject) => (ends[name] = { resolve, reject }));
  };
  const change = { changedChain: chain };
  const read = { readChains: [chain, chain] };
  const first = runInTurn(read, act('first'));
  const second = runInTurn(read, act('second'));
  const changed = runInTurn({ ...change, ...read }, act('change'));
  const third = runInTurn(read, act('third'));
  const last = runInTurn(change, act('last'));
  assert.deepEqual(began, ['first', 'second']);
  ends.second.resolve(2);
  assert.equal(await second, 2);
  await turn();
  assert.equal(began.length, 2);
  ends.first.reject(new Error('the first call failed'));
  await assert.rejects(first, /the first call failed/);
  await turn();
  assert.deepEqual(began.slice(2), ['change']);
  ends.change.resolve();
  await changed;
  await turn();
  assert.deepEqual(began.slice(3), ['third']);
  ends.third.resolve();
  await third;
  await turn();
  assert.deepEqual(began.slice(4), ['last']);
  ends.last.resolve();
  await last;
  await turn();
  assert.deepEqual(chain.predecessors(true), []);
  const again = runInTurn(change, act('again'));
  assert.equal(began.at(-1), 'again');
  ends.again.resolve();
  await again;
});

test('a call aborted while it waits rejects at once, keeps its turn, and leaves no listener', async () => {
  const chain = new Chain();
  const began = [];
  let end = () => {};
  const first = runInTurn({ changedChain: chain }, () => new Promise((resolve) => (end = resolve)));
  const controller = new AbortController();
  const { signal } = controller;
  const act = (name) => async () => void began.push(name);
  const aborted = runInTurn({ changedChain: chain, signal }, act('aborted'));
  const late = new AbortController();
  const waiting = runInTurn({ changedChain: chain, signal: late.signal }, act('waiting'));
  assert.equal(getEventListeners(signal, 'abort').length, 1);
  controller.abort(new Error('enough'));
  await assert.rejects(aborted, /enough/);
  await turn();
  assert.deepEqual(began, []);
  end();
  await Promise.all([first, waiting]);
  assert.deepEqual(began, ['waiting']);
  for (const one of [signal, late.signal]) assert.equal(getEventListeners(one, 'abort').length, 0);
  // Once a call has begun, its own work follows the signal.
  const busy = runInTurn({ changedChain: chain, signal: late.signal }, () =>
    turn().then(() => 'whole'),
  );
  late.abort();
  assert.equal(await busy, 'whole');
});
