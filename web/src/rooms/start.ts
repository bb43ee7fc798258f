/**
 * The room Start: one question, the reader's text, the sentence that its maps support, and the maps of two models with
 * one number each. The story below them is fetched when the reader scrolls to it or presses "Why?", which scrolls there.
 */
import { signal, type Signal } from '@preact/signals-core';
import { html, nothing, render, type TemplateResult } from 'lit';
import {
  attendsToFirst,
  rowToRead,
  claimOf,
  disagrees,
  kindSentence,
  type Claim,
  type Kind,
  type RowClaim,
  canCount,
  hasSink,
} from '../claims';
import { lessonLink } from '../page/lessons';
import {
  exampleField,
  myTextButton,
  normalizeField,
  segmentedControl,
  startTokenButton,
  textField,
  tokenNoteLines,
  troubleNotes,
} from '../page/controls';
import {
  requestFrames,
  framesOf,
  entriesOf,
  type Context,
  type Scope,
  type SubjectEntry,
} from '../page/context';
import { Figure } from '../page/figure';
import {
  firstKey,
  gridOf,
  isBidirectional,
  isCommonToken,
  layerNumber,
  selectedHead,
  type Frame,
  type Head,
} from '../frame';
import { INPUTS } from '../ask/question';
import { savesData } from '../base';
import { shorten, type State } from '../ask/state';
import { NO_WEIGHTS } from '../run/recordings';
import { explainTerms, explainWord } from '../page/terms';
import { drawScale, scaleName } from '../plot/legend';
import { attention, labelOf, weightScale } from '../views/attention';
import {
  firstName,
  firstTokenName,
  modelName,
  capitalize,
  decapitalize,
  amountOf,
  averageWords,
  cutWords,
  firstPromptWords,
  headName,
  introduce,
  laterSinkSentence,
  isFirstHidden,
  meanAttention,
  spendSentences,
  formatPercent,
  tokenWord,
  rowsWords,
  axesClause,
  firstTokenText,
  recordedText,
  startRole,
  shareWords,
  meanWords,
  spreadWords,
  stampWords,
  sumWords,
  countedOn,
  headsHave,
  verdictOf,
} from '../words';
import { filesCached } from '../page/offline';
import { sources } from '../page/sources';
import { areTwins, isCut, partStyles, rowWords } from './start_words';
import { savedEntries, savedLine } from './start_saved';
import type { createStory } from './story';

export const SIDE_COUNT = 2;

/** After this many milliseconds a print goes ahead with the steps that are drawn. */
const PRINT_WAIT_MS = 30_000;

const WAITING_TEXT = 'A small language model reads your text on this machine.';

function recordingWords({ recording, sequences, pooled, ...frame }: Frame): string {
  const blocksNote = pooled
    ? ` Each row is a block of ${gridOf({ pooled, T: frame.T }).block} tokens, and each cell the mean of its weights; the strongest cell has the darkest color.`
    : '';
  const unit = recording!.cross ? 'prompts' : 'such texts';
  const firstNote = sequences > 1 ? ` The maps show the first of ${sequences} ${unit}.` : '';
  const name = shorten(recording!.model.id, 120);
  if (recording!.cross)
    return `Cross-attention of ${name}, as recorded: ${axesClause({ ...frame, recording })}.${firstNote}`;
  return `${name} read this text, and the page shows what was recorded.${firstNote}${blocksNote}`;
}

/** Returns the answer that the first map gives, which introduces the first token. */
const answerWords = (kind: Kind, frame: Frame, at: Head) =>
  attendsToFirst(kind) && !frame.queries
    ? kindSentence(kind, introduced(frame))
    : `${kindSentence(kind, firstTokenName(frame), frame.queries && 'decoder token')}${laterSinkSentence(frame, at)}`;

const introduced = (frame: Frame) => {
  const text = firstTokenText(frame);
  const isSpecial = frame.tokens[firstKey(frame)]?.special;
  return isSpecial ? `${text}, ${startRole(frame)}` : `the first one, ${text}`;
};

/** Whether a softmax model attends to its first token and its sigmoid twin does not. */
function isContrast(
  [frame, otherFrame]: readonly Frame[],
  [claim, otherClaim]: readonly Claim[],
): boolean {
  if (!frame || !otherFrame || !areTwins(frame, otherFrame)) return false;
  if (!spendSentences(frame) || otherFrame.operation.normalizes) return false;
  return isAnswered(claim, frame) && isWithout(otherClaim?.kind);
}

/** Whether the picture shows a sink, which the reason explains. */
const isAnswered = (claim: Claim | undefined, frame: Frame): boolean =>
  attendsToFirst(claim?.kind) && (claim!.kind !== 'weak' || hasSink(frame, claim!.attention));

/** Whether the picture shows that rows do not attend to the first token. */
const isWithout = (kind: Kind | undefined): boolean => kind === 'none' || kind === 'empty';

function secondModelWords(frames: readonly Frame[], claims: readonly Claim[]): string {
  const [frame, otherFrame] = frames;
  const [claim, otherClaim] = claims;
  if (!frame || !otherFrame || !claim || !otherClaim || !attendsToFirst(claim.kind)) return '';
  if (isContrast(frames, claims)) return '';
  const otherName = areTwins(frame, otherFrame)
    ? 'a sigmoid model trained alike'
    : modelName(otherFrame);
  const clause = `In ${otherName}, ${claim.kind === 'weak' ? 'it does' : 'they do'}`;
  if (isWithout(otherClaim.kind)) return `${clause} not.`;
  return otherClaim.kind === claim.kind ? `${clause}, too.` : '';
}

/**
 * Returns the sentence over the pictures.
 * @param claims the claims about the drawn heads of the frames, in the order of the frames
 */
export function leadSentence(frames: readonly Frame[], claims: readonly Claim[]): string {
  const [frame] = frames;
  if (!frame) return WAITING_TEXT;
  const recordingNote = frame.recording ? `${recordingWords(frame)} ` : '';
  if (frame.T < 2)
    return `${recordingNote}This text has a single token, which can only attend to itself: type more.`;
  const [claim] = claims;
  const answer = claim?.kind ? answerWords(claim.kind, frame, claim.at) : '';
  const reason = isAnswered(claim, frame) ? spendSentences(frame) : '';
  // The note about a recording has already named its text.
  const openings = [
    recordingNote ? '' : firstPromptWords(frame).trim(),
    reason ? 'in this softmax head' : '',
  ].filter(Boolean);
  const statement = introduce(openings.join(', '), answer);
  const sentences = [
    statement,
    secondModelWords(frames, claims),
    reason,
    isContrast(frames, claims) ? 'Sigmoid has no such rule.' : '',
  ];
  return `${recordingNote}${sentences.filter(Boolean).join(' ')}`.trim();
}

/** Says which head a map is of, and what it gives to the first token on average. */
export function headSentence(claim: Claim, frame: Frame): string {
  // The lead has introduced the token; the number may be a mean over prompts that begin differently.
  const firstToken =
    isCommonToken(frame, firstKey(frame)) && !frame.queries
      ? firstTokenText(frame)
      : firstName(frame);
  // One sentence has both facts where a small weight is a large share of its row, or the other way round.
  const rowsNote = disagrees(claim, frame)
    ? `; the mean share of a row is ${formatPercent(claim.share, 0)}, the mean sum ${sumWords(claim.rowSum)}`
    : '';
  const { L, H } = frame.architecture;
  const { layer, head } = claim.at;
  const name = `${headName(claim.at, frame)} (layer ${layerNumber(frame, layer)}, head ${head})`;
  const isOneOf = claim.isStrongest && L * H > 1;
  const subject = isOneOf
    ? `Of ${L * H} heads, ${name} gives ${firstToken} most:`
    : `Head ${name} gives ${firstToken}`;
  const quantity = claim.isShare
    ? `${amountOf(claim)} ${shareWords(frame)}${averageWords(frame)}`
    : isOneOf
      ? `${amountOf(claim)}${meanWords(frame)}`
      : `a mean weight of ${amountOf(claim)}${averageWords(frame)}`;
  return `${subject} ${quantity}${rowsNote}.`;
}

/** Names the head of a map in a word that explains it. */
function headWord(claim: Claim, frame: Frame): TemplateResult {
  const name = claim.isStrongest ? 'strongest head' : `head ${headName(claim.at, frame)}`;
  return explainWord(name, headSentence(claim, frame));
}

function detailsWords(frame: Frame, claim: Claim): string {
  const { L, H } = frame.architecture;
  const { layer, head } = claim.at;
  const meanShareText = formatPercent(meanAttention(frame, claim.isShare), 0);
  const evenNote = isFirstHidden(frame)
    ? ''
    : `; evenly spread ${spreadWords(frame)}, ${firstName(frame)} would get ${formatPercent(claim.uniform, 0)}`;
  // The row sums are those of the map; the mean over the heads is one over the prompts.
  const rowsNote = claim.column ? firstPromptWords(frame) : averageWords(frame);
  const [least, most] = claim.sums;
  const meanNote = claim.isShare || least === most ? '' : `, ${sumWords(claim.rowSum)} on average`;
  const rows = `${rowsWords(claim)}${frame.operation.normalizes ? `${rowsNote}${evenNote}` : `${meanNote}${rowsNote}`}`;
  return (
    `${capitalize(modelName(frame))}: head ${headName(claim.at, frame)} (layer ${layerNumber(frame, layer)}, head ${head}, counted from 0) ` +
    `${claim.isStrongest ? `of ${L * H}, the one that gives ${firstName(frame)} most` : 'is drawn'}. ` +
    `${capitalize(rows)}. The mean over all ${L * H} heads is ${meanShareText}${averageWords(frame)}.`
  );
}

/** The model of the zoo that was trained without a start token, and the lesson about it. */
const [WITHOUT_START, LESSON_ON_START] = ['no-bos', 'what-decides-where-the-sink-is'];

/** A small part of the heads, in percent. */
const HARDLY = 5;

/**
 * Explains why the sink is gone where the reader has removed the start token of a model that was trained with one;
 * nothing if the heads still have it. Step 3 has a real model whose sink is at whatever token comes first.
 */
function noStartNote(frame: Frame | undefined, context: Context): TemplateResult | typeof nothing {
  const { cards } = context.engine.peek()?.models.zoo ?? {};
  const card = cards?.find(({ id }) => id === frame?.model.id);
  const other = cards?.find(({ id }) => id === WITHOUT_START);
  const [token] = card?.training?.front ?? [];
  if (!frame || !token || !other || frame.first.length || !canCount(frame)) return nothing;
  const { sink } = verdictOf(frame);
  if (!(sink < Number(card!.measured.sink_1_raw) / 200)) return nothing;
  const percent = Number(other.measured.sink_1_raw);
  const [smallModel, largerModel] =
    percent < HARDLY
      ? [
          `A model of this size has hardly any sink there either if it is trained without ${token}`,
          ' The larger model of step 3 has its sink at whatever token comes first.',
        ]
      : [
          `A model trained without ${token} has one there in ${formatPercent(percent / 100)} of its heads, over 100 passages`,
          '',
        ];
  return html`<span data-no-start>
    Every text of this model’s training began with ${token}: without it,
    ${sink ? 'only ' : ''}${headsHave(frame, sink)} a sink at the first token ${countedOn(frame)}.
    ${smallModel} (<a href=${context.link({ shown: [frame.subject, WITHOUT_START], first: 'none' })}
      >see both on this text</a
    >).${largerModel} Read
    <a href=${lessonLink(LESSON_ON_START)}>what decides where the sink is</a>.
  </span>`;
}

const typedText = (frame: Frame | undefined): string =>
  frame?.question.input === 'text' ? frame.question.prompt : '';

/** Says what the models read if it is not the whole text in the field above. */
function inputNote(frame: Frame | undefined): TemplateResult | typeof nothing {
  if (!frame) return nothing;
  const { sequences, dropped, question } = frame;
  const otherInput = question.input === 'text' ? '' : INPUTS[question.input];
  if (!otherInput && !dropped) return nothing;
  const mapsNote = sequences > 1 ? ` The maps show the first of ${sequences} prompts.` : '';
  return html`<p class="hint" data-input>
    ${otherInput ? `The models read ${otherInput} here, not this text; type to change that.${mapsNote}` : `${cutWords(frame)}.`}
  </p>`;
}

const STEP_TITLES = [
  'First, is it only this head?',
  'Why does the first token win?',
  'What if the first token is hidden?',
  'What does this head write?',
  'Was it there from the start?',
  'Can you make one?',
] as const;

/** Says what the steps wait for if there is no text. */
const waitingWords = (frames: readonly Frame[], { prompt, input }: State): string =>
  !frames.length && !prompt.trim() && input === 'text'
    ? 'This step waits for a text: type one above.'
    : '';

type StoryNeeds = ReturnType<typeof createStory>;
type StoryAhead = ReturnType<typeof watchIdle>;

/** What the room draws: its state and the two models' frames, with a claim about the drawn head of each. */
interface Shown {
  readonly context: Context;
  readonly state: State;
  readonly entries: readonly SubjectEntry[];
  readonly frames: readonly Frame[];
  readonly claims: readonly Claim[];
  /** The row of each frame's map that is read to the reader. */
  readonly rows: readonly (RowClaim | undefined)[];
  readonly hasError: boolean;
  /** Loads the second model; absent once it is requested. */
  readonly loadTwin: (() => void) | undefined;
}

/** Asks why the rows attend to the first token, or whether they always do where those of the drawn head do not. */
const titleOf = (claim: Claim | undefined, frame: Frame | undefined): string =>
  isWithout(claim?.kind) || (claim?.kind === 'weak' && !isAnswered(claim, frame!))
    ? 'Do language models always stare at the first token?'
    : 'Why do language models stare at the first token?';

const sideSubjects = (state: State) => state.shown.slice(0, SIDE_COUNT);
const sideIndex = (state: State) => Math.min(state.at, SIDE_COUNT - 1);

function headTemplate({ context, entries, frames, claims }: Shown): TemplateResult {
  const isRecorded = frames.some(({ recording }) => recording);
  const lead = leadSentence(frames, claims);
  // One head that does not is an answer to whether models always do.
  const isNo = isWithout(claims[0]?.kind) && !isRecorded;
  return html`<h1>${titleOf(claims[0], frames[0])}</h1>
    <div class="start-text">
      ${
        isRecorded
          ? html`<div>
              <p class="recorded-text" tabindex="0">${recordedText(frames[0]!)}</p>
              <p class="hint" data-recorded>${NO_WEIGHTS}</p>
            </div>`
          : html`${textField(context, 2)}
              <p class="on-paper">${typedText(frames[0])}</p>
              <div class="text-tools">
                ${startTokenButton(context, frames)} ${exampleField(context)}
                ${myTextButton(context)}
              </div>`
      }
    </div>
    ${isRecorded ? nothing : inputNote(frames[0])} ${tokenNoteLines(frames)}
    <p class="lead">
      <span data-finding>${explainTerms(isNo ? `No: ${decapitalize(lead)}` : lead)}</span>
      ${noStartNote(frames[0], context)}
    </p>
    ${troubleNotes(entries, context)}`;
}

function modelTabs({ context, state, entries }: Shown): TemplateResult | typeof nothing {
  const tabNames = entries.map(
    ({ frame, subject }, i) => [i, frame?.operation.label ?? subject] as const,
  );
  return tabNames.length > 1
    ? segmentedControl('Model', tabNames, sideIndex(state), (i) => context.set({ at: i }))
    : nothing;
}

/** Draws a row as a strip in a frame of 100%: what it gives to the first token, and to the others. */
function stripTemplate(frame: Frame, { query, attention, sum }: RowClaim) {
  const [first = '', others = ''] = partStyles([attention, sum - attention]);
  // Only a part that has room for its words has some.
  const wordsIn = (share: number, words: string) => (share >= 0.25 ? words : '');
  const cutNote = isCut(sum) ? ', cut at 100%' : '';
  const [firstShare, otherShare] = [Math.min(1, attention), Math.min(1, sum) - attention];
  return html`<span
    class="row-strip"
    aria-hidden="true"
    data-word=${tokenWord((frame.queries ?? frame.tokens)[query]!.text)}
    ><b style=${first}
      >${wordsIn(firstShare, `${firstName(frame)}${otherShare > 0 ? '' : cutNote}`)}</b
    ><i style=${others}>${wordsIn(otherShare, `other tokens${cutNote}`)}</i
    ><span>${wordsIn(1 - sum, 'not spent')}</span></span
  >`;
}

/** Reads one row of a map; where no row can be read, says what its head gives on average. */
function readingTemplate({ frames, claims, rows }: Shown, i: number): TemplateResult {
  const [frame, row] = [frames[i]!, rows[i]];
  if (!row) return html`<span>${frame.T < 2 ? '' : headSentence(claims[i]!, frame)}</span>`;
  const [subject, amount, rest] = rowWords(frame, row);
  return html`<span data-row>${subject} <strong>${amount}</strong> ${rest}</span>
    ${stripTemplate(frame, row)}`;
}

const captionTemplate = (shown: Shown, entry: SubjectEntry, i: number) => {
  const { frames, claims, hasError, loadTwin } = shown;
  const { frame } = entry;
  const index = frames.findIndex(({ subject }) => subject === entry.subject);
  if (i && !frame && loadTwin)
    return html`<p class="twin twin-${i}">
      <button type="button" @click=${loadTwin}>Load the second model</button>
      <span class="hint">It waits, since your browser saves data.</span>
    </p>`;
  return html`<p class="twin twin-${i}">
    ${frame ? html`<strong>${capitalize(frame.title)}</strong> ${frame.T < 2 ? `head ${headName(claims[index]!.at, frame)}` : headWord(claims[index]!, frame)} ${readingTemplate(shown, index)}` : hasError ? nothing : html`<span class="hint">Loading the second model …</span>`}
  </p>`;
};

function detailsTemplate({ context, frames, claims }: Shown): TemplateResult | typeof nothing {
  if (!claims.length || frames.some(({ T }) => T < 2)) return nothing;
  return html`<details class="more facts">
    <summary>More</summary>
    ${frames.map((frame, i) => html`<p>${explainTerms(detailsWords(frame, claims[i]!))}</p>`)}
    <div class="numbers">${normalizeField(context, frames)}</div>
    <p>
      <span class="lines">${explainTerms(frames.map(stampWords).join('\n'))}</span>
    </p>
    <p>
      <a href=${context.link({ room: 'explore', why: 0 })}>Change the conditions in Explore</a>
    </p>
  </details>`;
}

const stepTemplate = ({ context, frames, state }: Shown, title: string, i: number) =>
  html`<section class="step step-${i + 1}" data-step=${i + 1}>
    <h2 tabindex="-1">
      <a class="step-number" href=${context.link({ why: i + 1 })} aria-label="Step ${i + 1}"
        >${i + 1}</a
      >
      <span class="step-title" .textContent=${title}></span>
    </h2>
    <p class="hint">${waitingWords(frames, state)}</p>
    <div class="step-place"></div>
  </section>`;

/** Where one map is in the corner of the other, a tap brings it to the front. */
const bringToFront = (context: Context) => ({
  capture: true,
  handleEvent(event: MouseEvent) {
    const cell = (event.target as Element).closest('.cell');
    if (!cell || getComputedStyle(cell).position !== 'absolute') return;
    event.stopPropagation();
    context.set({ at: [...cell.parentElement!.children].indexOf(cell) });
  },
});

/** Draws the room whenever its state or a frame changes. The places of the steps are filled by the story. */
function drawRoom(
  root: HTMLElement,
  context: Context,
  scope: Scope,
  currentEntries: () => readonly SubjectEntry[],
  openStory: () => void,
  isTwinDue: Signal<boolean>,
): void {
  const headOf = (frame: Frame): Head => selectedHead(frame, context.state.value);
  let readRows: ReadonlyMap<string, RowClaim | undefined> = new Map();
  const figure = new Figure(document.createElement('div'), attention, context, scope, {
    isBare: true,
    extra: (frame) => {
      const remark = labelOf(frame, headOf(frame), context.state.peek());
      return { isPlain: true, remark, readRow: readRows.get(frame.subject)?.query };
    },
  });
  const legendScale = document.createElement('span');
  legendScale.className = 'scale-place';
  const onTap = bringToFront(context);
  scope.effect(() => {
    const state = context.state.value;
    const theme = context.theme.value;
    const entries = currentEntries();
    const frames = framesOf(entries);
    const claims = frames.map((frame) => claimOf(frame, headOf(frame), state));
    const hasError = entries.some(({ error }) => error);
    const loadTwin = isTwinDue.value ? undefined : () => void (isTwinDue.value = true);
    const rows = frames.map((frame) => rowToRead(frame, state, frames[0]));
    readRows = new Map(frames.map(({ subject }, i) => [subject, rows[i]]));
    const shown: Shown = { context, state, entries, frames, claims, rows, hasError, loadTwin };
    root.classList.toggle('coming', !frames.length && !hasError);
    root.classList.toggle('failed', !frames.length && hasError && !waitingWords(frames, state));
    root.classList.toggle('waiting', waitingWords(frames, state) !== '');
    const areBidirectional = frames.every(isBidirectional);
    // A phone shows the second map above the diagonal of the first.
    const nesting = frames.some(isBidirectional) ? '' : ' nesting';
    const scale = weightScale({ frames, state, theme });
    drawScale(legendScale, scale);
    legendScale.title = scaleName(scale, 'attention weight');
    const isPooled = frames.some(({ pooled }) => pooled);
    render(
      html`<div class="start-head">${headTemplate(shown)}</div>
        <p class="start-how" ?hidden=${isPooled}>Each row: where one token looks. Press one.</p>
        <div class="start-legend" ?hidden=${isPooled}>
          ${legendScale}
          ${areBidirectional ? nothing : html`<span><span class="later"></span> later tokens</span>`}
        </div>
        <div class="start-stage${nesting}" data-at=${sideIndex(state)} @click=${onTap}>
          <div class="start-pictures">
            <div class="start-tabs">${modelTabs(shown)}</div>
            <div class="start-captions" role="status">
              ${entries.map((entry, i) => captionTemplate(shown, entry, i))}
            </div>
            ${figure.root}
          </div>
        </div>
        <div class="start-facts">${detailsTemplate(shown)}</div>
        <div class="start-ask">
          <button type="button" class="primary" @click=${openStory}>Test it in 6 steps</button>
        </div>
        ${savedLine(entries, context)}
        ${STEP_TITLES.map((title, i) => stepTemplate(shown, title, i))}
        <section class="start-deeper">
          <h2>What to remember</h2>
          <div class="step-place"></div>
        </section>
        <div class="start-based sources">
          ${sources(context.engine.value?.models.describe.version ?? '')}
        </div>`,
      root,
    );
    figure.update(entries);
  });
}

/** The height of the text field with one line, in CSS pixels. */
const FIELD_HEIGHT = 49;

/** Takes from the height of the maps what a text of two lines takes, so that the button stays on the first screen. */
function watchField(root: HTMLElement, scope: Scope): void {
  const watcher = new ResizeObserver(([entry]) => {
    const { offsetHeight } = entry!.target as HTMLElement;
    root.style.setProperty('--lines', `${Math.max(0, offsetHeight - FIELD_HEIGHT)}px`);
  });
  watcher.observe(root.querySelector('.start-text')!);
  scope.onEnd(() => watcher.disconnect());
}

/** Returns the steps that the reader has scrolled to, counted from 0. Only these are measured. */
function watchSteps(root: HTMLElement, scope: Scope) {
  const reachedSteps = signal<ReadonlySet<number>>(new Set());
  const steps = [...root.querySelectorAll('.step')];
  const watcher = new IntersectionObserver(
    (entries) => {
      const visibleEntries = entries.filter(({ isIntersecting }) => isIntersecting);
      const indices = visibleEntries.map(
        ({ target }) => Number((target as HTMLElement).dataset.step) - 1,
      );
      reachedSteps.value = new Set([...reachedSteps.peek(), ...indices]);
    },
    { rootMargin: '0px 0px -60px' },
  );
  for (const step of steps) watcher.observe(step);
  const reachAll = () => void (reachedSteps.value = new Set(steps.keys()));
  addEventListener('beforeprint', reachAll);
  scope.onEnd(() => {
    watcher.disconnect();
    removeEventListener('beforeprint', reachAll);
  });
  scope.effect(() => {
    for (const [i, step] of steps.entries())
      step.classList.toggle('unread', !reachedSteps.value.has(i));
  });
  printWhole(scope, reachAll, () =>
    steps.every((step) => step.querySelector('.answer, h2 + .hint:not(:empty)')),
  );
  return reachedSteps;
}

/**
 * Lets the keys for printing wait until all steps are drawn: a browser prints what is there right after `beforeprint`.
 * A print from its menu has the steps that are drawn ahead, and those that the reader has reached.
 */
function printWhole(scope: Scope, reachAll: () => void, isDrawn: () => boolean): void {
  const onKey = async (event: KeyboardEvent) => {
    if (event.key !== 'p' || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey)
      return;
    event.preventDefault();
    reachAll();
    const deadline = performance.now() + PRINT_WAIT_MS;
    const isReady = () => isDrawn() && document.body.dataset.busy === undefined;
    while (!isReady() && performance.now() < deadline)
      await new Promise((done) => setTimeout(done, 100));
    print();
  };
  const listener = (event: KeyboardEvent) => void onKey(event);
  addEventListener('keydown', listener);
  scope.onEnd(() => removeEventListener('keydown', listener));
}

/**
 * Whether the story may be drawn before the reader scrolls to it, so that a print from the browser's menu has it: once the
 * numbers are drawn and nothing runs, unless the reader's browser saves data.
 */
function watchIdle(context: Context, scope: Scope, entriesNow: () => SubjectEntry[]) {
  const isIdle = signal(false);
  scope.effect(() => {
    const entries = entriesNow();
    const isDrawn = entries.every(({ frame, isStale }) => frame && !isStale);
    if (isIdle.peek() || savesData() || !isDrawn || context.engine.value?.queue.work.value) return;
    void filesCached().then(() => (isIdle.value = true));
  });
  return isIdle;
}

/** Fetches the story when it is reached or drawn ahead; returns what its steps request, once it is there. */
function fetchStory(
  root: HTMLElement,
  drawn: { readonly reachedSteps: ReturnType<typeof watchSteps>; readonly isAhead: StoryAhead },
  inputs: Parameters<typeof createStory>[3],
) {
  const storyNeeds = signal<StoryNeeds | undefined>(undefined);
  const places = [...root.querySelectorAll<HTMLElement>('.step > .step-place')];
  const takeawaysPlace = root.querySelector<HTMLElement>('.start-deeper > .step-place')!;
  let storyPromise: Promise<unknown> | undefined;
  inputs.scope.effect(() => {
    if (!drawn.reachedSteps.value.size && !drawn.isAhead.value) return;
    // With a static import of tables.css, the first screen would also have to load the bundler's runtime.
    storyPromise ??= Promise.all([import('./story'), import('./tables.css')]).then(
      ([{ createStory }]) => {
        storyNeeds.value = createStory(places, takeawaysPlace, drawn, inputs);
      },
      inputs.context.fail,
    );
  });
  return storyNeeds;
}

function goTo(root: HTMLElement, n: number, behavior: ScrollBehavior): void {
  const step = root.querySelector(`.step-${n}`)!;
  step.scrollIntoView({ behavior, block: 'start' });
  step.querySelector('h2')!.focus({ preventScroll: true });
}

export function build(root: HTMLElement, context: Context, scope: Scope): void {
  const currentEntries = (): SubjectEntry[] =>
    entriesOf(context, sideSubjects(context.state.value));
  const openStory = () => {
    const isMotionReduced = matchMedia('(prefers-reduced-motion: reduce)').matches;
    goTo(root, 1, isMotionReduced ? 'auto' : 'smooth');
  };
  const isTwinDue = signal(!savesData());
  const addSaved = savedEntries(context, (i) => i === 0 || isTwinDue.value);
  const shownEntries = () => addSaved(currentEntries());
  drawRoom(root, context, scope, shownEntries, openStory, isTwinDue);
  watchField(root, scope);
  const reachedSteps = watchSteps(root, scope);
  const drawn = { reachedSteps, isAhead: watchIdle(context, scope, currentEntries) };
  const storyNeeds = fetchStory(root, drawn, { context, scope, currentEntries });
  let openedStep = 0;
  scope.effect(() => {
    const { why } = context.state.value;
    if (why && why !== openedStep) requestAnimationFrame(() => goTo(root, why, 'auto'));
    openedStep = why;
  });
  requestFrames(context, scope, (state, { queue }) => {
    const [firstSubject, ...otherSubjects] = sideSubjects(state);
    const { frame } = queue.entries.value.get(firstSubject!) ?? {};
    const needs = storyNeeds.value?.(frame, state);
    // The second model is requested only when the first one is measured, and where data are saved, only when it is asked for.
    const isDue = frame && (isTwinDue.value || reachedSteps.value.size);
    const subjects = isDue ? [firstSubject!, ...otherSubjects] : [firstSubject!];
    const savedSubjects = framesOf(shownEntries()).filter(({ isSaved }) => isSaved);
    return {
      // The line about the saved picture says how far these have loaded.
      ahead: savedSubjects.map(({ subject }) => subject),
      subjects: [...subjects, ...(frame && needs ? needs.subjects : [])],
      heads: needs?.heads ?? {},
      views: [attention, ...(needs?.views ?? [])],
      more: needs?.more ?? [],
      studies: needs?.studies ?? [],
    };
  });
}
