/**
 * Implements the engines, models and runs of sinkscope.d.ts over links to one or several backends.
 */
import { canShare, cores, home, portable } from '#host';
import { JOB, check, checkList, checkOptions, urlOf } from '../abi/arguments.js';
import { SinkscopeError, expect, expectInteger, unlike } from '../abi/errors.js';
import { ARITHMETICS, chooseBinary, sharedBinary } from '../abi/variants.js';
import { Chain, inTurn } from './chain.js';
import { QUIET } from './job.js';
import { Link } from './link.js';
import { transfer } from './messages.js';
import { randomBits } from './random.js';

/** @typedef {import('../sinkscope.js').Engine} EngineShape */
/** @typedef {import('../sinkscope.js').Model} ModelShape */
/** @typedef {import('../sinkscope.js').Run} RunShape */
/** @typedef {import('../sinkscope.js').Source} Source */
/** @typedef {{ config?: string | Source, weights: readonly Source[] }} Files */
/** @typedef {import('../sinkscope.js').Options} Options */
/** @typedef {import('./link.js').BackendApi} BackendApi */
/** @typedef {Awaited<ReturnType<BackendApi['open']>>} Opened */
/** @typedef {{ backend: BackendApi, id: Promise<number>, isPartial: boolean }} Made a run at a backend */

/** As `layer`: the run begins after the last layer that no edit touches. */
const BY_EDITS = -1;

/** The options that describe a run. */
const WANTED = { fields: 'list', edits: 'list', streaming: 'flag', measuring: 'flag or list' };

/** Options that a remote source has next to its address. */
const REMOTE = {
  token: 'text',
  cache: 'flag',
  version: 'text',
  sha256: 'text',
  bytes: 'count',
  id: 'text',
};

/** Capacity for generated tokens by default. */
const SPARE_TOKENS = 64;
/** A run holds at most this many tokens (TOKENS_MAX of the core). */
const MOST_TOKENS = 2 ** 20;
/** A wasm memory holds at most this many bytes. */
const MOST_BYTES = 2 ** 32;
/**
 * By default a study uses all cores but the caller's; of two cores both, because the caller waits.
 */
const mostWorkers = () => Math.min(Math.max(cores() - 1, Math.min(cores(), 2)), 64);
/** The core's pool has at most this many workers (SS_WORKERS_MAX). */
const MOST_THREADS = 16;
/** The copies of one model in further workers take at most this many bytes. */
const COPIES = 2 ** 30;

/** @type {typeof import('../sinkscope.js').createEngine} */
export async function createEngine(options = {}) {
  checkOptions(options, { worker: 'flag', kernels: 'text', lab: 'flag', onLost: 'call' });
  const { kernels = 'auto', lab, worker, onLost } = options;
  const { workers = mostWorkers() } = options;
  const { threads = 1 } = options;
  expectInteger(workers, 1, 64, 'workers');
  expectInteger(threads, 1, MOST_THREADS, 'threads');
  const at = (/** @type {string} */ file) => new URL(file, folder(options.base)).href;
  const linksFor = async (/** @type {import('../abi/variants.js').Purpose} */ purpose) => {
    const binary = await chooseBinary(kernels, purpose);
    const better = threads > 1 && canShare() ? sharedBinary(binary) : undefined;
    // Only the first link gets threads: the others exist to run many jobs at a time.
    const shared = better ? { address: at(better), threads } : undefined;
    return Array.from(
      { length: workers },
      (_, i) => new Link(at(binary), worker, onLost, i === 0 ? shared : undefined),
    );
  };
  const links = await linksFor(lab ? 'lab' : 'run');
  try {
    const describe = await links[0].ask((backend) => backend.describe());
    return new Engine(links, describe, linksFor, at);
  } catch (error) {
    links[0].close();
    throw error;
  }
}

/**
 * Returns the folder of the binaries: that of the package, unless a bundler has moved this module.
 * @param {URL | string | undefined} base
 */
function folder(base) {
  const here = home();
  if (base === undefined) {
    const expected = 'the folder of sinkscope.wasm and the other binaries, which this bundle lacks';
    if (!here) throw unlike('base', expected, base);
    return new URL(here);
  }
  const address = urlOf(base, globalThis.document?.baseURI ?? here ?? location.href, 'base');
  if (!address.pathname.endsWith('/')) address.pathname += '/';
  return address;
}

/**
 * Makes a source postable: a URL as text, a File that cannot be cloned as a transferred stream.
 * @param {Source} source
 * @param {ReadableStream[]} streams
 */
function sendable(source, streams) {
  if (source instanceof URL) return { url: source.href };
  if (source instanceof Blob) {
    const sent = portable(source);
    if ('stream' in sent && !(sent instanceof Blob)) streams.push(sent.stream);
    return sent;
  }
  return source instanceof Uint8Array ? source : { ...source, url: String(source.url) };
}

/**
 * @param {unknown} source
 * @param {string} name
 * @param {boolean} mayBeText
 */
function checkSource(source, name, mayBeText) {
  const url = source instanceof URL ? source : /** @type {{ url?: unknown }} */ (source)?.url;
  if (url instanceof URL || (typeof url === 'string' && URL.canParse(url)))
    return checkOptions(source, REMOTE);
  const fits = source instanceof Uint8Array || source instanceof Blob;
  const kinds = `a ${mayBeText ? 'string, ' : ''}Uint8Array, Blob or URL`;
  expect(fits || (mayBeText && typeof source === 'string'), name, kinds, source);
}

/**
 * Closes the result of a job whose signal was aborted between its last chunk and the answer.
 * @param {AbortSignal | undefined} signal
 * @param {{ close(): Promise<void> }} made
 */
async function dropIfAborted(signal, made) {
  if (!signal?.aborted) return;
  await made.close();
  throw signal.reason;
}

/**
 * @param {string} where
 * @param {string} text
 */
function closed(where, text) {
  return new SinkscopeError('closed', where, text);
}

const runClosed = () => closed('run', 'this run has been closed');

/** @implements {EngineShape} */
class Engine {
  #links;
  #make;
  /**
   * Links to backends of other binaries by purpose, from the first request on.
   * @type {Map<string, Promise<Link[]>>}
   */
  #others = new Map();
  #at;
  #closed = false;

  /**
   * @param {Link[]} links
   * @param {import('../sinkscope.js').Describe} describe
   * @param {(purpose: import('../abi/variants.js').Purpose) => Promise<Link[]>} make
   * @param {(file: string) => string} at returns the address of a file next to the binaries
   */
  constructor(links, describe, make, at) {
    this.#links = links;
    this.#make = make;
    this.#at = at;
    this.describe = describe;
  }

  async explain() {
    // Lazy import: callers that only run models need neither this module nor the texts.
    const { readTexts } = await import('../abi/texts.js');
    return readTexts(new URL(this.#at('sinkscope.describe.json')), this.describe);
  }

  /** @param {import('../abi/variants.js').Purpose} purpose */
  async #linksFor(purpose) {
    if (purpose === 'run' || (purpose === 'lab' && this.describe.training)) return this.#links;
    const pending = this.#others.get(purpose) ?? this.#make(purpose);
    this.#others.set(purpose, pending);
    const links = await pending.catch((error) => {
      this.#others.delete(purpose);
      throw error;
    });
    if (this.#closed) for (const link of links) link.close();
    return links;
  }

  /**
   * @param {import('../sinkscope.js').ModelFiles} files
   * @param {import('../sinkscope.js').OpenOptions} [options]
   */
  async open(files, options = {}) {
    check(files, 'object', 'files');
    checkOptions(options, { ...JOB, arithmetic: 'text' });
    const { arithmetic = 'exact' } = options;
    const names = Object.keys(ARITHMETICS);
    expect(names.includes(arithmetic), 'arithmetic', names.join(', '), arithmetic);
    const { config, weights } = files;
    const all = Array.isArray(weights) ? [...weights] : [weights];
    expect(all.length > 0, 'weights', 'at least one file', weights);
    if (config !== undefined) checkSource(config, 'config', true);
    for (const source of all) checkSource(source, 'weights', false);
    const links = await this.#linksFor(ARITHMETICS[arithmetic]);
    const copy = new Copy(links[0], { config, weights: all });
    const { architecture, bytes } = await copy.open(options);
    const room = 1 + Math.floor(COPIES / bytes);
    const others = links[0].isAside ? links.slice(1, room) : [];
    const model = new Model(copy, { architecture, describe: this.describe, arithmetic }, others);
    await dropIfAborted(options.signal, model);
    return model;
  }

  /**
   * @param {Source} source
   * @param {Options} [options]
   */
  async openRecording(source, options = {}) {
    checkSource(source, 'source', false);
    checkOptions(options, JOB);
    // Lazy import: recordings only.
    const [{ Recording }, [link]] = await Promise.all([
      import('../recording/recording.js'),
      this.#linksFor('lab'),
    ]);
    const post = () => {
      /** @type {ReadableStream[]} */
      const streams = [];
      const sent = sendable(source, streams);
      return transfer(sent, streams);
    };
    const recording = new Recording(link, this.describe, post);
    await recording.open(options);
    await dropIfAborted(options.signal, recording);
    return recording;
  }

  /** @param {import('../sinkscope.js').TrainOptions} options */
  async train(options) {
    // Lazy import: training only.
    const { beginTraining } = await import('../lab/training.js');
    return beginTraining(this.#links, this.describe, options);
  }

  /** Returns the links to backends of other binaries. */
  async #linksAside() {
    const pending = [...this.#others.values()].map((links) => links.catch(() => []));
    return (await Promise.all(pending)).flat();
  }

  async memory() {
    const all = [...this.#links, ...(await this.#linksAside())];
    const open = all.filter((link) => link.isOpen);
    const bytes = await Promise.all(open.map((link) => link.ask((backend) => backend.memory())));
    return bytes.reduce((sum, more) => sum + more, 0);
  }

  async close() {
    this.#closed = true;
    for (const link of this.#links) link.close();
    for (const link of await this.#linksAside()) link.close();
  }
}

/** A model at one backend. It opens at first use, and again after its backend was replaced. */
class Copy {
  /** @type {BackendApi | undefined} */
  #backend;
  /** @type {Promise<Opened> | undefined} */
  #opened;
  #files;
  #closed = false;

  /**
   * @param {Link} link
   * @param {Files} files
   */
  constructor(link, files) {
    this.link = link;
    this.#files = files;
  }

  /** @param {Options} options */
  open(options) {
    return this.link.job(options, (backend, job) => this.at(backend, job));
  }

  /**
   * @param {BackendApi} backend
   * @param {import('./job.js').Job} [job]
   */
  at(backend, job = QUIET) {
    this.checkOpen();
    if (this.#opened && this.#backend === backend) return this.#opened;
    /** @type {ReadableStream[]} */
    const streams = [];
    const { config, weights } = this.#files;
    const text = config === undefined || typeof config === 'string';
    const sent = {
      config: text ? config : sendable(config, streams),
      weights: weights.map((source) => sendable(source, streams)),
    };
    const opened = backend.open(job, transfer(sent, streams));
    this.#backend = backend;
    this.#opened = opened;
    opened.catch(() => {
      if (this.#opened === opened) this.#opened = undefined;
    });
    return opened;
  }

  /**
   * Returns a copy of the model for another backend.
   * @param {Link} link
   */
  on(link) {
    return new Copy(link, this.#files);
  }

  checkOpen() {
    if (this.#closed) throw closed('model', 'this model has been closed');
  }

  async close() {
    this.checkOpen();
    this.#closed = true;
    const opened = this.#opened;
    if (!opened || !this.link.isOpen) return;
    await this.link.ask(async (backend) => {
      if (backend === this.#backend) await backend.closeModel((await opened).model);
    });
  }
}

/** @implements {ModelShape} */
class Model {
  #copy;
  #others;
  /** @type {Model[] | undefined} */
  #replicas;

  /**
   * @param {Copy} copy
   * @param {Pick<ModelShape, 'architecture' | 'describe' | 'arithmetic'>} about
   * @param {Link[]} others of backends that have no copy yet
   */
  constructor(copy, about, others) {
    this.#copy = copy;
    this.#others = others;
    this.architecture = about.architecture;
    this.describe = about.describe;
    this.arithmetic = about.arithmetic;
  }

  /** @returns {readonly Model[]} */
  get replicas() {
    const replica = (/** @type {Link} */ link) => new Model(this.#copy.on(link), this, []);
    this.#replicas ??= [this, ...this.#others.map(replica)];
    return this.#replicas;
  }

  /** @param {string} key */
  async metadata(key) {
    expect(typeof key === 'string', 'key', 'a string', key);
    return this.#copy.link.ask(async (backend) =>
      backend.metadata((await this.#copy.at(backend)).model, key),
    );
  }

  /**
   * @param {ArrayLike<number>} tokens
   * @param {import('../sinkscope.js').RunOptions} [options]
   */
  async run(tokens, options = {}) {
    this.#copy.checkOpen();
    const { V } = this.architecture;
    check(tokens, 'list', 'tokens');
    checkOptions(options, { ...JOB, ...WANTED, from: 'object' });
    const { from } = options;
    if (from) checkFrom(from, this.#copy, this.architecture);
    const wanted = this.#wanted(tokens.length, options);
    const ids = idsBelow(V, tokens);
    const run = new Run(this.#copy, ids, wanted, this, from);
    await run.begin(options);
    await dropIfAborted(options.signal, run);
    return run;
  }

  /**
   * Checks the options of a run of n tokens and fills in their defaults.
   * @param {number} n
   * @param {import('../sinkscope.js').RunOptions} options
   */
  #wanted(n, { fields, edits = [], streaming, measuring, maps, from, ...options }) {
    const { context } = this.architecture;
    // Some edits lead beyond the context; the core knows which.
    const most = edits.length > 0 ? MOST_TOKENS : context;
    expectInteger(n, 1, most, 'tokens.length');
    const spare = from?.layer === undefined ? SPARE_TOKENS : 0;
    const { capacity = Math.max(n, Math.min(context, n + spare)) } = options;
    expectInteger(capacity, n, most, 'capacity');
    if (maps !== undefined) expectInteger(maps, 0, MOST_BYTES, 'maps');
    return { fields, edits, capacity, streaming, measuring, maps };
  }

  /**
   * @param {number} tokens
   * @param {import('../sinkscope.js').RunOptions} [options]
   */
  async runBytes(tokens, options = {}) {
    this.#copy.checkOpen();
    checkOptions(options, WANTED);
    const wanted = this.#wanted(tokens, options);
    return this.#copy.link.ask(async (backend) =>
      backend.runBytes((await this.#copy.at(backend)).model, wanted),
    );
  }

  async close() {
    await Promise.all([
      this.#copy.close(),
      ...(this.#replicas ?? []).slice(1).map((replica) => replica.close()),
    ]);
  }
}

/**
 * @param {number} V
 * @param {ArrayLike<number>} tokens
 */
function idsBelow(V, tokens) {
  const ids = Array.from(tokens);
  ids.forEach((id, i) => expectInteger(id, 0, V - 1, `tokens[${i}]`));
  return ids;
}

/**
 * Checks a run that another run is compared with, or begins from.
 * @param {unknown} run
 * @param {Copy} copy
 * @param {string} where
 * @returns {asserts run is Run}
 */
function checkBeside(run, copy, where) {
  const fits = run instanceof Run && run.isOf(copy);
  if (!fits) expect(false, where, 'a run of the same model, in the same worker', run);
}

/**
 * @param {{ run: unknown, layer?: unknown }} from
 * @param {Copy} copy
 * @param {import('../sinkscope.js').Architecture} architecture
 */
function checkFrom({ run, layer }, copy, { L }) {
  checkBeside(run, copy, 'from.run');
  if (layer !== undefined) expectInteger(layer, 0, L, 'from.layer');
}

/** @implements {RunShape} */
class Run {
  #copy;
  #model;
  #tokens;
  #wanted;
  /**
   * The run that this one begins from. Once this run has begun, only a given layer keeps it: it
   * changes numbers.
   */
  #from;
  /** Orders the actions on this run: each sees what the previous one left. */
  #chain = new Chain();
  /**
   * The run at a backend. After a stopped update it can only be updated or closed.
   * @type {Made | undefined}
   */
  #made;
  /** True once close was called: no action begins any more. */
  #closed = false;
  /** True once close had its turn. */
  #isReleased = false;

  /**
   * @param {Copy} copy
   * @param {number[]} tokens
   * @param {import('./backend.js').RunRequest & { edits: readonly import('../sinkscope.js').Edit[] }} wanted
   * @param {import('../sinkscope.js').Recordable} model
   * @param {import('../sinkscope.js').RunOptions['from']} [from]
   */
  constructor(copy, tokens, wanted, model, from) {
    this.#copy = copy;
    this.#model = model;
    this.#from = from && { run: /** @type {Run} */ (from.run), layer: from.layer ?? BY_EDITS };
    this.#tokens = tokens;
    this.#wanted = wanted;
  }

  get tokens() {
    return /** @type {readonly number[]} */ (this.#tokens);
  }

  get edits() {
    return this.#wanted.edits;
  }

  /** @param {Options} options */
  async begin({ signal, onProgress }) {
    const { link } = this.#copy;
    await this.#act({ changes: true, signal }, () =>
      link.job({ signal, onProgress }, (backend, job) => this.#at(backend, job, signal)),
    );
    if (this.#from?.layer === BY_EDITS) this.#from = undefined;
  }

  /**
   * Performs an action after all earlier ones on this run and on the runs that it needs.
   * @template T
   * @param {{ changes?: boolean, beside?: readonly Run[], signal?: AbortSignal | undefined }} how
   * `beside`: runs that it reads
   * @param {() => Promise<T>} act
   * @returns {Promise<T>}
   */
  #act({ changes = false, beside = [], signal }, act) {
    const runs = [this, ...beside];
    if (runs.some((run) => run.#closed)) throw runClosed();
    const reads = runs.flatMap((run) => run.#needed()).map((run) => run.#chain);
    return inTurn({ ...(changes && { changes: this.#chain }), reads, signal }, act);
  }

  /** Returns this run and those that it begins from. @returns {Run[]} */
  #needed() {
    const { run, layer = BY_EDITS } = this.#from ?? {};
    if (!run || (layer === BY_EDITS && run.#closed)) return [this];
    return [this, ...run.#needed()];
  }

  /**
   * Returns the run at the backend; a new backend computes it again, to the same bits.
   * @param {BackendApi} backend
   * @param {import('./job.js').Job} [job]
   * @param {AbortSignal} [signal]
   * @returns {Promise<number>}
   */
  #at(backend, job = QUIET, signal) {
    if (this.#isReleased) throw runClosed();
    const last = this.#made?.backend === backend ? this.#made : undefined;
    if (last && !last.isPartial) return last.id;
    const made = {
      backend,
      id: this.#make(backend, last?.id, job, signal),
      isPartial: false,
    };
    this.#made = made;
    made.id.catch(() => {
      if (this.#made === made) this.#made = undefined;
    });
    return made.id;
  }

  /**
   * @param {BackendApi} backend
   * @param {Promise<number> | undefined} partial run of a stopped update, whose memory is needed
   * @param {import('./job.js').Job} job
   * @param {AbortSignal} [signal]
   */
  async #make(backend, partial, job, signal) {
    const { model } = await this.#copy.at(backend);
    const from = await this.#beginning(backend);
    if (partial) await backend.closeRun(await partial);
    signal?.throwIfAborted();
    return backend.run(job, model, Int32Array.from(this.#tokens), { ...this.#wanted, from });
  }

  /**
   * Returns the run that this one begins from; none if that run was closed or has other tokens by
   * now and is only a shortcut.
   * @param {BackendApi} backend
   */
  async #beginning(backend) {
    if (!this.#from) return undefined;
    const { run, layer } = this.#from;
    const tokens = this.#tokens;
    const isAlike =
      run.#tokens.length === tokens.length && tokens.every((id, i) => id === run.#tokens[i]);
    if (layer === BY_EDITS && (run.#closed || !isAlike)) return undefined;
    return { run: await run.#at(backend), layer };
  }

  /**
   * @param {ArrayLike<number>} tokens
   * @param {Options} [options]
   */
  async update(tokens, options = {}) {
    check(tokens, 'list', 'tokens');
    checkOptions(options, JOB);
    expectInteger(tokens.length, 1, this.#wanted.capacity, 'tokens.length');
    const ids = idsBelow(this.#model.architecture.V, tokens);
    const { signal } = options;
    const { link } = this.#copy;
    await this.#act({ changes: true, signal }, () =>
      link.job(options, async (backend, job) => {
        if (this.#made?.backend !== backend) await this.#at(backend, job, signal);
        const made = /** @type {Made} */ (this.#made);
        const id = await made.id;
        signal?.throwIfAborted();
        try {
          await backend.update(job, id, Int32Array.from(ids));
          this.#tokens = ids;
          made.isPartial = false;
        } catch (error) {
          // A refused update changes nothing; a stopped one leaves a partial run.
          if (signal?.aborted) made.isPartial = true;
          throw error;
        }
      }),
    );
  }

  /**
   * @param {string} name
   * @param {import('../sinkscope.js').FieldWhere} [where]
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
  async read(reads) {
    checkList(reads, 'object', 'reads');
    const list = Array.from(reads);
    return this.#act({ beside: this.#basesOf(list) }, () => this.#read(list));
  }

  /**
   * Returns the runs that these reads compare with.
   * @param {readonly import('../sinkscope.js').Read[]} reads
   */
  #basesOf(reads) {
    const bases = reads.flatMap((read) => ('base' in read && read.base ? [read.base] : []));
    return bases.map((base) => {
      checkBeside(base, this.#copy, 'base');
      return base;
    });
  }

  /**
   * Reads during an action's turn.
   * @param {readonly import('../sinkscope.js').Read[]} reads
   * @returns {Promise<import('../sinkscope.js').Tensor[]>}
   */
  #read(reads) {
    return this.#copy.link.ask(async (backend) => {
      const bases = this.#basesOf(reads);
      const [id, ...others] = await Promise.all([this, ...bases].map((run) => run.#at(backend)));
      const posted = reads.map((read) =>
        'base' in read && read.base ? { ...read, base: others.shift() } : read,
      );
      return backend.read(id, /** @type {import('./backend.js').ReadMessage[]} */ (posted));
    });
  }

  /** Tells whether the run belongs to this copy: same model, same backend. @param {Copy} copy */
  isOf(copy) {
    return this.#copy === copy;
  }

  /** @param {import('../sinkscope.js').RecordOptions} [options] */
  async record(options) {
    const read = (/** @type {readonly import('../sinkscope.js').Read[]} */ reads) =>
      this.#read(reads);
    return this.#act({}, async () => {
      // Lazy import: recordings only.
      const { recordRun } = await import('../recording/run.js');
      return recordRun({ tokens: this.#tokens, read }, this.#model, options);
    });
  }

  /** @param {import('../sinkscope.js').GenerateOptions} options */
  async *generate(options) {
    checkOptions(options, { ...JOB, temperature: 'number', seed: 'number' });
    const { count, temperature = 0, topK = 0, seed = 1, signal, onProgress } = options;
    const { capacity } = this.#wanted;
    expectInteger(count, 0, capacity, 'count');
    expect(temperature >= 0 && temperature < Infinity, 'temperature', '0 or more', temperature);
    expectInteger(topK, 0, 2 ** 31 - 1, 'topK');
    const random = randomBits(seed);
    for (let done = 0; done < count; done++) {
      signal?.throwIfAborted();
      const bits = random();
      const step = await this.#act({ changes: true, signal }, async () => {
        if (done === 0) expectInteger(count, 0, capacity - this.#tokens.length, 'count');
        const generated = await this.#copy.link.ask(async (backend) =>
          backend.step(await this.#at(backend), temperature, topK, bits),
        );
        this.#tokens.push(generated.token);
        return generated;
      });
      onProgress?.({ stage: 'generate', done: done + 1, total: count });
      yield /** @type {import('../sinkscope.js').Step} */ (step);
    }
  }

  /** @returns {Promise<void>} */
  async close() {
    const { link } = this.#copy;
    const closing = this.#act({ changes: true }, async () => {
      const made = this.#made;
      this.#isReleased = true;
      this.#made = undefined;
      this.#from = undefined;
      if (!made || !link.isOpen) return;
      await link.ask(async (backend) => {
        if (backend === made.backend) await backend.closeRun(await made.id);
      });
    });
    this.#closed = true;
    await closing;
  }
}
