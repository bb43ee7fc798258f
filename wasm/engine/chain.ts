/**
 * Orders actions on shared objects such as runs. An action that changes an object waits for all
 * earlier actions on it; one that only reads it waits for the last change, so that reads travel
 * together.
 */

export class Chain {
  #change: Promise<void> | undefined;
  #reads: Set<Promise<void>> = new Set();

  predecessors(changes: boolean) {
    const change = this.#change ? [this.#change] : [];
    return changes ? [...change, ...this.#reads] : change;
  }

  /** @param act ends when the action ends, and never rejects */
  add(act: Promise<void>, changes: boolean) {
    if (changes) this.#change = act;
    else this.#reads.add(act);
    void act.then(() => {
      if (this.#change === act) this.#change = undefined;
      this.#reads.delete(act);
    });
  }
}

type Turn = { changes?: Chain; reads?: Iterable<Chain>; signal?: AbortSignal };

/**
 * Performs an action when its turn comes, at once when nothing is pending. The action joins all of
 * its chains in this call, so two actions never wait for each other. An action whose signal is
 * aborted while it waits is dropped.
 */
export function runInTurn<T>(
  { changes, reads = [], signal }: Turn,
  act: () => Promise<T>,
): Promise<T> {
  const readChains = [...new Set(reads)].filter((chain) => chain !== changes);
  const predecessors = [
    changes?.predecessors(true) ?? [],
    ...readChains.map((chain) => chain.predecessors(false)),
  ].flat();
  const waits = predecessors.length > 0;
  const abortWatch = untilAborted(waits ? signal : undefined);
  const begin = () => {
    abortWatch.release();
    signal?.throwIfAborted();
    return act();
  };
  const result = waits ? Promise.all(predecessors).then(begin) : act();
  const settled = result.then(
    () => {},
    () => {},
  );
  changes?.add(settled, true);
  for (const chain of readChains) chain.add(settled, false);
  return waits ? Promise.race([result, abortWatch.promise]) : result;
}

/** Returns a promise that only the signal settles, by rejecting it. */
export function untilAborted(signal: AbortSignal | undefined) {
  let stop = () => {};
  const promise: Promise<never> = new Promise((_, reject) => {
    stop = () => reject(signal?.reason);
    if (signal?.aborted) stop();
    else signal?.addEventListener('abort', stop);
  });
  promise.catch(() => {});
  return { promise, release: () => signal?.removeEventListener('abort', stop) };
}
