/**
 * From a name or some files to an open model, one step at a time: choose, look up, see what it
 * costs, load. Nothing large is read before the reader has seen the plan and said yes.
 *
 * One model is opened at a time; links that ask for more wait in line.
 */
import {
  cacheBytes,
  cacheClear,
  cacheList,
  planFiles,
  resolveHub,
  type DiskFile,
  type HubOptions,
  type Plan,
} from 'sinkscope';
import type { Models } from '../models';
import type { Side } from '../session';
import {
  hubName,
  idOfPlan,
  isOfHub,
  loadedWords,
  sentence,
  titleOfFiles,
  type Loaded,
} from './words';

export type Stage =
  | { readonly name: 'choose' }
  | { readonly name: 'looking'; readonly what: string }
  /** Several models: one of them is to be chosen. */
  | { readonly name: 'several'; readonly models: readonly Several[] }
  | { readonly name: 'plan'; readonly plan: Plan; readonly kept: number }
  | { readonly name: 'loading'; readonly plan: Plan; readonly loaded: Loaded };

export interface Several {
  readonly title: string;
  readonly bytes: number;
  /** Of the hub, what to look up; of the disk, the plan itself. */
  readonly from: string | Plan;
}

/** What the reader typed; none of it is in a link, and the token is nowhere but here. */
export interface Fields {
  readonly name: string;
  readonly token: string;
  readonly endpoint: string;
  readonly side: Side;
}

export interface Surroundings {
  /** Undefined until the engine runs. */
  readonly models: () => Models | undefined;
  /** A model is open and wanted on a side. */
  readonly opened: (side: Side, id: string) => void;
  /** Told where no dialog is open that could tell it. */
  readonly failed: (side: Side, text: string) => void;
  /** A link's model was declined. */
  readonly declined: (side: Side, id: string) => void;
  readonly changed: () => void;
}

/** The endpoint is a preference of this machine. A link cannot set it: it decides who is asked. */
const ENDPOINT_KEY = 'sinkscope.endpoint';
export const ENDPOINT = 'https://huggingface.co';

function storedEndpoint(): string {
  try {
    return localStorage.getItem(ENDPOINT_KEY) ?? '';
  } catch {
    return '';
  }
}

export class Opener {
  stage: Stage = { name: 'choose' };
  fields: Fields = { name: '', token: '', endpoint: storedEndpoint(), side: 'a' };
  /** Why the last step failed. */
  error = '';
  /** Bytes that are kept for the next visit; NaN until known. */
  keptBytes = NaN;
  isShown = false;
  readonly #around: Surroundings;
  #job: AbortController | undefined;
  #asked: { readonly side: Side; readonly id: string }[] = [];
  /** Repositories whose checkpoints the reader walks through: none of them is asked about again. */
  readonly #trusted = new Set<string>();
  #count = 0;

  constructor(around: Surroundings) {
    this.#around = around;
  }

  /** What takes time, for whoever does not see the dialog. */
  get work(): string | undefined {
    const { stage } = this;
    if (stage.name === 'looking') return stage.what;
    return stage.name === 'loading' ? `Loading: ${loadedWords(stage.loaded)}` : undefined;
  }

  show(side?: Side): void {
    this.isShown = true;
    if (side) this.fields = { ...this.fields, side };
    void this.#countKept();
    this.#around.changed();
  }

  /** The reader closed it: what goes on is stopped, what links asked for is declined. */
  hide(): void {
    if (!this.isShown) return;
    this.#job?.abort();
    this.isShown = false;
    const asked = this.#asked;
    this.#asked = [];
    this.#set({ name: 'choose' });
    for (const { side, id } of asked) this.#around.declined(side, id);
  }

  /** Opens the dialog, for a model of this name where one is given. */
  invite(name?: string): void {
    this.show();
    if (name === undefined) return;
    this.edit({ name });
    void this.lookUp(name);
  }

  edit(change: Partial<Fields>): void {
    this.fields = { ...this.fields, ...change };
    if (change.endpoint !== undefined) {
      try {
        localStorage.setItem(ENDPOINT_KEY, change.endpoint);
      } catch {
        // Then it holds for this visit.
      }
    }
    this.#around.changed();
  }

  /** Back to the choice; a download stops, and what came of it is kept. */
  back(): void {
    this.#job?.abort();
    this.#set({ name: 'choose' });
  }

  trust(repository: string): void {
    this.#trusted.add(repository);
  }

  lookUp(name: string): Promise<void> {
    return this.#step(`Looking up ${name}`, async (signal) => {
      const onRetry = ({ reason }: { readonly reason: string }) =>
        this.#set({ name: 'looking', what: `${name}: ${reason}` });
      await this.#present(await this.#resolve(name, signal, onRetry));
    });
  }

  openFiles(files: readonly DiskFile[] | Promise<readonly DiskFile[]>): Promise<void> {
    return this.#step('Reading the files', async (signal) => {
      const plans = await planFiles(await files);
      signal.throwIfAborted();
      // The bytes are here already, so there is nothing to ask.
      if (plans.length === 1) return this.#load(plans[0], signal);
      this.show();
      this.#set({
        name: 'several',
        models: plans.map((plan) => ({ title: titleOfFiles(plan), bytes: plan.bytes, from: plan })),
      });
    });
  }

  take({ from }: Several): Promise<void> {
    if (typeof from === 'string') return this.lookUp(from);
    return this.#step('Reading the files', (signal) => this.#load(from, signal));
  }

  load(plan: Plan): Promise<void> {
    return this.#step('Loading', (signal) => this.#load(plan, signal));
  }

  async clear(): Promise<void> {
    await cacheClear().catch((error) => this.#fail(error));
    await this.#countKept();
  }

  /**
   * A link, or the training slider, wants a model of the hub.
   * @returns whether it may be opened now; if not, the reader is asked, and `opened` follows
   */
  async admit(side: Side, id: string, signal: AbortSignal): Promise<boolean> {
    const models = this.#around.models()!;
    if (!isOfHub(id) || models.knows(id)) return true;
    const plan = await this.#resolve(hubName(id), signal);
    const isPassing = this.#trusted.has(plan.id);
    const isFree = isPassing || (await keptOf(plan)) >= plan.bytes;
    if (isFree && plan.bytes > 0 && !plan.refusal && !plan.choices.length) {
      models.admit(id, { ...this.#recipe(plan), isPassing });
      return true;
    }
    if (!this.#asked.some((one) => one.side === side && one.id === id))
      this.#asked.push({ side, id });
    if (!this.isShown || this.stage.name === 'choose') await this.#askNext();
    return false;
  }

  async #askNext(): Promise<void> {
    const [next] = this.#asked;
    if (!next) {
      this.isShown = false;
      this.#around.changed();
      return;
    }
    this.fields = { ...this.fields, name: hubName(next.id), side: next.side };
    this.show();
    await this.lookUp(this.fields.name);
  }

  #resolve(name: string, signal: AbortSignal, onRetry?: HubOptions['onRetry']): Promise<Plan> {
    const { endpoint, token } = this.fields;
    return resolveHub(name, {
      endpoint: endpoint || ENDPOINT,
      token: token || undefined,
      cache: true,
      signal,
      onRetry,
    });
  }

  async #present(plan: Plan): Promise<void> {
    if (plan.choices.length)
      this.#set({
        name: 'several',
        models: plan.choices.map(({ file, bytes, id }) => ({ title: file, bytes, from: id! })),
      });
    else this.#set({ name: 'plan', plan, kept: await keptOf(plan) });
  }

  #recipe(plan: Plan) {
    const isRemote = plan.files.weights.some(({ url }) => url);
    const title = isRemote ? hubName(idOfPlan(plan)) : titleOfFiles(plan);
    const token = this.fields.token || undefined;
    return {
      title,
      plan,
      source: isRemote ? 'hub' : 'disk',
      ...(isRemote ? { token } : {}),
    } as const;
  }

  async #load(plan: Plan, signal: AbortSignal): Promise<void> {
    const models = this.#around.models();
    if (!models) throw new Error('The engine is not running yet; try again in a moment.');
    const recipe = this.#recipe(plan);
    const id = recipe.source === 'hub' ? idOfPlan(plan) : `own-${++this.#count}`;
    this.#set({ name: 'loading', plan, loaded: { done: 0, total: plan.bytes } });
    models.admit(id, recipe);
    const stop = () => models.stop(id);
    signal.addEventListener('abort', stop);
    try {
      await models.get(id, {
        signal,
        onProgress: (_, done, total, more) =>
          more?.stage === 'read' &&
          !signal.aborted &&
          this.#set({ name: 'loading', plan, loaded: { ...more, done, total } }),
      });
    } catch (error) {
      models.forget(id);
      throw error;
    } finally {
      signal.removeEventListener('abort', stop);
    }
    this.#finish(id);
  }

  #finish(id: string): void {
    const { side } = this.fields;
    const asked = this.#asked.filter((one) => one.id === id);
    this.#asked = this.#asked.filter((one) => one.id !== id);
    this.stage = { name: 'choose' };
    const sides = new Set(asked.length ? asked.map((one) => one.side) : [side]);
    for (const one of sides) this.#around.opened(one, id);
    void this.#countKept();
    if (this.isShown) void this.#askNext();
  }

  /** One step at a time: a new one stops the one before. */
  async #step(what: string, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    this.#job?.abort();
    const job = new AbortController();
    this.#job = job;
    this.#set({ name: 'looking', what });
    try {
      await work(job.signal);
    } catch (error) {
      if (job.signal.aborted) return;
      const { stage } = this;
      // What was fetched until then is kept, so that the same plan can go on.
      const again = stage.name === 'loading' && stage.plan.commit !== undefined;
      this.stage = again
        ? { name: 'plan', plan: stage.plan, kept: await keptOf(stage.plan) }
        : { name: 'choose' };
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    const text = sentence(error);
    if (this.isShown) this.error = text;
    else this.#around.failed(this.fields.side, text);
    this.#around.changed();
  }

  #set(stage: Stage): void {
    this.stage = stage;
    this.error = '';
    this.#around.changed();
  }

  async #countKept(): Promise<void> {
    this.keptBytes = await cacheBytes().catch(() => NaN);
    this.#around.changed();
  }
}

/** Bytes of a plan's weights that need not be fetched again. */
async function keptOf(plan: Plan): Promise<number> {
  const addresses = new Set(plan.files.weights.map(({ url }) => url));
  const kept = await cacheList().catch(() => []);
  return kept
    .filter(({ url }) => addresses.has(url))
    .reduce((bytes, file) => bytes + file.bytes, 0);
}
