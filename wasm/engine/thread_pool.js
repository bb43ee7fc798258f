/** The thread pool of a module: its threads start when the first large model opens. */
import { canWait, startThread } from '#thread';
import { SinkscopeError } from '../abi/errors.js';

/** @typedef {{ address: string, threads: number }} Shared threads: how many share the binary's memory */

/** Jobs with fewer multiplications run on one thread: waking the others costs more. */
const MIN_MULTIPLICATIONS = 2 ** 19;
/** Bytes of a thread's stack, which holds a few nested kernel calls. */
const STACK = 2 ** 18;

export class ThreadPool {
  #module;
  #threads;
  #least;
  /** @type {ReturnType<typeof startThread>[]} */
  #started = [];
  #ended = false;

  /**
   * @param {import('../abi/module.js').Module} module
   * @param {number} threads including the caller's
   * @param {number} [least]
   */
  constructor(module, threads, least = MIN_MULTIPLICATIONS) {
    this.#module = module;
    this.#least = least;
    this.#threads = module.shared && canWait() ? threads : 1;
  }

  /**
   * Starts the threads, which then share each computation; without them one thread computes alone.
   */
  async start() {
    if (this.#threads === 1) return;
    const threads = this.#threads;
    this.#threads = 1;
    const { binary, memory } = this.#module;
    // Threads read the pool as soon as they start.
    this.#module.call('pool', threads, this.#least);
    const ready = Array.from({ length: threads - 1 }, (_, i) => {
      const stack = this.#module.reserve(STACK) + STACK;
      return this.#startThread({ binary, memory, stack, worker: i + 1 });
    });
    await Promise.all(ready);
  }

  /** @param {import('./thread.js').Task} task */
  #startThread(task) {
    let helps = false;
    return new Promise((resolve) => {
      const onReady = () => {
        helps = true;
        resolve(undefined);
      };
      const onEnd = (/** @type {string} */ why) => {
        resolve(undefined);
        // A thread that dies within a piece leaves numbers half done.
        if (helps && !this.#ended)
          this.#module.trap ??= new SinkscopeError('lost', 'thread', `it ended (${why})`);
      };
      const thread = startThread(onReady, onEnd);
      this.#started.push(thread);
      thread.give(task);
    }).catch(() => {});
  }

  end() {
    this.#ended = true;
    for (const thread of this.#started) thread.end();
  }
}
