/** Links to a backend in a worker or in this thread. The next call replaces a lost backend. */
import { hasWorkers } from '#host';
import { startWorker } from '#start';
import { SinkscopeError, closedError, unpackError } from '../abi/errors.ts';
import { callThrough } from './messages.ts';
import type { Backend, Facts, Report } from './backend.ts';
import type { Job } from './job.ts';
import type { ThreadOptions } from './thread_pool.ts';
import type { Starter } from './worker.ts';
import type { Progress } from '../abi/types.ts';

/** A backend, in this thread or reached by messages. */
export type BackendApi = { [Method in keyof Backend]: Backend[Method] };

/**
 * A link detects a stuck worker by pings: it sends one every `wait` milliseconds and drops the
 * worker after `pings` unanswered ones in a row. Pings are counted instead of time because a laptop
 * may sleep, and then wakes with at most one ping unanswered. CALL_PINGS is used while calls are pending,
 * on hosts that do not report the end of a worker. STOP_PINGS is used from a request to stop a job
 * until that job ends.
 */
const CALL_PINGS = { wait: 5000, pings: 12 };
const STOP_PINGS = { wait: 1000, pings: 4 };

let lastJob = 0;

/** A call whose answer is awaited; `repeat` makes it again, at the next backend. */
type PendingCall = { signal?: AbortSignal; reject: (error: Error) => void; repeat: () => void };

type Listener = (progress: Progress & Facts) => void;
/** Options whose listener also gets what the caller does not. */
export type JobOptions = { signal?: AbortSignal; onProgress?: Listener };

export class Link {
  #address;
  #inWorker;
  #onLost;
  #threadOptions;
  /** Number of the current backend. Reports about the end of an earlier backend are ignored. */
  #generation = 0;
  #backend: Promise<BackendApi> | undefined;
  #end = () => {};
  #closed = false;
  #pendingCalls: Set<PendingCall> = new Set();
  #listeners: Map<number, Listener> = new Map();

  constructor(
    address: string,
    inWorker: boolean | undefined,
    onLost?: (error: SinkscopeError) => void,
    threadOptions?: ThreadOptions,
  ) {
    this.#threadOptions = threadOptions;
    this.#address = address;
    this.#inWorker = inWorker;
    this.#onLost = onLost;
  }

  get isOpen() {
    return this.#backend !== undefined;
  }

  get hasOwnThread() {
    return this.#inWorker ?? hasWorkers;
  }

  /** Calls the backend, or a new one if the last was lost, to which `use` may be repeated. */
  ask<T>(use: (backend: BackendApi) => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (this.#closed) return Promise.reject(closedError('engine'));
    const backend = (this.#backend ??= this.#start());
    const generation = this.#generation;
    return new Promise((resolve, reject) => {
      const repeat = () => void this.ask(use, signal).then(resolve, reject);
      const call = { signal, reject, repeat };
      this.#pendingCalls.add(call);
      backend.then(use).then(
        (answer) => {
          if (this.#pendingCalls.delete(call)) resolve(answer);
        },
        (thrown) => {
          const error = asError(thrown);
          if (error.code === 'lost') this.#lose(generation, error);
          if (this.#pendingCalls.delete(call)) reject(error);
        },
      );
    });
  }

  async job<T>(
    { signal, onProgress }: JobOptions,
    use: (backend: BackendApi, job: Job) => Promise<T>,
  ) {
    signal?.throwIfAborted();
    const job = { id: ++lastJob, reports: onProgress !== undefined };
    let stop = () => {};
    let endWatch = () => {};
    if (onProgress) this.#listeners.set(job.id, onProgress);
    try {
      return await this.ask((backend) => {
        signal?.throwIfAborted();
        signal?.removeEventListener('abort', stop);
        const generation = this.#generation;
        stop = () => {
          void backend.cancel(job.id).catch(() => {});
          const seconds = (STOP_PINGS.wait * (STOP_PINGS.pings + 1)) / 1000;
          const reason = `it did not stop within ${seconds} s, nor answer`;
          const lose = () => this.#lose(generation, lostError(reason), true);
          if (this.hasOwnThread) endWatch = watch(backend, STOP_PINGS, lose);
        };
        signal?.addEventListener('abort', stop);
        return use(backend, job);
      }, signal);
    } catch (error) {
      throw signal?.aborted ? signal.reason : error;
    } finally {
      signal?.removeEventListener('abort', stop);
      endWatch();
      this.#listeners.delete(job.id);
    }
  }

  close() {
    this.#closed = true;
    this.#drop(closedError('engine'));
  }

  async #start(): Promise<BackendApi> {
    const generation = ++this.#generation;
    try {
      return this.hasOwnThread ? await this.#startInWorker(generation) : await this.#startHere();
    } catch (error) {
      if (generation === this.#generation) this.#backend = undefined;
      throw error;
    }
  }

  async #startHere() {
    const { openBackend } = await import('./backend.ts');
    const backend = await openBackend(this.#address, this.#report, this.#threadOptions);
    this.#end = () => void backend.end();
    return backend;
  }

  async #startInWorker(generation: number) {
    let worker: ReturnType<typeof startWorker> | undefined;
    try {
      worker = startWorker();
      this.#end = worker.terminate;
      const failure: Promise<never> = worker.endReason.then((text) =>
        Promise.reject(lostError(text)),
      );
      const calls = callThrough(worker.port, this.#report);
      const starter = calls as unknown as Starter;
      const lock = `sinkscope-${generation}-${Math.random()}`;
      const startPromise = Promise.all([
        starter.holdLock(lock),
        starter.start(this.#address, this.#threadOptions),
      ]);
      const [isHeld] = await Promise.race([startPromise, failure]);
      const backend = calls as unknown as BackendApi;
      failure.catch((error) => this.#lose(generation, error));
      if (isHeld) worker.watch(lock);
      else this.#watchAlways(generation, backend, worker.terminate);
      return backend;
    } catch (thrown) {
      worker?.terminate();
      const error = asError(thrown, 'worker');
      // A worker that close() ended during its start did not fail to start.
      if (this.#closed || this.#inWorker || error.where !== 'worker') throw error;
      // A page may not start workers of another site or from the disk, and a bundle may lack the
      // file. Unless the caller asked for a worker, the page's own thread computes.
      console.warn(
        "sinkscope: engine/worker.js could not be started, so that the engine runs in the page's own thread and blocks it; " +
          'the README has a section on bundlers.',
      );
      this.#inWorker = false;
      return this.#startHere();
    }
  }

  #watchAlways(generation: number, backend: BackendApi, terminate: () => void) {
    const reason = `it has not answered for ${(CALL_PINGS.wait * CALL_PINGS.pings) / 1000} s`;
    const lose = () => this.#lose(generation, lostError(reason));
    const endWatch = watch(backend, CALL_PINGS, lose, () => this.#pendingCalls.size > 0);
    this.#end = () => {
      endWatch();
      terminate();
    };
  }

  /** Ends the backend; `repeats` the calls that wait behind an aborted job, which lost nothing. */
  #lose(generation: number, error: SinkscopeError, repeats: boolean = false) {
    if (generation !== this.#generation || !this.#backend) return;
    this.#drop(error, repeats);
    this.#onLost?.(error);
  }

  #drop(error: SinkscopeError, repeats: boolean = false) {
    this.#backend = undefined;
    this.#end();
    const calls = [...this.#pendingCalls];
    this.#pendingCalls.clear();
    for (const { signal, reject, repeat } of calls)
      if (repeats && !signal?.aborted) repeat();
      else reject(error);
  }

  #report: Report = (job, stage, done, total, facts) =>
    this.#listeners.get(job)?.({ stage, done, total, ...facts });
}

/**
 * Pings a worker, while calls are pending if `isAwaited`, until the returned function is called.
 * Calls `onSilence` when it stays silent.
 */
function watch(
  backend: BackendApi,
  { wait, pings }: typeof CALL_PINGS,
  onSilence: () => void,
  isAwaited: () => boolean = () => true,
): () => void {
  let unansweredPings = 0;
  const onAnswer = () => (unansweredPings = 0);
  const timer = setInterval(() => {
    if (!isAwaited()) return;
    if (unansweredPings++ === pings) onSilence();
    else backend.memory().then(onAnswer, onAnswer);
  }, wait);
  return () => clearInterval(timer);
}

function asError(thrown: unknown, where: string = '') {
  if (thrown instanceof SinkscopeError) return thrown;
  const unpackedError = unpackError(thrown);
  if (unpackedError) return unpackedError;
  return new SinkscopeError('internal', where, String(thrown));
}

function lostError(reason: string) {
  const hint = 'the next call starts it again and reopens the model';
  return new SinkscopeError('lost', 'worker', `it ended (${reason}); ${hint}`);
}
