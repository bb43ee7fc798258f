/**
 * The models that are open: those of the zoo, and what the reader opened by a plan. A model stays
 * open while a side shows it; one that was opened by a plan is closed then, for it may fill the
 * memory, and its plan is remembered for the rest of the visit.
 */
import {
  modelFiles,
  openTokenizer,
  planTokenizer,
  type Engine,
  type Model,
  type Plan,
  type Progress,
  type Tokenizer,
} from 'sinkscope';
import { zooAddress, type Card, type Zoo } from './zoo';

/** Something the reader can put right, said in a sentence. */
export class InputError extends Error {}

/** Where weights come from: trained for this page, published on a hub, the reader's own. */
export type Source = 'zoo' | 'hub' | 'disk';

/** What a picker offers. */
export interface Choice {
  readonly id: string;
  readonly title: string;
  readonly source: Source;
}

export interface OpenModel extends Choice {
  readonly model: Model;
  readonly tokenizer: Tokenizer;
  /** The commit of a hub's model: a revision may move, a commit does not. */
  readonly commit?: string;
  /** Of the weights, where it is known. */
  readonly sha256?: string;
}

/** How a model is opened that is not in the zoo. A token lives as long as the page. */
export interface Recipe {
  readonly title: string;
  readonly source: 'hub' | 'disk';
  readonly plan: Plan;
  readonly token?: string;
  /** One of many that are walked through: it is forgotten when it is not shown any more. */
  readonly isPassing?: boolean;
}

export interface Watch {
  readonly signal: AbortSignal;
  readonly onProgress: (what: string, done: number, total: number, more?: Progress) => void;
}

interface Opening {
  readonly job: AbortController;
  readonly model: Promise<OpenModel>;
}

export class Models {
  readonly #engine: Engine;
  readonly #zoo: Zoo;
  readonly #open = new Map<string, Opening>();
  readonly #recipes = new Map<string, Recipe>();

  constructor(engine: Engine, zoo: Zoo) {
    this.#engine = engine;
    this.#zoo = zoo;
  }

  get choices(): Choice[] {
    const own = [...this.#recipes].map(([id, { title, source }]) => ({ id, title, source }));
    return [
      ...this.#zoo.cards.map(({ id, title }) => ({ id, title, source: 'zoo' as const })),
      ...own,
    ];
  }

  /** Whether it can be opened without asking the reader. */
  knows(id: string): boolean {
    return this.#recipes.has(id) || this.#zoo.cards.some((card) => card.id === id);
  }

  /** Of the weights of what was opened by a plan. */
  bytesOf(id: string): number | undefined {
    return this.#recipes.get(id)?.plan.bytes;
  }

  /** The reader wants this model: it may be opened from here on. */
  admit(id: string, recipe: Recipe): void {
    this.#recipes.set(id, recipe);
  }

  /** Takes back what could not be opened. */
  forget(id: string): void {
    this.#recipes.delete(id);
  }

  /** Opens a model, or hands out the open one. Two callers share one opening. */
  get(id: string, watch: Watch): Promise<OpenModel> {
    const known = this.#open.get(id);
    if (known) return known.model;
    const job = new AbortController();
    const recipe = this.#recipes.get(id);
    const model = recipe ? this.#byPlan(id, recipe, job.signal, watch) : this.#ofZoo(id, watch);
    const opening = { job, model };
    this.#open.set(id, opening);
    model.catch(() => {
      if (this.#open.get(id) === opening) this.#open.delete(id);
    });
    return model;
  }

  /** Stops what is being opened by a plan and not wanted any more. What the zoo has goes on. */
  abandon(wanted: ReadonlySet<string>): void {
    for (const id of this.#open.keys()) if (!wanted.has(id) && this.#recipes.has(id)) this.stop(id);
  }

  stop(id: string): void {
    this.#open.get(id)?.job.abort(new DOMException('', 'AbortError'));
  }

  /** Closes these, whoever opened them; they can be opened anew. */
  async close(ids: readonly string[]): Promise<void> {
    const gone = ids.flatMap((id) => this.#open.get(id) ?? []);
    // All at once, so that nobody is handed a model that is about to be closed.
    for (const id of ids) this.#open.delete(id);
    for (const { model } of gone) await model.then((one) => one.model.close()).catch(() => {});
  }

  /** Closes what was opened by a plan and is not shown any more. */
  async release(shown: ReadonlySet<string>): Promise<void> {
    const gone = [...this.#open].filter(([id]) => !shown.has(id) && this.#recipes.has(id));
    for (const [id] of gone) this.#open.delete(id);
    for (const [id, { isPassing }] of this.#recipes)
      if (isPassing && !shown.has(id)) this.#recipes.delete(id);
    for (const [, { model }] of gone) await model.then((one) => one.model.close()).catch(() => {});
  }

  async #byPlan(id: string, recipe: Recipe, signal: AbortSignal, watch: Watch): Promise<OpenModel> {
    const { plan, token, title, source } = recipe;
    const options = { token, cache: true };
    const model = await this.#engine.open(modelFiles(plan, options), {
      signal,
      onProgress: (p) => watch.onProgress(`Loading ${title}`, p.done, p.total, p),
    });
    try {
      const tokenizer = await planTokenizer(plan, model, { ...options, signal });
      return checkSizes({ id, title, source, model, tokenizer, commit: plan.commit });
    } catch (error) {
      await model.close();
      throw error;
    }
  }

  async #ofZoo(id: string, watch: Watch): Promise<OpenModel> {
    const card = this.#card(id);
    const texts = ['tokenizer.json', 'tokenizer_config.json'].map(async (name) => {
      const response = await fetch(zooAddress(`${id}/${name}`));
      if (!response.ok) throw new InputError(`${id}/${name} could not be fetched.`);
      return response.text();
    });
    // Not cancelled with the run: the next run needs the model just the same.
    const model = this.#engine.open(
      { config: zooAddress(`${id}/config.json`), weights: zooAddress(`${id}/model.safetensors`) },
      { onProgress: (p) => watch.onProgress(`Loading ${card.title}`, p.done, p.total, p) },
    );
    const [json, config] = await Promise.all(texts);
    const tokenizer = openTokenizer(json, config);
    const { title, sha256 } = card;
    return checkSizes({ id, title, source: 'zoo', sha256, model: await model, tokenizer });
  }

  #card(id: string): Card {
    const card = this.#zoo.cards.find((one) => one.id === id);
    if (card) return card;
    const names = this.#zoo.cards.map((one) => one.id).join(', ');
    throw new InputError(`There is no model “${id}” here; there are ${names}.`);
  }
}

/** A tokenizer of another model gives ids that mean nothing here, or do not exist. */
function checkSizes(opened: OpenModel): OpenModel {
  const { V } = opened.model.architecture;
  if (opened.tokenizer.size > V)
    throw new InputError(
      `tokenizer.json: expected at most ${V} tokens, the model's vocabulary, found ` +
        `${opened.tokenizer.size}.`,
    );
  return opened;
}
