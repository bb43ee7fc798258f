/**
 * Runs an untrusted tokenizer, whose patterns may never end and whose tables may take all memory,
 * in a worker (worker.ts). A worker that does not answer is ended, and the next question starts
 * another worker. The time limit grows with the size of the input and with the slowness of this machine,
 * so that no honest tokenizer is refused on a busy machine.
 */
import { startWorker } from '#text';
import { checkOptions } from '../abi/arguments.ts';
import { SinkscopeError, closedError, expect, unpackError } from '../abi/errors.ts';
import type {
  GuardedTokenizer,
  OnBuilt,
  TokenizerSource as Source,
  EncodeOptions as Options,
} from './types.ts';
import type { Answer, OpenedTokenizer, EncodedText, Question } from './worker.ts';

interface Worker {
  onmessage(event: { data: Answer }): void;
  onerror(event: { message: string }): void;
  postMessage(message: unknown): void;
  terminate(): void;
}

/** Milliseconds that a small step may take on an idle machine. */
const LIMIT_MS = 5000;

/** The time limit of a text grows by one LIMIT_MS per this many UTF-16 units. */
const TEXT_UNITS_PER_LIMIT = 2 ** 20;
/** The time limit of other steps grows by one LIMIT_MS per this many UTF-16 units, or bytes, of the files. */
const FILE_UNITS_PER_LIMIT = 2 ** 22;

/** Milliseconds that the benchmark of worker.ts takes on an idle machine. */
const BENCHMARK_MS = 15;

const SOURCE_OPTIONS = {
  tokenizer: 'text',
  config: 'text',
  words: 'text',
  vocab: 'text',
  merges: 'text',
  special_tokens_map: 'text',
  gguf: 'object',
};

/**
 * Opens an untrusted tokenizer, whose patterns may never end. Each step (reading the files,
 * building the tables, each text) has `limit` milliseconds, 5000 by default, and as many again per
 * 2^22 units of the files or 2^20 of a text, multiplied by the slowness of this machine, which the
 * worker measures with a benchmark at its start. After 'too_slow' the next step has twice the time. `onBuilt` receives
 * the progress of a GGUF file's merges.
 * @throws SinkscopeError 'too_slow', 'bad_tokenizer', 'unsupported'
 * @example
 * const tokenizer = await guardTokenizer({ tokenizer: await file.text() });
 * const tokens = await tokenizer.encode('Hi');
 * tokenizer.close();
 */
export const guardTokenizer = createGuard(startWorker);

/** Returns `guardTokenizer` with the given function to start the worker, which tests replace. */
export function createGuard(startWorker: () => Worker) {
  return async (
    source: Source | Promise<Source>,
    options: {
      readonly limit?: number;
      readonly signal?: AbortSignal;
      readonly onBuilt?: OnBuilt;
    } = {},
  ): Promise<GuardedTokenizer> => {
    if (!(source instanceof Promise)) checkOptions(source, SOURCE_OPTIONS, 'source');
    checkOptions(options, { signal: 'signal', limit: 'count', onBuilt: 'call' });
    const { signal, limit = LIMIT_MS, onBuilt } = options;
    signal?.throwIfAborted();
    const workerQueue = new WorkerQueue(source, limit, startWorker);
    const close = () => workerQueue.close(signal?.reason);
    signal?.addEventListener('abort', close);
    try {
      return new WorkerTokenizer(workerQueue, await workerQueue.open(onBuilt));
    } catch (error) {
      workerQueue.close(closedError('tokenizer'));
      throw error;
    } finally {
      signal?.removeEventListener('abort', close);
    }
  };
}

const sizeOf = (source: Source) =>
  Object.values(source).reduce((sum, part) => sum + (part?.length ?? 0), 0);

function tooSlowError(where: string, limit: number, slowness: number) {
  const expected = `expected an answer within ${(limit / 1000).toFixed(1)} s, none came, and the worker was ended`;
  const speedText =
    slowness > 1 ? ` (it works at 1/${slowness.toFixed(1)} of its usual speed)` : '';
  const causes = `This machine may be busy${speedText}, or the tokenizer may never end`;
  const advice = where === 'text' ? ', or try a shorter text' : '';
  return new SinkscopeError('too_slow', where, `${expected}. ${causes}: wait longer${advice}`);
}

function workerError(where: string, reason: string | undefined) {
  const text = `expected a worker that answers, it ended: ${reason ?? 'it could not be started'}`;
  return new SinkscopeError('bad_tokenizer', where, text);
}

/** Queues questions to the worker and sends one at a time, so that each has its own time limit. */
class WorkerQueue {
  #source;
  #size = 0;
  #limit;
  #startWorker;
  /** Factor, at least 1, by which this machine was slower than an idle one at the start. */
  #slowness = 1;
  #worker: Worker | undefined;
  #lastResult: Promise<unknown> = Promise.resolve();
  #fail = (_reason: unknown) => {};
  #closing: { reason: unknown } | undefined;

  /** @param source if it is still being read, the worker loads meanwhile */
  constructor(source: Source | Promise<Source>, limit: number, start: () => Worker) {
    this.#source = source;
    this.#limit = limit;
    this.#startWorker = start;
  }

  open(onBuilt?: OnBuilt) {
    return this.#enqueue(() => this.#openWorker(onBuilt)) as Promise<OpenedTokenizer>;
  }

  close(reason: unknown) {
    this.#closing ??= { reason };
    this.#fail(reason);
  }

  ask<Value>(question: Question) {
    return this.#enqueue(async () => {
      if (!this.#worker) await this.#openWorker();
      return this.#send(question, true);
    }) as Promise<Value>;
  }

  #enqueue(task: () => Promise<unknown>) {
    const result = this.#lastResult.then(() => {
      if (this.#closing) throw this.#closing.reason;
      return task();
    });
    this.#lastResult = result.catch(() => {});
    return result;
  }

  #openWorker(onBuilt?: OnBuilt) {
    this.#worker = this.#startWorker();
    const questionOf = (source: Source): Question => {
      this.#size = sizeOf(source);
      return { method: 'open', source };
    };
    const source = this.#source;
    const question = source instanceof Promise ? source.then(questionOf) : questionOf(source);
    return this.#send(question, false, onBuilt);
  }

  #send(
    question: Question | Promise<Question>,
    isLoaded: boolean,
    onBuilt?: OnBuilt,
  ): Promise<unknown> {
    const worker = this.#worker as Worker;
    const where = isLoaded ? 'text' : 'tokenizer';
    return new Promise((resolve, reject) => {
      let timer: ReturnType<typeof setTimeout> | undefined;
      let asked: Question | undefined;
      const startTimer = () => {
        // The time limit begins after loading: a slow network is no fault of the tokenizer.
        if (!asked || !isLoaded) return;
        const extraLimits =
          'text' in asked
            ? asked.text.length / TEXT_UNITS_PER_LIMIT
            : this.#size / FILE_UNITS_PER_LIMIT;
        const limit = this.#limit * this.#slowness * (1 + extraLimits);
        clearTimeout(timer);
        timer = setTimeout(() => {
          // A caller that retries is willing to wait longer.
          this.#limit *= 2;
          this.#fail(tooSlowError(where, limit, this.#slowness));
        }, limit);
      };
      this.#fail = (reason) => {
        clearTimeout(timer);
        this.#endWorker();
        reject(reason);
      };
      worker.onmessage = ({ data: { isAlive, benchmarkMs, built, error, value } }) => {
        if (built) return onBuilt?.(...built);
        if (benchmarkMs !== undefined) this.#slowness = Math.max(1, benchmarkMs / BENCHMARK_MS);
        isLoaded ||= isAlive === true;
        if (isAlive) return startTimer();
        clearTimeout(timer);
        if (error) reject(unpackError(error));
        else resolve(value);
      };
      worker.onerror = ({ message }) => this.#fail(workerError(where, message));
      const post = (value: Question) => {
        asked = value;
        startTimer();
        worker.postMessage(value);
      };
      if (question instanceof Promise) question.then(post).catch(this.#fail);
      else post(question);
    });
  }

  #endWorker() {
    this.#worker?.terminate();
    this.#worker = undefined;
  }
}

class WorkerTokenizer implements GuardedTokenizer {
  #workerQueue;
  #text;
  #ends;

  readonly size;
  readonly bos;
  readonly specials;
  readonly special;
  constructor(workerQueue: WorkerQueue, { size, bos, specials, text, ends }: OpenedTokenizer) {
    this.#workerQueue = workerQueue;
    this.#text = text;
    this.#ends = ends;
    this.size = size;
    this.bos = bos;
    this.specials = specials;
    this.special = specials.map(({ id }) => id);
  }

  async encode(text: string, options?: Options) {
    expect(typeof text === 'string', 'text', 'a string', text);
    const { ids, spans, special } = await this.#workerQueue.ask<EncodedText>({
      method: 'encode',
      text,
      options,
    });
    return Array.from(ids, (id, i) => ({
      id,
      text: this.piece(id),
      start: spans[2 * i],
      end: spans[2 * i + 1],
      special: special[i] === 1,
    }));
  }

  decode(ids: ArrayLike<number>) {
    return this.#workerQueue.ask<string>({ method: 'decode', ids: Array.from(ids) });
  }

  piece(id: number) {
    const end = this.#ends[id];
    return end === undefined ? `[${id}]` : this.#text.slice(id && this.#ends[id - 1], end);
  }

  close() {
    this.#workerQueue.close(closedError('tokenizer'));
  }
}
