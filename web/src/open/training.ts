/**
 * The training of a Pythia, walked through by its checkpoints: a slider that loads them in turn, and
 * Sink_1 of those that were visited under the conditions that hold now.
 */
import { html, render } from 'lit';
import type { Frame } from '../frame';
import { drawChart } from '../plot/chart';
import { conditions, percent, sinkOf } from '../words';
import { checkpointId, checkpointOf, PYTHIA_STEPS, type Checkpoint } from './catalogue';
import { size } from './words';

/** A checkpoint stands this long before the next one comes. */
const PLAY_MS = 400;

interface Visit {
  readonly step: number;
  readonly sink: number;
}

/** What must be the same for two checkpoints to be compared: all but the model. */
function settingOf(frame: Frame): string {
  const { eps, T, sequences, edits, tokens } = frame;
  return JSON.stringify([eps, T, sequences, edits, tokens.map(({ id }) => id)]);
}

/** Notes a frame among the visits of its model and setting, by step; one visit a step. */
export function withVisit(visits: readonly Visit[], visit: Visit): Visit[] {
  const others = visits.filter(({ step }) => step !== visit.step);
  return [...others, visit].sort((a, b) => a.step - b.step);
}

/** Where a step stands on a logarithmic axis, which has no place for 0 and names powers of ten. */
export function placeOfStep(step: number): number {
  return Math.max(step, 0.1);
}

/** The training control of one side. */
export class Training {
  readonly #root = document.createElement('div');
  readonly #controls = document.createElement('div');
  readonly #chart = document.createElement('div');
  readonly #pick: (id: string, repository: string) => void;
  readonly #visits = new Map<string, Visit[]>();
  #shown: Checkpoint | undefined;
  #bytes = NaN;
  #noted: Frame['tensors'] | undefined;
  #drawn: Visit[] | undefined;
  #playing = 0;
  #isPlaying = false;

  /** @param pick loads a checkpoint, which the reader wants by moving the slider */
  constructor(root: HTMLElement, pick: (id: string, repository: string) => void) {
    this.#pick = pick;
    this.#root.className = 'training';
    this.#chart.className = 'chart';
    this.#root.append(this.#controls, this.#chart);
    root.append(this.#root);
  }

  /**
   * @param id the model that the side is to show
   * @param frame what it shows
   * @param bytes of a checkpoint's weights, where they are known
   */
  update(id: string, frame: Frame | undefined, bytes: number | undefined): void {
    const at = checkpointOf(id);
    this.#root.hidden = !at;
    if (!at) {
      this.#stop();
      this.#shown = undefined;
      return;
    }
    this.#shown = at;
    this.#bytes = bytes ?? this.#bytes;
    const isThere = frame?.model.id === id;
    if (frame && isThere) this.#note(frame, at);
    this.#draw(at, isThere);
  }

  /** Loading failed: going on would fail again. */
  halt(): void {
    this.#stop();
  }

  #note(frame: Frame, { repository, step }: Checkpoint): void {
    if (this.#noted === frame.tensors || frame.generated) return;
    this.#noted = frame.tensors;
    const key = `${repository} ${settingOf(frame)}`;
    const visits = withVisit(this.#visits.get(key) ?? [], { step, sink: sinkOf(frame) });
    this.#visits.set(key, visits);
    this.#drawChart(visits, frame, repository);
    if (this.#isPlaying) this.#playing = window.setTimeout(() => this.#advance(), PLAY_MS);
  }

  #advance(): void {
    const at = PYTHIA_STEPS.indexOf(this.#shown?.step ?? NaN);
    if (!this.#isPlaying || at < 0 || at === PYTHIA_STEPS.length - 1) this.#stop();
    else this.#go(at + 1);
  }

  #go(index: number): void {
    const step = PYTHIA_STEPS[Math.min(PYTHIA_STEPS.length - 1, Math.max(0, index))];
    if (!this.#shown || step === this.#shown.step) return;
    const { repository } = this.#shown;
    this.#pick(checkpointId({ repository, step }), repository);
  }

  #play(): void {
    this.#isPlaying = !this.#isPlaying;
    if (!this.#isPlaying) return this.#stop();
    // From the end it begins anew.
    const isLast = this.#shown?.step === PYTHIA_STEPS.at(-1);
    if (isLast) this.#go(0);
    else this.#advance();
  }

  #stop(): void {
    clearTimeout(this.#playing);
    this.#isPlaying = false;
  }

  #draw({ repository, step }: Checkpoint, isThere: boolean): void {
    const index = PYTHIA_STEPS.indexOf(step);
    const change = (event: Event) => this.#go(Number((event.target as HTMLInputElement).value));
    const each = Number.isFinite(this.#bytes) ? `${size(this.#bytes)} each, ` : '';
    const value = `training step ${step.toLocaleString('en')}`;
    render(
      html`<label class="training-step"
          ><span>${value}${isThere ? '' : ' …'}</span>
          <input
            type="range"
            min="0"
            max=${PYTHIA_STEPS.length - 1}
            .value=${String(index)}
            aria-valuetext=${value}
            @change=${change}
        /></label>
        <div class="links">
          <button type="button" aria-label="Step before" @click=${() => this.#go(index - 1)}>
            ◀
          </button>
          <button type="button" @click=${() => this.#play()}>
            ${this.#isPlaying ? 'Pause' : 'Play'}
          </button>
          <button type="button" aria-label="Step after" @click=${() => this.#go(index + 1)}>
            ▶
          </button>
          <span class="hint">Checkpoints of ${repository}: ${each}kept for the next visit.</span>
        </div>`,
      this.#controls,
    );
  }

  #drawChart(visits: Visit[], frame: Frame, repository: string): void {
    if (this.#drawn === visits) return;
    this.#drawn = visits;
    const last = visits.find(({ step }) => step === this.#shown?.step);
    void drawChart(this.#chart, {
      kind: 'lines',
      from: 0,
      places: visits.map(({ step }) => placeOfStep(step)),
      xLabel: 'training step (log)',
      yLabel: 'Sink₁ of the steps visited',
      yMax: Math.max(0.2, ...visits.map(({ sink }) => sink)),
      percent: true,
      label:
        `Sink₁ of ${visits.length} checkpoints of ${repository} by training step; at step ` +
        `${last?.step ?? '–'} it is ${percent(last?.sink ?? NaN)}.`,
      series: [
        {
          name: conditions({ ...frame, model: { ...frame.model, title: repository } }),
          color: '--sink',
          values: visits.map(({ sink }) => sink),
        },
      ],
    });
  }
}
