/** The controls that rooms share. Each function returns a template, which changes the state through `set`. */
import { html, nothing, type TemplateResult } from 'lit';
import { live } from 'lit/directives/live.js';
import type { Splitting } from 'sinkscope';
import { splitText, tokenNotes } from 'sinkscope/internal';
import { framesOf, type Context, type Scope, type SubjectEntry } from './context';
import {
  isHeadless,
  layerIndex,
  layerNumber,
  type Frame,
  mapsOf,
  predictsNext,
  selectedHead,
} from '../frame';
import { hubName, isHubId, isOutsideZoo, nameOfId } from '../ask/ids';
import { NO_WEIGHTS } from '../run/recordings';
import { INPUTS, isInputMissing, readPrompts } from '../ask/question';
import { defaults, table, type HideablePart, type NumberName, type State } from '../ask/state';
import { MAX_SUBJECTS, parseSubject, titleOf } from '../ask/subject';
import { explainTerms, field } from './terms';
import {
  cutWords,
  headName,
  keyUnit,
  modelHeadName,
  startTokenWords,
  lengthWords,
  makeReadable,
  tokenWord,
} from '../words';
import { excerptOf, rememberedText, rememberText } from './my_text';
import { addElement } from './view';

/** Whether a link lets a part of the page show. */
export function allows(state: State, part: HideablePart): boolean {
  return !state.hide.includes(part);
}

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

/** Returns a field for a number of the state, which stays within its range and a model's smaller maximum. */
export function numberField(
  label: string,
  name: NumberName,
  { state, set }: { readonly state: { readonly value: State }; readonly set: Context['set'] },
  modelMax = Infinity,
): TemplateResult {
  const { low, high, step } = table[name].range;
  const max = Math.min(high, modelMax);
  return numberInput(label, state.value[name], [low, max, step], (value) => {
    const bounded = Math.min(max, Math.max(low, Number.isFinite(value) ? value : defaults[name]));
    const rounded = step === 1 ? Math.round(bounded) : bounded;
    set({ [name]: rounded });
    return rounded;
  });
}

/** @param take gets the typed number, or NaN if there is none; the field then shows the number that `take` returns */
export function numberInput(
  label: string,
  current: unknown,
  [min, max, step]: readonly [number | undefined, number | undefined, number | 'any'],
  take: (value: number) => unknown,
): TemplateResult {
  const change = (event: Event) => {
    const input = event.target as HTMLInputElement;
    // Written here and not in the template, so that the next drawing does not replace a half-typed number.
    input.value = String(take(input.value.trim() === '' ? NaN : Number(input.value)));
  };
  return field(
    label,
    html`<input
      type="number"
      aria-label=${label}
      title=${label}
      .value=${String(current)}
      min=${min ?? nothing}
      max=${max ?? nothing}
      step=${step}
      @change=${change}
    />`,
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

/** Wraps a table in a region that scrolls and that a keyboard can focus. */
export const tableRegion = (label: string, table: TemplateResult) =>
  html`<div class="table-place" tabindex="0" role="region" aria-label=${label}>${table}</div>`;

/**
 * @param below follows the title
 * @param isEmbed uses an <h2>, since the host page has its own <h1>
 */
export function roomHeading(
  title: string,
  finding: string,
  { state }: Context,
  below: TemplateResult | typeof nothing = nothing,
  isEmbed = false,
): TemplateResult {
  return html`${isEmbed ? html`<h2>${title}</h2>` : html`<h1>${title}</h1>`} ${below}
    <p class="lead" data-finding role="status" ?hidden=${!allows(state.value, 'finding')}>
      ${explainTerms(finding, true)}
    </p>`;
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

export function addModelButton(isFull: boolean, { pickModels }: Context): TemplateResult {
  return html`<button type="button" class="add" ?disabled=${isFull} @click=${pickModels}>
    + add
  </button>`;
}

/**
 * Lists the models that a room compares, with a button to add models and buttons to remove all but one.
 * @param show replaces the whole list
 * @param renderName renders a model's name, by default as text
 */
export function subjectList(
  label: string,
  entries: readonly Pick<SubjectEntry, 'subject' | 'frame'>[],
  context: Context,
  show: (subjects: readonly string[]) => void,
  renderName: (name: string, i: number) => TemplateResult | string = (name) => name,
): TemplateResult | typeof nothing {
  if (!allows(context.state.value, 'subjects')) return nothing;
  return html`<div class="subject-list" role="group" aria-label=${label}>
    ${entries.map((entry, i) => {
      const name = nameOf(entry, context);
      const otherEntries = entries.filter((other) => other !== entry);
      return html`<span class="subject"
        >${renderName(name, i)}<button
          type="button"
          aria-label="Remove ${name}"
          ?disabled=${!otherEntries.length}
          @click=${() => show(otherEntries.map(({ subject }) => subject))}
        >
          ✕
        </button></span
      >`;
    })}
    ${addModelButton(entries.length >= MAX_SUBJECTS, context)}
  </div>`;
}

/** @param input the key of the state that names the source of the prompts */
export function textField(
  { state, set }: Context,
  rows: number,
  input: 'input' | 'source' = 'input',
): TemplateResult {
  return html`<label class="text"
    ><span class="unseen">Text</span
    ><textarea
      rows=${rows}
      spellcheck="false"
      placeholder="Type a sentence"
      .value=${live(state.value.prompt)}
      @input=${(event: Event) => {
        rememberText(valueOf(event));
        set({ prompt: valueOf(event), [input]: 'text' });
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

export function fileField({ file, chooseFile, fail }: Context): TemplateResult {
  const currentFile = file.value;
  const change = (event: Event) => {
    const input = event.target as HTMLInputElement;
    const [chosenFile] = input.files ?? [];
    if (chosenFile) void readPrompts(chosenFile).then(chooseFile, fail);
    // With the field empty, the reader can choose the same file again after editing it.
    input.value = '';
  };
  const splittings = [
    ['lines', 'each line is a prompt'],
    ['blocks', 'blank lines separate prompts'],
    ['whole', 'the whole file is one text'],
  ] as const;
  const count = currentFile && splitText(currentFile.text, currentFile.splitting).length;
  return html`<div class="prompt-file">
    <label class="file">Choose a text file<input type="file" @change=${change} /></label>
    ${
      currentFile
        ? html`<span
              >${currentFile.name}:
              ${count === 1 ? '1 text' : `${count!.toLocaleString('en')} prompts`}</span
            >
            ${choiceField('split', currentFile.splitting, splittings, (splitting) =>
              chooseFile({ ...currentFile, splitting: splitting as Splitting }),
            )}`
        : html`<span class="hint"
            >UTF-8: one prompt per line, or prompts separated by blank lines. The file stays on your
            machine.</span
          >`
    }
  </div>`;
}

export function startTokenField({ state, set }: Context, frames: readonly Frame[]): TemplateResult {
  const { first } = state.value;
  const automaticNames = new Set(
    frames.map(({ special }) => special.automatic.map(makeReadable).join(' ') || 'none'),
  );
  const names = new Set([...frames.flatMap(({ special }) => special.choices), first]);
  const specialChoices = [...names].filter((name) => name && name !== 'bos' && name !== 'none');
  const bos = frames.find(({ special }) => special.bos)?.special.bos;
  const isBosAutomatic = frames.every(({ special }) => special.automatic[0] === special.bos);
  return choiceField(
    'first token',
    first,
    [
      ['', `the tokenizer’s default: ${[...automaticNames].join(' / ')}`],
      ['none', 'none'],
      ...(bos && !(isBosAutomatic && first !== 'bos')
        ? [['bos', `start token ${makeReadable(bos)}`] as const]
        : []),
      ...specialChoices
        .filter((name) => name !== bos || first === name)
        .map((name) => [name, makeReadable(name)] as const),
    ],
    (value) => set({ first: value }),
  );
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

/** Returns a button that names the text's first token, and that adds or removes a start token. */
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

/** Whether all frames are recordings, which have no weights to run another text. */
const areRecordings = (frames: readonly Frame[]): boolean =>
  frames.length > 0 && frames.every(({ recording }) => recording);

function promptField(context: Context): TemplateResult | typeof nothing {
  const { input } = context.state.value;
  if (input === 'text') return textField(context, 2);
  return input === 'file' ? fileField(context) : nothing;
}

function sourceField({ state, set }: Context): TemplateResult {
  return choiceField('prompts from', state.value.input, Object.entries(INPUTS), (value) =>
    set({ input: value as State['input'] }),
  );
}

const PROMPT_COUNTS = [
  [1, '1 prompt'],
  [10, '10'],
  [100, '100'],
] as const;

function sizeFields(context: Context, frames: readonly Frame[]): TemplateResult {
  const { T, input, n } = context.state.value;
  const maxLength = Math.min(...frames.map(({ architecture }) => architecture.context));
  const otherLengths = [...new Set(frames.map((frame) => frame.T))].filter(
    (length) => length !== T,
  );
  return html`<div class="numbers">
    ${numberField('T ≤', 'T', context, maxLength)}
    ${otherLengths.length ? html`<span class="hint">T = ${otherLengths.join(', ')} here</span>` : nothing}
    ${segmentedControl('Prompts', PROMPT_COUNTS, n, (count) =>
      context.set(count > 1 && input === 'text' ? { n: count, input: 'heldout' } : { n: count }),
    )}
  </div>`;
}

const SCALES = [
  ['root', 'square root'],
  ['linear', 'linear'],
] as const;

function advancedFields(context: Context, frames: readonly Frame[]): TemplateResult {
  const { input, scale } = context.state.value;
  const isRandom = input === 'random' || input === 'repeat';
  return html`<div class="numbers">
    ${numberField('prompts', 'n', context)} ${startTokenField(context, frames)}
    ${numberField('threshold ε', 'eps', context)}
    ${isRandom ? numberField('seed', 'seed', context) : nothing}
    ${choiceField('map colors', scale, SCALES, (value) =>
      context.set({ scale: value as State['scale'] }),
    )}
    ${normalizeField(context, frames)}
  </div>`;
}

/** Returns a line for each note on how the models' tokenizers read the text. */
export function tokenNoteLines(frames: readonly Frame[]): TemplateResult[] {
  const notes = new Set(frames.flatMap(({ tokens }) => tokenNotes(tokens)));
  return [...notes].map((note) => html`<p class="hint" data-token-note>${note}</p>`);
}

/**
 * Returns the bar with the subjects, the text, its tokens, and a panel of all settings.
 * @param more further content of the panel
 */
export function askBar(
  context: Context,
  frames: readonly Frame[],
  subjects: TemplateResult | typeof nothing = nothing,
  more: TemplateResult | typeof nothing = nothing,
  showsTokens = true,
): TemplateResult {
  const state = context.state.value;
  const [frame] = frames;
  const [hasText, hasNumbers] = [allows(state, 'text'), allows(state, 'numbers')];
  const settings = html`${hasText ? html`${sourceField(context)} ${startTokenButton(context, frames)}` : nothing}
  ${hasNumbers ? html`${sizeFields(context, frames)} ${advancedFields(context, frames)}` : nothing}`;
  const inputName = state.input === 'text' || state.input === 'file' ? '' : INPUTS[state.input];
  return html`<div class="ask-bar">
    ${subjects}
    <div class="asked">
      ${
        areRecordings(frames)
          ? html`<p class="hint" data-recorded>${NO_WEIGHTS}</p>`
          : hasText
            ? html`${promptField(context)}${inputName} ${myTextButton(context)}
                <p class="on-paper">${state.input === 'text' ? frame?.question.prompt : ''}</p>`
            : nothing
      }
    </div>
    ${
      frame && showsTokens
        ? html`<details class="tokens">
            <summary>${frame.T} ${keyUnit(frame)}${frame.T === 1 ? '' : 's'}</summary>
            <div class="words">${tokenChips(frame, context)}</div>
          </details>`
        : nothing
    }
    ${tokenNoteLines(frames)}
    <details class="settings">
      <summary>More</summary>
      <div class="question-controls">${areRecordings(frames) ? nothing : settings} ${more}</div>
    </details>
  </div>`;
}

/** The list shows no more tokens, since no reader goes through a longer list. */
const MAX_CHIPS = 1024;

/** Returns the tokens of the first prompt as buttons. They are one tab stop; the arrow keys move between them. */
export function tokenChips(frame: Frame, { state, set, point }: Context): TemplateResult {
  const { query } = state.value;
  const count = Math.min(frame.T, MAX_CHIPS);
  const tabStop = Math.min(Math.max(0, query), count - 1);
  const move = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!step) return;
    const chips = [...(event.currentTarget as Element).querySelectorAll<HTMLElement>('.chip')];
    const index = chips.indexOf(event.target as HTMLElement);
    chips[index + step]?.focus();
    event.preventDefault();
  };
  const chip = (t: number) => {
    const token = frame.tokens[t]!;
    const isGenerated = t >= frame.T - frame.generated;
    return html`<button
      type="button"
      class="chip ${token.special ? 'special' : ''} ${isGenerated ? 'made' : ''}"
      tabindex=${t === tabStop ? 0 : -1}
      aria-pressed=${query === t}
      title="position ${t}, id ${token.id}${lengthWords(token.text)}${isGenerated ? ', generated' : ''}"
      .textContent=${tokenWord(token.text)}
      @pointerenter=${() => point({ query: t })}
      @focus=${() => point({ query: t })}
      @click=${() => set({ query: query === t ? -1 : t, key: -1 })}
    ></button>`;
  };
  const droppedNote = frame.dropped ? html`<span class="cut">… ${cutWords(frame)}</span>` : nothing;
  const restNote =
    count < frame.T
      ? html`<span class="cut">… and ${(frame.T - count).toLocaleString('en')} more tokens</span>`
      : nothing;
  return html`<div
    class="chips"
    role="group"
    aria-label="Tokens"
    @keydown=${move}
    @pointerleave=${() => point({})}
    @focusout=${() => point({})}
  >
    ${Array.from({ length: count }, (_, t) => chip(t))}${restNote}${droppedNote}
  </div>`;
}

/**
 * Colors each token by the attention that it gets from the token under the pointer, without rendering the list again.
 */
export function colorChips(
  root: ParentNode,
  context: Context,
  scope: Scope,
  entries: () => readonly SubjectEntry[],
): void {
  let isColored = false;
  const reveal = (chip: HTMLElement | undefined) => {
    const list = chip?.parentElement;
    // The list must not scroll under the pointer.
    if (!list || list.matches(':hover')) return;
    const [a, b] = [chip!.getBoundingClientRect(), list.getBoundingClientRect()];
    const overflow = (low: number, high: number) => Math.min(0, low) || Math.max(0, high);
    const [left, top] = [
      overflow(a.left - b.left, a.right - b.right),
      overflow(a.top - b.top, a.bottom - b.bottom),
    ];
    if (left || top) list.scrollBy({ left, top });
  };
  scope.effect(() => {
    const { query = -1, key = -1 } = context.pointed.value;
    const [frame] = framesOf(entries());
    const maps = frame && mapsOf(frame);
    const isPointed = query >= 0 || key >= 0;
    if (!maps || (!isPointed && !isColored)) return;
    isColored = isPointed;
    const { side, block } = maps;
    const blockOf = (t: number) => Math.floor(t / block);
    const row = query >= 0 ? maps.shares.subarray(blockOf(query) * side).subarray(0, side) : [];
    const chips = root.querySelectorAll<HTMLElement>('.chip');
    reveal(chips[query >= 0 ? query : key]);
    chips.forEach((chip, t) => {
      chip.classList.toggle('query', blockOf(t) === blockOf(query));
      chip.classList.toggle('key', blockOf(t) === blockOf(key));
      const share = row[blockOf(t)] ?? 0;
      chip.style.setProperty('--look', share > 0.01 ? String(Math.sqrt(share)) : '0');
    });
  });
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

function generatedText({ tokens, generated, title }: Frame, isNamed: boolean): TemplateResult {
  const plainTokens = tokens.filter(({ special }) => !special);
  const join = (part: typeof plainTokens) => part.map(({ text }) => text).join('');
  return html`<p class="generated">
    ${isNamed ? html`<span class="hint">${title}:</span> ` : nothing}${join(plainTokens.slice(0, -generated))}<strong
      >${join(plainTokens.slice(-generated))}</strong
    >
  </p>`;
}

/** Shows the text of a recording whose last tokens the model generated. */
const continuation = (frame: Frame) =>
  html`<details class="more generate">
    <summary>${frame.generated} generated tokens</summary>
    ${generatedText(frame, false)}
  </details>`;

/** Says of models without an output head why the page offers no loss, no next token and no generation. */
const headlessNote = (frames: readonly Frame[]) =>
  frames
    .filter(isHeadless)
    .map(
      ({ title }) =>
        html`<p class="hint" data-headless>
          The file of ${title} has no output head (lm_head): it has maps and states, but no loss and
          no next token.
        </p>`,
    );

export function generateControls(
  context: Context,
  frames: readonly Frame[],
): TemplateResult | readonly TemplateResult[] | typeof nothing {
  const queue = context.engine.value?.queue;
  const shownFrames = frames.filter((frame) => predictsNext(frame) && !frame.recording);
  const continuedFrames = frames.filter(({ recording, generated }) => recording && generated);
  if (!queue || !allows(context.state.value, 'generate')) return nothing;
  if (continuedFrames.length) return continuedFrames.map(continuation);
  if (!shownFrames.length) return headlessNote(frames);
  const isRunning = queue.isGenerating;
  const { temperature, topK, seed } = context.state.value;
  const toggleGenerating = () => {
    if (isRunning) return queue.stopGenerating();
    const subjects = shownFrames.map(({ subject }) => subject);
    queue.generate(subjects, { count: 16, temperature, topK, seed }).catch(context.fail);
  };
  return html`<details class="more generate">
    <summary>Generate text</summary>
    <div class="numbers">
      <button type="button" class="primary" @click=${toggleGenerating}>
        ${isRunning ? 'Stop' : 'Generate 16 tokens'}
      </button>
      ${numberField('temperature', 'temperature', context)} ${numberField('top k', 'topK', context)}
      <span class="hint">Temperature 0 is greedy.</span>
    </div>
    <div role="status">
      ${shownFrames.filter(({ generated }) => generated).map((frame) => generatedText(frame, shownFrames.length > 1))}
    </div>
  </details>`;
}

/** The views of the tab that draws the channels: after the layer that a link names, also if it names no head. */
const VIEWS_OF_A_LAYER = ['norms', 'ratios', 'channels'];

/** Says that a model lacks the requested head or layer, or that one of the two names no head, and what is shown. */
function headNote(frame: Frame, { layer, head, view }: Pick<State, 'layer' | 'head' | 'view'>) {
  const { title } = frame;
  if (layer < 0 && head < 0) return [];
  const shownHead = headName(selectedHead(frame, { layer, head }), frame);
  if (layer >= 0 && head >= 0) {
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

/**
 * Says which requested head, start token, checkpoint, channel or position a model or its text does not have, and what is
 * shown instead.
 */
export function substitutionNotes(
  entries: readonly SubjectEntry[],
  state: Pick<State, 'layer' | 'head' | 'query' | 'key' | 'channel' | 'view'>,
): readonly string[] {
  const { query, key, channel } = state;
  const notes = entries.flatMap(({ frame, isStale }) => {
    if (!frame || isStale) return [];
    const { title, special, question, recording, T, model, editedTokens = [] } = frame;
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
      ...(key >= T ? [`no key ${key}`] : []),
      // An edit may name a token that is still to be generated, so that its run is not refused.
      ...new Set(editedTokens.filter((t) => t >= T).map((t) => `no token ${t}`)),
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
