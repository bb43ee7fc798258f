/**
 * Runs a study: the picks one after another, until each has what is asked. A new question stops what
 * runs; more picks only make the queue longer. What was measured stays until it is measured anew.
 */
import type { Operation } from 'sinkscope';
import { modelOf, parsePick, printPick, type Pick } from '../compare/picks';
import { InputError, type Models, type OpenModel, type Watch } from '../models';
import { hubName, isOfHub, loadedWords, sentence } from '../open/words';
import type { State } from '../state';
import { study, type Column } from './study';

/** Weights of models opened by a plan that stay in memory together; beyond it, one at a time. */
const KEPT_BYTES = 2 ** 30;

export interface Request {
  readonly picks: ReadonlyMap<string, Pick>;
  readonly state: State;
  /** What must be alike for two columns to be compared; the number of prompts left out. */
  readonly setting: string;
  readonly n: number;
  readonly texts: () => Promise<readonly string[]>;
}

export interface Work {
  readonly title: string;
  /** Prompts of this model; NaN while it is opened. */
  readonly done: number;
  readonly total: number;
  /** Which of how many models, from 1. */
  readonly index: number;
  readonly of: number;
  /** What is loaded, where that takes long. */
  readonly loading: string;
}

export interface RunnerDesk {
  readonly models: Models;
  readonly operations: readonly Operation[];
  /** Models that the page shows elsewhere. */
  readonly shownElsewhere: () => readonly string[];
  readonly changed: () => void;
}

interface Result {
  readonly column: Column;
  readonly setting: string;
  /** Prompts that were asked for; a corpus may have fewer. */
  readonly n: number;
}

export class Runner {
  readonly #desk: RunnerDesk;
  readonly #results = new Map<string, Result>();
  /** Why a pick has no result of this question. */
  readonly #failures = new Map<string, { text: string; of: string }>();
  #request: Request | undefined;
  #job: AbortController | undefined;
  /** The key of the pick that is measured right now. */
  #running = '';
  /** Models that are open because of this. */
  readonly #opened = new Set<string>();
  work: Work | undefined;

  constructor(desk: RunnerDesk) {
    this.#desk = desk;
  }

  /** Measures what is asked and not there yet. */
  ask(request: Request): void {
    const isSame = request.setting === this.#request?.setting && request.n === this.#request.n;
    this.#request = request;
    if (!request.picks.has(this.#running)) this.stop();
    else if (!isSame) this.#abort();
    this.#forget();
    if (!this.#job) void this.#run();
    this.#desk.changed();
  }

  /** The reader had enough. What is there stays; what is being loaded is not wanted any more. */
  stop(): void {
    const { models } = this.#desk;
    const pick = parsePick(this.#running);
    this.#abort();
    // A model of the zoo is small: its loading goes on, for whoever else may wait for it.
    if (pick && (pick.kind === 'step' || models.bytesOf(pick.id) !== undefined))
      models.stop(modelOf(pick));
    this.#desk.changed();
  }

  /** A model that was missing may be there now. */
  retry(): void {
    this.#failures.clear();
    if (!this.#job) void this.#run();
  }

  resultOf(key: string): Column | undefined {
    return this.#results.get(key)?.column;
  }

  /** Whether it is of another question than the one that is asked now. */
  isStale(key: string): boolean {
    const result = this.#results.get(key);
    return result !== undefined && !this.#satisfies(result);
  }

  failureOf(key: string): string | undefined {
    return this.#failures.get(key)?.text;
  }

  /** A first look is content with more prompts than it asked for. */
  #satisfies({ setting, n }: Result): boolean {
    const { setting: wanted, n: asked } = this.#request!;
    return setting === wanted && (n === asked || asked === 1);
  }

  get #question(): string {
    return `${this.#request?.n} ${this.#request?.setting}`;
  }

  #pending(): [string, Pick][] {
    return [...(this.#request?.picks ?? [])].filter(([key]) => {
      const result = this.#results.get(key);
      const isDone = result && this.#satisfies(result);
      return !isDone && this.#failures.get(key)?.of !== this.#question;
    });
  }

  #abort(): void {
    this.#job?.abort(new DOMException('', 'AbortError'));
    this.#job = undefined;
    this.#running = '';
    this.work = undefined;
  }

  async #run(): Promise<void> {
    const job = new AbortController();
    this.#job = job;
    for (let pending = this.#pending(); pending.length; pending = this.#pending()) {
      const [key, pick] = pending[0];
      const of = this.#request!.picks.size;
      this.#running = key;
      const question = this.#question;
      try {
        await this.#measure(key, pick, { index: of - pending.length + 1, of }, job.signal);
      } catch (error) {
        // A loading that was stopped a moment ago may end only now; it is begun anew.
        const isStopped = error instanceof DOMException && error.name === 'AbortError';
        if (!job.signal.aborted && !isStopped)
          this.#failures.set(key, { text: sentence(error), of: question });
      }
      if (job.signal.aborted) return;
      this.#running = '';
      await this.#release();
      if (job.signal.aborted) return;
      this.#desk.changed();
    }
    this.#abort();
    this.#desk.changed();
  }

  async #measure(
    key: string,
    pick: Pick,
    place: { index: number; of: number },
    signal: AbortSignal,
  ): Promise<void> {
    const { state, setting, n, texts } = this.#request!;
    const title = printPick(pick);
    const tell = (work: Partial<Work>) => {
      if (signal.aborted) return;
      this.work = { title, done: NaN, total: NaN, loading: '', ...place, ...work };
      this.#desk.changed();
    };
    tell({});
    const opened = await this.#open(pick, {
      signal,
      onProgress: (_, done, total, more) =>
        tell({ loading: more?.stage === 'read' ? loadedWords({ ...more, done, total }) : '' }),
    });
    signal.throwIfAborted();
    const question = { state, texts: await texts(), n, operations: this.#desk.operations };
    const column = await study(pick, opened, question, {
      signal,
      onPrompt: (done, total) => tell({ title: opened.title, done, total }),
    });
    this.#results.set(key, { column, setting, n });
    this.#failures.delete(key);
  }

  #open(pick: Pick, watch: Watch): Promise<OpenModel> {
    const { models } = this.#desk;
    const id = modelOf(pick);
    if (isOfHub(id) && !models.knows(id))
      throw new InputError(`${hubName(id)} is not loaded yet: open it, and it is measured too.`);
    this.#opened.add(id);
    return models.get(id, watch);
  }

  /** What is not picked any more is forgotten, and its model closed. */
  #forget(): void {
    const { picks } = this.#request!;
    for (const key of this.#results.keys()) if (!picks.has(key)) this.#results.delete(key);
    for (const key of this.#failures.keys()) if (!picks.has(key)) this.#failures.delete(key);
    void this.#release();
  }

  /** Closes what is not picked, and what fills the memory as soon as it is measured. */
  async #release(): Promise<void> {
    const { models, shownElsewhere } = this.#desk;
    const picked = new Set([...(this.#request?.picks.values() ?? [])].map(modelOf));
    const sizeOf = (id: string) => models.bytesOf(id) ?? 0;
    const isFull = [...picked].reduce((sum, id) => sum + sizeOf(id), 0) > KEPT_BYTES;
    const pick = parsePick(this.#running);
    const running = pick && modelOf(pick);
    const elsewhere = new Set(shownElsewhere());
    const isKept = (id: string) =>
      elsewhere.has(id) || (picked.has(id) && (id === running || !isFull || !sizeOf(id)));
    const gone = [...this.#opened].filter((id) => !isKept(id));
    for (const id of gone) this.#opened.delete(id);
    await models.close(gone);
  }

  /** Nothing is compared any more. What was measured is there when the reader comes back. */
  close(): void {
    this.stop();
    this.#request = undefined;
    void this.#release();
  }
}
