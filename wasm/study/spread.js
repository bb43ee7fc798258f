/** Work on many items, spread over the workers of an engine. */
import { check, checkOptions } from '../abi/arguments.js';

/**
 * So many items of each replica are under way: one is computed while the messages of another travel.
 */
const DEPTH = 2;
/** So many results may wait for an earlier one, for each item under way. */
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
  let begun = 0;
  let given = 0;
  const start = async (/** @type {typeof replicas[number]} */ replica, /** @type {number} */ i) =>
    work(replica, items[i], i);
  /**
   * Of the items that have begun and were not given yet, in their order.
   * @type {ReturnType<typeof start>[]}
   */
  const made = [];
  const begin = () => {
    for (; begun < Math.min(items.length, given + ahead); begun++) {
      const replica = idle.shift();
      if (!replica) return;
      const result = start(replica, begun);
      const free = () => {
        idle.push(replica);
        begin();
      };
      made.push(result);
      result.then(free, free);
    }
  };
  const stopped = untilAborted(signal);
  try {
    for (; given < items.length; given++) {
      begin();
      const result = /** @type {typeof made[number]} */ (made.shift());
      yield await Promise.race([result, stopped.promise]);
    }
  } finally {
    begun = items.length;
    stopped.release();
  }
}

/**
 * A promise that only the signal ends, by rejecting it.
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
