/**
 * The one file that knows all: state -> session -> frames -> views.
 *
 * A change of what is run starts a run and cancels the one before; anything else redraws what
 * stands. A run that fails leaves the last good frame, and says why.
 */
import { createEngine, type Engine, type Progress } from 'sinkscope';
import { linkable, textToCopy, unknownNames, writeAddress } from './address';
import { Comparing } from './compare/mount';
import type { Actions } from './controls';
import { UnmaskingView } from './diffusion/mount';
import { selectedHead, type Frame } from './frame';
import { drawFooter, drawMessages, drawProgress, PATIENCE_MS, type Work } from './messages';
import { Generation } from './generation';
import { InputError } from './models';
import { acceptDrops, createDialog } from './open/dialog';
import { checkpointOf } from './open/catalogue';
import { Opener } from './open/opener';
import { Training } from './open/training';
import { hubName, isOfHub, loadedWords, sentence } from './open/words';
import { Pace } from './pace';
import { buildPanels, drawPanels, need, SIDES, type Panel, type PerSide } from './panels';
import { Session, type Side } from './session';
import { drawShell } from './shell';
import { createStore, parseHash, printHash, PROMPT_MAX, type State, type Store } from './state';
import { TrainingView } from './timeline/mount';
import type { Pointed } from './views/view';
import { openZoo, type Zoo } from './zoo';

/** Names of state rows that a run depends on; the rest only redraws. */
const RUN_ROWS = ['input', 'prompt', 'seed', 'bos', 'first', 'T', 'eps', 'n'] as const;
const SIDE_ROWS = { a: ['a', 'swapA', 'paramA'], b: ['b', 'swapB', 'paramB'] } as const;

class Page {
  readonly #store: Store;
  readonly #panels: readonly Panel[];
  readonly #frames: PerSide<Frame> = {};
  readonly #errors: PerSide<string> = {};
  readonly #jobs: PerSide<AbortController> = {};
  /** Models of links that the reader did not want to load. */
  readonly #declined = new Set<string>();
  readonly #generation = new Generation({
    session: () => this.#session,
    frames: this.#frames,
    changed: () => this.#queue(),
    failed: (side, error) => this.#fail(side, error),
  });
  readonly #opener = new Opener({
    models: () => this.#session?.models,
    opened: (side, id) => this.#opened(side, id),
    failed: (side, text) => this.#fail(side, text),
    declined: (side, id) => this.#decline(side, id),
    changed: () => this.#queue(),
  });
  readonly #dialog = createDialog(this.#opener);
  readonly #comparing = new Comparing({
    parts: () => this.#session && { session: this.#session, zoo: this.#zoo! },
    set: (change) => this.#store.set(change),
    open: (name) => this.#opener.invite(name),
    link: () => textToCopy('link', this.#store.get()),
    shownElsewhere: () =>
      SIDES.flatMap((side) => [this.#store.get()[side], this.#frames[side]?.model.id ?? '']),
    fail: (error) => this.#fail('a', error),
    changed: () => this.#queue(),
  });
  readonly #trainings: PerSide<Training> = {};
  readonly #timeline: TrainingView | undefined;
  readonly #unmasking: UnmaskingView | undefined;
  #notices: string[];
  #pointed: Pointed = {};
  #zoo: Zoo | undefined;
  #session: Session | undefined;
  #engine: Engine | undefined;
  /** Ids of the models that are being run. */
  readonly #running: PerSide<string> = {};
  readonly #pace = new Pace({
    isHeld: () => this.#store.get().compare.length > 0,
    isRunning: () => this.#jobs.a !== undefined || this.#jobs.b !== undefined,
    run: (sides) => {
      this.#session?.models.abandonSteps(new Set(this.#wanted(this.#store.get())));
      for (const side of sides) void this.#run(side);
    },
  });
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
    for (const side of SIDES)
      this.#trainings[side] = new Training(need(`side-${side}`), (id, repository) => {
        this.#opener.trust(repository);
        this.#store.set({ [side]: id });
      });
    this.#panels = buildPanels(embedded ? state.view : undefined);
    const isWanted = (view: string) => !embedded || state.view === view;
    if (isWanted('training')) this.#timeline = new TrainingView(this.#doors);
    if (isWanted('unmasking')) this.#unmasking = new UnmaskingView(this.#doors);
    addEventListener('hashchange', () => this.#follow());
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#draw());
    addEventListener('resize', () => this.#queue());
    acceptDrops(this.#opener);
  }

  /** What views reach of the page that have work of their own. */
  get #doors() {
    return {
      models: () => this.#session?.models,
      set: (change: Partial<State>) => this.#store.set(change),
      fail: (error: unknown) => this.#desk.fail(error),
      facts: () => ({ version: this.#desk.version(), link: this.#desk.link() }),
      changed: () => this.#queue(),
    };
  }

  async start(): Promise<void> {
    this.#draw();
    try {
      const base = new URL(ENGINE, document.baseURI);
      [this.#engine, this.#zoo] = await Promise.all([createEngine({ base }), openZoo()]);
    } catch (error) {
      this.#fail('a', error);
      return;
    }
    this.#session = new Session(this.#engine, this.#zoo);
    this.#checkNames();
    this.#pace.add(SIDES);
    this.#pace.schedule();
    this.#draw();
  }

  /** Puts right the names of a link that are not here. */
  #checkNames(): void {
    const isModel = (id: string) => isOfHub(id) || this.#session!.models.knows(id);
    const operations = this.#session!.describe.operations.map(({ name }) => name);
    const { notices, change } = unknownNames(this.#store.get(), isModel, operations);
    this.#notices.push(...notices);
    if (notices.length) this.#store.set(change);
  }

  #changed(now: State, before: State): void {
    writeAddress(now);
    const differs = (name: keyof State) => !Object.is(now[name], before[name]);
    const all = RUN_ROWS.some(differs);
    const [wanted, earlier] = [this.#wanted(now), this.#wanted(before)];
    const sides = SIDES.filter(
      (side, i) => all || SIDE_ROWS[side].some(differs) || wanted[i] !== earlier[i],
    );
    this.#pace.add(sides);
    for (const side of SIDES) if (differs(side)) this.#declined.delete(now[side]);
    if (differs('a') || differs('b')) this.#session?.models.abandon(new Set([now.a, now.b]));
    const isMoving = SIDES.some((side) => differs(side) && checkpointOf(now[side]));
    const isTyping = now.prompt !== before.prompt || isMoving;
    if (sides.length || (differs('compare') && this.#pace.hasWaiting))
      this.#pace.schedule({ isTyping, isStep: differs('step') });
    if (!sides.length && (differs('layer') || differs('head'))) void this.#readHeads();
    this.#draw();
  }

  /** Ids of what the sides are to show, checkpoints among them. */
  #wanted({ a, b, step }: State): string[] {
    const models = this.#session?.models;
    return models ? [models.at(a, step), models.at(b, step)] : [];
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
      onProgress: (what: string, done: number, total: number, more?: Progress) => {
        const share = total > 0 ? ` ${Math.floor((100 * done) / total)} %` : '';
        const isRead = more?.stage === 'read';
        const text = what + (isRead ? `: ${loadedWords({ ...more, done, total })}` : share);
        this.#progress = { text, since: this.#progress?.since ?? performance.now() };
        this.#queue();
      },
    };
  }

  async #run(side: Side): Promise<void> {
    const state = this.#store.get();
    this.#jobs[side]?.abort();
    this.#generation.stop();
    if (!this.#session) return;
    if (!state[side]) {
      delete this.#frames[side];
      delete this.#errors[side];
      this.#queue();
      return;
    }
    const job = new AbortController();
    this.#jobs[side] = job;
    this.#running[side] = this.#session.models.at(state[side], state.step);
    this.#progress ??= { text: 'Running', since: performance.now() };
    setTimeout(() => this.#queue(), PATIENCE_MS);
    try {
      if (state.input === 'text' && state.prompt.length > PROMPT_MAX)
        throw new InputError(
          `The text has ${state.prompt.length.toLocaleString('en')} characters; expected at most ` +
            `${PROMPT_MAX.toLocaleString('en')}.`,
        );
      if (!(await this.#mayOpen(side, state[side], job.signal))) return;
      const frame = await this.#session.run(side, state, this.#watch(job));
      if (job.signal.aborted) return;
      this.#frames[side] = frame;
      void this.#releaseModels();
      delete this.#errors[side];
      if (side === 'a' && !this.#firstSink) this.#noteFirstSink();
      void this.#readHeads();
    } catch (error) {
      if (!job.signal.aborted) this.#fail(side, error);
    } finally {
      if (this.#jobs[side] === job) {
        delete this.#jobs[side];
        delete this.#running[side];
      }
      if (!this.#jobs.a && !this.#jobs.b) {
        this.#progress = undefined;
        this.#pace.idle();
      }
      this.#queue();
    }
  }

  /** Asks the reader, once, where opening a model would download it. */
  async #mayOpen(side: Side, id: string, signal: AbortSignal): Promise<boolean> {
    if (!this.#declined.has(id)) return this.#opener.admit(side, id, signal);
    this.#decline(side, id);
    return false;
  }

  /** Closes models that no side shows; the last good frames keep theirs. */
  #releaseModels(): Promise<void> {
    const state = this.#store.get();
    const frames = SIDES.map((side) => this.#frames[side]?.model.id ?? '');
    const shown = [
      state.a,
      state.b,
      ...this.#wanted(state),
      ...Object.values(this.#running),
      ...frames,
    ];
    return this.#session!.models.release(new Set(shown));
  }

  /** When the first sink map stands on the screen, counted from the start of the navigation. */
  #noteFirstSink(): void {
    this.#draw();
    performance.mark('first-sink');
    this.#firstSink = performance.now();
  }

  #fail(side: Side, error: unknown): void {
    this.#errors[side] = sentence(error);
    this.#trainings[side]?.halt();
    this.#timeline?.halt();
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
    await this.#generation.toggle(this.#store.get());
    await this.#readHeads();
  }

  /** A model is open and wanted: it is shown. */
  #opened(side: Side, id: string): void {
    const state = this.#store.get();
    if (state.compare.length) this.#store.set(this.#comparing.add(state, id));
    else if (state[side] === id) void this.#run(side);
    else this.#store.set({ [side]: id, [side === 'a' ? 'swapA' : 'swapB']: '' });
  }

  /** A link named a model that the reader did not want to load. */
  #decline(side: Side, id: string): void {
    this.#declined.add(id);
    this.#fail(side, `${hubName(id)} was not loaded: open it, or choose another model.`);
  }

  /** Everything that goes on is stopped. */
  #cancel(): void {
    SIDES.forEach((side) => this.#jobs[side]?.abort());
    this.#session?.models.abandon(new Set());
    this.#opener.back();
    this.#notices = ['Stopped.'];
  }

  readonly #actions: Actions = {
    set: (change) => this.#store.set(change),
    point: (pointed) => {
      this.#pointed = pointed;
      this.#queue();
    },
    open: (side) => this.#opener.show(side),
    generate: () => void this.#generate(),
    cancel: () => this.#cancel(),
    copy: (what) => void this.#copy(what),
  };

  /** What views and figures reach of the page. */
  readonly #desk = {
    set: this.#actions.set,
    point: this.#actions.point,
    version: () => this.#engine?.describe.version ?? '',
    link: () => textToCopy('link', this.#store.get()),
    fail: (error: unknown) => {
      this.#notices = [sentence(error)];
      this.#queue();
    },
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
    drawShell({
      state,
      frames: this.#frames,
      pointed: this.#pointed,
      describe: this.#engine?.describe,
      cards: this.#zoo?.cards ?? [],
      choices: this.#session?.models.choices ?? [],
      isGenerating: this.#generation.isRunning,
      actions: this.#actions,
    });
    for (const side of SIDES) {
      const bytes = this.#session?.models.bytesOf(state[side]);
      this.#trainings[side]?.update(state[side], this.#frames[side], bytes);
    }
    this.#comparing.update(state, this.#theme);
    this.#timeline?.update(state, this.#frames);
    this.#unmasking?.update(state, this.#theme, this.#frames);
    this.#dialog.draw();
    drawMessages(this.#failures, this.#notices);
    drawProgress(this.#work, this.#actions.cancel);
    const { a } = this.#frames;
    if (this.#engine) drawFooter(this.#engine.describe, this.#firstSink, a?.milliseconds);
    const frames = SIDES.map((side) => this.#frames[side]).filter((one) => one !== undefined);
    const at = this.#selection();
    for (const side of SIDES) {
      const frame = this.#frames[side];
      if (!frame) continue;
      const context = { state, theme: this.#theme, pointed: this.#pointed, frames };
      drawPanels(this.#panels, side, frame, context, at, this.#desk);
    }
  }

  /** While something runs, the page says so to whoever watches it from outside. */
  #markBusy(): void {
    const busy = Boolean(this.#pace.isPending || this.#jobs.a || this.#jobs.b || this.#reading);
    if (busy) document.body.dataset.busy = '';
    else delete document.body.dataset.busy;
  }

  /** What takes time right now, unless the dialog tells it. */
  get #work(): Work | undefined {
    const text = this.#opener.isShown ? undefined : this.#opener.work;
    return text === undefined ? this.#progress : { text, since: 0 };
  }

  /** Errors of the sides, with what is shown instead of a result. */
  get #failures(): string[] {
    return SIDES.filter((side) => this.#errors[side]).map((side) => {
      const text = `${this.#errors[side]}`.replace(/([^.!?])$/, '$1.');
      return this.#frames[side] ? `${text} The last good result is shown.` : text;
    });
  }
}

export function startPage(embedded: boolean): void {
  void new Page(embedded).start();
}
