/** The thread pool of a module: its threads start when the first large model opens. */
import { canWait, startThread } from '#thread';
import { SinkscopeError } from '../abi/errors.js';

/** @typedef {{ address: string, threads: number }} Shared the binary whose memory so many threads share */

/** Multiplications of a job that make it worth sharing. */
const LEAST = 2 ** 19;
/** Bytes of a thread's stack: a piece calls a few kernels. */
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
   * @param {number} threads the caller's among them
   * @param {number} [least]
   */
  constructor(module, threads, least = LEAST) {
    this.#module = module;
    this.#least = least;
    this.#threads = module.shared && canWait() ? threads : 1;
  }

  /** From here on the threads share each computation; where none can be had, one thread does it all. */
  async start() {
    if (this.#threads === 1) return;
    const threads = this.#threads;
    this.#threads = 1;
    const { binary, memory } = this.#module;
    // They look at the pool as soon as they are there.
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
        // In the middle of a piece it has left its numbers half done.
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
