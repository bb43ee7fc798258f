/**
 * The unmasking view: hides places behind the text, has the model fill them in step by step, and
 * shows where the strongest column of attention stands in each step.
 */
import { html, render } from 'lit';
import { unmask } from 'sinkscope';
import type { Frame } from '../frame';
import type { Models, OpenModel } from '../models';
import { sequential, type Theme } from '../plot/color';
import { createHeatmap, type Cell, type Heatmap } from '../plot/heatmap';
import { drawLegend } from '../plot/legend';
import { addMenu, type Figure } from '../save/menu';
import type { State } from '../state';
import { largest, part } from '../views/view';
import { CLASS_WORDS, firstWords, readable, show } from '../words';
import { controls } from './controls';
import { alphas, hide, named, placesAt, quantities, sentence, type Course } from './course';
import './diffusion.css';

export interface PanelDesk {
  readonly models: Models;
  readonly set: (change: Partial<State>) => void;
  readonly fail: (error: unknown) => void;
  readonly facts: () => { readonly version: string; readonly link: string };
}

/** What the view was last told. */
interface Given {
  readonly state: State;
  readonly theme: Theme;
  readonly frame: Frame;
}

/** A course, the numbers of its map, and who knows how its tokens read. */
interface Made {
  readonly course: Course;
  readonly data: Float32Array;
  readonly tokenizer: OpenModel['tokenizer'];
}

export class Panel {
  readonly #section: HTMLElement;
  readonly #desk: PanelDesk;
  readonly #controls: HTMLElement;
  readonly #picture: HTMLElement;
  readonly #words: HTMLElement;
  readonly #legend: HTMLElement;
  readonly #map: Heatmap;
  readonly #text: HTMLElement;
  readonly #stamp: HTMLElement;
  readonly #menu: HTMLElement;
  #given: Given | undefined;
  #made: Made | undefined;
  /** What is made, or was made of. */
  #key = '';
  /** The step that is shown. */
  #step = 0;
  #job: AbortController | undefined;

  constructor(section: HTMLElement, desk: PanelDesk) {
    this.#section = section;
    this.#desk = desk;
    this.#controls = part(section, 'unmask-controls');
    this.#picture = part(section, 'unmask-picture');
    this.#words = part(this.#picture, 'unmask-words', 'p');
    this.#words.setAttribute('role', 'status');
    this.#legend = part(this.#picture, 'legend-place');
    const onChoose = ({ row }: Cell) => this.#go(row);
    this.#map = createHeatmap(part(this.#picture, 'unmask-map'), { onChoose });
    this.#text = part(this.#picture, 'unmask-text', 'p');
    part(this.#picture, 'hint', 'p').textContent =
      'The text after this step. Underlined: filled in, shaded: in this step; framed: where the ' +
      'attention was largest.';
    this.#stamp = part(this.#picture, 'stamp', 'p');
    this.#menu = addMenu(this.#picture, 'Unmasking', () => this.#figure(), desk.fail);
  }

  /** The page's state and the frame of a masked model, each time the page is drawn. */
  update(state: State, theme: Theme, frame: Frame): void {
    this.#given = { state, theme, frame };
    if (keyOf(state, frame) !== this.#key) this.#clear();
    this.#draw();
  }

  /** The page shows something else. */
  stop(): void {
    this.#job?.abort();
    this.#job = undefined;
    delete this.#section.dataset.busy;
  }

  /** What was made is of another text, model, or number of steps. */
  #clear(): void {
    this.stop();
    this.#made = undefined;
    this.#key = '';
    this.#words.textContent = '';
  }

  async #toggle(): Promise<void> {
    if (this.#job) {
      this.stop();
      return this.#draw();
    }
    this.#clear();
    const job = new AbortController();
    this.#job = job;
    const { state, frame } = this.#given!;
    this.#key = keyOf(state, frame);
    this.#section.dataset.busy = '';
    try {
      await this.#run(state, frame, job.signal);
    } catch (error) {
      if (!job.signal.aborted) this.#desk.fail(error);
    } finally {
      if (this.#job === job) {
        this.stop();
        this.#draw();
      }
    }
  }

  async #run(state: State, frame: Frame, signal: AbortSignal): Promise<void> {
    const watch = { signal, onProgress: () => {} };
    const { model, tokenizer } = await this.#desk.models.get(frame.model.id, watch);
    signal.throwIfAborted();
    const tokens = hide(frame, state.masked);
    const hidden = tokens.filter(({ id }) => id === model.architecture.mask_token).length;
    const count = Math.min(state.denoise, hidden);
    let course: Course = { frame, tokens, count, steps: [] };
    await unmask(
      model,
      tokens.map(({ id }) => id),
      {
        steps: count,
        // A text holds none of these.
        never: tokenizer.special,
        edits: frame.edits,
        signal,
        onStep: (step, i) => {
          if (signal.aborted) return;
          course = { ...course, steps: [...course.steps, step] };
          this.#made = { course, data: alphas(course), tokenizer };
          this.#step = i;
          this.#draw();
        },
      },
    );
  }

  #go(step: number): void {
    this.#step = Math.min(step, this.#made!.course.steps.length - 1);
    this.#draw();
  }

  #draw(): void {
    const { state, frame } = this.#given!;
    render(
      controls({
        state,
        most: frame.architecture.context - 1,
        isRunning: this.#job !== undefined,
        made: this.#made?.course.steps.length ?? 0,
        step: this.#step,
        set: this.#desk.set,
        run: () => void this.#toggle(),
        go: (step) => this.#go(step),
      }),
      this.#controls,
    );
    this.#picture.hidden = !this.#made;
    if (!this.#made) return;
    const { course, tokenizer } = this.#made;
    const isWhole = course.steps.length === course.count;
    // While it runs the sentence would change, and be read out, with every step.
    const sofar = `Step ${course.steps.length} of ${course.count}.`;
    const words = isWhole ? sentence(course, tokenizer) : this.#job ? '' : `${sofar} Stopped.`;
    if (this.#words.textContent !== words) this.#words.textContent = words;
    this.#drawMap(this.#made);
    this.#drawText(this.#made);
    this.#stamp.textContent = stampWords(course);
    this.#menu.hidden = state.hide.includes('save');
  }

  #drawMap({ course, data, tokenizer }: Made): void {
    const T = course.tokens.length;
    const { count, steps } = course;
    const high = largest([data]);
    const scale = sequential(this.#given!.theme, high);
    drawLegend(this.#legend, scale, 0, high, ['mean α = 0', show(high, 3)]);
    this.#map.draw({
      rows: count,
      cols: T,
      data,
      scale,
      rowTitle: 'step',
      colTitle: 'token',
      cellShape: Math.min((3 * count) / T, Math.max(1, count / T)),
      label: `Mean attention that ${T} tokens receive in ${steps.length} steps of unmasking.`,
      chosen: { row: this.#step, col: -1 },
      outlined: steps.map(({ sink }, row) => ({ row, col: sink.place })),
      describe: ({ row, col }) => {
        if (row < 0 || row >= steps.length) return '';
        const place = col < 0 ? steps[row].sink.place : col;
        const alpha = show(data[row * T + place], 3);
        const what = named(course, row, place, tokenizer);
        return `step ${row + 1}, ${what}: mean α = ${alpha}${col < 0 ? ', the largest' : ''}`;
      },
    });
  }

  /** The text as it stands after the step that is shown. */
  #drawText({ course, tokenizer }: Made): void {
    const spans = placesAt(course, this.#step, tokenizer).map(
      ({ text, kind, isSink, title }) =>
        html`<span class="${kind} ${isSink ? 'is-sink' : ''}" title=${title}
          >${readable(text)}</span
        >`,
    );
    render(spans, this.#text);
  }

  #figure(): Figure {
    const { state } = this.#given!;
    const { course, tokenizer } = this.#made!;
    const { steps } = course;
    const ids = steps[steps.length - 1].tokens;
    const places = placesAt(course, steps.length - 1, tokenizer);
    const tokens = course.tokens.map((token, t) => ({
      ...token,
      id: ids[t],
      text: places[t].text,
    }));
    const frame = { ...course.frame, tokens, T: tokens.length, sequences: 1 };
    // It is a mean over all of them.
    const head = { layer: NaN, head: NaN };
    const what = { figure: 'unmasking', title: 'Unmasking', cell: this.#picture };
    return {
      ...what,
      ...head,
      ...this.#desk.facts(),
      frame,
      state,
      quantities: quantities(course, tokenizer),
    };
  }
}

/** Two that are alike are filled in alike. */
function keyOf({ masked, denoise }: State, { model, edits, tokens }: Frame): string {
  return JSON.stringify([model.id, edits, tokens.map(({ id }) => id), masked, denoise]);
}

function stampWords({ frame, tokens, count }: Course): string {
  const { L, H, mask_token } = frame.architecture;
  const hidden = tokens.filter(({ id }) => id === mask_token).length;
  const edit = frame.class === 'counterfactual' ? ` · edit: ${frame.operation.label}` : '';
  return (
    `${CLASS_WORDS[frame.class]} · mean α over ${L * H} heads · T = ${tokens.length}, ${hidden} ` +
    `hidden · ${count} steps · ${firstWords(frame)} · 1 sequence · ${frame.model.title}${edit}`
  );
}
