/** The controls: state in, templates out. Every change goes through `set`. */
import { html, nothing, type TemplateResult } from 'lit';
import { live } from 'lit/directives/live.js';
import type { Describe, Operation, Token } from 'sinkscope';
import { picksOfSides } from './compare/sides';
import { isBidirectional, type Frame } from './frame';
import type { Choice } from './models';
import { SIDES, type PerSide } from './panels';
import type { Side } from './session';
import { defaults, type State } from './state';
import { MEASURED_ON, type StepFacts } from './timeline/steps';
import type { Pointed } from './views/view';
import { CLASS_WORDS, classSentence, readable, show } from './words';
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

const valueOf = (event: Event) => (event.target as HTMLInputElement).value;

function choices(
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

/** Operations that any model can compute: an mlp kernel needs weights, which few have. */
export function swaps({ operations }: Describe): readonly Operation[] {
  return operations.filter(({ features }) => features !== 'mlp');
}

function swapField(
  side: Side,
  state: State,
  operations: readonly Operation[],
  set: Actions['set'],
): TemplateResult {
  const swap = side === 'a' ? 'swapA' : 'swapB';
  const value = side === 'a' ? 'paramA' : 'paramB';
  const operation = operations.find((one) => one.name === state[swap]);
  const parameter = operation?.parameters[0];
  return html`${choices(
    'operation',
    state[swap],
    [['', 'as trained'], ...operations.map((one) => [one.name, `swap in ${one.label}`] as const)],
    (name) => set({ [swap]: name, [value]: NaN }),
  )}
  ${
    parameter
      ? html`<label class="field number-field" title=${parameter.meaning}
          ><span>${parameter.name}</span
          ><input
            type="number"
            step="0.5"
            min=${parameter.min}
            max=${parameter.max}
            .value=${String(Number.isFinite(state[value]) ? state[value] : parameter.default)}
            @change=${(event: Event) => set({ [value]: Number(valueOf(event)) })}
        /></label>`
      : nothing
  }`;
}

/** The parameters that this run's operation was given, in the model's file or by the edit. */
function givenWords(frame: Frame): string {
  const edit = frame.edits.find((one) => one.kind === 'operation');
  const given = edit ? (edit.parameters ?? {}) : frame.architecture.attention.parameters;
  return Object.entries(given)
    .map(([name, value]) => `, ${name} = ${show(value)}`)
    .join('');
}

/** What was measured of the stored weights when they were put into the zoo. */
function cardWords(card: Card | undefined, frame: Frame): TemplateResult | typeof nothing {
  if (!card?.measured.sequences) return nothing;
  const where = isBidirectional(frame) ? ' at hidden places' : '';
  const { sink_1, eps, T, sequences, loss } = card.measured;
  return html`<span
    >· over ${sequences} held-out sequences (T = ${T}, ε = ${eps}, BOS first): Sink₁
    ${show(Number(sink_1), 1)} %, loss${where} ${show(Number(loss))}</span
  >`;
}

/** What was measured of a checkpoint: as it is stored, and of the weights as the run had them. */
function stepFacts({ bits, measured, stored }: StepFacts): TemplateResult {
  const { sequences, T, eps } = MEASURED_ON;
  return html`<span
    >· kept in ${show(bits, 1)} bits a weight; over ${sequences} held-out sequences (T = ${T}, ε =
    ${eps}, BOS first): Sink₁ ${show(stored.sink_1, 1)} %, loss ${show(stored.loss)}; of the exact
    weights ${show(measured.sink_1, 1)} %, ${show(measured.loss)}</span
  >`;
}

/** What the numbers beside this were measured on, where it is known. */
function measuredWords({ state, frame, cards }: SideParts, side: Side) {
  const { step } = frame!.model;
  if (step) return stepFacts(step);
  const words = cardWords(
    cards.find(({ id }) => id === state[side]),
    frame!,
  );
  return state.step < 0
    ? words
    : html`${words} <span>· no checkpoints of it are kept here: the trained weights</span>`;
}

const SOURCES = [
  ['zoo', 'trained for this page'],
  ['hub', 'from the hub'],
  ['disk', 'from your disk'],
] as const;

/** The models by where they come from. */
function modelField(side: Side, { state, choices: all, set }: SideParts): TemplateResult {
  const option = ({ id, title }: Pick<Choice, 'id' | 'title'>) =>
    html`<option value=${id} ?selected=${id === state[side]}>${title}</option>`;
  return html`<label class="field"
    ><span>${side === 'a' ? 'model' : 'compare with'}</span>
    <select @change=${(event: Event) => set({ [side]: valueOf(event) })}>
      ${SOURCES.map(([source, name]) => {
        const some = all.filter((one) => one.source === source);
        return some.length ? html`<optgroup label=${name}>${some.map(option)}</optgroup>` : nothing;
      })}
      ${side === 'b' ? option({ id: '', title: 'none (one model)' }) : nothing}
    </select></label
  >`;
}

export interface SideParts {
  readonly state: State;
  readonly frame: Frame | undefined;
  readonly describe: Describe | undefined;
  readonly cards: readonly Card[];
  readonly choices: readonly Choice[];
  readonly set: Actions['set'];
}

export function sideControls(side: Side, parts: SideParts): TemplateResult {
  const { state, frame, describe, set } = parts;
  return html`<div class="side-controls">
      ${shown(state, 'models') ? modelField(side, parts) : nothing}
      ${
        shown(state, 'swap') && describe && state[side]
          ? swapField(side, state, swaps(describe), set)
          : nothing
      }
    </div>
    ${
      frame && state[side]
        ? html`<p class="class ${frame.class}">
            <strong class="badge">${CLASS_WORDS[frame.class]}</strong>
            <span class="class-words">${classSentence(frame)}</span>
            ${frame.class === 'measured' ? measuredWords(parts, side) : nothing}
            <code title=${frame.operation.source}
              >${frame.operation.formula}${givenWords(frame)}</code
            >
          </p>`
        : nothing
    }`;
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
