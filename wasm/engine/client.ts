/**
 * Implements the engines, models and runs of types.ts over links to one or several backends.
 */
import { canShareMemory, cores, packageUrl, toPortable } from '#host';
import { JOB_OPTIONS, check, checkList, checkOptions, urlOf } from '../abi/arguments.ts';
import { argumentError, closedError, expect, expectInteger } from '../abi/errors.ts';
import { expectHead } from '../abi/head.ts';
import { MEMORY_BYTES } from '../abi/memory.ts';
import { chooseBinary, sharedBinary } from '../abi/variants.ts';
import { Chain, runInTurn } from './chain.ts';
import { QUIET_JOB } from './job.ts';
import { Link } from './link.ts';
import { transfer } from './messages.ts';
import { BackendResource } from './backend_resource.ts';
import { randomBits } from './random.ts';
import type { Describe, Tensor } from '../abi/types.ts';
import type { Purpose } from '../abi/variants.ts';
import type { RunRequest, ReadMessage } from './backend.ts';
import type { Job } from './job.ts';
import type { BackendApi } from './link.ts';
import type {
  Engine as EngineShape,
  Model as ModelShape,
  Run as RunShape,
  Options,
  EngineOptions,
  RunOptions,
  Edit,
  FieldWhere,
  MetricArguments,
  RunRead,
  GenerateOptions,
  Step,
} from './types.ts';
import type { TrainOptions } from '../lab/types.ts';
import type { Source, ModelFiles } from '../loading/types.ts';
import type { Recordable, RecordOptions } from '../recording/types.ts';

type Files = { config?: string | Source; weights: readonly Source[] };
type Copy = BackendResource<Awaited<ReturnType<BackendApi['open']>>>;
/** Whether an action changes its run, and which other runs it reads. */
type RunTurn = { changes?: boolean; otherRuns?: readonly Run[]; signal?: AbortSignal };
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

/**
 * Returns the default number of workers: one less than the cores, which leaves one to the caller,
 * but two on two cores, because the caller waits during a study.
 */
const defaultWorkers = () => Math.min(Math.max(cores() - 1, Math.min(cores(), 2)), 64);

/** The copies of one model in the other workers take at most this many bytes. */
const COPY_BYTES_MAX = 2 ** 30;

export async function createEngine(options: EngineOptions = {}): Promise<EngineShape> {
  checkOptions(options, { worker: 'flag', kernels: 'text', lab: 'flag', onLost: 'call' });
  const { kernels = 'auto', lab, worker, onLost } = options;
  const { workers = defaultWorkers() } = options;
  const { threads = 1 } = options;
  expectInteger(workers, 1, 64, 'workers');
  const addressOf = (file: string) => new URL(file, binaryFolder(options.base)).href;
  const linksFor = async (purpose: Purpose) => {
    const binary = await chooseBinary(kernels, purpose);
    const sharedFile = threads > 1 && canShareMemory() ? sharedBinary(binary) : undefined;
    // Only the first link gets threads: the others exist to run many jobs at a time.
    const threadOptions = sharedFile ? { address: addressOf(sharedFile), threads } : undefined;
    return Array.from(
      { length: workers },
      (_, i) => new Link(addressOf(binary), worker, onLost, i === 0 ? threadOptions : undefined),
    );
  };
  const links = await linksFor(lab ? 'lab' : 'run');
  try {
    const describe = await links[0].ask((backend) => backend.describe());
    // The first large model starts the threads, so their number can still be refused here.
    expectInteger(threads, 1, describe.limits.threads, 'threads');
    return new Engine(links, describe, linksFor, addressOf);
  } catch (error) {
    links[0].close();
    throw error;
  }
}

/**
 * Returns the folder of the binaries: `base`, or else the folder of the package, which some bundles
 * do not reveal.
 */
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

/**
 * Returns a source in a form that can be posted: a URL becomes text, and a File that cannot be
 * cloned becomes a stream, which is added to `streams`.
 */
function toPostable(source: Source, streams: ReadableStream[]) {
  if (source instanceof URL) return { url: source.href };
  if (source instanceof Blob) {
    const message = toPortable(source);
    if (!(message instanceof Blob)) streams.push(message.stream);
    return message;
  }
  return source instanceof Uint8Array ? source : { ...source, url: String(source.url) };
}

function checkSource(source: unknown, name: string, mayBeText: boolean) {
  const url = source instanceof URL ? source : (source as { url?: unknown })?.url;
  if (url instanceof URL || (typeof url === 'string' && URL.canParse(url)))
    return checkOptions(source, REMOTE_OPTIONS);
  const fits = source instanceof Uint8Array || source instanceof Blob;
  const kinds = `a ${mayBeText ? 'string, ' : ''}Uint8Array, Blob or URL`;
  expect(fits || (mayBeText && typeof source === 'string'), name, kinds, source);
}

/** Closes the result of a job whose signal was aborted between its last chunk and the answer. */
async function dropIfAborted(signal: AbortSignal | undefined, result: { close(): Promise<void> }) {
  if (!signal?.aborted) return;
  await result.close();
  throw signal.reason;
}

class Engine implements EngineShape {
  #links;
  #makeLinks;
  /** Links to backends that read recordings, where the others do not; the first request makes them. */
  #labLinks?: Promise<Link[]>;
  #addressOf;
  #closed = false;

  readonly describe;
  constructor(
    links: Link[],
    describe: Describe,
    makeLinks: (purpose: Purpose) => Promise<Link[]>,
    addressOf: (file: string) => string,
  ) {
    this.#links = links;
    this.#makeLinks = makeLinks;
    this.#addressOf = addressOf;
    this.describe = describe;
  }

  async explain() {
    // Lazy import: callers that only run models need neither this module nor the texts.
    const { readTexts } = await import('../abi/texts.ts');
    return readTexts(new URL(this.#addressOf('sinkscope.describe.json')), this.describe);
  }

  async #linksThatRead() {
    if (this.describe.training) return this.#links;
    this.#labLinks ??= this.#makeLinks('lab');
    const links = await this.#labLinks.catch((error) => {
      this.#labLinks = undefined;
      throw error;
    });
    if (this.#closed) for (const link of links) link.close();
    return links;
  }

  async open(files: ModelFiles, options: Options = {}) {
    check(files, 'object', 'files');
    checkOptions(options, JOB_OPTIONS);
    const { config, weights } = files;
    const allWeights = Array.isArray(weights) ? [...weights] : [weights];
    expect(allWeights.length > 0, 'weights', 'at least one file', weights);
    if (config !== undefined) checkSource(config, 'config', true);
    for (const source of allWeights) checkSource(source, 'weights', false);
    const links = this.#links;
    const open = makeModelOpener({ config, weights: allWeights });
    const copy: Copy = new BackendResource(links[0], 'model', open);
    const { architecture, bytes } = await copy.open(options);
    // slice rounds this number of copies down.
    const otherLinks = links[0].hasOwnThread ? links.slice(1, 1 + COPY_BYTES_MAX / bytes) : [];
    const otherCopies = otherLinks.map((link): Copy => new BackendResource(link, 'model', open));
    const { describe } = this;
    const model = new Model(copy, { architecture, describe }, otherCopies);
    await dropIfAborted(options.signal, model);
    return model;
  }

  async openRecording(source: Source, options: Options = {}) {
    checkSource(source, 'source', false);
    checkOptions(options, JOB_OPTIONS);
    const [{ Recording }, [link]] = await Promise.all([
      import('../recording/recording.ts'),
      this.#linksThatRead(),
    ]);
    const makeMessage = () => {
      const streams: ReadableStream[] = [];
      const message = toPostable(source, streams);
      return transfer(message, streams);
    };
    const recording = new Recording(link, this.describe, makeMessage);
    await recording.open(options);
    await dropIfAborted(options.signal, recording);
    return recording;
  }

  async train(options: TrainOptions) {
    const { beginTraining } = await import('../lab/training.ts');
    return beginTraining(this.#links, this.describe, options);
  }

  async #otherLinks() {
    return (await this.#labLinks?.catch(() => [])) ?? [];
  }

  async memory() {
    const allLinks = [...this.#links, ...(await this.#otherLinks())];
    const openLinks = allLinks.filter((link) => link.isOpen);
    const bytes = await Promise.all(
      openLinks.map((link) => link.ask((backend) => backend.memory())),
    );
    return bytes.reduce((sum, count) => sum + count, 0);
  }

  async close() {
    this.#closed = true;
    for (const link of this.#links) link.close();
    for (const link of await this.#otherLinks()) link.close();
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

class Model implements ModelShape {
  #copy;
  readonly replicas: readonly Model[];

  readonly architecture;
  readonly describe;
  /** @param otherCopies the copies of the replicas, which are not open yet */
  constructor(
    copy: Copy,
    properties: Pick<ModelShape, 'architecture' | 'describe'>,
    otherCopies: readonly Copy[] = [],
  ) {
    this.#copy = copy;
    this.architecture = properties.architecture;
    this.describe = properties.describe;
    this.replicas = [this, ...otherCopies.map((other) => new Model(other, properties))];
  }

  async metadata(key: string) {
    expect(typeof key === 'string', 'key', 'a string', key);
    return this.#copy.ask((backend, { model }) => backend.metadata(model, key));
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
    const run = new Run(this.#copy, ids, request, this, from);
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
    expectInteger(n, 1, limit, 'tokens.length');
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

/**
 * Checks that a run has the same model and worker as the run that is compared with it or begins
 * from it.
 */
function checkSameModel(run: unknown, copy: Copy, where: string): asserts run is Run {
  const fits = run instanceof Run && run.belongsTo(copy);
  if (!fits) expect(false, where, 'a run of the same model, in the same worker', run);
}

class Run implements RunShape {
  #copy;
  #model;
  #tokens;
  #request;
  /**
   * The run that this one begins from. If the caller named a layer, this run's numbers depend on
   * the base run, which is needed for every recomputation; otherwise the base run only saves work.
   */
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
    from?: RunOptions['from'],
  ) {
    this.#copy = copy;
    this.#model = model;
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

  /**
   * Performs an action after all earlier ones on this run and on the runs that it needs.
   */
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

  /**
   * Returns the number of the run at the backend. A new backend computes the run again, to the same
   * bits.
   */
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

  /**
   * Computes the run at the backend and returns its number there.
   * @param partialId number of the run that a stopped update left, which is closed first to free its
   * memory
   */
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

  /**
   * Returns the base run and the layer that this run begins from. Returns undefined if the base run
   * would only save work and was closed or has other tokens by now.
   */
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
    return this.#act({}, async () => {
      const { recordRun } = await import('../recording/run.ts');
      return recordRun({ tokens: this.#tokens, read }, this.#model, options);
    });
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
