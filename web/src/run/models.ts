/**
 * The open models. Those of the zoo stay open. A model that the reader opened by a plan may fill the memory, so it is
 * closed once no room shows it; its plan is kept for the rest of the visit.
 */
import {
  cacheClear,
  modelFiles,
  openTokenizer,
  planTokenizer,
  SinkscopeError,
  type Arithmetic,
  type Describe,
  type Engine,
  type Options,
  type Plan,
  type Progress,
  type Tokenizer,
} from 'sinkscope';
import { InputError, isTimeout } from '../ask/errors';
import { splitArithmetic } from '../ask/subject';
import { nearestStep, stepOf, stepWords } from '../ask/steps';
import type { Choice, OpenModel, Watch } from './opened';
import { Recordings } from './recordings';
import type { Timelines } from '../timeline/timelines';
import { readWithRetry, fetchText, zooAddress, type Card, type Zoo } from '../ask/zoo';

export function previewId(id: string): string {
  return `${id} preview`;
}

/** The files of a model outside the zoo, and the access token that fetches them, which is only kept in memory. */
interface Recipe {
  readonly title: string;
  readonly source: 'hub' | 'disk';
  readonly plan: Plan;
  readonly token?: string;
  /** Whether the model is a checkpoint that the reader steps through. Its recipe is deleted once no room shows it. */
  readonly isTemporary?: boolean;
}

interface OpenOptions {
  readonly watch: Watch;
  readonly arithmetic: Arithmetic;
  readonly isPreview?: boolean;
}

interface Opening {
  readonly job: AbortController;
  readonly model: Promise<OpenModel>;
  isDone: boolean;
}

export class Models {
  readonly #engine: Engine;
  /** The engine's tables without their texts. */
  readonly describe: Describe;
  readonly zoo: Zoo;
  readonly #openings = new Map<string, Opening>();
  readonly #recipes = new Map<string, Recipe>();
  /** A model that the reader has opened and that no room shows yet. */
  #pinned: string | undefined;
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
    const openedChoices = [...this.#recipes].map(([id, { title, source }]) => ({
      id,
      title,
      source,
    }));
    return [
      ...this.zoo.cards.map(({ id, title }) => ({ id, title, source: 'zoo' as const })),
      ...openedChoices,
      ...this.recordings.choices,
    ];
  }

  canOpen(id: string): boolean {
    return (
      this.#recipes.has(id) ||
      this.recordings.canOpen(id) ||
      this.zoo.cards.some((card) => card.id === id)
    );
  }

  bytesOf(id: string): number | undefined {
    return this.#recipes.get(splitArithmetic(id).weights)?.plan.bytes;
  }

  /** Adds a model that the reader asked for; from now on it opens without a question. */
  admit(id: string, recipe: Recipe): void {
    this.#recipes.set(id, recipe);
  }

  /** Keeps a model open until a room shows it or another model is pinned. */
  pin(id: string): void {
    this.#pinned = id;
  }

  unpin(id: string): void {
    if (this.#pinned === id) this.#pinned = undefined;
  }

  forget(id: string): void {
    this.#recipes.delete(id);
  }

  /** The first call fetches the code of timelines. */
  timelines(): Promise<Timelines> {
    return (this.#timelines ??= import('../timeline/timelines').then(
      ({ Timelines }) => new Timelines(this.zoo.cards),
    ));
  }

  isOpen(id: string): boolean {
    return this.#openings.get(id)?.isDone ?? false;
  }

  /** Opens the quantized preview of a model that has one and is not open yet; otherwise works like `get`. */
  getPreview(id: string, watch: Watch): Promise<OpenModel> {
    const { preview } = this.zoo.cards.find((card) => card.id === id) ?? {};
    if (!preview || this.isOpen(id)) return this.get(id, watch);
    const options = { watch, arithmetic: 'exact' as const, isPreview: true };
    return this.#openShared(previewId(id), new AbortController(), () =>
      this.#openOfZoo(id, options),
    );
  }

  /** Returns the open model, or opens it; callers share one opening. */
  get(id: string, watch: Watch): Promise<OpenModel> {
    const job = new AbortController();
    return this.#openShared(id, job, async () => {
      const { weights, arithmetic } = splitArithmetic(id);
      const recipe = this.#recipes.get(weights);
      const checkpoint = stepOf(weights);
      const options = { signal: job.signal, watch, arithmetic };
      if (recipe) return { ...(await this.#openByPlan(weights, recipe, options)), id };
      const opened = checkpoint
        ? this.#openCheckpoint(weights, checkpoint, options)
        : this.#openOfZoo(weights, options);
      return { ...(await opened), id };
    });
  }

  /** Returns the model of the zoo whose recipe differs from this one's in one factor; undefined if there is none. */
  async baselineOf(id: string, watch: Watch): Promise<OpenModel | undefined> {
    const baseline = this.zoo.cards.find((card) => card.id === id)?.baseline;
    return baseline ? this.get(baseline, watch) : undefined;
  }

  #openShared(
    id: string,
    job: AbortController,
    open: () => Promise<OpenModel>,
  ): Promise<OpenModel> {
    const existing = this.#openings.get(id);
    if (existing) return existing.model;
    const model = open();
    const opening: Opening = { job, model, isDone: false };
    this.#openings.set(id, opening);
    model.then(
      () => (opening.isDone = true),
      () => this.#openings.get(id) === opening && this.#openings.delete(id),
    );
    return model;
  }

  stop(id: string): void {
    const opening = this.#openings.get(id);
    if (!opening) return;
    // Deletes a checkpoint now, so that a reader who returns to it need not wait for this opening to end.
    if (!opening.isDone && stepOf(splitArithmetic(id).weights)) this.#openings.delete(id);
    opening.job.abort(new DOMException('', 'AbortError'));
  }

  /** Closes models with plans and checkpoints that are no longer shown, or stops opening them. */
  async release(wanted: ReadonlySet<string>): Promise<void> {
    await this.recordings.release(wanted);
    const pinned = this.#pinned;
    if (pinned !== undefined && wanted.has(pinned) && this.isOpen(pinned)) this.unpin(pinned);
    const neededIds = new Set(pinned === undefined ? wanted : [...wanted, pinned]);
    const isClosable = (id: string) => {
      const { weights, arithmetic } = splitArithmetic(id);
      const isStep = stepOf(weights) !== undefined;
      const isVariant = arithmetic !== 'exact' || isStep || id.endsWith(previewId(''));
      return isVariant || this.#recipes.has(id);
    };
    const shownWeights = new Set([...neededIds].map((id) => splitArithmetic(id).weights));
    const hiddenOpenings = [...this.#openings].filter(
      ([id]) => !neededIds.has(id) && isClosable(id),
    );
    // Empties the map first: no caller may get a model that is about to close.
    for (const [id, { job }] of hiddenOpenings) {
      this.#openings.delete(id);
      job.abort(new DOMException('', 'AbortError'));
    }
    for (const [id, { isTemporary }] of this.#recipes)
      if (isTemporary && !shownWeights.has(id)) this.#recipes.delete(id);
    for (const [, { model }] of hiddenOpenings) await model.then(closeModel).catch(() => {});
    const idsWithSteps = new Set([...shownWeights].flatMap((id) => stepOf(id)?.id ?? []));
    await (await this.#timelines)?.keepOnly(idsWithSteps);
  }

  /**
   * Opens a model by its plan. If downloaded files cannot be read, deletes them, so that the next try fetches them
   * again.
   */
  async #openByPlan(
    id: string,
    recipe: Recipe,
    options: OpenOptions & { readonly signal: AbortSignal },
  ) {
    try {
      return await this.#openPlan(id, recipe, options);
    } catch (error) {
      if (recipe.source !== 'hub' || !isBroken(error)) throw error;
      await cacheClear(recipe.plan.id).catch(() => {});
      const text = `${error.text}; its downloaded files were removed, as Clear would: try again`;
      throw new SinkscopeError(error.code, error.where, text);
    }
  }

  async #openPlan(
    id: string,
    recipe: Recipe,
    { signal, watch, arithmetic }: OpenOptions & { readonly signal: AbortSignal },
  ): Promise<OpenModel> {
    const { plan, token, title, source } = recipe;
    const options = { token, cache: true };
    const model = await this.#engine.open(modelFiles(plan, options), {
      arithmetic,
      signal,
      onProgress: (p) => watch.onProgress(`Loading ${title}`, p.done, p.total, p),
    });
    const tokenizer = await planTokenizer(plan, model, {
      ...options,
      signal,
      limit: this.#stepLimit,
    }).catch(async (error: unknown) => {
      if (isTimeout(error)) this.#stepLimit *= 2;
      await model.close();
      throw error;
    });
    return { id, title, source, model, tokenizer, commit: plan.commit };
  }

  async #openOfZoo(id: string, options: OpenOptions): Promise<OpenModel> {
    const { tokenizer, preview } = this.#card(id);
    const exactFiles = ['config.json', 'model.safetensors'];
    const refinedFiles = preview?.refinement && [preview.file, preview.refinement.file];
    const names = preview && options.isPreview ? [preview.file] : (refinedFiles ?? exactFiles);
    const forgetIfDamaged = (error: unknown) => {
      const isUnreadable = error instanceof SinkscopeError && error.code === 'read';
      if (!isBroken(error) && !isUnreadable) return false;
      this.zoo.forget(id);
      return true;
    };
    const paths = [...names.map((name) => `${id}/${name}`), `${tokenizer}/tokenizer.json`];
    return readWithRetry(paths, () => this.#openZooOnce(id, options), forgetIfDamaged);
  }

  async #openZooOnce(
    id: string,
    { watch, arithmetic, isPreview }: OpenOptions,
  ): Promise<OpenModel> {
    const card = this.#card(id);
    const tokenizer = this.#tokenizerOf(id);
    const onProgress: Options['onProgress'] = (p) =>
      watch.onProgress(`Loading ${card.title}`, p.done, p.total, p);
    if (card.preview && !isPreview) watch.onProgress(`Loading ${card.title}`, 0, 0);
    const files = !card.preview
      ? {
          config: zooAddress(`${id}/config.json`),
          weights: zooAddress(`${id}/model.safetensors`),
        }
      : await (isPreview ? this.zoo.preview(id) : this.zoo.exact(id));
    // A stopped run does not stop the download: the next run needs the model too.
    const model = this.#engine.open(files, { arithmetic, onProgress });
    const { title, sha256, parameters, preview } = card;
    const weightFacts =
      isPreview && preview
        ? { isPreview, sha256: preview.sha256, bits: (8 * preview.bytes) / parameters }
        : { sha256 };
    const facts = { id, title, source: 'zoo', ...weightFacts } as const;
    const [loadedTokenizer, opened] = await Promise.all([tokenizer, model]);
    return { ...facts, tokenizer: loadedTokenizer, model: opened };
  }

  async #openCheckpoint(
    id: string,
    checkpoint: { readonly id: string; readonly step: number },
    { signal, watch, arithmetic }: OpenOptions & { readonly signal: AbortSignal },
  ): Promise<OpenModel> {
    const card = this.#card(checkpoint.id);
    if (!card.timeline) throw new InputError(`“${checkpoint.id}” has no stored checkpoints.`);
    const timelines = await this.timelines();
    const steps = await timelines.steps(checkpoint.id);
    // The last step has the trained weights.
    if (nearestStep(steps, checkpoint.step) === steps.at(-1))
      return { ...(await this.#openOfZoo(checkpoint.id, { watch, arithmetic })), id };
    const options = {
      signal,
      onProgress: (p: Progress) => watch.onProgress(`Loading ${card.title}`, p.done, p.total, p),
    };
    const [{ files, facts }, tokenizer] = await Promise.all([
      timelines.open(checkpoint.id, checkpoint.step, options),
      this.#tokenizerOf(checkpoint.id),
    ]);
    const model = await this.#engine.open(files, { signal, arithmetic });
    if (signal.aborted) {
      // No caller has got this model.
      await model.close();
      throw signal.reason;
    }
    const title = `${card.title} at ${stepWords(facts.step, facts.of)}`;
    const { bits } = facts;
    return { id, title, source: 'zoo', step: facts, bits, model, tokenizer };
  }

  /** Returns the tokenizer of a model. Its checkpoints, and models with an equal tokenizer, share it. */
  #tokenizerOf(model: string): Promise<Tokenizer> {
    const { tokenizer: id, tokenizer_config: config } = this.#card(model);
    const cached = this.#tokenizers.get(id);
    if (cached) return cached;
    const tokenizer = fetchText(`${id}/tokenizer.json`).then((json) =>
      openTokenizer(json, JSON.stringify(config)),
    );
    this.#tokenizers.set(id, tokenizer);
    tokenizer.catch(() => this.#tokenizers.delete(id));
    return tokenizer;
  }

  #card(id: string): Card {
    const card = this.zoo.cards.find((one) => one.id === id);
    if (card) return card;
    const names = this.zoo.cards.map((one) => one.id).join(', ');
    throw new InputError(`This page has no model “${id}”. It has ${names}.`);
  }
}

function isBroken(error: unknown): error is SinkscopeError {
  return error instanceof SinkscopeError && error.code.startsWith('bad_');
}

async function closeModel({ model, tokenizer }: OpenModel): Promise<void> {
  if ('close' in tokenizer) tokenizer.close();
  await model.close();
}
