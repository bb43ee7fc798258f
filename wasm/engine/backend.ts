/**
 * The backend owns models and runs by number and computes them with one module, in a worker or in
 * the page's thread; client.ts hides the difference.
 */
import { MEMORY_BYTES } from '../abi/memory.ts';
import { pause } from '#host';
import {
  SinkscopeError,
  closedError,
  expect,
  expectInteger,
  indexOfName,
  rowNamed,
} from '../abi/errors.ts';
import { nameOf, readConfig, readWeights, sizeOf } from '../loading/files.ts';
import { expectSameStamp } from '../loading/stamp.ts';
import { transfer, type MetricRead, type ReadMessage } from './messages.ts';
import { loadModule } from './load_module.ts';
import type { Module } from '../abi/module.ts';
import type { Architecture, Tensor, Describe } from '../abi/types.ts';
import type { Job } from './job.ts';
import type { ThreadOptions, ThreadPool } from './thread_pool.ts';
import type { FieldWhere, RunOptions } from './types.ts';
import type { Trainer } from './trainer.ts';
import type { Source, ReadFacts } from '../loading/files.ts';
import type { OpenRecordings } from './open_recordings.ts';

/** `header`: that of a GGUF file, once it has been read. */
export type Facts = ReadFacts & { header?: Uint8Array };
type Progress = (stage: string, done: number, total: number, facts?: Facts) => void;
export type Report = (job: number, ...progress: Parameters<Progress>) => void;
export type RunRequest = Pick<
  RunOptions,
  'fields' | 'edits' | 'maps' | 'streaming' | 'measuring'
> & { capacity: number; from?: { run: number; layer: number } };
type OpenModel = { address: number; architecture: Architecture; runs: Set<number> };
type OpenRun = {
  address: number;
  model: number;
  architecture: Architecture;
  T: number;
  recordsAtt: boolean;
};

/** Models with fewer parameters run on one thread. */
const SHARED_PARAMETERS_MIN = 2 ** 23;

/** Milliseconds of the core between two looks at messages, such as a request to stop. */
const SLICE_MS = 40;

/** @param threadOptions binary for threads, used where the host can share memory */
export async function openBackend(address: string, report: Report, threadOptions?: ThreadOptions) {
  const sharedModule =
    threadOptions &&
    (await loadModule(new URL(threadOptions.address), true).catch(() => undefined));
  if (sharedModule)
    return new Backend(sharedModule, report, createPool(sharedModule, threadOptions.threads));
  return new Backend(await loadModule(new URL(address)), report);
}

/** Returns a pool that starts threads for large models; their code is a lazy import. */
function createPool(module: Module, threads: number) {
  let pool: Promise<ThreadPool | undefined> | undefined;
  return {
    async start(parameters: number) {
      if (parameters < SHARED_PARAMETERS_MIN) return;
      pool ??= import('./thread_pool.ts').then(
        ({ ThreadPool }) => new ThreadPool(module, threads),
        () => undefined, // without this code one thread computes alone
      );
      await (await pool)?.start();
    },
    end: () => void pool?.then((threads) => threads?.end()),
  };
}

export class Backend {
  #module;
  #trainer: Trainer | undefined;
  #openRecordings: OpenRecordings | undefined;
  #report;
  #pool;
  #describe;
  #lastId = 0;
  #models: Map<number, OpenModel> = new Map();
  #runs: Map<number, OpenRun> = new Map();
  #jobs: Map<number, AbortController> = new Map();

  constructor(module: Module, report: Report, pool?: ReturnType<typeof createPool>) {
    this.#module = module;
    this.#pool = pool;
    this.#report = report;
    this.#describe = module.json('describe') as Describe;
    module.codes = Object.fromEntries(this.#describe.status.map(({ code, name }) => [code, name]));
  }

  async describe() {
    return this.#describe;
  }

  /** Calls a method of the trainer, whose code is a lazy import. */
  async training<Call extends keyof Trainer>(
    call: Call,
    ...args: Parameters<Trainer[Call]>
  ): Promise<Awaited<ReturnType<Trainer[Call]>>> {
    const { Trainer } = await import('./trainer.ts');
    this.#trainer ??= new Trainer(this.#module, Number(this.#describe.training?.parts), this);
    type Answer = Awaited<ReturnType<Trainer[Call]>>;
    const method = this.#trainer[call] as unknown as (...args: unknown[]) => Promise<Answer>;
    const answer = await method.apply(this.#trainer, args);
    if (answer instanceof Uint8Array) transfer(answer, [answer.buffer]);
    return answer;
  }

  async memory() {
    return this.#module.size;
  }

  async openRecording(job: Job, source: Source) {
    // Lazy import: only recordings need this module.
    const { OpenRecordings } = await import('./open_recordings.ts');
    this.#openRecordings ??= new OpenRecordings(this.#module);
    const openRecordings = this.#openRecordings;
    return this.#cancellable(job, async (signal, report) => {
      const [block] = await this.#readAll([source], signal, report);
      const recording = openRecordings.add(++this.#lastId, block);
      report('open', 1, 1);
      return recording;
    });
  }

  get #recordings() {
    if (this.#openRecordings) return this.#openRecordings;
    throw closedError('recording');
  }

  /** Reads a recording's tensor; layer and head select along its first dimensions, -1 all. */
  async readRecordingTensor(id: number, name: string, layer: number, head: number) {
    const tensors = [this.#recordings.tensor(id, name, layer, head)];
    return withTransfer(tensors, tensors);
  }

  async openRecordedPrompt(id: number, prompt: number) {
    const { sizes, lengths, prompts } = this.#recordings.get(id);
    const openRun = prompts.get(prompt);
    if (openRun !== undefined) return openRun;
    const address = this.#recordings.trace(id, prompt);
    const run = ++this.#lastId;
    const architecture = sizes as unknown as Architecture;
    const T = lengths[prompt];
    this.#runs.set(run, { address, model: id, architecture, T, recordsAtt: false });
    prompts.set(prompt, run);
    return run;
  }

  async closeRecording(id: number) {
    for (const run of this.#recordings.get(id).prompts.values()) await this.closeRun(run);
    this.#recordings.remove(id);
  }

  /** Ends the threads of a backend without a worker; those of a worker end with the worker. */
  async end() {
    this.#pool?.end();
  }

  /** Asks a job to stop; the job does so before its next chunk. */
  async cancel(job: number) {
    this.#jobs.get(job)?.abort();
  }

  async #cancellable<T>(
    { id, reports }: Job,
    work: (signal: AbortSignal, progress: Progress) => Promise<T>,
  ) {
    const controller = new AbortController();
    this.#jobs.set(id, controller);
    try {
      return await work(controller.signal, (...progress) => {
        if (reports) return this.#report(id, ...progress);
      });
    } finally {
      this.#jobs.delete(id);
    }
  }

  async open(job: Job, files: { config?: Source | string; weights: readonly Source[] }) {
    return this.#cancellable(job, async (signal, report) => {
      const config = await readConfig(files.config ?? '', signal);
      const blocks = await this.#readAll(files.weights, signal, report);
      try {
        report('open', 0, 1);
        await pause();
        signal.throwIfAborted();
        if (files.config === undefined) this.#expectConfig(blocks[0], files.weights[0]);
        expectSameStamp(config, this.#module.bytes(blocks[0].address, blocks[0].bytes));
        const model = this.#open(config, blocks);
        await this.#pool?.start(model.architecture.parameters);
        report('open', 1, 1);
        return model;
      } catch (error) {
        this.#releaseAll(blocks);
        throw error;
      }
    });
  }

  async #readAll(sources: readonly Source[], signal: AbortSignal, report: Progress) {
    const blocks: { address: number; bytes: number }[] = [];
    const sizes = sources.map(sizeOf);
    let offset = 0;
    try {
      for (const [i, source] of sources.entries()) {
        const laterBytes = sizes.slice(i + 1).reduce((sum, bytes) => sum + bytes, 0);
        const onProgress = (done: number, total: number, facts?: ReadFacts) => {
          const totalBytes = offset + total + laterBytes;
          const remaining = (totalBytes - offset - done) / (facts?.rate ?? NaN);
          report('read', offset + done, totalBytes, facts && { ...facts, remaining });
        };
        const findHeader = i === 0 ? this.#headerFinder(report) : undefined;
        const block = await readWeights(this.#module, source, signal, onProgress, findHeader);
        blocks.push(block);
        await findHeader?.(block.address, block.bytes, true);
        offset += block.bytes;
      }
      return blocks;
    } catch (error) {
      this.#releaseAll(blocks);
      throw error;
    }
  }

  /** Returns a function that reports the header of a GGUF file once the bytes that are read contain all of it. */
  #headerFinder(report: Progress) {
    // Each search starts at the first byte, so it waits for twice the bytes of the last search.
    let nextBytes = 0;
    return async (address: number, count: number, isWhole: boolean = false) => {
      if (count < nextBytes && !(isWhole && nextBytes < Infinity)) return;
      nextBytes = 2 * count;
      if (this.#startOf(address, count) !== 'GGUF') return;
      // Lazy import: only GGUF files need this module.
      const { copyHeader } = await import('../abi/metadata.ts');
      const header = copyHeader(this.#module.bytes(address, count));
      if (!header) return;
      nextBytes = Infinity;
      report('header', 0, 1, { header });
    };
  }

  #startOf(address: number, bytes: number) {
    return String.fromCharCode(...this.#module.bytes(address, Math.min(bytes, 4)));
  }

  #releaseAll(blocks: { address: number }[]) {
    for (const { address } of blocks) this.#module.release(address);
  }

  /** Throws for a file without config that has none of its own, as GGUF and nanoGPT's zip have. */
  #expectConfig({ address, bytes }: { address: number; bytes: number }, source: Source) {
    const start = this.#startOf(address, bytes);
    if (start === 'GGUF' || start === 'PK\x03\x04') return;
    const text = `expected a GGUF file, which begins with GGUF, or a config.json; found ${JSON.stringify(start)}`;
    throw new SinkscopeError('bad_file', nameOf(source), text);
  }

  /** @param blocks the weight files; if the model opens, it owns them */
  #open(config: Uint8Array, blocks: { address: number; bytes: number }[]) {
    const fileTable = Uint32Array.from(blocks.flatMap(({ address, bytes }) => [address, bytes]));
    const address = this.#module.lend(config, (configAddress) =>
      this.#module.lend(fileTable, (files) =>
        this.#module.handle('open', configAddress, config.length, files, blocks.length),
      ),
    );
    const architecture = this.#module.json('architecture', address) as Architecture;
    const model = ++this.#lastId;
    this.#models.set(model, { address, architecture, runs: new Set() });
    const bytes = blocks.reduce((sum, block) => sum + block.bytes, 0);
    return { model, architecture, bytes };
  }

  async closeModel(id: number) {
    const model = this.#model(id);
    this.#models.delete(id);
    for (const run of model.runs) await this.closeRun(run);
    this.#module.call('close_model', model.address);
  }

  async run(job: Job, modelId: number, tokens: Int32Array, options: RunRequest) {
    return this.#cancellable(job, async (signal, report) => {
      const id = this.#start(modelId, options, await this.#encodeEdits(options));
      try {
        await this.#prefill('begin', id, tokens, signal, report);
        return id;
      } catch (error) {
        // If the model was closed meanwhile, this run was closed with it.
        if (this.#runs.has(id)) await this.closeRun(id);
        throw error;
      }
    });
  }

  /** Replaces the tokens of a run; after a stopped update it can only be updated or closed. */
  async update(job: Job, id: number, tokens: Int32Array) {
    return this.#cancellable(job, (signal, report) =>
      this.#prefill('update', id, tokens, signal, report),
    );
  }

  async #encodeEdits({ edits = [] }: RunRequest) {
    if (edits.length === 0) return undefined;
    const { encodeEdits } = await import('./edits.ts');
    return encodeEdits(edits, this.#describe);
  }

  #start(modelId: number, { from, ...request }: RunRequest, words?: Int32Array) {
    const { architecture, runs } = this.#model(modelId);
    const mask = this.#mask(request);
    const origin = from ? [this.#run(from.run).address, from.layer] : [0, 0];
    const address = this.#callWithRun('start', modelId, request, words, ...origin);
    const id = ++this.#lastId;
    const recordsAtt = !request.measuring && (mask & (1 << this.#fieldIndex('att'))) !== 0;
    this.#runs.set(id, { address, model: modelId, architecture, T: 0, recordsAtt });
    runs.add(id);
    return id;
  }

  #callWithRun(
    call: string,
    modelId: number,
    request: RunRequest,
    words: Int32Array | undefined,
    ...extraArgs: number[]
  ) {
    const { address } = this.#model(modelId);
    const { edits = [], capacity, maps } = request;
    const mask = this.#mask(request);
    // The core takes 0 for its default budget, so 0 becomes 1 byte, into which no map fits.
    const budget = maps === undefined ? 0 : Math.max(1, Math.min(maps, MEMORY_BYTES - 1));
    const callWithEdits = (editsAddress: number) =>
      this.#module.handle(
        call,
        address,
        capacity,
        mask,
        budget,
        editsAddress,
        edits.length,
        ...extraArgs,
      );
    return words ? this.#module.lend(words, callWithEdits) : callWithEdits(0);
  }

  async runBytes(modelId: number, request: RunRequest) {
    return this.#callWithRun('run_bytes', modelId, request, await this.#encodeEdits(request)) >>> 0;
  }

  /** Begins a run or updates it to `tokens`, in pieces between which messages are handled. */
  async #prefill(
    call: 'begin' | 'update',
    id: number,
    tokens: Int32Array,
    signal: AbortSignal,
    report: Progress,
  ) {
    const run = this.#run(id);
    this.#module.lend(tokens, (address) =>
      this.#module.check(call, run.address, address, tokens.length),
    );
    let lastPause = performance.now();
    let piecesLeft;
    for (let step = 1; (piecesLeft = this.#module.call('step', run.address)) > 0; step++) {
      if (performance.now() - lastPause < SLICE_MS) continue;
      report('run', Math.floor((tokens.length * step) / (step + piecesLeft)), tokens.length);
      await pause();
      signal.throwIfAborted();
      this.#run(id); // throws if the run was closed during the pause
      lastPause = performance.now();
    }
    run.T = tokens.length;
    report('run', tokens.length, tokens.length);
    signal.throwIfAborted();
  }

  async closeRun(id: number) {
    const run = this.#run(id);
    this.#runs.delete(id);
    this.#models.get(run.model)?.runs.delete(id);
    this.#module.call('close_run', run.address);
  }

  async read(id: number, reads: readonly ReadMessage[]) {
    const run = this.#run(id);
    expect(Array.isArray(reads), 'reads', 'a list of reads', reads);
    const tensors = reads.map((read, i) => {
      const isRead = 'field' in read || 'metric' in read;
      expect(isRead, `reads[${i}]`, 'an object with a field or a metric', read);
      return 'field' in read ? this.#field(run, read) : this.#metric(run, read);
    });
    return withTransfer(tensors, tensors);
  }

  /** Appends one token drawn from the last position's logits with 32 `random` bits. */
  async step(id: number, temperature: number, topK: number, random: number) {
    const run = this.#run(id);
    const token = this.#module.call('sample', run.address, temperature, topK, random);
    if (token < 0) throw new SinkscopeError('bad_request', 'sample', 'there are no logits yet');
    this.#module.lend(Int32Array.of(token), (address) =>
      this.#module.check('extend', run.address, address, 1),
    );
    const position = run.T++;
    const { L, H } = run.architecture;
    const att = run.recordsAtt
      ? { ...this.#field(run, { field: 'att', rows: [position, run.T] }), shape: [L, H, run.T] }
      : { shape: [L, H, 0], data: new Float32Array(0) };
    return withTransfer({ token, position, att }, [att]);
  }

  #field(run: OpenRun, { field, layer, head, rows, block }: { field: string } & FieldWhere) {
    const index = this.#fieldIndex(field);
    checkWhere(run.architecture, layer, head);
    const args = [run.address, index, layer ?? -1, head ?? -1];
    if (block !== undefined) {
      expectInteger(block, 1, run.T, 'block');
      expect(rows === undefined, 'rows', 'none beside blocks', rows);
      const { shape, data } = this.#module.tensor('blocks', ...args, block);
      const [side] = shape.slice(-1);
      return { shape: [...shape.slice(0, -2), 2, side, side], data };
    }
    if (rows === undefined) return this.#module.tensor('field', ...args, 0, -1);
    expect(Array.isArray(rows), 'rows', 'a pair of positions', rows);
    const [from, to] = rows;
    expectInteger(from, 0, run.T, 'rows[0]');
    expectInteger(to, from, run.T, 'rows[1]');
    return this.#module.tensor('field', ...args, from, to - from);
  }

  #metric(
    run: OpenRun,
    { metric, eps = this.#describe.defaults.eps, tokens, layer, head, base }: MetricRead,
  ) {
    const index = indexOfName(this.#describe.metrics, metric, 'metric');
    const isThreshold = typeof eps === 'number' && eps >= 0 && eps <= 1;
    expect(isThreshold, 'eps', 'a number from 0 to 1', eps);
    if (tokens !== undefined) expectInteger(tokens, 1, run.T, 'tokens');
    checkWhere(run.architecture, layer, head);
    const baseAddress = base === undefined ? 0 : this.#run(base).address;
    const args = [layer ?? -1, head ?? -1, baseAddress];
    return this.#module.tensor('metric', run.address, index, eps, tokens ?? 0, ...args);
  }

  #mask({ fields, streaming = false, measuring = false }: RunRequest) {
    const { fields: table, metrics, flags } = this.#describe;
    const defaultFields = () => table.filter((row) => (streaming ? row.streamed : row.standard));
    const names = fields ?? defaultFields().map(({ name }) => name);
    // Every run records the logits at the last position, because generate draws from them.
    const mask = [...names, 'next'].reduce((bits, name) => bits | (1 << this.#fieldIndex(name)), 0);
    const metricNames = measuring === true ? metrics.map(({ name }) => name) : measuring || [];
    const isSpectral = metricNames.some((name) => rowNamed(metrics, name, 'metric').spectral);
    const measuringFlags = (measuring ? flags.measuring : 0) | (isSpectral ? flags.spectral : 0);
    return mask | (streaming ? flags.streaming : 0) | measuringFlags;
  }

  #fieldIndex(name: string) {
    return indexOfName(this.#describe.fields, name, 'field');
  }

  #model(id: number) {
    const model = this.#models.get(id);
    if (!model) throw closedError('model');
    return model;
  }

  #run(id: number) {
    const run = this.#runs.get(id);
    if (!run) throw new SinkscopeError('closed', 'run', 'this run, or its model, has been closed');
    return run;
  }
}

/** Marks an answer's tensors, copies that nothing else uses, so that a worker moves them. */
function withTransfer<T>(answer: T, tensors: Tensor[]) {
  const buffers = tensors.map(({ data }) => data.buffer as ArrayBuffer);
  return transfer(answer, buffers);
}

function checkWhere({ L, H }: Architecture, layer: number | undefined, head: number | undefined) {
  if (layer !== undefined) expectInteger(layer, 0, L - 1, 'layer');
  if (head !== undefined) expectInteger(head, 0, H - 1, 'head');
}
