/**
 * Orders actions on shared objects: one that changes an object waits for all earlier ones, one that
 * only reads it for the last change, so that reads travel together.
 */

export class Chain {
  #change: Promise<void> | undefined;
  #reads: Set<Promise<void>> = new Set();

  predecessors(changes: boolean) {
    const change = this.#change ? [this.#change] : [];
    return changes ? [...change, ...this.#reads] : change;
  }

  /** @param action ends when the action ends, and never rejects */
  add(action: Promise<void>, changes: boolean) {
    if (changes) this.#change = action;
    else this.#reads.add(action);
    void action.then(() => {
      if (this.#change === action) this.#change = undefined;
      this.#reads.delete(action);
    });
  }
}

type Turn = { changedChain?: Chain; readChains?: Iterable<Chain>; signal?: AbortSignal };

/**
 * Performs an action when its turn comes, at once when nothing is pending. The action joins all of
 * its chains in this call, so two actions never wait for each other. An action whose signal is
 * aborted while it waits is dropped.
 */
export function runInTurn<T>(
  { changedChain, readChains = [], signal }: Turn,
  action: () => Promise<T>,
): Promise<T> {
  const otherChains = [...new Set(readChains)].filter((chain) => chain !== changedChain);
  const predecessors = [
    changedChain?.predecessors(true) ?? [],
    ...otherChains.map((chain) => chain.predecessors(false)),
  ].flat();
  const mustWait = predecessors.length > 0;
  const abortWatch = watchAbort(mustWait ? signal : undefined);
  const begin = () => {
    abortWatch.release();
    signal?.throwIfAborted();
    return action();
  };
  const result = mustWait ? Promise.all(predecessors).then(begin) : action();
  const completion = result.then(
    () => {},
    () => {},
  );
  changedChain?.add(completion, true);
  for (const chain of otherChains) chain.add(completion, false);
  return mustWait ? Promise.race([result, abortWatch.promise]) : result;
}

/** Returns a promise that only the signal settles, by rejecting it. */
export function watchAbort(signal: AbortSignal | undefined) {
  let stop = () => {};
  const promise: Promise<never> = new Promise((_, reject) => {
    stop = () => reject(signal?.reason);
    if (signal?.aborted) stop();
    else signal?.addEventListener('abort', stop);
  });
  promise.catch(() => {});
  return { promise, release: () => signal?.removeEventListener('abort', stop) };
}
