/** The controls that rooms share and the first screen lacks. */
import { html, nothing, type TemplateResult } from 'lit';
import type { Splitting } from 'sinkscope';
import { splitText } from 'sinkscope/internal';
import { joinTokens } from '../parts';
import type { Context, SubjectEntry } from './context';
import { isHeadless, type Frame, predictsNext } from '../frame';
import { NO_WEIGHTS } from '../run/recordings';
import { INPUTS, readPrompts } from '../ask/question';
import { defaults, table, type NumberName, type State } from '../ask/state';
import { MAX_SUBJECTS } from '../ask/subject';
import { explainTerms, field } from './terms';
import { cutWords, keyUnit, lengthWords, makeReadable, tokenWord } from '../words';
import {
  allows,
  choiceField,
  segmentedControl,
  textField,
  myTextButton,
  startTokenButton,
  normalizeField,
  tokenNoteLines,
  nameOf,
} from './controls';

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

/** Wraps a table in a region that scrolls and that a keyboard can focus. */
export const tableRegion = (label: string, table: TemplateResult) =>
  html`<div class="table-place" tabindex="0" role="region" aria-label=${label}>${table}</div>`;

/** `below` follows the title; an embed has an <h2>, since the host page has its own <h1>. */
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

export function addModelButton(isFull: boolean, { pickModels }: Context): TemplateResult {
  return html`<button type="button" class="add" ?disabled=${isFull} @click=${pickModels}>
    + add
  </button>`;
}

/** Lists the compared models, with buttons to add some and to remove all but one; `show` replaces the list. */
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

/** Returns the bar of subjects, text and tokens, and a panel of all settings and `more`. */
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

function generatedText({ tokens, generated, title }: Frame, isNamed: boolean): TemplateResult {
  const plainTokens = tokens.filter(({ special }) => !special);
  const join = (part: typeof plainTokens) => joinTokens(part.map(({ text }) => text));
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
