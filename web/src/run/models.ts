/** The open models. One of a plan, which may fill the memory, closes once no room shows it; its plan is kept. */
import {
  openTokenizer,
  SinkscopeError,
  type Describe,
  type Engine,
  type Plan,
  type Tokenizer,
} from 'sinkscope';
import { cachedPromise } from '../ask/cached';
import { InputError, isTimeout } from '../ask/errors';
import { nearestStep, splitStep, stepWords } from '../ask/steps';
import type { Frame } from '../frame';
import { loadingProgress, type Choice, type OpenModel, type Watch } from './opened';
import { Recordings } from './recordings';
import { Shelf } from './shelf';
import type { Timelines } from '../timeline/timelines';
import { readWithRetry, fetchText, zooAddress, type Card, type Zoo } from '../ask/zoo';

/** The files of a model outside the zoo, and the access token that fetches them, which is only kept in memory. */
interface Recipe {
  readonly title: string;
  readonly source: 'hub' | 'disk';
  readonly plan: Plan;
  readonly token?: string;
  /** Whether the model is a checkpoint that the reader steps through. Its recipe is deleted once no room shows it. */
  readonly isTemporary?: boolean;
}

type UnnamedModel = Omit<OpenModel, 'id'>;

export class Models {
  readonly #engine: Engine;
  /** The engine's tables without their texts. */
  readonly describe: Describe;
  readonly zoo: Zoo;
  readonly #shelf = new Shelf(closeModel);
  readonly #recipes = new Map<string, Recipe>();
  /** A model that the reader has opened and that no room shows yet. */
  #pinnedId: string | undefined;
  readonly #tokenizers = new Map<string, Promise<Tokenizer>>();
  /** Time limit of a tokenizer's step, in milliseconds. It doubles whenever the reader agrees to wait longer. */
  #stepLimit = 5000;
  #timelines: Promise<Timelines> | undefined;
  #texts: Promise<Describe> | undefined;
  readonly recordings: Recordings;

  constructor(engine: Engine, zoo: Zoo) {
    this.#engine = engine;
    this.describe = engine.describe;
    this.zoo = zoo;
    this.recordings = new Recordings(engine);
  }

  /** Returns the tables with their texts; without the texts if they cannot be fetched. */
  explain(): Promise<Describe> {
    this.#texts ??= this.#engine.explain().catch(() => {
      this.#texts = undefined;
      return this.describe;
    });
    return this.#texts;
  }

  get choices(): Choice[] {
    return [
      ...this.zoo.cards.map(({ id, title }) => ({ id, title, source: 'zoo' as const })),
      ...[...this.#recipes].map(([id, { title, source }]) => ({ id, title, source })),
      ...this.recordings.choices,
    ];
  }

  canOpen(id: string): boolean {
    return this.choices.some((choice) => choice.id === id);
  }

  bytesOf(id: string): number | undefined {
    return this.#recipes.get(id)?.plan.bytes;
  }

  /** Adds a model that the reader asked for; from now on it opens without a question. */
  admit(id: string, recipe: Recipe): void {
    this.#recipes.set(id, recipe);
  }

  /** Keeps a model open until a room shows it or another model is pinned. */
  pin(id: string): void {
    this.#pinnedId = id;
  }

  unpin(id: string): void {
    if (this.#pinnedId === id) this.#pinnedId = undefined;
  }

  forget(id: string): void {
    this.#recipes.delete(id);
  }

  /** The first call fetches the code of timelines. */
  timelines(): Promise<Timelines> {
    const { zoo, recordings, describe } = this;
    const course = async (frame: Frame) =>
      (await import('./series_course')).seriesCourse(recordings, describe, frame);
    const steps = (id: string) => recordings.steps(id);
    return (this.#timelines ??= import('../timeline/timelines').then(
      ({ Timelines }) => new Timelines(zoo.cards, { steps, course }),
    ));
  }

  isOpen(id: string): boolean {
    return this.#shelf.isOpen(id);
  }

  /** Returns the open model, or opens it; callers share one opening. */
  get(id: string, watch: Watch): Promise<OpenModel> {
    return this.#shelf.get(id, watch, async (shared) => {
      const recipe = this.#recipes.get(id);
      const checkpoint = splitStep(id);
      const opening = recipe
        ? this.#openPlan(recipe, shared)
        : checkpoint
          ? this.#openCheckpoint(checkpoint, shared)
          : this.#openOfZoo(id, shared);
      return { ...(await opening), id };
    });
  }

  /** Returns the model of the zoo whose recipe differs from this one's in one factor; undefined if there is none. */
  async baselineOf(id: string, watch: Watch): Promise<OpenModel | undefined> {
    const baseline = this.zoo.cards.find((card) => card.id === id)?.baseline;
    return baseline ? this.get(baseline, watch) : undefined;
  }

  stop(id: string): void {
    this.#shelf.stop(id);
  }

  /** Stops opening a model, unless it is open or the reader opens it in the dialog, which has a button of its own. */
  stopOpening(id: string): void {
    if (id !== this.#pinnedId) this.stop(id);
  }

  /** Closes models with plans and checkpoints that are no longer shown, or stops opening them. */
  async release(shownIds: ReadonlySet<string>): Promise<void> {
    const pinnedId = this.#pinnedId;
    if (pinnedId !== undefined && shownIds.has(pinnedId) && this.isOpen(pinnedId))
      this.unpin(pinnedId);
    const neededIds = new Set(pinnedId === undefined ? shownIds : [...shownIds, pinnedId]);
    const isClosable = (id: string) => splitStep(id) !== undefined || this.#recipes.has(id);
    // Decides about all before it waits: what is requested meanwhile stays.
    const closing = [
      this.recordings.release(shownIds),
      this.#shelf.keepOnly((id) => neededIds.has(id) || !isClosable(id)),
    ];
    for (const [id, { isTemporary }] of this.#recipes)
      if (isTemporary && !neededIds.has(id)) this.#recipes.delete(id);
    await Promise.all(closing);
    const idsWithSteps = new Set([...neededIds].flatMap((id) => splitStep(id)?.id ?? []));
    await (await this.#timelines)?.keepOnly(idsWithSteps);
  }

  /** Opens a model by its plan. Deletes downloaded files that cannot be read, so that the next try fetches them. */
  async #openPlan({ plan, token, title, source }: Recipe, watch: Watch): Promise<UnnamedModel> {
    const { signal } = watch;
    const { cacheClear, openPlan } = await import('../ask/outside');
    const onProgress = loadingProgress(watch, title);
    const options = { token, cache: true, limit: this.#stepLimit, signal, onProgress };
    try {
      const parts = await openPlan(this.#engine, plan, options);
      return { title, source, ...parts, commit: plan.commit };
    } catch (error) {
      if (isTimeout(error)) this.#stepLimit *= 2;
      if (source !== 'hub' || !isBadFileError(error)) throw error;
      await cacheClear(plan.id).catch(() => {});
      const text = `${error.text}; its downloaded files were removed, as Clear would: try again`;
      throw new SinkscopeError(error.code, error.where, text);
    }
  }

  async #openOfZoo(id: string, watch: Watch): Promise<UnnamedModel> {
    const { tokenizer, packed } = this.#card(id);
    const names = packed ? [packed.file] : ['config.json', 'model.safetensors'];
    const forgetIfDamaged = (error: unknown) => {
      const isUnreadable = error instanceof SinkscopeError && error.code === 'read';
      if (!isBadFileError(error) && !isUnreadable) return false;
      this.zoo.forget(id);
      return true;
    };
    const paths = [...names.map((name) => `${id}/${name}`), `${tokenizer}/tokenizer.json`];
    return readWithRetry(paths, () => this.#openZooOnce(id, watch), forgetIfDamaged);
  }

  async #openZooOnce(id: string, watch: Watch): Promise<UnnamedModel> {
    const { title, sha256, packed } = this.#card(id);
    const tokenizerLoading = this.#tokenizerOf(id);
    if (packed) watch.onProgress(`Loading ${title}`, 0, 0);
    const addresses = {
      config: zooAddress(`${id}/config.json`),
      weights: zooAddress(`${id}/model.safetensors`),
    };
    const files = packed ? await this.zoo.files(id) : addresses;
    // A stopped run does not stop the download: the next run needs the model too.
    const opening = this.#engine.open(files, {
      onProgress: loadingProgress(watch, title),
    });
    const [tokenizer, model] = await Promise.all([tokenizerLoading, opening]).catch(
      async (error: unknown) => {
        await opening.then((opened) => opened.close()).catch(() => {});
        throw error;
      },
    );
    return { title, source: 'zoo', sha256, tokenizer, model };
  }

  async #openCheckpoint(
    { id, step }: { readonly id: string; readonly step: number },
    watch: Watch,
  ): Promise<UnnamedModel> {
    const { signal } = watch;
    const card = this.#card(id);
    if (!card.timeline) throw new InputError(`“${id}” has no stored checkpoints.`);
    const timelines = await this.timelines();
    const steps = await timelines.steps(id);
    const storedStep = nearestStep(steps, step);
    const substitute = storedStep === step ? {} : { nearestStep: storedStep };
    // The last step has the trained weights.
    if (storedStep === steps.at(-1))
      return { ...(await this.#openOfZoo(id, watch)), ...substitute };
    const [{ files, facts }, tokenizer] = await Promise.all([
      timelines.open(id, step, { signal, onProgress: loadingProgress(watch, card.title) }),
      this.#tokenizerOf(id),
    ]);
    const model = await this.#engine.open(files, { signal });
    const title = `${card.title} at ${stepWords(facts.step, facts.of)}`;
    const { bits } = facts.weights!;
    return { title, source: 'zoo', step: facts, ...substitute, bits, model, tokenizer };
  }

  #tokenizerOf(model: string): Promise<Tokenizer> {
    const { tokenizer: id, tokenizer_config: config } = this.#card(model);
    return cachedPromise(this.#tokenizers, id, async () =>
      openTokenizer(await fetchText(`${id}/tokenizer.json`), JSON.stringify(config)),
    );
  }

  #card(id: string): Card {
    const card = this.zoo.cards.find((candidate) => candidate.id === id);
    if (card) return card;
    const names = this.zoo.cards.map((candidate) => candidate.id).join(', ');
    throw new InputError(`This page has no model “${id}”. It has ${names}.`);
  }
}

const isBadFileError = (error: unknown): error is SinkscopeError =>
  error instanceof SinkscopeError && error.code.startsWith('bad_');

async function closeModel({ model, tokenizer }: OpenModel): Promise<void> {
  if ('close' in tokenizer) tokenizer.close();
  await model.close();
}
