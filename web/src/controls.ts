/** The controls: state in, templates out. Every change goes through `set`. */
import { html, nothing, type TemplateResult } from 'lit';
import { live } from 'lit/directives/live.js';
import type { Token } from 'sinkscope';
import { picksOfSides } from './compare/sides';
import { isBidirectional, type Frame } from './frame';
import { SIDES, type PerSide } from './panels';
import type { Side } from './session';
import { defaults, type State } from './state';
import type { Pointed } from './views/view';
import { readable } from './words';
import type { Card } from './zoo';

export interface Actions {
  readonly set: (change: Partial<State>) => void;
  readonly point: (pointed: Pointed) => void;
  readonly open: (side: Side) => void;
  readonly generate: () => void;
  readonly copy: (what: 'link' | 'embed') => void;
  readonly cancel: () => void;
}

/** `hide=` in a link takes away any of: prompt chips numbers models swap generate how finding links save study. */
export function shown(state: State, name: string): boolean {
  return !state.hide.includes(name);
}

export const valueOf = (event: Event) => (event.target as HTMLInputElement).value;

export function choices(
  label: string,
  current: string,
  options: readonly (readonly [string, string])[],
  pick: (value: string) => void,
): TemplateResult {
  return html`<label class="field"
    ><span>${label}</span>
    <select @change=${(event: Event) => pick(valueOf(event))}>
      ${options.map(
        ([value, name]) =>
          html`<option value=${value} ?selected=${value === current}>${name}</option>`,
      )}
    </select></label
  >`;
}

function numberField(
  label: string,
  name: 'T' | 'eps' | 'n' | 'seed' | 'temperature' | 'topK',
  state: State,
  range: readonly [number, number, number],
  set: Actions['set'],
): TemplateResult {
  const [min, max, step] = range;
  const change = (event: Event) => {
    const value = Number(valueOf(event));
    const bounded = Math.min(max, Math.max(min, Number.isFinite(value) ? value : defaults[name]));
    const kept = step === 1 ? Math.round(bounded) : bounded;
    (event.target as HTMLInputElement).value = String(kept);
    set({ [name]: kept });
  };
  return html`<label class="field number-field"
    ><span>${label}</span
    ><input
      type="number"
      .value=${String(state[name])}
      min=${min}
      max=${max}
      step=${step}
      @change=${change}
  /></label>`;
}

const INPUTS = [
  ['text', 'natural text'],
  ['random', 'random tokens'],
  ['repeat', 'one token repeated'],
] as const;

function inputs(state: State, set: Actions['set']): TemplateResult {
  return html`<div class="segmented" role="group" aria-label="Kind of input">
    ${INPUTS.map(
      ([value, name]) =>
        html`<button
          type="button"
          aria-pressed=${state.input === value}
          @click=${() => set({ input: value })}
        >
          ${name}
        </button>`,
    )}
  </div>`;
}

export function promptControls(state: State, { set }: Actions): TemplateResult {
  if (!shown(state, 'prompt')) return html``;
  const text = html`<label class="prompt-label"
    ><span>Text</span
    ><textarea
      rows="5"
      spellcheck="false"
      .value=${live(state.prompt)}
      @input=${(event: Event) => set({ prompt: valueOf(event) })}
    ></textarea>
  </label>`;
  return html`<div class="prompt">
    ${inputs(state, set)} ${state.input === 'text' ? text : nothing}
  </div>`;
}

/** What the tokenizers would put first by themselves, in a word for each side. */
function automaticWords(frames: PerSide<Frame>): string {
  const words = SIDES.flatMap((side) => {
    const frame = frames[side];
    return frame ? [frame.special.automatic.map(readable).join(' ') || 'none'] : [];
  });
  return [...new Set(words)].join(' / ');
}

/** Whether a special token stands first, and which of those that the tokenizers have. */
function specialControls(
  state: State,
  frames: PerSide<Frame>,
  set: Actions['set'],
): TemplateResult {
  const names = SIDES.flatMap((side) => frames[side]?.special.choices ?? []);
  const known = [...new Set([...names, state.first])].filter((name) => name && name !== 'auto');
  return html`${choices(
      'first token',
      state.first,
      [
        ['', 'BOS'],
        ['auto', `auto: ${automaticWords(frames)}`],
        ...known.map((name) => [name, readable(name)] as const),
      ],
      (first) => set({ first, bos: true }),
    )}<label class="check"
      ><input
        type="checkbox"
        .checked=${live(state.bos)}
        @change=${(event: Event) => set({ bos: (event.target as HTMLInputElement).checked })}
      />BOS first</label
    ><span class="hint automatic" title="What the tokenizers put first by themselves"
      >auto: ${automaticWords(frames)}</span
    >`;
}

export function numberControls(
  state: State,
  context: number,
  frames: PerSide<Frame>,
  { set }: Actions,
): TemplateResult {
  if (!shown(state, 'numbers')) return html``;
  return html`<div class="numbers">
    ${numberField('tokens T', 'T', state, [1, context, 1], set)}
    ${numberField('threshold ε', 'eps', state, [0, 1, 0.05], set)}
    ${numberField('sequences', 'n', state, [1, 100, 1], set)}
    ${numberField('seed', 'seed', state, [0, 4294967295, 1], set)}
    ${choices(
      'map colours',
      state.scale,
      [
        ['linear', 'linear'],
        ['root', 'square root'],
      ],
      (value) => set({ scale: value as State['scale'] }),
    )}
    ${specialControls(state, frames, set)}
  </div>`;
}

/** A character that is cut into several tokens stands in the first; the others get a dot. */
function chipText(frame: Frame, t: number, state: State): string {
  const { text, start, end } = frame.tokens[t];
  if (!text.includes('\ufffd') || start === end) return readable(text);
  const before = frame.tokens[t - 1];
  return before?.end === end && before.start === start
    ? '·'
    : readable(state.prompt.slice(start, end));
}

export function chips(
  frame: Frame | undefined,
  state: State,
  pointed: Pointed,
  actions: Actions,
): TemplateResult {
  if (!frame || !shown(state, 'chips')) return html``;
  const chip = (token: Token, t: number) => {
    const lit = pointed.query === t ? 'query' : pointed.key === t ? 'key' : '';
    const chosen = state.query === t ? 'chosen' : '';
    const made = t >= frame.T - frame.generated ? 'made' : '';
    return html`<button
      type="button"
      class="chip ${token.special ? 'special' : ''} ${lit} ${chosen} ${made}"
      title=${`token ${t + 1}, id ${token.id}`}
      .textContent=${chipText(frame, t, state)}
      @pointerenter=${() => actions.point({ query: t, key: t })}
      @pointerleave=${() => actions.point({})}
      @click=${() => actions.set({ query: state.query === t ? -1 : t, key: -1 })}
    ></button>`;
  };
  const cut = frame.dropped
    ? html`<span class="cut">… ${frame.dropped} more not run (T = ${frame.T})</span>`
    : nothing;
  return html`<div class="chips" role="group" aria-label="Tokens">
    ${frame.tokens.map(chip)}${cut}
  </div>`;
}

export function generateControls(
  state: State,
  frames: PerSide<Frame>,
  busy: boolean,
  actions: Actions,
): TemplateResult {
  if (!shown(state, 'generate')) return html``;
  const { set, generate } = actions;
  const drawn = SIDES.flatMap((side) => frames[side] ?? []);
  if (drawn.length && drawn.every(isBidirectional))
    return html`<p class="hint">
      Every token sees every other: such a model does not continue a text, it fills in what is
      hidden.
    </p>`;
  return html`<div class="generate">
    <button type="button" class="primary" @click=${generate}>
      ${busy ? 'Stop' : 'Generate 16 tokens'}
    </button>
    <div class="numbers">
      ${numberField('temperature', 'temperature', state, [0, 5, 0.1], set)}
      ${numberField('top k', 'topK', state, [0, 100000, 1], set)}
    </div>
    <span class="hint">Temperature 0 is greedy. The views follow each token.</span>
  </div>`;
}

export function linkControls(
  state: State,
  cards: readonly Card[],
  actions: Actions,
): TemplateResult {
  if (!shown(state, 'links')) return html``;
  const { set, copy, open } = actions;
  const hasSteps = (id: string) => cards.some((card) => card.id === id && card.timeline);
  return html`<div class="links">
    <button type="button" class="primary" @click=${() => open('a')}>Open a model</button>
    <button
      type="button"
      aria-pressed=${state.compare.length > 0}
      @click=${() => set({ compare: state.compare.length ? [] : picksOfSides(state, hasSteps) })}
    >
      Compare models
    </button>
    <button type="button" @click=${() => copy('link')}>Copy link</button>
    <button type="button" @click=${() => copy('embed')}>Copy embed</button>
    ${choices(
      'theme',
      state.theme,
      [
        ['auto', 'system'],
        ['light', 'light'],
        ['dark', 'dark'],
      ],
      (theme) => set({ theme: theme as State['theme'] }),
    )}
  </div>`;
}
