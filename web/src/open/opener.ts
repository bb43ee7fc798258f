/**
 * Opens a model from a name or from files, in steps: the reader names a model, the page looks up its plan, the reader
 * sees the cost and agrees, the page loads the weights. Until then the page reads only small files. It opens one model
 * at a time; models of further links wait in a queue.
 */
import type { DiskFile, HubOptions, Plan } from 'sinkscope';
import { type Models } from '../run/models';
import { loadWords, type LoadProgress } from '../run/progress';
import { isDownload } from './words';
import { errorSentence, InputError, isTimeout } from '../ask/errors';
import {
  idOfAddress,
  idOfRecordingFile,
  isRecordingId,
  isOnThisSite,
  isRecordingFile,
} from '../ask/recordings';
import {
  fingerprintOf,
  hubName,
  idOfFiles,
  idOfPlan,
  isHubId,
  isOutsideZoo,
  nameOfId,
  titleOfFiles,
  isOnDisk,
} from '../ask/ids';

export type Stage =
  | { readonly name: 'choose' }
  /** A link names a model; the reader must agree to contact a hub, or choose local files. */
  | { readonly name: 'ask'; readonly id: string }
  | { readonly name: 'looking'; readonly text: string }
  | { readonly name: 'several'; readonly models: readonly Candidate[] }
  | {
      readonly name: 'plan';
      readonly plan: Plan;
      readonly cachedBytes: number;
      readonly isSlow?: boolean;
    }
  /** A recording on another site; `bytes` is undefined if the server does not state a size. */
  | { readonly name: 'recording'; readonly id: string; readonly bytes: number | undefined }
  | { readonly name: 'loading'; readonly plan: Plan; readonly progress: LoadProgress };

export interface Candidate {
  readonly title: string;
  readonly bytes: number;
  /** A name to look up on the hub, or a plan for files on the disk. */
  readonly source: string | Plan;
}

/** What the reader typed. No link contains any of it, and the token is stored nowhere else. */
export interface Fields {
  readonly name: string;
  readonly token: string;
  readonly endpoint: string;
  /** Whether the model joins the shown ones instead of replacing them. */
  readonly isBeside: boolean;
}

interface Dependencies {
  /** Returns undefined until the engine runs. */
  readonly models: () => Models | undefined;
  /** Called when a model is open, because the reader chose it or a link named it. */
  readonly onOpened: (id: string, how: 'alone' | 'beside' | 'asked') => void;
  /** Called with an error that no open dialog shows. */
  readonly onFailed: (text: string) => void;
  readonly onChanged: () => void;
}

/** Storage key of the hub's address. No link can set that address, since it decides which server the page contacts. */
const ENDPOINT_KEY = 'sinkscope.endpoint';
export const ENDPOINT = 'https://huggingface.co';

const outside = () => import('../ask/outside');

function storedEndpoint(): string {
  try {
    return localStorage.getItem(ENDPOINT_KEY) ?? '';
  } catch {
    return '';
  }
}

export class Opener {
  stage: Stage = { name: 'choose' };
  fields: Fields = { name: '', token: '', endpoint: storedEndpoint(), isBeside: false };
  /** Why the last step failed, in a sentence; '' if it did not. */
  error = '';
  /** Bytes in the cache; NaN until known. */
  totalCachedBytes = NaN;
  isShown = false;
  readonly #dependencies: Dependencies;
  #job: AbortController | undefined;
  /** Models of links that the page has not asked the reader about yet. */
  #waitingIds: readonly string[] = [];
  /** Models that the reader has declined; the page does not ask again. */
  readonly #declinedIds = new Set<string>();
  /** Repositories whose checkpoints the reader steps through; the page does not ask again for each of them. */
  readonly #trustedRepositories = new Set<string>();
  constructor(dependencies: Dependencies) {
    this.#dependencies = dependencies;
  }

  /** The work in progress in words, for readers who have closed the dialog. */
  get work(): string | undefined {
    const { stage } = this;
    if (stage.name === 'looking') return stage.text;
    return stage.name === 'loading' ? `Loading: ${loadWords(stage.progress)}` : undefined;
  }

  show(): void {
    this.isShown = true;
    void this.#countCachedBytes();
    this.#dependencies.onChanged();
  }

  /** Closes the dialog: stops the present step, and declines the models of links. */
  hide(): void {
    if (!this.isShown) return;
    this.#job?.abort();
    this.isShown = false;
    for (const id of this.#waitingIds) this.#declinedIds.add(id);
    this.#waitingIds = [];
    this.#set({ name: 'choose' });
  }

  openDialog(name?: string): void {
    this.show();
    if (name === undefined) return;
    if (isOnDisk(name) || isRecordingId(name)) {
      this.#waitingIds = [name, ...this.#waitingIds.filter((waiting) => waiting !== name)];
      this.#askNext();
      return;
    }
    this.edit({ name });
    void this.lookUp(name);
  }

  edit(change: Partial<Fields>): void {
    this.fields = { ...this.fields, ...change };
    if (change.endpoint !== undefined) {
      try {
        localStorage.setItem(ENDPOINT_KEY, change.endpoint);
      } catch {
        // Without storage the page uses the endpoint for this visit only.
      }
    }
    this.#dependencies.onChanged();
  }

  /** Returns to the choice of a model; a download stops, and its bytes stay in the cache. */
  goBack(): void {
    this.#job?.abort();
    this.#set({ name: 'choose' });
  }

  trust(repository: string): void {
    this.#trustedRepositories.add(repository);
  }

  lookUp(name: string): Promise<void> {
    const address = recordingAddress(name);
    if (address) {
      const id = idOfAddress(address);
      return this.#step(`Looking up ${nameOfId(id)}`, async (signal) => {
        const bytes = await this.#dependencies.models()?.recordings.size(id, signal);
        this.#set({ name: 'recording', id, bytes });
      });
    }
    return this.#step(`Looking up ${name}`, async (signal) => {
      const onRetry = ({ reason }: { readonly reason: string }) =>
        this.#set({ name: 'looking', text: `${name}: ${reason}` });
      await this.#present(await this.#resolve(name, signal, onRetry), signal);
    });
  }

  openFiles(files: readonly DiskFile[] | Promise<readonly DiskFile[]>): Promise<void> {
    return this.#step('Reading the files', async (signal) => {
      const diskFiles = await files;
      const emptyFile = diskFiles.find(({ file }) => file.size === 0);
      if (emptyFile)
        throw new InputError(`${emptyFile.path} is empty: expected a model’s file, found 0 bytes.`);
      const [firstFile] = diskFiles;
      if (firstFile && diskFiles.length === 1 && (await isRecordingFile(firstFile.file))) {
        const id = await idOfRecordingFile(firstFile.file as File);
        this.#checkFingerprint(id);
        return this.#loadRecording(id, signal, firstFile.file);
      }
      const { planFiles } = await outside();
      const plans = await planFiles(diskFiles);
      const [plan, ...more] = plans;
      signal.throwIfAborted();
      // The files are local, so loads them at once.
      if (plan && !more.length) return this.#load(plan, signal);
      this.show();
      this.#set({
        name: 'several',
        models: plans.map((plan) => ({
          title: titleOfFiles(plan),
          bytes: plan.bytes,
          source: plan,
        })),
      });
    });
  }

  chooseCandidate({ source }: Candidate): Promise<void> {
    if (typeof source === 'string') return this.lookUp(source);
    return this.#step('Reading the files', (signal) => this.#load(source, signal));
  }

  load(plan: Plan): Promise<void> {
    return this.#step('Loading', (signal) => this.#load(plan, signal));
  }

  loadRecording(id: string): Promise<void> {
    return this.#step(`Loading ${nameOfId(id)}`, (signal) => this.#loadRecording(id, signal));
  }

  async clear(): Promise<void> {
    const { cacheClear } = await outside();
    await cacheClear().catch((error) => this.#fail(error));
    await this.#countCachedBytes();
  }

  /**
   * Decides whether a model that a link or the training slider requests may be opened now. The page contacts no host
   * before the reader agrees, here or on an earlier visit by downloading from it; local files must be chosen by the
   * reader.
   * @returns false if the page asks the reader; `onOpened` is called when the reader agrees
   */
  async admit(id: string, signal: AbortSignal): Promise<boolean> {
    const models = this.#dependencies.models()!;
    if (isRecordingId(id)) {
      if (!models.recordings.canOpen(id) && !isOnThisSite(id)) return this.#ask(id);
      models.recordings.admit(id);
      return true;
    }
    if (!isOutsideZoo(id) || models.canOpen(id)) return true;
    if (isOnDisk(id)) return this.#ask(id);
    const [repository = ''] = hubName(id).split(/[@:]/);
    const isTemporary = this.#trustedRepositories.has(repository);
    if (isTemporary || (await isCached(repository))) {
      const plan = await this.#resolve(hubName(id), signal);
      const isAgreed = isTemporary || (await cachedBytesOf(plan)) >= plan.bytes;
      if (isAgreed && plan.bytes > 0 && !plan.refusal && !plan.choices.length) {
        models.admit(id, { ...this.#recipeOf(plan), isTemporary });
        return true;
      }
    }
    return this.#ask(id);
  }

  #ask(id: string): false {
    if (this.#declinedIds.has(id)) return false;
    this.#waitingIds = [...new Set([...this.#waitingIds, id])];
    if (!this.isShown || this.stage.name === 'choose') this.#askNext();
    return false;
  }

  #askNext(): void {
    const [nextId] = this.#waitingIds;
    if (!nextId) {
      this.isShown = false;
      this.#dependencies.onChanged();
      return;
    }
    if (isHubId(nextId)) this.fields = { ...this.fields, name: hubName(nextId) };
    this.show();
    this.#set({ name: 'ask', id: nextId });
  }

  async #resolve(
    name: string,
    signal: AbortSignal,
    onRetry?: HubOptions['onRetry'],
  ): Promise<Plan> {
    const { endpoint, token } = this.fields;
    const { resolveHub } = await outside();
    return resolveHub(name, {
      endpoint: endpoint || ENDPOINT,
      token: token || undefined,
      cache: true,
      signal,
      onRetry,
    });
  }

  async #present(plan: Plan, signal: AbortSignal): Promise<void> {
    const models = plan.choices.map(({ file, bytes, id }) => ({ title: file, bytes, source: id! }));
    const stage: Stage = models.length
      ? { name: 'several', models }
      : { name: 'plan', plan, cachedBytes: await cachedBytesOf(plan) };
    this.#set(stage, signal);
  }

  #recipeOf(plan: Plan) {
    const isRemote = isDownload(plan);
    const title = isRemote ? hubName(idOfPlan(plan)) : titleOfFiles(plan);
    const token = this.fields.token || undefined;
    return isRemote
      ? ({ title, plan, source: 'hub', token } as const)
      : ({ title, plan, source: 'disk' } as const);
  }

  async #load(plan: Plan, signal: AbortSignal): Promise<void> {
    const models = this.#dependencies.models();
    if (!models) throw new Error('The engine is not running yet; try again in a moment.');
    const recipe = this.#recipeOf(plan);
    const id = recipe.source === 'hub' ? idOfPlan(plan) : await idOfFiles(plan);
    if (recipe.source === 'disk') this.#checkFingerprint(id);
    this.#set({ name: 'loading', plan, progress: { done: 0, total: plan.bytes } }, signal);
    models.admit(id, recipe);
    models.pin(id);
    const stop = () => models.stop(id);
    let isOver = false;
    signal.addEventListener('abort', stop);
    try {
      await models.get(id, {
        signal,
        onProgress: (_, done, total, more) =>
          more &&
          // The last progress report may arrive after the end.
          !isOver &&
          // Omits the speed: that of a disk is not worth showing.
          this.#set({
            name: 'loading',
            plan,
            progress: { ...(isDownload(plan) ? more : { stage: more.stage }), done, total },
          }),
      });
    } catch (error) {
      models.unpin(id);
      models.forget(id);
      throw error;
    } finally {
      isOver = true;
      signal.removeEventListener('abort', stop);
    }
    this.#finish(id);
  }

  /** Reads a recording at once, since it is small, and shows it as a subject. */
  async #loadRecording(id: string, signal: AbortSignal, file?: Blob): Promise<void> {
    const recordings = this.#dependencies.models()?.recordings;
    if (!recordings) throw new Error('The engine is not running yet; try again in a moment.');
    recordings.admit(id, file);
    try {
      await recordings.get(id, { signal, onProgress: () => {} });
    } catch (error) {
      recordings.forget(id);
      throw error;
    }
    this.#finish(id);
  }

  /** Throws an InputError if the chosen files are not those of the link's model, by their fingerprints. */
  #checkFingerprint(id: string): void {
    const requestedId = this.#waitingIds.find(isOnDisk);
    if (!requestedId || !this.isShown || fingerprintOf(requestedId) === fingerprintOf(id)) return;
    throw new InputError(
      `${nameOfId(id)}: expected the files that the link names, fingerprint ${fingerprintOf(requestedId)}, ` +
        `found ${fingerprintOf(id)}. Close this dialog to open other files.`,
    );
  }

  #finish(id: string): void {
    const isAsked = this.#waitingIds.includes(id);
    this.#waitingIds = this.#waitingIds.filter((waiting) => waiting !== id);
    this.#declinedIds.delete(id);
    this.stage = { name: 'choose' };
    this.#dependencies.onOpened(id, isAsked ? 'asked' : this.fields.isBeside ? 'beside' : 'alone');
    void this.#countCachedBytes();
    if (this.isShown) this.#askNext();
  }

  /** Runs a step of opening, and stops the previous one. */
  async #step(text: string, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    this.#job?.abort();
    const job = new AbortController();
    this.#job = job;
    this.#set({ name: 'looking', text });
    try {
      await work(job.signal);
    } catch (error) {
      if (job.signal.aborted) return;
      const { stage } = this;
      const isSlow = isTimeout(error);
      // The downloaded bytes are in the cache, so the same plan can resume.
      const canResume = stage.name === 'loading' && (isSlow || stage.plan.commit !== undefined);
      const cachedBytes = canResume ? await cachedBytesOf(stage.plan) : 0;
      // Meanwhile the reader may have begun another step.
      if (job.signal.aborted) return;
      this.stage = canResume
        ? { name: 'plan', plan: stage.plan, cachedBytes, isSlow }
        : this.#waitingIds[0]
          ? { name: 'ask', id: this.#waitingIds[0] }
          : { name: 'choose' };
      // Dropped files open no dialog, but now the reader has to choose.
      if (isSlow) this.isShown = true;
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    const text = errorSentence(error);
    if (this.isShown) this.error = text;
    else this.#dependencies.onFailed(text);
    this.#dependencies.onChanged();
  }

  /** @param signal that of the step which has the stage: a step that was stopped sets none, but throws */
  #set(stage: Stage, signal?: AbortSignal): void {
    signal?.throwIfAborted();
    this.stage = stage;
    this.error = '';
    this.#dependencies.onChanged();
  }

  async #countCachedBytes(): Promise<void> {
    const { cacheBytes } = await outside();
    this.totalCachedBytes = await cacheBytes().catch(() => NaN);
    this.#dependencies.onChanged();
  }
}

/** Returns the address of a recording that the reader typed or agreed to; undefined for a model's name. */
const recordingAddress = (text: string): URL | undefined =>
  /^https?:\/\/\S+$/.test(text) && URL.canParse(text) ? new URL(text) : undefined;

async function cachedFiles() {
  const { cacheList } = await outside();
  return cacheList().catch(() => []);
}

/** Whether a file of the repository is cached, so that the reader has agreed on an earlier visit. */
async function isCached(repository: string): Promise<boolean> {
  const entries = await cachedFiles();
  return entries.some(({ id, complete }) => complete && id === repository);
}

async function cachedBytesOf(plan: Plan): Promise<number> {
  const addresses = new Set(plan.files.weights.map(({ url }) => url));
  const entries = await cachedFiles();
  return entries
    .filter(({ url }) => addresses.has(url))
    .reduce((bytes, file) => bytes + file.bytes, 0);
}
