/**
 * Orders actions on shared objects such as runs. An action that changes an object waits for all
 * earlier actions on it; one that only reads it waits for the last change, so that reads travel
 * together.
 */

export class Chain {
  /** @type {Promise<void> | undefined} */
  #change;
  /** Pending reads. @type {Set<Promise<void>>} */
  #reads = new Set();

  /** Returns what the next action waits for. @param {boolean} changes */
  before(changes) {
    const change = this.#change ? [this.#change] : [];
    return changes ? [...change, ...this.#reads] : change;
  }

  /** @param {Promise<void>} act that never rejects @param {boolean} changes */
  add(act, changes) {
    if (changes) this.#change = act;
    else this.#reads.add(act);
    void act.then(() => {
      if (this.#change === act) this.#change = undefined;
      this.#reads.delete(act);
    });
  }
}

/**
 * Performs an action when its turn comes, at once when nothing is pending. The action joins all of
 * its chains in this call, so two actions never wait for each other. An action whose signal is
 * aborted while it waits is dropped.
 * @template T
 * @param {{ changes?: Chain, reads?: Iterable<Chain>, signal?: AbortSignal }} on
 * @param {() => Promise<T>} act
 * @returns {Promise<T>}
 */
export function inTurn({ changes, reads = [], signal }, act) {
  const read = [...new Set(reads)].filter((chain) => chain !== changes);
  const before = [changes?.before(true) ?? [], ...read.map((chain) => chain.before(false))].flat();
  /** @type {(error: unknown) => void} */
  let giveUp = () => {};
  /** @type {Promise<never>} */
  const aborted = new Promise((_, reject) => (giveUp = reject));
  const stop = () => giveUp(signal?.reason);
  const begin = () => {
    signal?.removeEventListener('abort', stop);
    signal?.throwIfAborted();
    return act();
  };
  if (before.length) signal?.addEventListener('abort', stop);
  const done = before.length ? Promise.all(before).then(begin) : act();
  const over = done.then(
    () => {},
    () => {},
  );
  changes?.add(over, true);
  for (const chain of read) chain.add(over, false);
  return before.length ? Promise.race([done, aborted]) : done;
}
