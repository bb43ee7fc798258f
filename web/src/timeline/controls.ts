/** The scrubber: a slider over the stored checkpoints, with buttons to play and to step. */
import { html, nothing, type TemplateResult } from 'lit';
import { live } from 'lit/directives/live.js';
import { stepWords } from './steps';

export interface Scrubber {
  /** Stored steps, rising; none where no side has checkpoints. */
  readonly steps: readonly number[];
  /** -1: the trained weights. */
  readonly step: number;
  readonly isPlaying: boolean;
  /** What is wanted is drawn. */
  readonly isThere: boolean;
  readonly go: (step: number) => void;
  readonly play: () => void;
  /** Shows a model that has checkpoints. */
  readonly show: () => void;
}

/** Where the slider stands: at the end for the trained weights. */
export function indexOfStep(steps: readonly number[], step: number): number {
  const at = step < 0 ? -1 : steps.findLastIndex((one) => one <= step);
  return at < 0 ? (step < 0 ? steps.length - 1 : 0) : at;
}

export function scrubber(parts: Scrubber): TemplateResult {
  const { steps, step, isPlaying, isThere, go, play, show } = parts;
  if (!steps.length)
    return html`<p class="hint">
      No side shows a model whose checkpoints are kept here.
      <button type="button" @click=${show}>Show the twins</button>
    </p>`;
  const index = indexOfStep(steps, step);
  const last = steps.length - 1;
  const words = stepWords(steps[index], steps[last]);
  const said = step < 0 ? `trained weights (${words})` : words;
  const move = (event: Event) => go(steps[Number((event.target as HTMLInputElement).value)]);
  return html`<div class="links">
      <button
        type="button"
        aria-label="Checkpoint before"
        ?disabled=${index === 0}
        @click=${() => go(steps[index - 1])}
      >
        ◀
      </button>
      <button type="button" class="walk-play" @click=${play}>
        ${isPlaying ? 'Pause' : 'Play'}
      </button>
      <button
        type="button"
        aria-label="Checkpoint after"
        ?disabled=${index === last}
        @click=${() => go(steps[index + 1])}
      >
        ▶
      </button>
    </div>
    <label class="walk-step"
      ><span>${said}${isThere ? '' : ' …'}</span>
      <input
        type="range"
        min="0"
        max=${last}
        .value=${live(String(index))}
        aria-label="Step of training"
        aria-valuetext=${said}
        @input=${move}
    /></label>
    ${
      step < 0
        ? nothing
        : html`<button type="button" class="walk-trained" @click=${() => go(-1)}>
            Trained weights
          </button>`
    }`;
}
