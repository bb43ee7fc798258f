/**
 * Runs an untrusted tokenizer, whose patterns may never end and whose tables may take all memory,
 * in a worker (worker.js). A worker that does not answer is ended, and the next question starts
 * another. The time limit grows with the size of the input and with the slowness of this machine,
 * so that a busy machine refuses no honest tokenizer.
 */
import { startWorker } from '#text';
import { checkOptions } from '../abi/arguments.js';
import { SinkscopeError, expect, unpackError } from '../abi/errors.js';

/** @typedef {import('./text.js').GuardedTokenizer} GuardedTokenizer */
/** @typedef {import('./text.js').TokenizerSource} Source */
/** @typedef {import('./text.js').EncodeOptions} Options */
/** @typedef {ReturnType<typeof startWorker>} Worker */

/** Milliseconds that a small step may take on an idle machine. */
const LIMIT = 5000;

/** Units of a text, or of files, that extend the limit once more. */
const LONG_TEXT = 2 ** 20;
const LONG_FILES = 2 ** 22;

/** A list entry counts as this many units. */
const ENTRY = 16;

/** Milliseconds that worker.js's benchmark takes on an idle machine. */
const BENCHMARK_MS = 30;

/** Kinds of the parts of a source. */
const KINDS = {
  tokenizer: 'text',
  config: 'text',
  words: 'text',
  vocab: 'text',
  merges: 'text',
  special_tokens_map: 'text',
  gguf: 'object',
};

/** @type {typeof import('../sinkscope.js').guardTokenizer} */
export const guardTokenizer = guardBy(startWorker);

/**
 * @param {typeof startWorker} start
 * @returns {typeof import('../sinkscope.js').guardTokenizer}
 */
export function guardBy(start) {
  return async (source, options = {}) => {
    checkOptions(source, KINDS, 'source');
    checkOptions(options, { signal: 'signal', limit: 'count' });
    const { signal, limit = LIMIT } = options;
    signal?.throwIfAborted();
    const line = new Line(source, limit, start);
    const stop = () => line.close(signal?.reason);
    signal?.addEventListener('abort', stop);
    try {
      return new Guarded(line, await line.open());
    } catch (error) {
      line.close(closed());
      throw error;
    } finally {
      signal?.removeEventListener('abort', stop);
    }
  };
}

/**
 * Returns the size of a tokenizer's files in units.
 * @param {Source} source
 */
function sizeOf(source) {
  const parts = 'gguf' in source ? [...source.gguf.values()] : Object.values(source);
  const sizes = parts.map((part) => {
    if (typeof part === 'string') return part.length;
    return ENTRY * (Object(part).length || 0);
  });
  return sizes.reduce((sum, size) => sum + size, 0);
}

function closed() {
  return new SinkscopeError('closed', 'tokenizer', 'this tokenizer has been closed');
}

/**
 * @param {string} where
 * @param {number} limit
 * @param {number} slowness
 */
function tooSlow(where, limit, slowness) {
  const expected = `expected an answer within ${(limit / 1000).toFixed(1)} s, none came, and the worker was ended`;
  const pace = slowness > 1 ? ` (it works at 1/${slowness.toFixed(1)} of its usual speed)` : '';
  const causes = `This machine may be busy${pace}, or the tokenizer may never end`;
  const what = where === 'text' ? ', or try a shorter text' : '';
  return new SinkscopeError('too_slow', where, `${expected}. ${causes}: wait longer${what}`);
}

/**
 * @param {string} where
 * @param {string | undefined} reason
 */
function failed(where, reason) {
  const text = `expected a worker that answers, it ended: ${reason ?? 'it could not be started'}`;
  return new SinkscopeError('bad_tokenizer', where, text);
}

/** Sends one question at a time, so that each has its own time limit. */
class Line {
  #source;
  #size;
  #limit;
  #start;
  /**
   * Factor, at least 1, by which this machine was slower than an idle one when the worker loaded.
   */
  #slowness = 1;
  /** @type {Worker | undefined} */
  #worker;
  /** @type {Promise<unknown>} */
  #last = Promise.resolve();
  /** Fails the current question and ends the worker. */
  #fail = (/** @type {unknown} */ _reason) => {};
  /** @type {{ reason: unknown } | undefined} */
  #closed;

  /**
   * @param {Source} source
   * @param {number} limit
   * @param {typeof startWorker} start
   */
  constructor(source, limit, start) {
    this.#source = source;
    this.#size = sizeOf(source);
    this.#limit = limit;
    this.#start = start;
  }

  open() {
    return /** @type {Promise<import('./worker.js').Opened>} */ (this.#queue(() => this.#begin()));
  }

  /** @param {import('./worker.js').Encode} question */
  encode(question) {
    return /** @type {Promise<import('./worker.js').Encoded>} */ (this.#ask(question));
  }

  /** @param {import('./worker.js').Decode} question */
  decode(question) {
    return /** @type {Promise<string>} */ (this.#ask(question));
  }

  /** @param {unknown} reason */
  close(reason) {
    this.#closed ??= { reason };
    this.#fail(reason);
  }

  /** @param {import('./worker.js').Question} question */
  #ask(question) {
    return this.#queue(async () => {
      if (!this.#worker) await this.#begin();
      return this.#send(question, true);
    });
  }

  /** @param {() => Promise<unknown>} work */
  #queue(work) {
    const done = this.#last.then(() => {
      if (this.#closed) throw this.#closed.reason;
      return work();
    });
    this.#last = done.catch(() => {});
    return done;
  }

  #begin() {
    this.#worker = this.#start();
    // The limit starts when the worker reports that it has loaded: a slow network is not the
    // tokenizer's fault.
    return this.#send({ method: 'open', source: this.#source }, false);
  }

  /**
   * @param {import('./worker.js').Question} question
   * @param {boolean} isLoaded
   * @returns {Promise<unknown>}
   */
  #send(question, isLoaded) {
    const worker = /** @type {Worker} */ (this.#worker);
    const where = question.method === 'open' ? 'tokenizer' : 'text';
    const share = 'text' in question ? question.text.length / LONG_TEXT : this.#size / LONG_FILES;
    return new Promise((resolve, reject) => {
      /** @type {ReturnType<typeof setTimeout> | undefined} */
      let timer;
      const wait = () => {
        const limit = this.#limit * this.#slowness * (1 + share);
        clearTimeout(timer);
        timer = setTimeout(() => {
          // A caller who asks again is willing to wait longer.
          this.#limit *= 2;
          this.#fail(tooSlow(where, limit, this.#slowness));
        }, limit);
      };
      this.#fail = (reason) => {
        clearTimeout(timer);
        this.#end();
        reject(reason);
      };
      worker.onmessage = ({ data: { isAlive, took, error, value } }) => {
        if (took !== undefined) this.#slowness = Math.max(1, took / BENCHMARK_MS);
        if (isAlive) return wait();
        clearTimeout(timer);
        if (error) reject(unpackError(error));
        else resolve(value);
      };
      worker.onerror = ({ message }) => this.#fail(failed(where, message));
      if (isLoaded) wait();
      worker.postMessage(question);
    });
  }

  #end() {
    this.#worker?.terminate();
    this.#worker = undefined;
  }
}

/** @implements {GuardedTokenizer} */
class Guarded {
  #line;
  #text;
  #ends;

  /**
   * @param {Line} line
   * @param {import('./worker.js').Opened} opened
   */
  constructor(line, { size, bos, specials, text, ends }) {
    this.#line = line;
    this.#text = text;
    this.#ends = ends;
    this.size = size;
    this.bos = bos;
    this.specials = specials;
    this.special = specials.map(({ id }) => id);
  }

  /**
   * @param {string} text
   * @param {Options} [options]
   */
  async encode(text, options) {
    expect(typeof text === 'string', 'text', 'a string', text);
    const { ids, spans, special } = await this.#line.encode({ method: 'encode', text, options });
    return Array.from(ids, (id, i) => ({
      id,
      text: this.piece(id),
      start: spans[2 * i],
      end: spans[2 * i + 1],
      special: special[i] === 1,
    }));
  }

  /** @param {ArrayLike<number>} ids */
  decode(ids) {
    return this.#line.decode({ method: 'decode', ids: Array.from(ids) });
  }

  /** @param {number} id */
  piece(id) {
    const end = this.#ends[id];
    return end === undefined ? `[${id}]` : this.#text.slice(id && this.#ends[id - 1], end);
  }

  close() {
    this.#line.close(closed());
  }
}
