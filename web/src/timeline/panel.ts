/**
 * The training view: how loss, sink and norms went in each run, and a scrubber that puts the
 * checkpoint under it into every other view.
 */
import { render } from 'lit';
import type { Frame } from '../frame';
import type { Models } from '../models';
import { say, SIDES, type PerSide } from '../panels';
import { figureOf, pngOf, svgText } from '../save/figure';
import { addKinds, hand } from '../save/menu';
import type { State } from '../state';
import { part } from '../views/view';
import { CLASS_WORDS } from '../words';
import { drawChart, type Drawn } from './chart';
import { scrubber } from './controls';
import { QUANTITIES, stepsOf, styleOf, valueWords, type Course } from './course';
import { toCsv, toJson, type FileFacts } from './files';
import { LOGGED_ON, MEASURED_ON, nearestStep } from './steps';
import { table } from './table';
import type { Timelines } from './timelines';
import './timeline.css';

export interface PanelDesk {
  readonly models: Models;
  readonly set: (change: Partial<State>) => void;
  readonly fail: (error: unknown) => void;
  readonly facts: () => FileFacts;
}

/** A checkpoint stands this long, from when it is drawn, before the next one comes. */
const PLAY_MS = 450;
const KINDS = ['SVG', 'PNG', 'CSV', 'JSON'] as const;

export class Panel {
  readonly #desk: PanelDesk;
  readonly #timelines: Timelines;
  readonly #root: HTMLElement;
  readonly #place: HTMLElement;
  readonly #controls: HTMLElement;
  readonly #picture: HTMLElement;
  readonly #charts: readonly HTMLElement[];
  readonly #table: HTMLElement;
  readonly #stamp: HTMLElement;
  readonly #menu: HTMLElement;
  #drawn: readonly Drawn[] = [];
  #courses: readonly Course[] = [];
  #state: State | undefined;
  #frames: PerSide<Frame> = {};
  /** What the charts were drawn of. */
  #look = '';
  #isPlaying = false;
  #timer = 0;
  #isAway = false;

  constructor(root: HTMLElement, timelines: Timelines, desk: PanelDesk) {
    this.#desk = desk;
    this.#timelines = timelines;
    this.#root = root;
    this.#place = part(root, 'walk-place');
    this.#controls = part(this.#place, 'walk-controls');
    this.#picture = part(root, 'walk-picture');
    const grid = part(this.#picture, 'walk-charts');
    this.#charts = QUANTITIES.map(({ name }) => part(grid, `chart walk-${name}`));
    this.#table = part(this.#picture, 'walk-numbers');
    this.#stamp = part(this.#picture, 'stamp', 'p');
    this.#menu = addKinds(root, 'Training', KINDS, (kind) => {
      void this.#fileOf(kind).then(
        (file) => hand(file, `sinkscope-training.${kind.toLowerCase()}`),
        desk.fail,
      );
    });
    // Beside a view far from its place, the scrubber stands at the foot of the window.
    new IntersectionObserver(([entry]) => {
      this.#isAway = !entry.isIntersecting;
      this.#float();
    }).observe(this.#place);
    void this.#load();
  }

  /** The page's state and what its sides show, each time it is drawn. */
  update(state: State, frames: PerSide<Frame>): void {
    this.#state = state;
    this.#frames = { ...frames };
    if (state.compare.length) this.#stop();
    this.#draw();
  }

  /** A checkpoint could not be shown: going on would fail again. */
  halt(): void {
    this.#stop();
  }

  /** One that cannot be read does not keep the others from being drawn. */
  async #load(): Promise<void> {
    const found = await Promise.all(
      this.#timelines.cards.map(async ({ id, title }, i) => {
        const timeline = await this.#timelines.get(id).catch(this.#desk.fail);
        return timeline ? [{ id, title, style: styleOf(i), timeline }] : [];
      }),
    );
    this.#courses = found.flat();
    this.#draw();
    // Until now an empty place was kept for it.
    this.#root.classList.remove('waiting');
  }

  /** Of the sides that show a model with checkpoints. */
  get #shown(): Course[] {
    const { a, b } = this.#state!;
    return this.#courses.filter(({ id }) => id === a || id === b);
  }

  /** Whether every side shows the step that is wanted. */
  get #isThere(): boolean {
    const state = this.#state!;
    return SIDES.every((side) => {
      const id = this.#desk.models.at(state[side], state.step);
      return !state[side] || this.#frames[side]?.model.id === id;
    });
  }

  #draw(): void {
    if (!this.#state || !this.#courses.length) return;
    const { step, hide } = this.#state;
    document.body.classList.toggle('stepping', step >= 0);
    const shown = this.#shown;
    const steps = stepsOf(shown);
    const ids = new Set(shown.map(({ id }) => id));
    const all = stepsOf(this.#courses);
    const at = step < 0 ? all[all.length - 1] : nearestStep(all, step);
    render(
      scrubber({
        steps,
        step: step < 0 ? -1 : at,
        isPlaying: this.#isPlaying,
        isThere: this.#isThere,
        go: (wanted) => this.#go(wanted),
        play: () => this.#play(),
        show: () => this.#desk.set({ a: 'softmax', b: 'sigmoid', swapA: '', swapB: '' }),
      }),
      this.#controls,
    );
    this.#float();
    this.#menu.hidden = hide.includes('save');
    this.#drawCharts(ids, at);
    render(table(this.#courses, at, ids), this.#table);
    say(this.#stamp, this.#note);
    for (const one of this.#drawn) one.move(steps.length ? at : NaN);
    this.#follow();
  }

  #drawCharts(shown: ReadonlySet<string>, at: number): void {
    const look = `${innerWidth} ${[...shown]} ${this.#courses.length}`;
    if (look === this.#look) return;
    this.#look = look;
    this.#drawn = QUANTITIES.map((quantity, i) => {
      const ends = this.#courses.map(({ title, timeline }) => {
        const last = timeline.checkpoints.at(-1)!.measured[quantity.inCheckpoint];
        return `${title} ${valueWords(last, quantity)}`;
      });
      const label = `${quantity.title} by training step; at the end: ${ends.join(', ')}.`;
      const desk = { choose: (step: number) => this.#go(step) };
      return drawChart(this.#charts[i], quantity, this.#courses, shown, label, desk);
    });
    for (const one of this.#drawn) one.move(at);
  }

  /** How the numbers came about. */
  get #note(): string {
    const { sequences, T, eps } = MEASURED_ON;
    const bits = this.#courses.flatMap(({ timeline: { checkpoints, parameters } }) =>
      checkpoints.map(({ bytes }) => (8 * bytes) / parameters),
    );
    const seeds = [...new Set(this.#courses.map(({ timeline }) => timeline.seed))];
    return [
      `${CLASS_WORDS.measured} on weights trained here, seed ${seeds.join(', ')}`,
      `ε = ${eps} · T = ${T} · BOS first`,
      `lines: ${LOGGED_ON} held-out sequences; table, and marks where a checkpoint is kept: ${sequences}`,
      `a checkpoint is kept in ${Math.min(...bits).toFixed(1)} to ${Math.max(...bits).toFixed(1)} ` +
        'bits a weight, which the other views show and the small print measures',
      'shares of rows that need not sum to 1 are to be read beside their row mass',
    ].join(' · ');
  }

  #float(): void {
    const isAfloat = this.#isAway && this.#state !== undefined && this.#state.step >= 0;
    if (isAfloat) this.#place.style.minHeight = `${this.#place.offsetHeight}px`;
    this.#controls.classList.toggle('afloat', isAfloat);
    document.body.classList.toggle('walking', isAfloat);
    if (!isAfloat) this.#place.style.minHeight = '';
  }

  #go(step: number | undefined): void {
    if (step !== undefined && step !== this.#state!.step) this.#desk.set({ step });
  }

  #play(): void {
    if (this.#isPlaying) return this.#pause();
    const steps = stepsOf(this.#shown);
    this.#isPlaying = true;
    const { step } = this.#state!;
    // From the end it begins anew.
    if (step < 0 || step >= steps[steps.length - 1]) this.#go(steps[0]);
    else this.#draw();
  }

  #pause(): void {
    this.#stop();
    this.#draw();
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#isPlaying = false;
  }

  /** While it plays: what comes next is fetched, and shown a while after this one is drawn. */
  #follow(): void {
    if (!this.#isPlaying || this.#timer || !this.#isThere) return;
    const { step } = this.#state!;
    const next = stepsOf(this.#shown).find((one) => one > step);
    if (next === undefined) return this.#pause();
    for (const { id } of this.#shown) void this.#timelines.preload(id, next);
    this.#timer = window.setTimeout(() => {
      this.#timer = 0;
      if (!this.#isPlaying) return;
      // The reader may have moved it in the meantime.
      if (this.#state!.step === step) this.#go(next);
      else this.#follow();
    }, PLAY_MS);
  }

  async #fileOf(kind: (typeof KINDS)[number]): Promise<Blob> {
    const facts = this.#desk.facts();
    if (kind === 'CSV') return new Blob([toCsv(this.#courses, facts)], { type: 'text/csv' });
    if (kind === 'JSON')
      return new Blob([toJson(this.#courses, facts)], { type: 'application/json' });
    const link = facts.link.length > 120 ? `${facts.link.slice(0, 119)}…` : facts.link;
    const picture = figureOf(this.#picture, 'Training', link);
    return kind === 'PNG'
      ? pngOf(picture)
      : new Blob([svgText(picture)], { type: 'image/svg+xml' });
  }
}
