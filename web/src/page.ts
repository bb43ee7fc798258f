/**
 * The one file that knows all: state -> session -> frames -> views.
 *
 * A change of what is run starts a run and cancels the one before; anything else redraws what
 * stands. A run that fails leaves the last good frame, and says why.
 */
import { render } from 'lit';
import { createEngine, type Engine } from 'sinkscope';
import { linkable, textToCopy, unknownNames, writeAddress } from './address';
import {
  chips,
  generateControls,
  linkControls,
  numberControls,
  promptControls,
  shown,
  sideControls,
  type Actions,
} from './controls';
import { selectedHead, type Frame } from './frame';
import { drawFooter, drawMessages, drawProgress, PATIENCE_MS, type Work } from './messages';
import { buildPanels, drawPanels, need, say, SIDES, type Panel, type PerSide } from './panels';
import { InputError, Session, type Files, type Side } from './session';
import { createStore, parseHash, printHash, PROMPT_MAX, type State, type Store } from './state';
import type { Pointed } from './views/view';
import { finding } from './words';
import { openZoo, type Card, type Zoo } from './zoo';

/** Names of state rows that a run depends on; the rest only redraws. */
const RUN_ROWS = ['input', 'prompt', 'seed', 'bos', 'T', 'eps', 'n'] as const;
const SIDE_ROWS = { a: ['a', 'swapA', 'paramA'], b: ['b', 'swapB', 'paramB'] } as const;
/** Typing waits this long for the next key. */
const TYPING_MS = 120;
const GENERATED = 16;

/** An error as a reader should see it; the engine's begin with their place. */
function sentence(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

class Page {
  readonly #store: Store;
  readonly #panels: readonly Panel[];
  readonly #frames: PerSide<Frame> = {};
  readonly #errors: PerSide<string> = {};
  readonly #jobs: PerSide<AbortController> = {};
  readonly #own: Card[] = [];
  #notices: string[];
  #pointed: Pointed = {};
  #zoo: Zoo | undefined;
  #session: Session | undefined;
  #engine: Engine | undefined;
  #generating: AbortController | undefined;
  #typing = 0;
  /** Sides whose run the state has outdated. */
  readonly #waiting = new Set<Side>();
  /** Reads of a head that are under way. */
  #reading = 0;
  #queued = false;
  #progress: Work | undefined;
  #firstSink = 0;

  constructor(embedded: boolean) {
    const { state, problems } = parseHash(location.hash);
    this.#notices = [...problems];
    this.#store = createStore(state);
    this.#store.subscribe((now, before) => this.#changed(now, before));
    this.#panels = buildPanels(embedded ? state.view : undefined);
    addEventListener('hashchange', () => this.#follow());
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#draw());
    addEventListener('resize', () => this.#queue());
    document.addEventListener('dragover', (event) => event.preventDefault());
    document.addEventListener('drop', (event) => {
      event.preventDefault();
      void this.#openFiles(event.dataTransfer?.files ?? null);
    });
  }

  async start(): Promise<void> {
    this.#draw();
    try {
      const base = new URL('engine/', document.baseURI);
      [this.#engine, this.#zoo] = await Promise.all([createEngine({ base }), openZoo()]);
    } catch (error) {
      this.#fail('a', error);
      return;
    }
    this.#session = new Session(this.#engine, this.#zoo);
    this.#checkNames();
    for (const side of SIDES) void this.#run(side);
  }

  /** Puts right the names of a link that are not here. */
  #checkNames(): void {
    const isModel = (id: string) => this.#cards.some((card) => card.id === id);
    const operations = this.#session!.describe.operations.map(({ name }) => name);
    const { notices, change } = unknownNames(this.#store.get(), isModel, operations);
    this.#notices.push(...notices);
    if (notices.length) this.#store.set(change);
  }

  get #cards(): readonly Card[] {
    return [...(this.#zoo?.cards ?? []), ...this.#own];
  }

  #changed(now: State, before: State): void {
    writeAddress(now);
    const differs = (name: keyof State) => !Object.is(now[name], before[name]);
    const all = RUN_ROWS.some(differs);
    const sides = SIDES.filter((side) => all || SIDE_ROWS[side].some(differs));
    for (const side of sides) this.#waiting.add(side);
    if (sides.length) this.#schedule(now.prompt !== before.prompt ? TYPING_MS : 0);
    if (!sides.length && (differs('layer') || differs('head'))) void this.#readHeads();
    this.#draw();
  }

  /** Runs the sides that wait, after a pause in the typing. */
  #schedule(pause: number): void {
    clearTimeout(this.#typing);
    const run = () => {
      this.#typing = 0;
      const sides = [...this.#waiting];
      this.#waiting.clear();
      for (const side of sides) void this.#run(side);
    };
    if (pause) this.#typing = window.setTimeout(run, pause);
    else run();
  }

  /** A link was pasted over this page's. */
  #follow(): void {
    const { state, problems } = parseHash(location.hash);
    const shown = printHash(linkable(this.#store.get()));
    if (printHash(state) === shown && !problems.length) return;
    this.#notices = [...problems];
    this.#store.set(state);
    if (this.#session) this.#checkNames();
    this.#draw();
  }

  #watch(job: AbortController) {
    return {
      signal: job.signal,
      onProgress: (what: string, done: number, total: number) => {
        const share = total > 0 ? ` ${Math.floor((100 * done) / total)} %` : '';
        this.#progress = { text: what + share, since: this.#progress?.since ?? performance.now() };
        this.#queue();
      },
    };
  }

  async #run(side: Side): Promise<void> {
    const state = this.#store.get();
    this.#jobs[side]?.abort();
    this.#generating?.abort();
    if (!this.#session) return;
    if (!state[side]) {
      delete this.#frames[side];
      delete this.#errors[side];
      this.#queue();
      return;
    }
    const job = new AbortController();
    this.#jobs[side] = job;
    this.#progress ??= { text: 'Running', since: performance.now() };
    setTimeout(() => this.#queue(), PATIENCE_MS);
    try {
      if (state.input === 'text' && state.prompt.length > PROMPT_MAX)
        throw new InputError(
          `The text has ${state.prompt.length.toLocaleString('en')} characters; expected at most ` +
            `${PROMPT_MAX.toLocaleString('en')}.`,
        );
      const frame = await this.#session.run(side, state, this.#watch(job));
      if (job.signal.aborted) return;
      this.#frames[side] = frame;
      delete this.#errors[side];
      if (side === 'a' && !this.#firstSink) this.#noteFirstSink();
      void this.#readHeads();
    } catch (error) {
      if (!job.signal.aborted) this.#fail(side, error);
    } finally {
      if (this.#jobs[side] === job) delete this.#jobs[side];
      if (!this.#jobs.a && !this.#jobs.b) this.#progress = undefined;
      this.#queue();
    }
  }

  /** When the first sink map stands on the screen, counted from the start of the navigation. */
  #noteFirstSink(): void {
    this.#draw();
    performance.mark('first-sink');
    this.#firstSink = performance.now();
  }

  #fail(side: Side, error: unknown): void {
    this.#errors[side] = sentence(error);
    this.#queue();
  }

  /** Reads the maps of the selected head for both sides, where they are not the right ones. */
  async #readHeads(): Promise<void> {
    const { layer, head } = this.#selection();
    this.#reading++;
    await Promise.all(
      SIDES.map(async (side) => {
        const frame = this.#frames[side];
        if (!frame || !this.#session) return;
        const at = selectedHead(frame, layer, head);
        const selected = await this.#session.head(side, at.layer, at.head).catch(() => undefined);
        // In the meantime another run may have come, or another head been chosen.
        const now = this.#selection();
        const wanted = selectedHead(frame, now.layer, now.head);
        const same = this.#frames[side]?.tensors === frame.tensors;
        const right = selected?.layer === wanted.layer && selected.head === wanted.head;
        if (selected && selected.dot.shape[0] === frame.T && same && right)
          this.#frames[side] = { ...frame, selected };
      }),
    );
    this.#reading--;
    this.#queue();
  }

  /** The head that both sides show: the chosen one, or the strongest sink of side A. */
  #selection(): { layer: number; head: number } {
    const { layer, head } = this.#store.get();
    const { a } = this.#frames;
    return a ? selectedHead(a, layer, head) : { layer, head };
  }

  async #generate(): Promise<void> {
    if (this.#generating) {
      this.#generating.abort();
      return;
    }
    const job = new AbortController();
    this.#generating = job;
    const state = this.#store.get();
    this.#draw();
    await Promise.all(SIDES.map((side) => this.#generateSide(side, state, job)));
    if (this.#generating === job) this.#generating = undefined;
    await this.#readHeads();
  }

  async #generateSide(side: Side, state: State, job: AbortController): Promise<void> {
    const frame = this.#frames[side];
    if (!frame || !this.#session) return;
    try {
      for await (const next of this.#session.generate(side, frame, state, GENERATED, job.signal)) {
        if (job.signal.aborted) return;
        this.#frames[side] = next;
        this.#queue();
      }
    } catch (error) {
      if (!job.signal.aborted) this.#fail(side, error);
    }
  }

  async #openFiles(list: FileList | null): Promise<void> {
    if (!list?.length || !this.#session) return;
    const job = new AbortController();
    this.#progress = { text: 'Opening', since: performance.now() };
    try {
      const files = sortFiles([...list]);
      const id = `own-${this.#own.length + 1}`;
      await this.#session.openFiles(id, files, this.#watch(job));
      this.#own.push({
        id,
        title: files.weights.name,
        what: '',
        parameters: 0,
        operation: '',
        measured: {},
        licence: '',
      });
      this.#store.set({ a: id, swapA: '' });
    } catch (error) {
      this.#fail('a', error);
    } finally {
      this.#progress = undefined;
      this.#queue();
    }
  }

  readonly #actions: Actions = {
    set: (change) => this.#store.set(change),
    point: (pointed) => {
      this.#pointed = pointed;
      this.#queue();
    },
    openFiles: (files) => void this.#openFiles(files),
    generate: () => void this.#generate(),
    cancel: () => SIDES.forEach((side) => this.#jobs[side]?.abort()),
    copy: (what) => void this.#copy(what),
  };

  async #copy(what: 'link' | 'embed'): Promise<void> {
    const text = textToCopy(what, this.#store.get());
    try {
      await navigator.clipboard.writeText(text);
      this.#notices = [`Copied: ${text.length > 100 ? `${text.slice(0, 100)}…` : text}`];
    } catch {
      this.#notices = [`Copy this: ${text}`];
    }
    this.#queue();
  }

  get #theme(): 'light' | 'dark' {
    const { theme } = this.#store.get();
    if (theme !== 'auto') return theme;
    return matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
  }

  #queue(): void {
    if (this.#queued) return;
    this.#queued = true;
    requestAnimationFrame(() => {
      this.#queued = false;
      this.#draw();
    });
  }

  #draw(): void {
    const state = this.#store.get();
    document.documentElement.dataset.theme = this.#theme;
    this.#markBusy();
    document.body.classList.toggle('single', !state.b);
    this.#drawShell(state);
    const frames = SIDES.map((side) => this.#frames[side]).filter((one) => one !== undefined);
    const at = this.#selection();
    for (const side of SIDES) {
      const frame = this.#frames[side];
      if (!frame) continue;
      const context = { state, theme: this.#theme, pointed: this.#pointed, frames };
      drawPanels(this.#panels, side, frame, context, at, this.#actions);
    }
  }

  /** While something runs, the page says so to whoever watches it from outside. */
  #markBusy(): void {
    const busy = Boolean(this.#typing || this.#jobs.a || this.#jobs.b || this.#reading);
    if (busy) document.body.dataset.busy = '';
    else delete document.body.dataset.busy;
  }

  #drawShell(state: State): void {
    const { a, b } = this.#frames;
    const context = Math.min(...[a, b].map((f) => f?.architecture.context ?? 128));
    render(promptControls(state, this.#actions), need('prompt'));
    render(numberControls(state, context, this.#actions), need('numbers'));
    render(chips(a, state, this.#pointed, this.#actions), need('chips'));
    for (const side of SIDES)
      render(
        sideControls(side, state, this.#frames[side], this.#session?.describe, this.#cards, (c) =>
          this.#store.set(c),
        ),
        need(`side-${side}`),
      );
    render(generateControls(state, Boolean(this.#generating), this.#actions), need('generate'));
    render(linkControls(state, this.#actions), need('links'));
    for (const name of ['how', 'finding'])
      for (const element of document.querySelectorAll<HTMLElement>(`.${name}, #${name}`))
        element.hidden = !shown(state, name);
    if (a) say(need('finding'), finding(a, b));
    drawMessages(this.#failures, this.#notices);
    drawProgress(this.#progress);
    if (this.#engine) drawFooter(this.#engine.describe, this.#firstSink, a?.milliseconds);
  }

  /** Errors of the sides, with what is shown instead of a result. */
  get #failures(): string[] {
    return SIDES.filter((side) => this.#errors[side]).map((side) => {
      const kept = this.#frames[side] ? ' The last good result is shown.' : '';
      return `${this.#errors[side]}${kept}`;
    });
  }
}

/** config.json, weights and tokenizer.json out of what was dropped. */
function sortFiles(files: readonly File[]): Files {
  const find = (what: string, test: (name: string) => boolean) => {
    const found = files.find((file) => test(file.name.toLowerCase()));
    if (!found)
      throw new InputError(
        `Expected ${what} among the files; found ${files.map((file) => file.name).join(', ')}. ` +
          `Choose config.json, model.safetensors and tokenizer.json together.`,
      );
    return found;
  };
  return {
    config: find('config.json', (name) => name === 'config.json'),
    weights: find('a .safetensors file', (name) => name.endsWith('.safetensors')),
    tokenizer: find('tokenizer.json', (name) => name === 'tokenizer.json'),
    tokenizerConfig: files.find((file) => file.name.toLowerCase() === 'tokenizer_config.json'),
  };
}

export function startPage(embedded: boolean): void {
  void new Page(embedded).start();
}
