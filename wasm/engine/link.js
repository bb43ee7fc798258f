/** The way to a desk, in a worker or in this thread. A desk that is lost is replaced at the next call. */
import { proxy, wrap } from 'comlink';
import { hasWorkers, startWorker } from '#host';
import { SinkscopeError, unpackError } from '../abi/errors.js';

/** @typedef {import('./backend.js').Desk} Desk */
/** @typedef {import('./job.js').Job} Job */
/** @typedef {import('./worker.js').Door} Door */
/** @typedef {import('../sinkscope.js').Options} Options */
/** @typedef {{ [Method in keyof Desk]: Desk[Method] }} Face a desk, here or behind messages */

/** Where nothing tells that a worker has ended, it is asked so often, and so often in vain. */
const PULSE = { wait: 5000, tries: 12 };
/** Whoever is told to stop and has not stopped after so long is ended; milliseconds. */
const STOPPING = 5000;

let lastJob = 0;

export class Link {
  #address;
  #inWorker;
  #onLost;
  #shared;
  /** Counts the desks, so that what one says at its end does not touch the next. */
  #turn = 0;
  /** @type {Promise<Face> | undefined} */
  #desk;
  #end = () => {};
  #closed = false;
  /** @type {Set<(error: Error) => void>} */
  #waiting = new Set();
  /** @type {Map<number, NonNullable<Options['onProgress']>>} */
  #listeners = new Map();

  /**
   * @param {string} address of the binary
   * @param {boolean | undefined} inWorker
   * @param {(error: SinkscopeError) => void} [onLost]
   * @param {import('./thread_pool.js').Shared} [shared]
   */
  constructor(address, inWorker, onLost, shared) {
    this.#shared = shared;
    this.#address = address;
    this.#inWorker = inWorker;
    this.#onLost = onLost;
  }

  /** Whether there is a desk now. */
  get isOpen() {
    return this.#desk !== undefined;
  }

  /** Whether the desk, once it is open, has a thread of its own. */
  get isAside() {
    return this.#inWorker ?? hasWorkers;
  }

  /**
   * Uses the desk, another one if the last has been lost.
   * @template T
   * @param {(desk: Face) => Promise<T>} use
   * @returns {Promise<T>}
   */
  ask(use) {
    if (this.#closed) return Promise.reject(closed());
    const desk = (this.#desk ??= this.#start());
    const turn = this.#turn;
    return new Promise((resolve, reject) => {
      this.#waiting.add(reject);
      desk
        .then(use)
        .then(resolve, (thrown) => {
          const error = told(thrown);
          if (error.code === 'lost') this.#lose(turn, error);
          reject(error);
        })
        .finally(() => this.#waiting.delete(reject));
    });
  }

  /**
   * Uses the desk for what can be stopped and tells how far it is.
   * @template T
   * @param {Options} options
   * @param {(desk: Face, job: Job) => Promise<T>} use
   */
  async job({ signal, onProgress }, use) {
    signal?.throwIfAborted();
    const job = { id: ++lastJob, told: onProgress !== undefined };
    let stop = () => {};
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let late;
    if (onProgress) this.#listeners.set(job.id, onProgress);
    try {
      return await this.ask((desk) => {
        signal?.throwIfAborted();
        const turn = this.#turn;
        stop = () => {
          void desk.cancel(job.id).catch(() => {});
          const why = `it did not stop within ${STOPPING / 1000} s`;
          if (this.isAside) late = setTimeout(() => this.#lose(turn, gone(why)), STOPPING);
        };
        signal?.addEventListener('abort', stop, { once: true });
        return use(desk, job);
      });
    } catch (error) {
      throw signal?.aborted ? signal.reason : error;
    } finally {
      signal?.removeEventListener('abort', stop);
      clearTimeout(late);
      this.#listeners.delete(job.id);
    }
  }

  close() {
    this.#closed = true;
    this.#drop(closed());
  }

  /** @returns {Promise<Face>} */
  async #start() {
    const turn = ++this.#turn;
    try {
      return this.isAside ? await this.#startAside(turn) : await this.#startHere();
    } catch (error) {
      if (turn === this.#turn) this.#desk = undefined;
      throw error;
    }
  }

  /** The desk's code comes only where no worker has it. */
  async #startHere() {
    const { openDesk } = await import('./backend.js');
    const desk = await openDesk(this.#address, this.#report, this.#shared);
    this.#end = () => void desk.end();
    return desk;
  }

  /** @param {number} turn */
  async #startAside(turn) {
    /** @type {ReturnType<typeof startWorker> | undefined} */
    let worker;
    try {
      worker = startWorker();
      this.#end = worker.terminate;
      /** @type {Promise<never>} */
      const lost = worker.ended.then((text) => Promise.reject(gone(text)));
      const door = /** @type {import('comlink').Remote<Door>} */ (wrap(worker.endpoint));
      const sign = `sinkscope-${turn}-${Math.random()}`;
      const opening = Promise.all([
        door.sign(sign),
        door.open(this.#address, proxy(this.#report), this.#shared),
      ]);
      const [signs, desk] = await Promise.race([opening, lost]);
      lost.catch((error) => this.#lose(turn, error));
      if (signs) worker.watch(sign);
      else this.#watch(turn, desk);
      return desk;
    } catch (thrown) {
      worker?.terminate();
      const error = told(thrown, 'worker');
      if (this.#inWorker || error.where !== 'worker') throw error;
      // A page may not start the worker of another site, nor one from the disk. If none was asked
      // for, its own thread does the work.
      this.#inWorker = false;
      return this.#startHere();
    }
  }

  /**
   * Asks a worker whether it lives, while something is awaited of it.
   * @param {number} turn
   * @param {Face} desk
   */
  #watch(turn, desk) {
    let unanswered = 0;
    const pulse = setInterval(() => {
      if (turn !== this.#turn || !this.#desk) return clearInterval(pulse);
      if (this.#waiting.size === 0) return;
      const seconds = (PULSE.wait * PULSE.tries) / 1000;
      if (unanswered === PULSE.tries)
        this.#lose(turn, gone(`it has not answered for ${seconds} s`));
      else if (unanswered++ === 0) desk.memory().then(() => (unanswered = 0));
    }, PULSE.wait);
  }

  /**
   * @param {number} turn
   * @param {SinkscopeError} error
   */
  #lose(turn, error) {
    if (turn !== this.#turn || !this.#desk) return;
    this.#drop(error);
    this.#onLost?.(error);
  }

  /** @param {SinkscopeError} error */
  #drop(error) {
    this.#desk = undefined;
    this.#end();
    for (const reject of this.#waiting) reject(error);
    this.#waiting.clear();
  }

  /** @type {import('./backend.js').Report} */
  #report = (job, stage, done, total, facts) =>
    this.#listeners.get(job)?.({ stage, done, total, ...facts });
}

/**
 * @param {unknown} thrown
 * @param {string} [where] it happened, if it does not say so itself
 */
function told(thrown, where = '') {
  if (thrown instanceof SinkscopeError) return thrown;
  const packed = unpackError(thrown);
  if (packed) return packed;
  return new SinkscopeError('internal', where, String(thrown));
}

/** @param {string} why */
function gone(why) {
  const next = 'what is asked next starts it anew and opens the model again';
  return new SinkscopeError('lost', 'worker', `it ended (${why}); ${next}`);
}

function closed() {
  return new SinkscopeError('closed', 'engine', 'this engine has been closed');
}
