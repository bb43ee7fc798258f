/** The thread pool of a module: its threads start when the first large model opens. */
import { canWait, startThread } from '#thread';
import { SinkscopeError } from '../abi/errors.ts';
import type { Module } from '../abi/module.ts';
import type { Task } from './thread.ts';

export type ThreadOptions = { address: string; threads: number };

/** Jobs with fewer multiplications run on one thread: waking the others costs more. */
const MIN_MULTIPLICATIONS = 2 ** 19;
/** Bytes of a thread's stack, which holds a few nested kernel calls. */
const STACK_BYTES = 2 ** 18;

export class ThreadPool {
  #module;
  #threadCount;
  #minMultiplications;
  #startedThreads: ReturnType<typeof startThread>[] = [];
  #started: Promise<unknown> | undefined;
  #ended = false;

  /** @param threads including the caller's */
  constructor(module: Module, threads: number, minMultiplications: number = MIN_MULTIPLICATIONS) {
    this.#module = module;
    this.#minMultiplications = minMultiplications;
    this.#threadCount = module.sharedMemory && canWait() ? threads : 1;
  }

  /** Starts the threads; without them one thread computes alone. Every caller awaits them. */
  async start() {
    if (this.#threadCount > 1) await (this.#started ??= this.#startThreads(this.#threadCount));
  }

  #startThreads(threads: number) {
    const { binary, memory } = this.#module;
    // The core's pool must be set up first: threads read it as soon as they start.
    this.#module.call('pool', threads, this.#minMultiplications);
    const starts = Array.from({ length: threads - 1 }, (_, i) => {
      const stack = this.#module.reserve(STACK_BYTES) + STACK_BYTES;
      return this.#startThread({ binary, memory, stack, worker: i + 1 });
    });
    return Promise.all(starts);
  }

  #startThread(task: Task) {
    let isReady = false;
    return new Promise<void>((resolve) => {
      const onReady = () => {
        isReady = true;
        resolve();
      };
      const onEnd = (reason: string) => {
        resolve();
        // A thread that dies during a computation leaves incomplete results.
        if (isReady && !this.#ended)
          this.#module.trap ??= new SinkscopeError('lost', 'thread', `it ended (${reason})`);
      };
      try {
        const thread = startThread(onReady, onEnd);
        this.#startedThreads.push(thread);
        thread.give(task);
      } catch {
        // A host may refuse to start a thread; the threads that it has started do the work.
        resolve();
      }
    });
  }

  end() {
    this.#ended = true;
    for (const thread of this.#startedThreads) thread.end();
  }
}
