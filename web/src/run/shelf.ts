/** Keeps what is open, models or recordings, by id. */
import type { Watch } from './opened';

interface Opening<Item> {
  readonly job: AbortController;
  readonly watches: Set<Watch>;
  readonly item: Promise<Item>;
  isDone: boolean;
}

/** Returns the promise's result; rejects when the signal aborts. */
function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop);
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}

export class Shelf<Item> {
  readonly #openings = new Map<string, Opening<Item>>();
  /** The ends of openings that were stopped, since two openings of one id would share files. */
  readonly #ends = new Map<string, Promise<void>>();
  readonly #close: (item: Item) => Promise<void>;

  constructor(close: (item: Item) => Promise<void>) {
    this.#close = close;
  }

  isOpen(id: string): boolean {
    return this.#openings.get(id)?.isDone ?? false;
  }

  /** Returns the item, or opens it. Callers share one opening: a caller that stops waiting does not stop it. */
  get(id: string, watch: Watch, open: (watch: Watch) => Promise<Item>): Promise<Item> {
    const opening = this.#openings.get(id);
    if (!opening) return untilAborted(this.#start(id, watch, open).item, watch.signal);
    opening.watches.add(watch);
    return untilAborted(opening.item, watch.signal);
  }

  #start(id: string, firstWatch: Watch, open: (watch: Watch) => Promise<Item>): Opening<Item> {
    const job = new AbortController();
    const watches = new Set([firstWatch]);
    const onProgress: Watch['onProgress'] = (...progress) =>
      watches.forEach((watch) => watch.signal.aborted || watch.onProgress(...progress));
    const lastEnd = this.#ends.get(id);
    const start = () => open({ signal: job.signal, onProgress });
    const item = (lastEnd ? lastEnd.then(start) : start()).then(
      async (result) => {
        if (this.#openings.get(id) === opening) {
          opening.isDone = true;
          return result;
        }
        // The item was removed while it opened, so no caller gets it.
        await this.#close(result);
        throw job.signal.reason;
      },
      (error: unknown) => {
        if (this.#openings.get(id) === opening) this.#openings.delete(id);
        throw error;
      },
    );
    const opening: Opening<Item> = { job, watches, item, isDone: false };
    this.#openings.set(id, opening);
    return opening;
  }

  #remove(id: string, opening: Opening<Item>): Promise<void> {
    this.#openings.delete(id);
    opening.job.abort();
    const end = opening.item
      .then((item) => (opening.isDone ? this.#close(item) : undefined))
      .catch(() => {})
      .finally(() => this.#ends.get(id) === end && this.#ends.delete(id));
    this.#ends.set(id, end);
    return end;
  }

  /** Stops an opening; what is open stays open. */
  stop(id: string): void {
    const opening = this.#openings.get(id);
    if (opening && !opening.isDone) void this.#remove(id, opening);
  }

  /** Closes all others, or stops opening them. Returns when they are closed; from now on no caller gets one of them. */
  async keepOnly(isKept: (id: string) => boolean): Promise<void> {
    const others = [...this.#openings].filter(([id]) => !isKept(id));
    await Promise.all(others.map(([id, opening]) => this.#remove(id, opening)));
  }
}
