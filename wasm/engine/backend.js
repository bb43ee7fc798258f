/**
 * The backend owns models and runs, numbered, on one module. It runs in the worker, or in the
 * page's thread when there is none; client.js gives both the same interface.
 */
import { pause } from '#host';
import { SinkscopeError, expect, expectInteger, find } from '../abi/errors.js';
import { readConfig, readWeights, sizeOf } from '../loading/files.js';
import { transfer } from './messages.js';
import { loadModule } from '../abi/module.js';

/** @typedef {import('../sinkscope.js').Architecture} Architecture */
/** @typedef {Omit<import('../sinkscope.js').MetricArguments, 'base'> & { metric: string, base?: number }} MetricRead */
/** @typedef {({ field: string } & import('../sinkscope.js').FieldWhere) | MetricRead} ReadMessage a read, runs by their numbers */
/** @typedef {import('../sinkscope.js').Edit} Edit */
/** @typedef {import('../sinkscope.js').Tensor} Tensor */
/** @typedef {import('../loading/files.js').Source} Source */
/** @typedef {import('./job.js').Job} Job */
/** @typedef {{ start(parameters: number): Promise<void>, end(): void }} Helpers starts threads when a model opens */
/** @typedef {import('../lab/trainer.js').Trainer} Trainer */
/** @typedef {(job: number, stage: string, done: number, total: number, facts?: import('../loading/files.js').ReadFacts) => void} Report */
/** @typedef {(stage: string, done: number, total: number, facts?: import('../loading/files.js').ReadFacts) => void} Progress */
/** @typedef {{ fields?: readonly string[], edits?: readonly Edit[], capacity: number, maps?: number, streaming?: boolean, measuring?: boolean | readonly string[], from?: { run: number, layer: number } }} RunRequest describes a run */
/** @typedef {{ address: number, architecture: Architecture, runs: Set<number> }} OpenModel */
/** @typedef {{ address: number, model: number, architecture: Architecture, T: number, recordsAtt: boolean }} OpenRun */

/** This bit of the field mask marks a streaming run; the lower bits are fields. */
const STREAMS = 1 << 31;
/** This bit marks a measuring run. */
const MEASURES = 1 << 30;
/** And this one that it finds spectra. */
const SPECTRA = 1 << 29;

/** Threads share a model that has this many parameters or more. */
const SHARED_FROM = 2 ** 23;

/**
 * Milliseconds that the core may compute before the backend handles messages, such as a request to
 * stop.
 */
const PATIENCE = 40;

/**
 * @param {string} address of the binary
 * @param {Report} report
 * @param {import('./thread_pool.js').Shared} [shared] the binary for threads, used where the host can share memory
 */
export async function openBackend(address, report, shared) {
  const better = shared && (await loadModule(new URL(shared.address), true).catch(() => undefined));
  if (better) return new Backend(better, report, poolOf(better, shared.threads));
  return new Backend(await loadModule(new URL(address)), report);
}

/**
 * Makes threads for models that are large enough; their code is a lazy import.
 * @param {import('../abi/module.js').Module} module
 * @param {number} threads
 * @returns {Helpers}
 */
function poolOf(module, threads) {
  /** @type {Promise<import('./thread_pool.js').ThreadPool | undefined> | undefined} */
  let pool;
  return {
    async start(parameters) {
      if (parameters < SHARED_FROM) return;
      pool ??= import('./thread_pool.js').then(
        ({ ThreadPool }) => new ThreadPool(module, threads),
        () => undefined, // one thread then computes alone
      );
      await (await pool)?.start();
    },
    end: () => void pool?.then((threads) => threads?.end()),
  };
}

export class Backend {
  #module;
  /** @type {Trainer | undefined} */
  #trainer;
  /** @type {import('../recording/shelf.js').Shelf | undefined} */
  #shelf;
  #report;
  #pool;
  #describe;
  #last = 0;
  /** @type {Map<number, OpenModel>} */
  #models = new Map();
  /** @type {Map<number, OpenRun>} */
  #runs = new Map();
  /** @type {Map<number, AbortController>} */
  #jobs = new Map();

  /**
   * @param {import('../abi/module.js').Module} module
   * @param {Report} report
   * @param {Helpers} [pool]
   */
  constructor(module, report, pool) {
    this.#module = module;
    this.#pool = pool;
    this.#report = report;
    this.#describe = /** @type {import('../sinkscope.js').Describe} */ (module.json('describe'));
    module.codes = Object.fromEntries(this.#describe.status.map(({ code, name }) => [code, name]));
  }

  async describe() {
    return this.#describe;
  }

  /**
   * Calls a method of the trainer, whose code is a lazy import.
   * @template {keyof Trainer} Call
   * @param {Call} call
   * @param {Parameters<Trainer[Call]>} args
   * @returns {Promise<Awaited<ReturnType<Trainer[Call]>>>}
   */
  async training(call, ...args) {
    const { Trainer } = await import('../lab/trainer.js');
    this.#trainer ??= new Trainer(this.#module, this.#describe.training?.parts ?? 0, this);
    /** @typedef {Awaited<ReturnType<Trainer[Call]>>} Answer */
    const use = /** @type {(...args: unknown[]) => Promise<Answer>} */ (
      /** @type {unknown} */ (this.#trainer[call])
    );
    const answer = await use.apply(this.#trainer, args);
    if (answer instanceof Uint8Array) transfer(answer, [answer.buffer]);
    return answer;
  }

  async memory() {
    return this.#module.size;
  }

  /**
   * @param {Job} job
   * @param {Source} source
   */
  async openRecording(job, source) {
    // Lazy import: recordings only.
    const { Shelf } = await import('../recording/shelf.js');
    this.#shelf ??= new Shelf(this.#module);
    const shelf = this.#shelf;
    return this.#cancellable(job, async (signal, report) => {
      const [block] = await this.#readAll([source], signal, report);
      const opened = shelf.add(++this.#last, block);
      report('open', 1, 1);
      return opened;
    });
  }

  get #recordings() {
    if (this.#shelf) return this.#shelf;
    throw new SinkscopeError('closed', 'recording', 'this recording has been closed');
  }

  /**
   * Reads a tensor by name; layer and head, or -1, select along its first two dimensions.
   * @param {number} id
   * @param {string} name
   * @param {number} layer
   * @param {number} head
   */
  async recordingTensor(id, name, layer, head) {
    const tensors = [this.#recordings.tensor(id, name, layer, head)];
    return withTransfer(tensors, tensors);
  }

  /**
   * Opens a recorded prompt, which is then read like a run.
   * @param {number} id
   * @param {number} prompt
   */
  async recordingPrompt(id, prompt) {
    const { sizes, lengths, prompts } = this.#recordings.at(id);
    const openRun = prompts.get(prompt);
    if (openRun !== undefined) return openRun;
    const address = this.#recordings.trace(id, prompt);
    const run = ++this.#last;
    const architecture = /** @type {Architecture} */ (/** @type {unknown} */ (sizes));
    const T = lengths[prompt];
    this.#runs.set(run, { address, model: id, architecture, T, recordsAtt: false });
    prompts.set(prompt, run);
    return run;
  }

  /** @param {number} id */
  async closeRecording(id) {
    for (const run of this.#recordings.at(id).prompts.values()) await this.closeRun(run);
    this.#recordings.remove(id);
  }

  /** Ends the pool's threads; with a worker they end anyway. */
  async end() {
    this.#pool?.end();
  }

  /**
   * Asks a job to stop; the job does so before its next chunk.
   * @param {number} job
   */
  async cancel(job) {
    this.#jobs.get(job)?.abort();
  }

  /**
   * @template T
   * @param {Job} job
   * @param {(signal: AbortSignal, progress: Progress) => Promise<T>} work
   */
  async #cancellable({ id, reports }, work) {
    const controller = new AbortController();
    this.#jobs.set(id, controller);
    try {
      return await work(controller.signal, (...how) => {
        if (reports) return this.#report(id, ...how);
      });
    } finally {
      this.#jobs.delete(id);
    }
  }

  /**
   * @param {Job} job
   * @param {{ config?: Source | string, weights: readonly Source[] }} files
   */
  async open(job, files) {
    return this.#cancellable(job, async (signal, report) => {
      const config = await readConfig(files.config ?? '', signal);
      const blocks = await this.#readAll(files.weights, signal, report);
      try {
        report('open', 0, 1);
        await pause();
        signal.throwIfAborted();
        const opened = this.#open(config, blocks);
        await this.#pool?.start(opened.architecture.parameters);
        report('open', 1, 1);
        return opened;
      } catch (error) {
        this.#releaseAll(blocks);
        throw error;
      }
    });
  }

  /**
   * Reads the weight files in order, each into its own block.
   * @param {readonly Source[]} sources
   * @param {AbortSignal} signal
   * @param {Progress} report
   */
  async #readAll(sources, signal, report) {
    /** @type {{ address: number, bytes: number }[]} */
    const blocks = [];
    const sizes = sources.map(sizeOf);
    let before = 0;
    try {
      for (const [i, source] of sources.entries()) {
        const after = sizes.slice(i + 1).reduce((sum, bytes) => sum + bytes, 0);
        const block = await readWeights(this.#module, source, signal, (done, total, facts) => {
          const all = before + total + after;
          const remaining = (all - before - done) / (facts?.rate ?? NaN);
          report('read', before + done, all, facts && { ...facts, remaining });
        });
        blocks.push(block);
        before += block.bytes;
      }
      return blocks;
    } catch (error) {
      this.#releaseAll(blocks);
      throw error;
    }
  }

  /** @param {{ address: number }[]} blocks */
  #releaseAll(blocks) {
    for (const { address } of blocks) this.#module.release(address);
  }

  /**
   * @param {Uint8Array} config
   * @param {{ address: number, bytes: number }[]} blocks belong to the model from here on, if it opens
   */
  #open(config, blocks) {
    const list = Uint32Array.from(blocks.flatMap(({ address, bytes }) => [address, bytes]));
    const address = this.#module.lend(config, (text) =>
      this.#module.lend(list, (files) =>
        this.#module.handle('open', text, config.length, files, blocks.length),
      ),
    );
    const architecture = /** @type {Architecture} */ (this.#module.json('architecture', address));
    const model = ++this.#last;
    this.#models.set(model, { address, architecture, runs: new Set() });
    const bytes = blocks.reduce((sum, block) => sum + block.bytes, 0);
    return { model, architecture, bytes };
  }

  /**
   * Reads a value of the file's metadata; undefined when the file lacks the key.
   * @param {number} id
   * @param {string} key
   */
  async metadata(id, key) {
    // Lazy import: GGUF files only.
    const { decodeValue } = await import('../abi/metadata.js');
    const { address } = this.#model(id);
    const text = new TextEncoder().encode(`${key}\0`);
    const value = this.#module.lend(text, (name) => this.#module.value('metadata', address, name));
    return value && decodeValue(value, key);
  }

  /** @param {number} id */
  async closeModel(id) {
    const model = this.#model(id);
    this.#models.delete(id);
    for (const run of model.runs) await this.closeRun(run);
    this.#module.call('close_model', model.address);
  }

  /**
   * @param {Job} job
   * @param {number} modelId
   * @param {Int32Array} tokens
   * @param {RunRequest} options
   */
  async run(job, modelId, tokens, options) {
    return this.#cancellable(job, async (signal, report) => {
      const id = this.#start(modelId, options, await this.#encoded(options));
      try {
        await this.#prefill('begin', id, tokens, signal, report);
        return id;
      } catch (error) {
        // The model may have been closed meanwhile, and the run with it.
        if (this.#runs.has(id)) await this.closeRun(id);
        throw error;
      }
    });
  }

  /**
   * Makes the run one of these tokens. A run whose update was stopped can only be updated or
   * closed.
   * @param {Job} job
   * @param {number} id
   * @param {Int32Array} tokens
   */
  async update(job, id, tokens) {
    return this.#cancellable(job, (signal, report) =>
      this.#prefill('update', id, tokens, signal, report),
    );
  }

  /**
   * Encodes the edits as words of the ABI; the encoder is a lazy import.
   * @param {RunRequest} wanted
   */
  async #encoded({ edits = [] }) {
    if (edits.length === 0) return undefined;
    const { encodeEdits } = await import('./edits.js');
    return encodeEdits(edits, this.#describe);
  }

  /**
   * @param {number} modelId
   * @param {RunRequest} options
   * @param {Int32Array} [words] encode its edits
   */
  #start(modelId, { from, ...wanted }, words) {
    const { architecture, runs } = this.#model(modelId);
    const mask = this.#mask(wanted);
    const begin = from ? [this.#run(from.run).address, from.layer] : [0, 0];
    const address = this.#callWithRun('start', modelId, wanted, words, ...begin);
    const id = ++this.#last;
    const recordsAtt = !wanted.measuring && (mask & (1 << this.#fieldIndex('att'))) !== 0;
    this.#runs.set(id, { address, model: modelId, architecture, T: 0, recordsAtt });
    runs.add(id);
    return id;
  }

  /**
   * Calls a function of the core that takes a run's description: model, capacity, fields and edits.
   * @param {string} call
   * @param {number} modelId
   * @param {RunRequest} wanted
   * @param {Int32Array | undefined} words encode its edits
   * @param {number[]} more
   */
  #callWithRun(call, modelId, wanted, words, ...more) {
    const { address } = this.#model(modelId);
    const { edits = [], capacity, maps } = wanted;
    const mask = this.#mask(wanted);
    // The core takes 0 for its own budget; no map fits into one byte.
    const budget = maps === undefined ? 0 : Math.max(1, Math.min(maps, 2 ** 32 - 1));
    const begin = (/** @type {number} */ list) =>
      this.#module.handle(call, address, capacity, mask, budget, list, edits.length, ...more);
    return words ? this.#module.lend(words, begin) : begin(0);
  }

  /**
   * @param {number} modelId
   * @param {RunRequest} wanted
   */
  async runBytes(modelId, wanted) {
    return this.#callWithRun('run_bytes', modelId, wanted, await this.#encoded(wanted)) >>> 0;
  }

  /**
   * @param {'begin' | 'update'} call
   * @param {number} id
   * @param {Int32Array} tokens of the whole run
   * @param {AbortSignal} signal
   * @param {Progress} report
   */
  async #prefill(call, id, tokens, signal, report) {
    const run = this.#run(id);
    this.#module.lend(tokens, (address) =>
      this.#module.check(call, run.address, address, tokens.length),
    );
    let last = performance.now();
    let left;
    for (let step = 1; (left = this.#module.call('step', run.address)) > 0; step++) {
      if (performance.now() - last < PATIENCE) continue;
      report('run', Math.floor((tokens.length * step) / (step + left)), tokens.length);
      await pause();
      signal.throwIfAborted();
      this.#run(id); // closing the model meanwhile also closes the run
      last = performance.now();
    }
    run.T = tokens.length;
    await report('run', tokens.length, tokens.length);
    signal.throwIfAborted();
  }

  /**
   * @param {OpenRun} run
   * @param {Int32Array} tokens
   */
  #extend(run, tokens) {
    this.#module.lend(tokens, (address) =>
      this.#module.check('extend', run.address, address, tokens.length),
    );
    run.T += tokens.length;
  }

  /** @param {number} id */
  async closeRun(id) {
    const run = this.#run(id);
    this.#runs.delete(id);
    this.#models.get(run.model)?.runs.delete(id);
    this.#module.call('close_run', run.address);
  }

  /**
   * @param {number} id
   * @param {readonly ReadMessage[]} reads
   */
  async read(id, reads) {
    const run = this.#run(id);
    expect(Array.isArray(reads), 'reads', 'a list of reads', reads);
    const tensors = reads.map((read, i) => {
      const isRead =
        typeof read === 'object' && read !== null && ('field' in read || 'metric' in read);
      expect(isRead, `reads[${i}]`, 'an object with a field or a metric', read);
      return 'field' in read ? this.#field(run, read) : this.#metric(run, read);
    });
    return withTransfer(tensors, tensors);
  }

  /**
   * Appends one token drawn from the last position's logits.
   * @param {number} id
   * @param {number} temperature
   * @param {number} topK
   * @param {number} random 32 bits
   */
  async step(id, temperature, topK, random) {
    const run = this.#run(id);
    const token = this.#module.call('sample', run.address, temperature, topK, random);
    if (token < 0) throw new SinkscopeError('bad_request', 'sample', 'there are no logits yet');
    this.#extend(run, Int32Array.of(token));
    const position = run.T - 1;
    const att = this.#row(run, position);
    return withTransfer({ token, position, att }, [att]);
  }

  /**
   * Reads the attention that every head pays from a position: [L, H, position + 1].
   * @param {OpenRun} run
   * @param {number} position
   */
  #row(run, position) {
    const { L, H } = run.architecture;
    if (!run.recordsAtt) return { shape: [L, H, 0], data: new Float32Array(0) };
    const att = this.#field(run, { field: 'att', rows: [position, position + 1] });
    return { ...att, shape: [L, H, position + 1] };
  }

  /**
   * @param {OpenRun} run
   * @param {{ field: string } & import('../sinkscope.js').FieldWhere} read
   */
  #field(run, { field, layer, head, rows, block }) {
    const index = this.#fieldIndex(field);
    checkWhere(run.architecture, layer, head);
    const where = [run.address, index, layer ?? -1, head ?? -1];
    if (block !== undefined) {
      expectInteger(block, 1, run.T, 'block');
      expect(rows === undefined, 'rows', 'none beside blocks', rows);
      const { shape, data } = this.#module.tensor('blocks', ...where, block);
      const [side] = shape.slice(-1);
      return { shape: [...shape.slice(0, -2), 2, side, side], data };
    }
    if (rows === undefined) return this.#module.tensor('field', ...where, 0, -1);
    expect(Array.isArray(rows), 'rows', 'a pair of positions', rows);
    const [from, to] = rows;
    expectInteger(from, 0, run.T, 'rows[0]');
    expectInteger(to, from, run.T, 'rows[1]');
    return this.#module.tensor('field', ...where, from, to - from);
  }

  /**
   * @param {OpenRun} run
   * @param {MetricRead} read
   */
  #metric(run, { metric, eps = this.#describe.defaults.eps, tokens, layer, head, base }) {
    const index = find(this.#describe.metrics, metric, 'metric');
    expect(typeof eps === 'number', 'eps', 'a number', eps);
    if (tokens !== undefined) expectInteger(tokens, 1, run.T, 'tokens');
    checkWhere(run.architecture, layer, head);
    const other = base === undefined ? 0 : this.#run(base).address;
    const where = [layer ?? -1, head ?? -1, other];
    return this.#module.tensor('metric', run.address, index, eps, tokens ?? 0, ...where);
  }

  /** @param {RunRequest} wanted */
  #mask({ fields, streaming = false, measuring = false }) {
    const rows = this.#describe.fields;
    const standard = () => rows.filter((row) => (streaming ? row.streamed : row.standard));
    const names = fields ?? standard().map(({ name }) => name);
    // Every run records the logits at the last position, because generate draws from them.
    const mask = [...names, 'next'].reduce((bits, name) => bits | (1 << this.#fieldIndex(name)), 0);
    const { metrics } = this.#describe;
    const reads = measuring === true ? metrics.map(({ name }) => name) : measuring || [];
    const isSpectral = reads.some((name) => metrics[find(metrics, name, 'metric')].spectral);
    const measures = (measuring ? MEASURES : 0) | (isSpectral ? SPECTRA : 0);
    return mask | (streaming ? STREAMS : 0) | measures;
  }

  /** @param {string} name */
  #fieldIndex(name) {
    return find(this.#describe.fields, name, 'field');
  }

  /** @param {number} id */
  #model(id) {
    const model = this.#models.get(id);
    if (!model) throw new SinkscopeError('closed', 'model', 'this model has been closed');
    return model;
  }

  /** @param {number} id */
  #run(id) {
    const run = this.#runs.get(id);
    if (!run) throw new SinkscopeError('closed', 'run', 'this run, or its model, has been closed');
    return run;
  }
}

/**
 * Marks an answer's tensors, which are copies already: a worker transfers their memory.
 * @template T
 * @param {T} answer
 * @param {Tensor[]} tensors
 */
function withTransfer(answer, tensors) {
  const buffers = tensors.map(({ data }) => /** @type {ArrayBuffer} */ (data.buffer));
  return transfer(answer, buffers);
}

/**
 * @param {Architecture} architecture
 * @param {number | undefined} layer
 * @param {number | undefined} head
 */
function checkWhere({ L, H }, layer, head) {
  if (layer !== undefined) expectInteger(layer, 0, L - 1, 'layer');
  if (head !== undefined) expectInteger(head, 0, H - 1, 'head');
}
