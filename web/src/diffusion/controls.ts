/** What the reader sets and moves: how many places are hidden, in how many steps, and which is shown. */
import { html, nothing, type TemplateResult } from 'lit';
import { live } from 'lit/directives/live.js';
import type { State } from '../state';

export interface Controls {
  readonly state: Pick<State, 'masked' | 'denoise'>;
  /** Most places that leave room for one token of text. */
  readonly most: number;
  readonly isRunning: boolean;
  /** Steps that are made, and the one that is shown; none: 0. */
  readonly made: number;
  readonly step: number;
  readonly set: (change: Partial<State>) => void;
  readonly run: () => void;
  readonly go: (step: number) => void;
}

function numberField(
  label: string,
  name: 'masked' | 'denoise',
  most: number,
  { state, set }: Controls,
): TemplateResult {
  const change = ({ target }: Event) => {
    const input = target as HTMLInputElement;
    const wanted = Math.round(Number(input.value)) || 1;
    const value = Math.min(most, Math.max(1, wanted));
    input.value = String(value);
    set({ [name]: value });
  };
  return html`<label class="field number-field"
    ><span>${label}</span
    ><input
      type="number"
      min="1"
      max=${most}
      step="1"
      .value=${live(String(state[name]))}
      @change=${change}
  /></label>`;
}

function slider({ made, step, go }: Controls): TemplateResult {
  const words = `step ${step + 1} of ${made}`;
  return html`<label class="unmask-step"
    ><span>${words}</span>
    <input
      type="range"
      min="0"
      max=${made - 1}
      .value=${live(String(step))}
      aria-label="Step of unmasking"
      aria-valuetext=${words}
      @input=${(event: Event) => go(Number((event.target as HTMLInputElement).value))}
  /></label>`;
}

export function controls(parts: Controls): TemplateResult {
  return html`<button type="button" class="primary" @click=${parts.run}>
      ${parts.isRunning ? 'Stop' : 'Unmask'}
    </button>
    ${numberField('hidden places', 'masked', parts.most, parts)}
    ${numberField('steps', 'denoise', 1024, parts)} ${parts.made > 1 ? slider(parts) : nothing}`;
}
