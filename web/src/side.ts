/** The head of a side: which model, which operation, and what is known of them. */
import { html, nothing, type TemplateResult } from 'lit';
import type { Describe, Operation, OperationEdit } from 'sinkscope';
import { choices, shown, valueOf, type Actions } from './controls';
import { isBidirectional, type Frame } from './frame';
import type { Choice } from './models';
import type { Side } from './session';
import { defaults, type State } from './state';
import { MEASURED_ON, type StepFacts } from './timeline/steps';
import { CLASS_WORDS, classSentence, show } from './words';
import type { Card } from './zoo';

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
  const edit = frame.edits.find((one): one is OperationEdit => one.kind === 'operation');
  const given = edit ? (edit.parameters ?? {}) : frame.architecture.attention.parameters;
  return Object.entries(given)
    .map(([name, value]) => `, ${name} = ${show(value)}`)
    .join('');
}

/** What was measured of the stored weights when they were put into the zoo. */
function cardWords(card: Card | undefined, frame: Frame): TemplateResult | typeof nothing {
  if (!card?.measured.sequences) return nothing;
  const where = isBidirectional(frame) ? ' at hidden places' : '';
  const { sink_1, sink_bias, eps, T, sequences, loss } = card.measured;
  const first = card.training?.front?.join(' ') || 'nothing';
  const bias = sink_bias === undefined ? '' : `, of the bias key ${show(Number(sink_bias), 1)} %`;
  return html`<span
      >· over ${sequences} held-out sequences (T = ${T}, ε = ${eps}, ${first} first): Sink₁
      ${show(Number(sink_1), 1)} %${seedWords(card)}${bias}, loss${where}
      ${show(Number(loss))}</span
    >${isHeadline(card) ? nothing : about(card)}`;
}

/** How far the same recipe comes from other initial weights. */
function seedWords({ further_seeds: seeds = [] }: Card): string {
  if (!seeds.length) return '';
  const sinks = seeds.map(({ sink_1 }) => `${show(sink_1, 1)} %`);
  return ` (trained from other seeds: ${sinks.join(' and ')})`;
}

/** The page's opening sentences are about these two. */
function isHeadline({ id }: Card): boolean {
  return id === defaults.a || id === defaults.b;
}

/** What the recipe changes, and how that went in the paper. */
function about({ what, paper, verdict }: Card): TemplateResult {
  return html`<span class="about">
    ${what} ${paper ? html`Reported in ${paper.where}. That ${verdict}.` : nothing}
  </span>`;
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

const SOURCES = {
  zoo: 'trained for this page',
  hub: 'from the hub',
  disk: 'from your disk',
} as const;

/** Under which heading a model stands: what its recipe changes, or where it comes from. */
function groupOf({ id, source }: Choice, cards: readonly Card[]): string {
  const { factor } = cards.find((card) => card.id === id) ?? {};
  return factor ? `${SOURCES[source]}: ${factor}` : SOURCES[source];
}

function modelField(side: Side, { state, choices: all, cards, set }: SideParts): TemplateResult {
  const option = ({ id, title }: Pick<Choice, 'id' | 'title'>) =>
    html`<option value=${id} ?selected=${id === state[side]}>${title}</option>`;
  const groups = new Map<string, Choice[]>();
  for (const one of all) {
    const name = groupOf(one, cards);
    groups.set(name, [...(groups.get(name) ?? []), one]);
  }
  return html`<label class="field"
    ><span>${side === 'a' ? 'model' : 'compare with'}</span>
    <select @change=${(event: Event) => set({ [side]: valueOf(event) })}>
      ${[...groups].map(
        ([name, some]) => html`<optgroup label=${name}>${some.map(option)}</optgroup>`,
      )}
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
