/** Spreads work on many items over the workers of an engine. */
import { check, checkOptions } from '../abi/arguments.js';

/**
 * Each replica has two items: it computes one while the messages of the other travel.
 */
const DEPTH = 2;
/** Number of results per running item that may wait for an earlier one. */
const AHEAD = 2;

/** @type {typeof import('../sinkscope.js').spread} */
export async function* spread(model, items, work, options = {}) {
  check(model, 'object', 'model');
  check(items, 'list', 'items');
  check(work, 'call', 'work');
  checkOptions(options, { signal: 'signal' });
  const { signal } = options;
  const replicas = model.replicas ?? [model];
  const idle = Array.from({ length: DEPTH }, () => replicas).flat();
  const ahead = AHEAD * idle.length;
  let started = 0;
  let yielded = 0;
  const start = async (/** @type {typeof replicas[number]} */ replica, /** @type {number} */ i) =>
    work(replica, items[i], i);
  /**
   * Results of started items that were not yielded yet, in order.
   * @type {ReturnType<typeof start>[]}
   */
  const pending = [];
  const begin = () => {
    for (; started < Math.min(items.length, yielded + ahead); started++) {
      const replica = idle.shift();
      if (!replica) return;
      const result = start(replica, started);
      const free = () => {
        idle.push(replica);
        begin();
      };
      pending.push(result);
      result.then(free, free);
    }
  };
  const abortion = untilAborted(signal);
  try {
    for (; yielded < items.length; yielded++) {
      begin();
      const result = /** @type {typeof pending[number]} */ (pending.shift());
      yield await Promise.race([result, abortion.promise]);
    }
  } finally {
    started = items.length;
    abortion.release();
  }
}

/**
 * Returns a promise that only the signal settles, by rejecting it.
 * @param {AbortSignal | undefined} signal
 */
function untilAborted(signal) {
  let stop = () => {};
  /** @type {Promise<never>} */
  const promise = new Promise((_, reject) => {
    stop = () => reject(signal?.reason);
    if (signal?.aborted) stop();
    else signal?.addEventListener('abort', stop);
  });
  promise.catch(() => {});
  return { promise, release: () => signal?.removeEventListener('abort', stop) };
}
