/**
 * A tokenizer that nobody vouches for: its patterns may take for ever, and its tables the memory. It
 * works in a worker (worker.js), which is ended when it does not answer; the next question starts
 * another.
 */
import { startWorker } from '#text';
import { checkOptions } from '../border/arguments.js';
import { SinkscopeError, expect, unpackError } from '../border/errors.js';

/** @typedef {import('./text.js').GuardedTokenizer} GuardedTokenizer */
/** @typedef {import('./text.js').TokenizerSource} Source */
/** @typedef {import('./text.js').EncodeOptions} Options */
/** @typedef {ReturnType<typeof startWorker>} Worker */

/** Milliseconds that a step of the work may take, and so many more for a text of so many units. */
const LIMIT = 5000;
const LONG = 2 ** 20;

/** Of the parts of a source. */
const KINDS = {
  tokenizer: 'text',
  config: 'text',
  vocab: 'text',
  merges: 'text',
  special_tokens_map: 'text',
  gguf: 'object',
};

/** @type {typeof import('../sinkscope.js').guardTokenizer} */
export async function guardTokenizer(source, options = {}) {
  checkOptions(source, KINDS, 'source');
  checkOptions(options, { signal: 'signal', limit: 'count' });
  const { signal, limit = LIMIT } = options;
  signal?.throwIfAborted();
  const line = new Line(source, limit);
  const stop = () => line.close(signal?.reason);
  signal?.addEventListener('abort', stop, { once: true });
  try {
    return new Guarded(line, await line.open());
  } catch (error) {
    line.close(closed());
    throw error;
  } finally {
    signal?.removeEventListener('abort', stop);
  }
}

function closed() {
  return new SinkscopeError('closed', 'tokenizer', 'this tokenizer has been closed');
}

/**
 * @param {string} where
 * @param {number} limit
 */
function tooSlow(where, limit) {
  const what = where === 'text' ? 'A shorter text may do' : 'Another form of the model may do';
  const text = `expected an answer within ${(limit / 1000).toFixed(1)} s, none came, and the worker was ended`;
  return new SinkscopeError('too_slow', where, `${text}: this tokenizer takes too long. ${what}`);
}

/**
 * @param {string} where
 * @param {string | undefined} reason
 */
function failed(where, reason) {
  const text = `expected a worker that answers, it ended: ${reason ?? 'it could not be started'}`;
  return new SinkscopeError('bad_tokenizer', where, text);
}

/** One question at a time, so that none is charged with the time of another. */
class Line {
  #source;
  #limit;
  /** @type {Worker | undefined} */
  #worker;
  /** @type {Promise<unknown>} */
  #last = Promise.resolve();
  /** Fails the question that is under way. */
  #fail = (/** @type {unknown} */ _reason) => {};
  /** @type {{ reason: unknown } | undefined} */
  #closed;

  /**
   * @param {Source} source
   * @param {number} limit
   */
  constructor(source, limit) {
    this.#source = source;
    this.#limit = limit;
  }

  open() {
    return /** @type {Promise<import('./worker.js').Opened>} */ (this.#queue(() => this.#start()));
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
    this.#end();
  }

  /** @param {import('./worker.js').Question} question */
  #ask(question) {
    return this.#queue(async () => {
      if (!this.#worker) await this.#start();
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

  #start() {
    this.#worker = startWorker();
    // It tells when it has been loaded: a slow network is no fault of the tokenizer.
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
    const length = 'text' in question ? question.text.length : 0;
    const limit = this.#limit * (1 + length / LONG);
    return new Promise((resolve, reject) => {
      /** @type {ReturnType<typeof setTimeout> | undefined} */
      let timer;
      const wait = () => {
        clearTimeout(timer);
        timer = setTimeout(() => this.#fail(tooSlow(where, limit)), limit);
      };
      this.#fail = (reason) => {
        clearTimeout(timer);
        this.#end();
        reject(reason);
      };
      worker.onmessage = ({ data: { isAlive, error, value } }) => {
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
      start: spans[2 * i] ?? 0,
      end: spans[2 * i + 1] ?? 0,
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
    return end === undefined ? `[${id}]` : this.#text.slice(this.#ends[id - 1] ?? 0, end);
  }

  close() {
    this.#line.close(closed());
  }
}
