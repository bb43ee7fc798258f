/** Represents an opened recording: a run of a recorded prompt, with means over all prompts. */
import { check, checkList, checkOptions } from '../abi/arguments.js';
import { SinkscopeError, expect, expectInteger, find } from '../abi/errors.js';
import { QUIET } from '../engine/job.js';
import { addUp, lengthOf, meansOf } from '../study/measure.js';

/** @typedef {import('../sinkscope.js').Recording} RecordingShape */
/** @typedef {import('../sinkscope.js').Tensor} Tensor */
/** @typedef {import('../engine/link.js').BackendApi} BackendApi */
/** @typedef {import('../engine/link.js').Link} Link */
/** @typedef {Awaited<ReturnType<BackendApi['openRecording']>>} Opened */

/** @implements {RecordingShape} */
export class Recording {
  #link;
  #post;
  /** @type {BackendApi | undefined} */
  #backend;
  /** @type {Promise<Opened> | undefined} */
  #opened;
  /** @type {Map<number, Promise<number>>} */
  #prompts = new Map();
  #closed = false;
  /** @type {Map<string, { dtype: string, shape: readonly number[] }>} */
  #tensors = new Map();
  /** @type {number[][]} */
  #ids = [];

  /**
   * @param {Link} link
   * @param {import('../sinkscope.js').Describe} describe
   * @param {() => Parameters<BackendApi['openRecording']>[1]} post makes the source postable
   */
  constructor(link, describe, post) {
    this.#link = link;
    this.#post = post;
    this.describe = describe;
  }

  /** @param {import('../sinkscope.js').Options} options */
  async open(options) {
    const opened = await this.#link.job(options, (backend, job) => this.#at(backend, job));
    this.#tensors = new Map(opened.tensors);
    this.#ids = opened.ids;
    this.conditions = opened.conditions;
    this.bytes = opened.bytes;
    return this;
  }

  /** @type {import('../sinkscope.js').Conditions} */
  // @ts-expect-error set by open, before anybody has this
  conditions;
  bytes = 0;
  /** @type {readonly import('../sinkscope.js').Edit[]} */
  edits = [];

  get architecture() {
    const { family, L, blocks, layers, H, G, K, D, V, F, E, operation, mask, windows } =
      this.conditions.model;
    const attention = { operation, parameters: {} };
    return { family, L, blocks, layers, H, G, K, D, V, F, E, attention, mask, windows };
  }

  get tokens() {
    return this.#ids[0] ?? [];
  }

  get tensors() {
    return this.#tensors;
  }

  /**
   * @param {BackendApi} backend
   * @param {import('../engine/job.js').Job} [job]
   */
  #at(backend, job = QUIET) {
    if (this.#closed) throw closed();
    if (this.#opened && this.#backend === backend) return this.#opened;
    const opened = backend.openRecording(job, this.#post());
    this.#backend = backend;
    this.#opened = opened;
    this.#prompts.clear();
    opened.catch(() => {
      if (this.#opened === opened) this.#opened = undefined;
    });
    return opened;
  }

  /**
   * Returns the id of the run through which a recorded prompt is read.
   * @param {BackendApi} backend
   * @param {number} prompt
   */
  async #run(backend, prompt) {
    const { recording } = await this.#at(backend);
    const run = this.#prompts.get(prompt) ?? backend.recordingPrompt(recording, prompt);
    this.#prompts.set(prompt, run);
    return run.catch((error) => {
      this.#prompts.delete(prompt);
      throw error;
    });
  }

  /**
   * @param {string} name
   * @param {import('../sinkscope.js').Where} [where]
   */
  async tensor(name, where = {}) {
    check(name, 'text', 'name');
    checkOptions(where, { layer: 'number', head: 'number' });
    const { layer = -1, head = -1 } = where;
    const [tensor] = await this.#link.ask(async (backend) =>
      backend.recordingTensor((await this.#at(backend)).recording, name, layer, head),
    );
    return tensor;
  }

  /**
   * @param {string} kind
   * @param {string} name
   * @param {{ eps?: number }} args
   */
  async #overAll(kind, name, args) {
    const row = this.describe.metrics[find(this.describe.metrics, name, 'metric')];
    checkOptions(args, { eps: 'number' });
    const full = `${kind}.${name}`;
    if (!this.#tensors.has(full)) throw missing(name, full);
    const { data } = await this.tensor(full);
    const shape = row.shape.map((letter) => this.#sizeOf(letter));
    if (!row.arguments.includes('eps')) return { shape, data };
    const n = shape.reduce((a, b) => a * b, 1);
    const at = this.#threshold(args.eps);
    return { shape, data: data.slice(at * n, (at + 1) * n) };
  }

  /**
   * Returns the index of a threshold among the measured ones.
   * @param {number} [eps]
   */
  #threshold(eps) {
    const { eps: measuredEps } = this.conditions;
    const wanted = eps ?? this.describe.defaults.eps;
    const at = measuredEps.findIndex((one) => Math.fround(one) === Math.fround(wanted));
    if (eps !== undefined)
      expect(at >= 0, 'eps', `one of ${measuredEps.join(', ')}, at which it was recorded`, eps);
    return Math.max(at, 0);
  }

  /** @param {string} sum sum of letters and numbers, such as "L+1" */
  #sizeOf(sum) {
    const { model, prompts } = this.conditions;
    const sizes = /** @type {Record<string, number>} */ ({
      .../** @type {object} */ (model),
      T: prompts.T,
    });
    const sizeOf = (/** @type {string} */ term) =>
      Object.hasOwn(sizes, term) ? sizes[term] : Number(term);
    if (sum === 'L+1') return model.blocks + 1; // every layer has a hidden state
    return sum.split('+').reduce((size, term) => size + sizeOf(term), 0);
  }

  /**
   * @param {string} name
   * @param {{ eps?: number }} [args]
   */
  async mean(name, args = {}) {
    return this.#overAll('mean', name, args);
  }

  /**
   * @param {string} name
   * @param {{ eps?: number }} [args]
   */
  async deviation(name, args = {}) {
    return this.#overAll('deviation', name, args);
  }

  /**
   * @param {string} name
   * @param {import('../sinkscope.js').RecordedArguments} [args]
   */
  async metric(name, args = {}) {
    check(args, 'object', 'args');
    const { prompt, ...others } = args;
    const [tensor] = await this.read([{ ...others, metric: name }], { prompt });
    return tensor;
  }

  /**
   * @param {string} name
   * @param {import('../sinkscope.js').Where & { prompt?: number }} [where]
   */
  async field(name, where = {}) {
    check(where, 'object', 'where');
    const { prompt, ...others } = where;
    const [tensor] = await this.read([{ ...others, field: name }], { prompt });
    return tensor;
  }

  /**
   * @param {readonly import('../sinkscope.js').Read[]} reads
   * @param {{ prompt?: number }} [options]
   * @returns {Promise<Tensor[]>}
   */
  async read(reads, options = {}) {
    checkList(reads, 'object', 'reads');
    check(options, 'object', 'options');
    const { prompt = 0 } = options;
    const { kept } = this.conditions.prompts;
    if (kept === 0) throw missing('prompt', 'a kept prompt');
    expectInteger(prompt, 0, kept - 1, 'prompt');
    if (reads.some((read) => 'base' in read && read.base !== undefined))
      throw new SinkscopeError('argument', 'base', 'expected none: a recording is not compared so');
    return this.#link.ask(async (backend) => {
      const run = await this.#run(backend, prompt);
      return backend.read(
        run,
        /** @type {import('../engine/backend.js').ReadMessage[]} */ ([...reads]),
      );
    });
  }

  /** @param {import('../sinkscope.js').Where & { prompt?: number }} [options] */
  async pooled(options = {}) {
    check(options, 'object', 'options');
    const { prompt = 0, ...where } = options;
    check(prompt, 'count', 'prompt');
    const name = `${prompt}.att_pooled`;
    if (!this.#tensors.has(name)) throw missing('pooled', name);
    const [cells, scale] = [
      await this.tensor(name, where),
      await this.tensor(`${prompt}.att_scale`, where),
    ];
    const each = cells.data.length / scale.data.length;
    const data = Float32Array.from(
      cells.data,
      (cell, i) => (scale.data[Math.floor(i / each)] * cell) / 255,
    );
    return { shape: cells.shape, data };
  }

  /** @param {Pick<import('../sinkscope.js').MeasureOptions, 'eps' | 'metrics'>} [options] */
  async measure(options = {}) {
    checkOptions(options, { metrics: 'list' });
    const { describe } = this;
    const { count, kept, T } = this.conditions.prompts;
    const epsOption =
      options.eps ?? (this.conditions.eps.length ? this.conditions.eps : describe.defaults.eps);
    const thresholds = Array.isArray(epsOption) ? epsOption : [/** @type {number} */ (epsOption)];
    checkList(thresholds, 'number', 'eps');
    const rows = options.metrics
      ? options.metrics.map((name) => describe.metrics[find(describe.metrics, name, 'metric')])
      : describe.metrics.filter((row) => row.summary && !row.arguments.includes('base'));
    const isMeans = rows.some(({ name }) => this.#tensors.has(`mean.${name}`));
    // A file's means take precedence; without any, they are computed over its prompts if it has all
    // of them.
    const read =
      isMeans || kept < count
        ? (/** @type {string} */ name, /** @type {number} */ eps) => this.#readMeans(name, eps)
        : (/** @type {string} */ name, /** @type {number} */ eps) => this.#meansOfKept(name, eps);
    const isExplicit = options.metrics !== undefined;
    const byEps = [];
    for (const eps of thresholds) {
      /** @type {Record<string, import('../sinkscope.js').Measured>} */
      const metrics = {};
      for (const { name, arguments: args } of rows) {
        if (byEps.length > 0 && !args.includes('eps')) continue;
        const measured = await read(name, eps).catch((error) => {
          if (isExplicit || error.code !== 'bad_request') throw error;
        });
        if (measured) metrics[name] = measured;
      }
      byEps.push({ eps, metrics });
    }
    const [{ eps, metrics }] = byEps;
    const withThreshold = rows.filter(
      (row) => row.arguments.includes('eps') && row.name in metrics,
    );
    const counts = Object.fromEntries(withThreshold.map(({ name }) => [name, metrics[name]]));
    const all = [{ eps, metrics: counts }, ...byEps.slice(1)];
    const isList = Array.isArray(epsOption) && thresholds.length > 1;
    return { eps, T, sequences: count, metrics, ...(isList && { byEps: all }) };
  }

  /**
   * @param {string} name
   * @param {number} eps
   */
  async #readMeans(name, eps) {
    const row = this.describe.metrics[find(this.describe.metrics, name, 'metric')];
    const args = row.arguments.includes('eps') ? { eps } : {};
    const mean = await this.mean(name, args);
    const none = { shape: mean.shape, data: new Float32Array(mean.data.length).fill(NaN) };
    const deviation = this.#tensors.has(`deviation.${name}`)
      ? await this.deviation(name, args)
      : none;
    const numbers = (/** @type {Tensor} */ { data }) =>
      Array.from(data, (x) => (Number.isFinite(x) ? x : null));
    return { shape: mean.shape, mean: numbers(mean), deviation: numbers(deviation) };
  }

  /**
   * @param {string} name
   * @param {number} eps
   */
  async #meansOfKept(name, eps) {
    const { kept } = this.conditions.prompts;
    lengthOf(this.conditions.tokens.map((strings) => ({ length: strings.length })));
    /** @type {import('../study/measure.js').Sums} */
    const sums = new Map();
    for (let prompt = 0; prompt < kept; prompt++)
      addUp(sums, name, await this.metric(name, { eps, prompt }));
    return meansOf(sums, kept)[name];
  }

  async close() {
    if (this.#closed) throw closed();
    this.#closed = true;
    const opened = this.#opened;
    if (!opened || !this.#link.isOpen) return;
    await this.#link.ask(async (backend) => {
      if (backend === this.#backend) await backend.closeRecording((await opened).recording);
    });
  }
}

/**
 * @param {string} where
 * @param {string} name
 */
function missing(where, name) {
  return new SinkscopeError('bad_request', where, `expected ${name} in the recording, found none`);
}

function closed() {
  return new SinkscopeError('closed', 'recording', 'this recording has been closed');
}
