/** Engines that run models over links to backends; load/engine.ts adds what needs more folders. */
import { canShareMemory, cores, packageUrl, toPortable } from '#host';
import { JOB_OPTIONS, check, checkList, checkOptions, urlOf } from '../abi/arguments.ts';
import { argumentError, closedError, expect, expectInteger } from '../abi/errors.ts';
import { expectHead } from '../abi/head.ts';
import { MEMORY_BYTES } from '../abi/memory.ts';
import { Chain, runInTurn } from './chain.ts';
import { QUIET_JOB, type Job } from './job.ts';
import { Link, type BackendApi } from './link.ts';
import { transfer, type ReadMessage } from './messages.ts';
import { BackendResource } from './backend_resource.ts';
import { randomBits } from './random.ts';
import type { Bytes, Describe, Options, Tensor } from '../abi/types.ts';
import type { RunRequest } from './backend.ts';
import type {
  Model as ModelShape,
  Run as RunShape,
  EngineOptions,
  OpenOptions,
  RunOptions,
  Edit,
  FieldWhere,
  MetricArguments,
  RunRead,
  GenerateOptions,
  Step,
  Recordable,
  RecordOptions,
} from './types.ts';
import type { Source, ModelFiles } from '../loading/types.ts';

type Files = { config?: string | Source; weights: readonly Source[] };
type Copy = BackendResource<Awaited<ReturnType<BackendApi['open']>>>;
/** Whether an action changes its run, and which other runs it reads. */
type RunTurn = { changes?: boolean; otherRuns?: readonly Run[]; signal?: AbortSignal };
export type RecordRun = (
  run: Pick<RunShape, 'tokens' | 'read'>,
  model: Recordable,
  options?: RecordOptions,
) => Promise<Bytes>;
/** What createEngine makes; `reader` reaches a backend that reads recordings. */
export type EngineParts = {
  links: readonly Link[];
  reader: Link;
  describe: Describe;
  addressOf: (file: string) => string;
};
type BackendRun = { backend: BackendApi; id: Promise<number>; isPartial: boolean };

/** The `#from.layer` of a run that begins at the first layer that its edits touch. */
const LAYER_BY_EDITS = -1;

const RUN_OPTIONS = { fields: 'list', edits: 'list', streaming: 'flag', measuring: 'flag or list' };

const REMOTE_OPTIONS = {
  token: 'text',
  cache: 'flag',
  version: 'text',
  sha256: 'text',
  bytes: 'count',
  id: 'text',
};

const SPARE_TOKENS = 64;

/** Leaves a core to the caller, but of two takes both, because the caller waits during a study. */
const defaultWorkers = () => Math.min(Math.max(cores() - 1, Math.min(cores(), 2)), 64);

/** The copies of one model in the other workers take at most this many bytes. */
const COPY_BYTES_MAX = 2 ** 30;

export async function startEngine(options: EngineOptions = {}): Promise<EngineParts> {
  checkOptions(options, { worker: 'flag', lab: 'flag', onLost: 'call' });
  const { lab = false, worker, onLost } = options;
  const { workers = defaultWorkers() } = options;
  const { threads = 1 } = options;
  expectInteger(workers, 1, 64, 'workers');
  const addressOf = (file: string) => new URL(file, binaryFolder(options.base)).href;
  const name = lab ? 'sinkscope.lab' : 'sinkscope';
  // Only the first link gets threads: the others exist to run many jobs at a time.
  const threadOptions =
    threads > 1 && canShareMemory()
      ? { address: addressOf(`${name}.threads.wasm`), threads }
      : undefined;
  const links = Array.from(
    { length: workers },
    (_, i) => new Link(addressOf(`${name}.wasm`), worker, onLost, i ? undefined : threadOptions),
  );
  const reader = lab ? links[0] : new Link(addressOf('sinkscope.lab.wasm'), worker, onLost);
  try {
    const describe = await links[0].ask((backend) => backend.describe());
    // The first large model starts the threads, so their number can still be refused here.
    expectInteger(threads, 1, describe.limits.threads, 'threads');
    return { links, reader, describe, addressOf };
  } catch (error) {
    links[0].close();
    throw error;
  }
}

/** Returns `base`, or else the folder of the package, which some bundles do not reveal. */
function binaryFolder(base: URL | string | undefined) {
  const packageFolder = packageUrl();
  if (base === undefined) {
    const expected = 'the folder of sinkscope.wasm and the other binaries, which this bundle lacks';
    if (!packageFolder) throw argumentError('base', expected, base);
    return new URL(packageFolder);
  }
  const address = urlOf(
    base,
    globalThis.document?.baseURI ?? packageFolder ?? location.href,
    'base',
  );
  if (!address.pathname.endsWith('/')) address.pathname += '/';
  return address;
}

/** Returns a source to post: a URL as text, a File that cannot be cloned as a stream. */
export function toPostable(source: Source, streams: ReadableStream[]) {
  if (source instanceof URL) return { url: source.href };
  if (source instanceof Blob) {
    const message = toPortable(source);
    if (!(message instanceof Blob)) streams.push(message.stream);
    return message;
  }
  return source instanceof Uint8Array ? source : { ...source, url: String(source.url) };
}

export function checkSource(source: unknown, name: string, mayBeText: boolean) {
  const url = source instanceof URL ? source : (source as { url?: unknown })?.url;
  if (url instanceof URL || (typeof url === 'string' && URL.canParse(url)))
    return checkOptions(source, REMOTE_OPTIONS);
  const fits = source instanceof Uint8Array || source instanceof Blob;
  const kinds = `a ${mayBeText ? 'string, ' : ''}Uint8Array, Blob or URL`;
  expect(fits || (mayBeText && typeof source === 'string'), name, kinds, source);
}

/** Closes the result of a job whose signal was aborted between its last chunk and the answer. */
export async function dropIfAborted(
  signal: AbortSignal | undefined,
  result: { close(): Promise<void> },
) {
  if (!signal?.aborted) return;
  await result.close();
  throw signal.reason;
}

export class ModelEngine {
  #recordRun;
  protected readonly parts: EngineParts;

  readonly describe;
  constructor(parts: EngineParts, recordRun: RecordRun) {
    this.parts = parts;
    this.describe = parts.describe;
    this.#recordRun = recordRun;
  }

  async explain() {
    // Lazy import: callers that only run models need neither this module nor the texts.
    const { readTexts } = await import('./texts.ts');
    return readTexts(new URL(this.parts.addressOf('sinkscope.describe.json')), this.describe);
  }

  async open(files: ModelFiles, options: OpenOptions = {}) {
    check(files, 'object', 'files');
    checkOptions(options, { ...JOB_OPTIONS, onHeader: 'call' });
    const { signal, onProgress, onHeader } = options;
    const { config, weights } = files;
    const allWeights = Array.isArray(weights) ? [...weights] : [weights];
    expect(allWeights.length > 0, 'weights', 'at least one file', weights);
    if (config !== undefined) checkSource(config, 'config', true);
    for (const source of allWeights) checkSource(source, 'weights', false);
    const { links, describe } = this.parts;
    const open = makeModelOpener({ config, weights: allWeights });
    const copy: Copy = new BackendResource(links[0], 'model', open);
    let header: Uint8Array | undefined;
    const { architecture, bytes } = await copy.open({
      signal,
      onProgress: ({ header: readHeader, ...progress }) => {
        if (!readHeader) return onProgress?.(progress);
        header = readHeader;
        onHeader?.(header);
      },
    });
    // slice rounds this number of copies down.
    const otherLinks = links[0].hasOwnThread ? links.slice(1, 1 + COPY_BYTES_MAX / bytes) : [];
    const otherCopies = otherLinks.map((link): Copy => new BackendResource(link, 'model', open));
    const properties = { architecture, describe, header, recordRun: this.#recordRun };
    const model = new Model(copy, properties, otherCopies);
    await dropIfAborted(signal, model);
    return model;
  }

  get #allLinks() {
    return new Set([...this.parts.links, this.parts.reader]);
  }

  async memory() {
    const openLinks = [...this.#allLinks].filter((link) => link.isOpen);
    const bytes = await Promise.all(
      openLinks.map((link) => link.ask((backend) => backend.memory())),
    );
    return bytes.reduce((sum, count) => sum + count, 0);
  }

  async close() {
    for (const link of this.#allLinks) link.close();
  }
}

const makeModelOpener =
  ({ config, weights }: Files) =>
  (backend: BackendApi, job: Job) => {
    const streams: ReadableStream[] = [];
    const isText = config === undefined || typeof config === 'string';
    const sources = {
      config: isText ? config : toPostable(config, streams),
      weights: weights.map((source) => toPostable(source, streams)),
    };
    return backend.open(job, transfer(sources, streams));
  };

type ModelProperties = Pick<ModelShape, 'architecture' | 'describe' | 'header'> & {
  recordRun: RecordRun;
};

class Model implements ModelShape {
  #copy;
  #recordRun;
  readonly replicas: readonly Model[];

  readonly architecture;
  readonly describe;
  readonly header;
  /** @param otherCopies the copies of the replicas, which are not open yet */
  constructor(copy: Copy, properties: ModelProperties, otherCopies: readonly Copy[] = []) {
    this.#copy = copy;
    this.#recordRun = properties.recordRun;
    this.architecture = properties.architecture;
    this.describe = properties.describe;
    this.header = properties.header;
    this.replicas = [this, ...otherCopies.map((other) => new Model(other, properties))];
  }

  async metadata(key: string) {
    expect(typeof key === 'string', 'key', 'a string', key);
    this.#copy.checkOpen();
    if (!this.header) return undefined;
    // Lazy import: only GGUF files need this module.
    const { readMetadata } = await import('../abi/metadata.ts');
    return readMetadata(this.header)(key);
  }

  async run(tokens: ArrayLike<number>, options: RunOptions = {}) {
    this.#copy.checkOpen();
    const { V, L, blocks = L } = this.architecture;
    check(tokens, 'list', 'tokens');
    checkOptions(options, { ...JOB_OPTIONS, ...RUN_OPTIONS, from: 'object' });
    const { from } = options;
    if (from) checkSameModel(from.run, this.#copy, 'from.run');
    if (from?.layer !== undefined) expectInteger(from.layer, 0, blocks, 'from.layer');
    const request = this.#checkedRequest(tokens.length, options);
    const ids = checkIds(V, tokens);
    const run = new Run(this.#copy, ids, request, this, this.#recordRun, from);
    await run.begin(options);
    await dropIfAborted(options.signal, run);
    return run;
  }

  #checkedRequest(
    n: number,
    { fields, edits = [], streaming, measuring, maps, from, ...options }: RunOptions,
  ) {
    const { context } = this.architecture;
    // Some edits allow more tokens than the context; the core checks which.
    const limit = edits.length > 0 ? this.describe.limits.tokens : context;
    const reason = limit === context ? "the model's context" : '';
    expectInteger(n, 1, limit, 'tokens.length', reason);
    const spareTokens = from?.layer === undefined ? SPARE_TOKENS : 0;
    const { capacity = Math.max(n, Math.min(context, n + spareTokens)) } = options;
    expectInteger(capacity, n, limit, 'capacity');
    if (maps !== undefined) expectInteger(maps, 0, MEMORY_BYTES, 'maps');
    return { fields, edits, capacity, streaming, measuring, maps };
  }

  async runBytes(tokens: number, options: RunOptions = {}) {
    this.#copy.checkOpen();
    checkOptions(options, RUN_OPTIONS);
    const request = this.#checkedRequest(tokens, options);
    return this.#copy.ask((backend, { model }) => backend.runBytes(model, request));
  }

  async close() {
    await Promise.all([
      this.#copy.close((backend, { model }) => backend.closeModel(model)),
      ...this.replicas.slice(1).map((replica) => replica.close()),
    ]);
  }
}

function checkIds(V: number, tokens: ArrayLike<number>) {
  const ids = Array.from(tokens);
  ids.forEach((id, i) => expectInteger(id, 0, V - 1, `tokens[${i}]`));
  return ids;
}

function checkSameModel(run: unknown, copy: Copy, where: string): asserts run is Run {
  const fits = run instanceof Run && run.belongsTo(copy);
  if (!fits) expect(false, where, 'a run of the same model, in the same worker', run);
}

class Run implements RunShape {
  #copy;
  #model;
  #recordRun;
  #tokens;
  #request;
  /** A run whose caller named a layer depends on the one that it begins from. */
  #from;
  #chain = new Chain();
  /** The run at a backend. After a stopped update it can only be updated or closed. */
  #backendRun: BackendRun | undefined;
  /** True once close was called: no action begins any more. */
  #closed = false;
  /** True once the action of close has begun, after all earlier actions. */
  #released = false;

  constructor(
    copy: Copy,
    tokens: number[],
    request: RunRequest & { edits: readonly Edit[] },
    model: Recordable,
    recordRun: RecordRun,
    from?: RunOptions['from'],
  ) {
    this.#copy = copy;
    this.#model = model;
    this.#recordRun = recordRun;
    this.#from = from && { run: from.run as Run, layer: from.layer ?? LAYER_BY_EDITS };
    this.#tokens = tokens;
    this.#request = request;
  }

  get tokens() {
    return this.#tokens as readonly number[];
  }

  get edits() {
    return this.#request.edits;
  }

  async begin({ signal, onProgress }: Options) {
    const { link } = this.#copy;
    await this.#act({ changes: true, signal }, () =>
      link.job({ signal, onProgress }, (backend, job) => this.#idAt(backend, job, signal)),
    );
    if (this.#from?.layer === LAYER_BY_EDITS) this.#from = undefined;
  }

  /** Acts after all earlier actions on this run and on the runs that it needs. */
  #act<T>({ changes, otherRuns = [], signal }: RunTurn, action: () => Promise<T>): Promise<T> {
    const runs = [this, ...otherRuns];
    if (runs.some((run) => run.#closed)) throw closedError('run');
    const readChains = runs.flatMap((run) => run.#withBases()).map((run) => run.#chain);
    return runInTurn(
      { changedChain: changes ? this.#chain : undefined, readChains, signal },
      action,
    );
  }

  #withBases(): Run[] {
    const { run, layer = LAYER_BY_EDITS } = this.#from ?? {};
    if (!run || (layer === LAYER_BY_EDITS && run.#closed)) return [this];
    return [this, ...run.#withBases()];
  }

  /** Returns the run's number at the backend; a new one computes it again, to the same bits. */
  #idAt(backend: BackendApi, job: Job = QUIET_JOB, signal?: AbortSignal): Promise<number> {
    if (this.#released) throw closedError('run');
    const currentRun = this.#backendRun?.backend === backend ? this.#backendRun : undefined;
    if (currentRun && !currentRun.isPartial) return currentRun.id;
    const run = {
      backend,
      id: this.#compute(backend, currentRun?.id, job, signal),
      isPartial: false,
    };
    this.#backendRun = run;
    run.id.catch(() => {
      if (this.#backendRun === run) this.#backendRun = undefined;
    });
    return run.id;
  }

  /** Computes the run at the backend, and closes `partialId`, which a stopped update left. */
  async #compute(
    backend: BackendApi,
    partialId: Promise<number> | undefined,
    job: Job,
    signal?: AbortSignal,
  ) {
    const { model } = await this.#copy.openAt(backend);
    const origin = await this.#originAt(backend);
    if (partialId) await backend.closeRun(await partialId);
    signal?.throwIfAborted();
    return backend.run(job, model, Int32Array.from(this.#tokens), {
      ...this.#request,
      from: origin,
    });
  }

  /** Returns the base run and its layer; undefined if it only saved work and no longer can. */
  async #originAt(backend: BackendApi) {
    if (!this.#from) return undefined;
    const { run, layer } = this.#from;
    const tokens = this.#tokens;
    const hasSameTokens =
      run.#tokens.length === tokens.length && tokens.every((id, i) => id === run.#tokens[i]);
    if (layer === LAYER_BY_EDITS && (run.#closed || !hasSameTokens)) return undefined;
    return { run: await run.#idAt(backend), layer };
  }

  async update(tokens: ArrayLike<number>, options: Options = {}) {
    check(tokens, 'list', 'tokens');
    checkOptions(options, JOB_OPTIONS);
    expectInteger(tokens.length, 1, this.#request.capacity, 'tokens.length');
    const ids = checkIds(this.#model.architecture.V, tokens);
    const { signal } = options;
    const { link } = this.#copy;
    await this.#act({ changes: true, signal }, () =>
      link.job(options, async (backend, job) => {
        if (this.#backendRun?.backend !== backend) await this.#idAt(backend, job, signal);
        const handle = this.#backendRun as BackendRun;
        const id = await handle.id;
        signal?.throwIfAborted();
        try {
          await backend.update(job, id, Int32Array.from(ids));
          this.#tokens = ids;
          handle.isPartial = false;
        } catch (error) {
          // A refused update changes nothing; a stopped one leaves a partial run.
          if (signal?.aborted) handle.isPartial = true;
          throw error;
        }
      }),
    );
  }

  async field(name: string, where: FieldWhere = {}) {
    const [tensor] = await this.read([{ ...where, field: name }]);
    return tensor;
  }

  async metric(name: string, args: MetricArguments = {}) {
    const [tensor] = await this.read([{ ...args, metric: name }]);
    return tensor;
  }

  async read(reads: readonly RunRead[]): Promise<Tensor[]> {
    checkList(reads, 'object', 'reads');
    const list = Array.from(reads);
    return this.#act({ otherRuns: this.#basesOf(list) }, () => this.#read(list));
  }

  #basesOf(reads: readonly RunRead[]) {
    const bases = reads.flatMap((read) => ('base' in read && read.base ? [read.base] : []));
    return bases.map((base) => {
      checkSameModel(base, this.#copy, 'base');
      return base;
    });
  }

  #read(reads: readonly RunRead[]): Promise<Tensor[]> {
    return this.#copy.link.ask(async (backend) => {
      const bases = this.#basesOf(reads);
      const [id, ...others] = await Promise.all([this, ...bases].map((run) => run.#idAt(backend)));
      const messages = reads.map((read) =>
        'base' in read && read.base ? { ...read, base: others.shift() } : read,
      );
      return backend.read(id, messages as ReadMessage[]);
    });
  }

  belongsTo(copy: Copy) {
    return this.#copy === copy;
  }

  async record(options?: RecordOptions) {
    const read = (reads: readonly RunRead[]) => this.#read(reads);
    return this.#act({}, () =>
      this.#recordRun({ tokens: this.#tokens, read }, this.#model, options),
    );
  }

  async *generate(options: GenerateOptions) {
    checkOptions(options, { ...JOB_OPTIONS, temperature: 'number', seed: 'number' });
    const { count, temperature = 0, topK = 0, seed = 1, signal, onProgress } = options;
    const { capacity } = this.#request;
    expectHead(this.#model.architecture);
    expectInteger(count, 0, capacity, 'count');
    expect(temperature >= 0 && temperature < Infinity, 'temperature', '0 or more', temperature);
    expectInteger(topK, 0, 2 ** 31 - 1, 'topK');
    const random = randomBits(seed);
    for (let done = 0; done < count; done++) {
      signal?.throwIfAborted();
      const bits = random();
      const step = await this.#act({ changes: true, signal }, async () => {
        if (done === 0) expectInteger(count, 0, capacity - this.#tokens.length, 'count');
        const backendStep = await this.#copy.link.ask(async (backend) =>
          backend.step(await this.#idAt(backend), temperature, topK, bits),
        );
        this.#tokens.push(backendStep.token);
        return backendStep;
      });
      onProgress?.({ stage: 'generate', done: done + 1, total: count });
      yield step as Step;
    }
  }

  async close(): Promise<void> {
    const { link } = this.#copy;
    const closePromise = this.#act({ changes: true }, async () => {
      const handle = this.#backendRun;
      this.#released = true;
      this.#backendRun = undefined;
      this.#from = undefined;
      if (!handle || !link.isOpen) return;
      await link.ask(async (backend) => {
        if (backend === handle.backend) await backend.closeRun(await handle.id);
      });
    });
    this.#closed = true;
    await closePromise;
  }
}
