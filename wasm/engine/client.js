/** What sinkscope.d.ts promises, over a desk in a worker or in this thread. */
import { proxy, wrap } from 'comlink';
import { hasWorkers, startWorker } from '#host';
import { Desk, openDesk } from './desk.js';
import { SinkscopeError, expect, expectInteger, unpackError } from '../border/errors.js';
import { randomBits } from './random.js';
import { chooseBinary } from '../border/variants.js';

/** @typedef {import('../sinkscope.js').Engine} EngineShape */
/** @typedef {import('../sinkscope.js').Model} ModelShape */
/** @typedef {import('../sinkscope.js').Run} RunShape */
/** @typedef {import('../sinkscope.js').Options} Options */
/** @typedef {(method: string, ...args: any[]) => Promise<any>} Call */

/** Room for generated tokens when none was asked for. */
const SPARE_TOKENS = 64;

/** @type {typeof import('../sinkscope.js').createEngine} */
export async function createEngine(options = {}) {
  const { kernels = 'auto' } = options;
  const address = new URL(await chooseBinary(kernels), folder(options.base)).href;
  const link = await connect(options.worker, address);
  try {
    return new Engine(link, await link.call('describe'));
  } catch (error) {
    link.close();
    throw error;
  }
}

/**
 * A link to a desk that has loaded its binary. A page may not start the worker of another site, nor
 * one from the disk; if none was asked for, its own thread does the work then.
 * @param {boolean | undefined} worker
 * @param {string} address
 */
async function connect(worker, address) {
  if (worker ?? hasWorkers) {
    /** @type {WorkerLink | undefined} */
    let link;
    try {
      link = new WorkerLink(await startWorker());
      await link.call('load', address);
      return link;
    } catch (error) {
      link?.close();
      const failedToStart = !(error instanceof SinkscopeError) || error.where === 'worker';
      if (worker || !failedToStart) throw error;
    }
  }
  const link = new LocalLink();
  await link.call('load', address);
  return link;
}

/**
 * Where the binaries lie: above this folder. The address of this module stands in a variable, so that no bundler
 * takes it for a file to copy.
 * @param {URL | string | undefined} base
 */
function folder(base) {
  const here = import.meta.url;
  if (base === undefined) return new URL('..', here);
  const address = new URL(base, globalThis.document?.baseURI ?? here);
  if (!address.pathname.endsWith('/')) address.pathname += '/';
  return address;
}

/** Calls a desk in this thread. */
class LocalLink {
  /** @type {Desk | undefined} */
  #desk;
  #closed = false;

  /** @type {Call} */
  async call(method, ...args) {
    if (this.#closed) throw closedEngine();
    if (method === 'load') this.#desk = await openDesk(args[0]);
    else return /** @type {any} */ (this.#desk)[method](...args);
  }

  close() {
    this.#closed = true;
    this.#desk = undefined;
  }
}

/** Calls a desk in a worker. A worker that dies rejects what is under way, and all later calls. */
class WorkerLink {
  #worker;
  #remote;
  /** @type {Set<(error: Error) => void>} */
  #waiting = new Set();
  /** @type {Error | undefined} */
  #broken;

  /** @param {any} worker */
  constructor(worker) {
    this.#worker = worker;
    this.#remote = /** @type {any} */ (wrap(worker));
    worker.addEventListener('error', (/** @type {any} */ event) => {
      const text = `the worker failed: ${event?.message ?? event}`;
      this.#break(new SinkscopeError('internal', 'worker', text));
    });
  }

  /** @type {Call} */
  call(method, ...args) {
    if (this.#broken) return Promise.reject(this.#broken);
    const sent = args.map((arg) => (typeof arg === 'function' ? proxy(arg) : arg));
    return new Promise((resolve, reject) => {
      this.#waiting.add(reject);
      this.#remote(method, ...sent)
        .then((/** @type {any} */ answer) =>
          answer.error ? reject(unpackError(answer.error)) : resolve(answer.value),
        )
        .catch((/** @type {unknown} */ error) =>
          reject(new SinkscopeError('argument', method, `could not be sent: ${String(error)}`)),
        )
        .finally(() => this.#waiting.delete(reject));
    });
  }

  close() {
    this.#break(closedEngine());
  }

  /** @param {Error} error */
  #break(error) {
    if (this.#broken) return;
    this.#broken = error;
    for (const reject of this.#waiting) reject(error);
    this.#worker.terminate();
  }
}

function closedEngine() {
  return new SinkscopeError('closed', 'engine', 'this engine has been closed');
}

/**
 * A source as it can be posted: of an address, which cannot, its text.
 * @param {any} source
 * @param {string} name
 * @param {boolean} mayBeText
 */
function sendable(source, name, mayBeText) {
  if (source instanceof URL) return { url: source.href };
  if (source?.url instanceof URL || typeof source?.url === 'string') {
    return { ...source, url: new URL(source.url).href };
  }
  const bytes = source instanceof Uint8Array || source instanceof Blob;
  const kinds = `a ${mayBeText ? 'string, ' : ''}Uint8Array, Blob or URL`;
  expect(bytes || (mayBeText && typeof source === 'string'), name, kinds, source);
  return source;
}

let lastJob = 0;

/**
 * Calls a method that can be stopped and that tells how far it is.
 * @param {Call} call
 * @param {Options} options
 * @param {string} method
 * @param {...any} args
 */
async function callJob(call, { signal, onProgress }, method, ...args) {
  signal?.throwIfAborted();
  const job = ++lastJob;
  const stop = () => void call('cancel', job).catch(() => {});
  const report =
    onProgress &&
    ((
      /** @type {string} */ stage,
      /** @type {number} */ done,
      /** @type {number} */ total,
      /** @type {import('../sinkscope.js').ReadFacts | undefined} */ facts,
    ) => onProgress({ stage, done, total, ...facts }));
  signal?.addEventListener('abort', stop, { once: true });
  try {
    return await call(method, job, ...args, ...(report ? [report] : []));
  } catch (error) {
    throw signal?.aborted ? signal.reason : error;
  } finally {
    signal?.removeEventListener('abort', stop);
  }
}

/**
 * Stopped after the last chunk, before the answer came: what was made is given back.
 * @param {AbortSignal | undefined} signal
 * @param {{ close(): Promise<void> }} made
 */
async function dropIfAborted(signal, made) {
  if (!signal?.aborted) return;
  await made.close();
  throw signal.reason;
}

/** @implements {EngineShape} */
class Engine {
  #link;

  /**
   * @param {LocalLink | WorkerLink} link
   * @param {import('../sinkscope.js').Describe} describe
   */
  constructor(link, describe) {
    this.#link = link;
    this.describe = describe;
  }

  /**
   * @param {import('../sinkscope.js').ModelFiles} files
   * @param {Options} [options]
   */
  async open({ config, weights }, options = {}) {
    const all = Array.isArray(weights) ? weights : [weights];
    expect(all.length > 0, 'weights', 'at least one file', weights);
    const files = {
      config: config === undefined ? undefined : sendable(config, 'config', true),
      weights: all.map((source) => sendable(source, 'weights', false)),
    };
    const call = this.#call;
    const { model, architecture } = await callJob(call, options, 'open', files);
    const opened = new Model(call, model, architecture, this.describe);
    await dropIfAborted(options.signal, opened);
    return opened;
  }

  async memory() {
    return /** @type {Promise<number>} */ (this.#link.call('memory'));
  }

  async close() {
    this.#link.close();
  }

  /** @type {Call} */
  #call = (method, ...args) => this.#link.call(method, ...args);
}

/** @implements {ModelShape} */
class Model {
  #call;
  #id;

  /**
   * @param {Call} call
   * @param {number} id
   * @param {import('../sinkscope.js').Architecture} architecture
   * @param {import('../sinkscope.js').Describe} describe
   */
  constructor(call, id, architecture, describe) {
    this.#call = call;
    this.#id = id;
    this.architecture = architecture;
    this.describe = describe;
  }

  /** @param {string} key */
  async metadata(key) {
    expect(typeof key === 'string', 'key', 'a string', key);
    return this.#call('metadata', this.#id, key);
  }

  /**
   * @param {ArrayLike<number>} tokens
   * @param {import('../sinkscope.js').RunOptions} [options]
   */
  async run(tokens, options = {}) {
    const { context, V } = this.architecture;
    expectInteger(tokens?.length, 1, context, 'tokens.length');
    const ids = Array.from(tokens);
    ids.forEach((id, i) => expectInteger(id, 0, V - 1, `tokens[${i}]`));
    const { fields, edits = [] } = options;
    const { capacity = Math.min(context, ids.length + SPARE_TOKENS) } = options;
    expectInteger(capacity, ids.length, context, 'capacity');
    const wanted = { fields, edits, capacity };
    const sent = Int32Array.from(ids);
    const id = await callJob(this.#call, options, 'run', this.#id, sent, wanted);
    const run = new Run(this.#call, id, ids, edits, capacity);
    await dropIfAborted(options.signal, run);
    return run;
  }

  /** @returns {Promise<void>} */
  close() {
    return this.#call('closeModel', this.#id);
  }
}

/** @implements {RunShape} */
class Run {
  #call;
  #id;
  #tokens;
  #capacity;

  /**
   * @param {Call} call
   * @param {number} id
   * @param {number[]} tokens
   * @param {readonly import('../sinkscope.js').Edit[]} edits
   * @param {number} capacity
   */
  constructor(call, id, tokens, edits, capacity) {
    this.#call = call;
    this.#id = id;
    this.#tokens = tokens;
    this.#capacity = capacity;
    this.edits = edits;
  }

  get tokens() {
    return /** @type {readonly number[]} */ (this.#tokens);
  }

  /**
   * @param {string} name
   * @param {import('../sinkscope.js').Where} [where]
   */
  async field(name, where = {}) {
    const [tensor] = await this.read([{ ...where, field: name }]);
    return tensor;
  }

  /**
   * @param {string} name
   * @param {import('../sinkscope.js').MetricArguments} [args]
   */
  async metric(name, args = {}) {
    const [tensor] = await this.read([{ ...args, metric: name }]);
    return tensor;
  }

  /**
   * @param {readonly import('../sinkscope.js').Read[]} reads
   * @returns {Promise<import('../sinkscope.js').Tensor[]>}
   */
  read(reads) {
    return this.#call('read', this.#id, reads);
  }

  /** @param {import('../sinkscope.js').GenerateOptions} options */
  async *generate({ count, temperature = 0, topK = 0, seed = 1, signal, onProgress }) {
    expectInteger(count, 0, this.#capacity - this.#tokens.length, 'count');
    expect(temperature >= 0 && temperature < Infinity, 'temperature', '0 or more', temperature);
    expectInteger(topK, 0, 2 ** 31 - 1, 'topK');
    const random = randomBits(seed);
    for (let done = 0; done < count; done++) {
      signal?.throwIfAborted();
      const step = await this.#call('step', this.#id, temperature, topK, random());
      this.#tokens.push(step.token);
      onProgress?.({ stage: 'generate', done: done + 1, total: count });
      yield /** @type {import('../sinkscope.js').Step} */ (step);
    }
  }

  /** @returns {Promise<void>} */
  close() {
    return this.#call('closeRun', this.#id);
  }
}
