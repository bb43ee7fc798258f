/** The controls that rooms share. Each function returns a template, which changes the state through `set`. */
import { html, nothing, type TemplateResult } from 'lit';
import { live } from 'lit/directives/live.js';
import { tokenNotes } from 'sinkscope/internal';
import type { Context, SubjectEntry } from './context';
import { isHeadNamed, layerIndex, layerNumber, type Frame, selectedHead } from '../frame';
import { hubName, isHubId, isOutsideZoo, nameOfId } from '../ask/ids';
import { isInputMissing } from '../ask/question';
import type { HideablePart, State } from '../ask/state';
import { parseSubject, titleOf } from '../ask/subject';
import { partOf } from '../parts';
import { field } from './terms';
import { headName, modelHeadName, startTokenWords, makeReadable, tokenWord } from '../words';
import { excerptOf, rememberedText, rememberText } from './my_text';
import { addElement } from './view';

/** Whether a link lets a part of the page show. */
export const allows = (state: State, part: HideablePart): boolean => !state.hide.includes(part);

export const valueOf = (event: Event) => (event.target as HTMLInputElement).value;

export function choiceField(
  label: string,
  current: string,
  options: readonly (readonly [string, string])[],
  pick: (value: string) => void,
): TemplateResult {
  return field(
    label,
    html`<select aria-label=${label} @change=${(event: Event) => pick(valueOf(event))}>
      ${options.map(
        ([value, name]) =>
          html`<option value=${value} ?selected=${value === current}>${name}</option>`,
      )}
    </select>`,
  );
}

/** @param options the value, label and tooltip of each button; one button is pressed */
export function segmentedControl<const Value extends string | number>(
  label: string,
  options: readonly (readonly [value: Value, name: string, title?: string])[],
  current: Value,
  pick: (value: Value) => void,
  isSmall = false,
): TemplateResult {
  return html`<div class="segmented ${isSmall ? 'small' : ''}" role="group" aria-label=${label}>
    ${options.map(
      ([value, name, title]) =>
        html`<button
          type="button"
          title=${title ?? nothing}
          aria-pressed=${value === current}
          @click=${() => pick(value)}
        >
          ${name}
        </button>`,
    )}
  </div>`;
}

export function addEmbedButton(
  place: HTMLElement,
  title: string,
  embed: () => void,
): HTMLButtonElement {
  const button = addElement(place, 'code', 'button') as HTMLButtonElement;
  button.type = 'button';
  button.textContent = '</>';
  button.setAttribute('aria-label', `Embed ${title}`);
  button.addEventListener('click', embed);
  return button;
}

/** A field for a text of the state, or of a part of it. */
export function textField(
  {
    state,
    set,
  }: Pick<Context, 'set'> & { readonly state: { readonly value: Pick<State, 'prompt'> } },
  rows: number,
  placeholder = 'Type a sentence',
): TemplateResult {
  return html`<label class="text"
    ><span class="unseen">Text</span
    ><textarea
      rows=${rows}
      spellcheck="false"
      placeholder=${placeholder}
      .value=${live(state.value.prompt)}
      @input=${(event: Event) => {
        rememberText(valueOf(event));
        set({ prompt: valueOf(event), input: 'text' });
      }}
    ></textarea>
  </label>`;
}

/** Offers the text that the reader typed last, in a lesson or here, unless the field has it. */
export function myTextButton({ state, set }: Context): TemplateResult | typeof nothing {
  const text = rememberedText();
  const { prompt, input } = state.value;
  if (!text.trim() || (text === prompt && input === 'text')) return nothing;
  return html`<button
    type="button"
    class="my-text"
    @click=${() => set({ prompt: text, input: 'text', query: -1, key: -1 })}
  >
    Use my text: “${excerptOf(text)}”
  </button>`;
}

export const EXAMPLES = [
  'The quick brown fox jumps over the lazy dog.',
  'Attention is all you need.',
  'To be, or not to be, that is the question.',
  'She opened the door, and the cold wind came in.',
] as const;

export function exampleField({ state, set }: Context): TemplateResult {
  const example = EXAMPLES.find((text) => text === state.value.prompt) ?? '';
  const choose = (event: Event) => {
    const prompt = valueOf(event);
    if (prompt) set({ prompt, input: 'text', query: -1, key: -1 });
  };
  return html`<select
    class="examples"
    aria-label="Example texts"
    .value=${live(example)}
    @change=${choose}
  >
    ${['', ...EXAMPLES].map(
      (text) =>
        html`<option value=${text} ?selected=${text === example}>
          ${text || 'Example texts'}
        </option>`,
    )}
  </select>`;
}

export function startTokenButton(
  { set }: Context,
  frames: readonly Frame[],
): TemplateResult | typeof nothing {
  const labels = [...new Set(frames.map(startTokenWords))];
  const frameWithBos = frames.find(({ special }) => special.bos);
  if (!labels.length || !frameWithBos) return nothing;
  const hasNoStart = frameWithBos.first.length === 0;
  // Without the key `first` the tokenizer adds its own special tokens.
  const valueWithStart =
    frameWithBos.special.automatic[0] === frameWithBos.special.bos ? '' : 'bos';
  const bos = makeReadable(frameWithBos.special.bos!);
  const text = hasNoStart
    ? `no start token: add ${bos}`
    : labels.join(' / ').replace(' (start token)', '');
  const name = hasNoStart ? text : `${labels.join(' / ')}: remove it`;
  return html`<button
    type="button"
    class="starts"
    aria-label=${name}
    title=${name}
    @click=${() => set({ first: hasNoStart ? valueWithStart : 'none', query: -1, key: -1 })}
  >
    ${text}${hasNoStart ? nothing : ' ✕'}
  </button>`;
}

/** Returns the switch between weights and shares of each row, for models whose rows need not sum to 1. */
export function normalizeField(
  { state, set }: Context,
  frames: readonly Frame[],
): TemplateResult | typeof nothing {
  if (frames.every(({ operation }) => operation.normalizes)) return nothing;
  return html`<label class="check"
    ><input
      type="checkbox"
      .checked=${live(state.value.normalize === 'yes')}
      @change=${(event: Event) =>
        set({ normalize: (event.target as HTMLInputElement).checked ? 'yes' : 'no' })}
    />
    normalize rows</label
  >`;
}

/** Says how the tokenizer read the text, and how the page names the tokens of one character. */
function notesOf({ tokens }: Frame): string[] {
  const name = tokens.find(({ text }) => partOf(text))?.text;
  const bytes = tokens.map((token) => (partOf(token.text) ? { ...token, text: '\ufffd' } : token));
  const example =
    name &&
    ` for; “${tokenWord(name)}” is the first part of “${tokenWord(partOf(name)!.character)}”.`;
  return tokenNotes(bytes).map((note) => (example ? note.replace(/ for\.$/, example) : note));
}

export function tokenNoteLines(frames: readonly Frame[]): TemplateResult[] {
  const notes = new Set(frames.flatMap(notesOf));
  return [...notes].map((note) => html`<p class="hint" data-token-note>${note}</p>`);
}

/** Returns a subject's title, also before its model is open. */
export function nameOf(
  { subject, frame }: Pick<SubjectEntry, 'subject' | 'frame'>,
  context: Context,
): string {
  if (frame) return frame.title;
  const parsed = parseSubject(subject);
  const models = context.engine.value?.models;
  if (!parsed || !models) return subject;
  const title = models.choices.find(({ id }) => id === parsed.id)?.title;
  return titleOf(parsed, title ?? nameOfId(parsed.id), models.describe);
}

/** The views of the tab that draws the channels: after the layer that a link names, also if it names no head. */
const VIEWS_OF_A_LAYER = ['norms', 'ratios', 'channels'];

/** Says that a model lacks the requested head or layer, or that one of the two names no head, and what is shown. */
function headNote(frame: Frame, { layer, head, view }: Pick<State, 'layer' | 'head' | 'view'>) {
  const { title } = frame;
  if (layer < 0 && head < 0) return [];
  const shownHead = headName(selectedHead(frame, { layer, head }), frame);
  if (isHeadNamed({ layer, head })) {
    const requestedHead = modelHeadName({ layer, head });
    return shownHead === requestedHead
      ? []
      : [`${title} has no head ${requestedHead}; ${shownHead} is shown.`];
  }
  if (head >= 0)
    return [`${title}: head ${head} without a layer names no head; ${shownHead} is shown.`];
  const shownLayer = layerNumber(frame, layerIndex(frame, layer));
  const usesLayer = VIEWS_OF_A_LAYER.includes(view);
  if (shownLayer !== layer)
    return [
      `${title} has no layer ${layer}; ${usesLayer ? `layer ${shownLayer}` : shownHead} is shown.`,
    ];
  return usesLayer
    ? []
    : [`${title}: layer ${layer} without a head names no head; ${shownHead} is shown.`];
}

/** Says which requested head, start token, step, channel or position is missing, and what is shown instead. */
export function substitutionNotes(
  entries: readonly SubjectEntry[],
  state: Pick<State, 'layer' | 'head' | 'query' | 'key' | 'lastKey' | 'channel' | 'view'>,
): readonly string[] {
  const { query, key, lastKey, channel } = state;
  const notes = entries.flatMap(({ frame, isStale }) => {
    if (!frame || isStale) return [];
    const { title, special, question, recording, T, model } = frame;
    const { D } = frame.architecture;
    const { first } = question;
    const token = first === 'bos' ? special.bos : first;
    // A recording has the start of its own prompts.
    const lacksToken =
      !recording && first && first !== 'none' && !(token && frame.first.includes(token));
    const tokenWords = first === 'bos' ? 'start token' : `special token “${first}”`;
    const startWords = `${frame.first.length ? '' : 'has '}${startTokenWords(frame)}`;
    const step = parseSubject(frame.subject)?.step;
    const beyondEnd = [
      ...(query >= T ? [`no query ${query}`] : []),
      ...new Set([key, lastKey].filter((t) => t >= T).map((t) => `no key ${t}`)),
    ].join(' and ');
    return [
      ...(step !== undefined && model.nearestStep !== undefined
        ? [
            `${title}: step ${step.toLocaleString('en')} is not stored; the nearest one that is, ` +
              `${model.nearestStep.toLocaleString('en')}, is shown.`,
          ]
        : []),
      ...headNote(frame, state),
      ...(lacksToken ? [`${title} has no ${tokenWords}; its text ${startWords}.`] : []),
      ...(channel >= D!
        ? [`${title} has no channel ${channel}: its hidden states have ${D}, numbered from 0.`]
        : []),
      ...(beyondEnd
        ? [`${title}: the text has ${T} tokens, numbered from 0, and so ${beyondEnd}.`]
        : []),
    ];
  });
  return [...new Set(notes)];
}

/** Explains why subjects, or what was requested of them, are not shown, and how to fix that. */
export function troubleNotes(
  entries: readonly SubjectEntry[],
  context: Context,
): TemplateResult | typeof nothing {
  const failures = entries.filter(({ error }) => error);
  const substitutions = substitutionNotes(entries, context.state.value);
  if (substitutions.length)
    return html`<div class="trouble wanting" role="status">
        ${substitutions.map((text) => html`<p>${text}</p>`)}
      </div>
      ${failureNotes(failures, context)}`;
  return failureNotes(failures, context);
}

function failureNotes(
  failures: readonly SubjectEntry[],
  context: Context,
): TemplateResult | typeof nothing {
  if (!failures.length) return nothing;
  // A frame of this question may lack what has failed, and then no earlier result is shown.
  const keptResultWords = ({ frame, isStale }: SubjectEntry) =>
    frame && isStale ? ' The last good result is shown.' : '';
  // If all subjects lack the same input, asks for it instead of printing an error for each.
  const missingInput = failures.find(({ error }) => isInputMissing(error!));
  if (missingInput)
    return html`<p class="trouble wanting" role="alert">
      ${missingInput.error}${keptResultWords(missingInput)}
    </p>`;
  // A model and its intervention fail alike, which is one error.
  const textOf = (entry: SubjectEntry) =>
    `${entry.error!.replace(/([^.!?])$/, '$1.')}${keptResultWords(entry)}`;
  const firstFailures = failures.filter(
    (entry, i) => failures.findIndex((other) => textOf(other) === textOf(entry)) === i,
  );
  return html`<div class="trouble" role="alert">
    ${firstFailures.map((entry) => {
      const members = failures.filter((other) => textOf(other) === textOf(entry));
      const names = members.map((member) => nameOf(member, context)).join(', ');
      const message = `${names}: ${textOf(entry)}`;
      const models = context.engine.value?.models;
      const id = parseSubject(entry.subject)?.id ?? '';
      const isUnopened = isOutsideZoo(id) && !models?.canOpen(id);
      const name = isHubId(id) ? hubName(id) : id;
      const recover = isUnopened
        ? () => context.open(name)
        : () => context.engine.peek()?.queue.retry();
      const label = entry.error!.includes('(too_slow)') ? 'Wait longer' : 'Try again';
      return html`<p>
        ${message}
        <button type="button" @click=${recover}>
          ${isUnopened ? `Open ${nameOfId(id)}` : label}
        </button>
      </p>`;
    })}
  </div>`;
}
