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
const COMPARED_METRIC = 'hidden_change';

/** Returns the outcome of a promise, so that two can be compared. @param {Promise<unknown>} promise */
const outcome = (promise) =>
  promise.then(
    (value) => ({ value }),
    ({ code, where, message }) => (code ? { code, where } : { message }),
  );

async function drawOne(run, seed) {
  const steps = [];
  for await (const { token, position, att } of run.generate({ count: 1, temperature: 1, seed }))
    steps.push({ token, position, att });
  return steps;
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
  const freshRun = (i) => model.run(tokens[i], options);
  const withRun = async (runPromise, use) => {
    try {
      return await use(runPromise);
    } finally {
      await runPromise.close();
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
      const outcomePromise = outcome(runs[i].update(ids, random(3) ? {} : { signal }));
      const stop = () => controller.abort(new Error('enough'));
      if (!random(3)) void (random(2) ? turn().then(stop) : stop());
      return {
        outcomePromise,
        async check(result) {
          if (result.message === 'enough') return;
          const isRefused = ids.length > CAPACITY || ids.length < 1 || ids[0] === V;
          assert.equal(result.code, isRefused ? 'argument' : undefined);
          if (!isRefused) tokens[i] = ids;
        },
      };
    },
    read(i) {
      const outcomePromise = outcome(runs[i].read(READS));
      return {
        outcomePromise,
        repeat: () => freshRun(i).then((run) => withRun(run, () => run.read(READS))),
      };
    },
    compare(i) {
      const outcomePromise = outcome(runs[i].metric(COMPARED_METRIC, { base: runs[1 - i] }));
      const repeat = async () =>
        withRun(await freshRun(i), async (run) =>
          withRun(await freshRun(1 - i), (base) => run.metric(COMPARED_METRIC, { base })),
        );
      return { outcomePromise, repeat };
    },
    generate(i) {
      const seed = random(1000);
      const outcomePromise = outcome(drawOne(runs[i], seed));
      const repeat = async () => {
        const run = await freshRun(i);
        return withRun(run, async () => {
          const steps = await drawOne(run, seed);
          tokens[i] = [...run.tokens];
          return steps;
        });
      };
      return { outcomePromise, repeat };
    },
    begin(i) {
      const ids = random(2) ? [...runs[i].tokens] : idsOf(4);
      const edits = random(2) ? [] : [{ kind: 'silence', layer: 1, head: 0 }];
      const layer = random(2) ? undefined : 1;
      const beginFrom = (run) =>
        model
          .run(ids, { fields: FIELDS, edits, from: { run, layer } })
          .then((derivedRun) => withRun(derivedRun, () => derivedRun.read(READS)));
      const outcomePromise = outcome(beginFrom(runs[i]));
      return { outcomePromise, repeat: async () => withRun(await freshRun(i), beginFrom) };
    },
    record(i) {
      const outcomePromise = outcome(runs[i].record({ strings }));
      return {
        outcomePromise,
        repeat: async () => withRun(await freshRun(i), (run) => run.record({ strings })),
      };
    },
  };

  const names = Object.keys(KINDS);
  const actions = [];
  for (let n = 0; n < count; n++) {
    const kind = random(4) ? names[random(names.length)] : 'update';
    actions.push({ kind, ...KINDS[kind](random(2)) });
    if (!random(3)) await turn();
    if (!random(12)) await actions.at(-1).ended;
  }
  const closePromises = runs.map((run) => run.close());
  const lateOutcome = await outcome(runs[0].field('loss'));
  assert.deepEqual(lateOutcome, { code: 'closed', where: 'run' });
  await Promise.all(closePromises);
  const kinds = new Set();
  for (const [n, { kind, outcomePromise, repeat, check }] of actions.entries()) {
    const result = await outcomePromise;
    const where = `act ${n}, ${kind}, seed ${seed}`;
    if (repeat) assert.deepEqual(result, await outcome(repeat()), where);
    await check?.(result);
    kinds.add(`${kind} ${result.code ?? result.message ?? 'done'}`);
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
      for (const expectedKind of [
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
        assert.ok(kinds.has(expectedKind), `${expectedKind} is not among ${[...kinds]}`);
    });
  });

test('reads run together, a change waits for earlier reads, and later calls wait for the change', async () => {
  const chain = new Chain();
  const startedNames = [];
  const ends = {};
  const act = (name) => () => {
    startedNames.push(name);
    return new Promise((resolve, reject) => (ends[name] = { resolve, reject }));
  };
  const change = { changedChain: chain };
  const read = { readChains: [chain, chain] };
  const first = runInTurn(read, act('first'));
  const second = runInTurn(read, act('second'));
  const changed = runInTurn({ ...change, ...read }, act('change'));
  const third = runInTurn(read, act('third'));
  const last = runInTurn(change, act('last'));
  assert.deepEqual(startedNames, ['first', 'second']);
  ends.second.resolve(2);
  assert.equal(await second, 2);
  await turn();
  assert.equal(startedNames.length, 2);
  ends.first.reject(new Error('the first call failed'));
  await assert.rejects(first, /the first call failed/);
  await turn();
  assert.deepEqual(startedNames.slice(2), ['change']);
  ends.change.resolve();
  await changed;
  await turn();
  assert.deepEqual(startedNames.slice(3), ['third']);
  ends.third.resolve();
  await third;
  await turn();
  assert.deepEqual(startedNames.slice(4), ['last']);
  ends.last.resolve();
  await last;
  await turn();
  assert.deepEqual(chain.predecessors(true), []);
  const repeat = runInTurn(change, act('again'));
  assert.equal(startedNames.at(-1), 'again');
  ends.again.resolve();
  await repeat;
});

test('a call aborted while it waits rejects at once, keeps its turn, and leaves no listener', async () => {
  const chain = new Chain();
  const startedNames = [];
  let end = () => {};
  const first = runInTurn({ changedChain: chain }, () => new Promise((resolve) => (end = resolve)));
  const controller = new AbortController();
  const { signal } = controller;
  const act = (name) => async () => void startedNames.push(name);
  const abortedAction = runInTurn({ changedChain: chain, signal }, act('aborted'));
  const lateController = new AbortController();
  const waitingAction = runInTurn(
    { changedChain: chain, signal: lateController.signal },
    act('waiting'),
  );
  assert.equal(getEventListeners(signal, 'abort').length, 1);
  controller.abort(new Error('enough'));
  await assert.rejects(abortedAction, /enough/);
  await turn();
  assert.deepEqual(startedNames, []);
  end();
  await Promise.all([first, waitingAction]);
  assert.deepEqual(startedNames, ['waiting']);
  for (const watchedSignal of [signal, lateController.signal])
    assert.equal(getEventListeners(watchedSignal, 'abort').length, 0);
  // Once a call has begun, its own work follows the signal.
  const runningAction = runInTurn({ changedChain: chain, signal: lateController.signal }, () =>
    turn().then(() => 'whole'),
  );
  lateController.abort();
  assert.equal(await runningAction, 'whole');
});
