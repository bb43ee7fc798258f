/** Spreads work on many items over the workers of an engine. */
import { check, checkOptions } from '../abi/arguments.ts';
import { watchAbort } from '../engine/chain.ts';
import type { Replica } from '../engine/types.ts';
import type { StudyModel } from './types.ts';
import type { Options } from '../abi/types.ts';

/** Items at each replica: while it computes one, the messages of the other travel. */
const ITEMS_PER_REPLICA = 2;
/** Finished results, per running item, that may wait for that of an earlier item. */
const RESULTS_AHEAD = 2;

/**
 * Applies `work` to each item, on all replicas of the model at once, and yields the results in the
 * order of the items, so that they do not depend on the number of replicas.
 * @example
 * const work = async (replica, ids) => {
 *   const run = await replica.run(ids, { fields: ['att'] });
 *   return run.metric('alpha').finally(() => run.close());
 * };
 * for await (const alpha of spread(model, sequences, work, { signal })) add(alpha);
 */
export async function* spread<Item, Result>(
  model: StudyModel,
  items: readonly Item[],
  work: (replica: Replica, item: Item, index: number) => Promise<Result>,
  options: Pick<Options, 'signal'> = {},
): AsyncGenerator<Result, void, undefined> {
  check(model, 'object', 'model');
  check(items, 'list', 'items');
  check(work, 'call', 'work');
  checkOptions(options, { signal: 'signal' });
  const { signal } = options;
  const replicas = model.replicas ?? [model];
  /** Number of items that each replica is at work on. */
  const loads = replicas.map(() => 0);
  const aheadMax = RESULTS_AHEAD * ITEMS_PER_REPLICA * replicas.length;
  let startedCount = 0;
  let yieldedCount = 0;
  const start = async (replica: (typeof replicas)[number], i: number) => work(replica, items[i], i);
  const pendingResults: ReturnType<typeof start>[] = [];
  const startIdle = () => {
    for (; startedCount < Math.min(items.length, yieldedCount + aheadMax); startedCount++) {
      const load = Math.min(...loads);
      if (load === ITEMS_PER_REPLICA) return;
      const replica = loads.indexOf(load);
      loads[replica]++;
      const result = start(replicas[replica], startedCount);
      const release = () => {
        loads[replica]--;
        startIdle();
      };
      pendingResults.push(result);
      result.then(release, release);
    }
  };
  const abortWatch = watchAbort(signal);
  try {
    for (; yieldedCount < items.length; yieldedCount++) {
      // A result that is already there would win the race against the abort.
      signal?.throwIfAborted();
      startIdle();
      const result = pendingResults.shift() as (typeof pendingResults)[number];
      yield await Promise.race([result, abortWatch.promise]);
    }
  } finally {
    startedCount = items.length;
    abortWatch.release();
  }
}
