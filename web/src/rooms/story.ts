/**
 * Start's story below the first screen: six steps, each one sentence and something to do with the reader's own text. A
 * step is built, and its numbers are requested, when the reader has scrolled to it.
 */
import { computed, signal, type ReadonlySignal } from '@preact/signals-core';
import { html, nothing, render, type TemplateResult } from 'lit';
import { questionKey, questionOf } from '../ask/question';
import { defaults, type State } from '../ask/state';
import { stepWords } from '../ask/steps';
import type { Measurement } from '../ask/zoo';
import { canCount, claimOf, hasSink, kindSentence, laterSinks, rowToRead } from '../claims';
import {
  lossOf,
  layerNumber,
  modelHead,
  predictsNext,
  selectedHead,
  type Frame,
  type Head,
} from '../frame';
import { PRESETS } from '../lab/presets';
import {
  cardOf,
  entriesOf,
  framesOf,
  type Context,
  type Scope,
  type SubjectEntry,
} from '../page/context';
import { Figure } from '../page/figure';
import { lessonLink } from '../page/lessons';
import { explainTerms } from '../page/terms';
import { addElement, addFold, setText, type View } from '../page/view';
import { drawChart } from '../plot/chart';
import type { Study } from '../run/request';
import { COURSE_AXIS, coursesOf, lineSeries, SINK_QUANTITY, type Course } from '../timeline/course';
import { arrows } from '../views/arrows';
import { attention, labelOf } from '../views/attention';
import { heads as allHeads } from '../views/heads';
import { queryRange } from '../views/query';
import {
  groupWords,
  outputs,
  outputNormsOf,
  outputWords,
  type OutputNorms,
} from '../views/outputs';
import { tableRegion } from '../page/room_controls';
import { blindRise } from '../views/settings';
import {
  averageWords,
  capitalize,
  amountOf,
  compareLosses,
  formatSigned,
  evenShareWords,
  listWords,
  firstPromptWords,
  headName,
  firstName,
  headsHave,
  laterSinkText,
  modelName,
  shareCountSentence,
  sinkCountSentence,
  verdictOf,
  formatPercent,
  shareWords,
  textsWords,
  tooShortNote,
  formatValue,
  ALWAYS_THERE,
  MUST_SPEND_SENTENCE,
  isFirstHidden,
  spreadWords,
  wholePercent,
} from '../words';
import { linesTable } from '../page/tables';
import {
  ablation,
  canMeasureLossChange,
  lossChangeOf,
  lossStudies,
  WITHOUT_FIRST,
  WITHOUT_SECOND,
} from './loss_change';
import { ROOMS } from './names';
import { areTwins, otherSeeds, seedWords, startedWords } from './start_words';
import { addTrainingSlider, trainedSubjects } from './walk';
import { drawStrips, rowAnswer, rowTitle, row, scoreWords, workOutRow } from './worked_row';
import { addRecordedTexts, DeletionTrial } from './without_first';
import './story.css';

/** The real model of step 3. */
const REAL_MODEL = 'smollm2-135m-instruct.safetensors';

interface Needs {
  readonly views: readonly View[];
  readonly more: readonly string[];
  readonly subjects: readonly string[];
  readonly heads: Readonly<Record<string, Head>>;
  readonly studies: readonly Study[];
}

interface StoryInputs {
  readonly context: Context;
  readonly scope: Scope;
  /** The models on the first screen; the story is about the first of them. */
  readonly currentEntries: () => readonly SubjectEntry[];
}

/** Which steps are drawn, counted from 0: those that the reader has reached, and others ahead of the reader. */
interface Drawn {
  readonly reachedSteps: ReadonlySignal<ReadonlySet<number>>;
  readonly isAhead: ReadonlySignal<boolean>;
}

interface Step {
  /** Returns the step's heading, which is about what is drawn; absent: the one that the room has drawn. */
  readonly title?: (frames: readonly Frame[]) => string;
  readonly needs?: (frame: Frame | undefined, state: State) => Partial<Needs>;
  readonly draw: (entries: readonly SubjectEntry[]) => void;
}

type Build = (
  place: HTMLElement,
  inputs: StoryInputs & { readonly isReached: () => boolean },
) => Step;

function addColumns(place: HTMLElement): readonly [HTMLElement, HTMLElement] {
  return [addElement(place, 'step-words'), addElement(place, 'step-picture')];
}

const VECTORS_TEXT =
  'Values are vectors: the tables give their lengths, which do not add up where vectors point different ways.';
const FIRST_TOKEN_TEXT = `${MUST_SPEND_SENTENCE} ${ALWAYS_THERE} can become the place for it.`;

const SINGLE_TOKEN_TEXT = 'A single token has no other to compare with: type more.';

const paragraphs = (...texts: readonly string[]) =>
  texts.map((text) => html`<p>${explainTerms(text)}</p>`);

/** Shows the first sentence, which is the answer, above the others. */
function answerBlock(text: string): TemplateResult {
  const answerEnd = text.indexOf('. ') + 1 || text.length;
  return html`<p class="answer">${text.slice(0, answerEnd)}</p>
    ${paragraphs(text.slice(answerEnd).trim())}`;
}

/** Where an even spread gives the first token more than this part of the threshold, counts say little. */
const NEAR_EVEN = 0.9;

export function sinkCountWords(frame: Frame): string {
  const verdict = verdictOf(frame);
  const { L, H } = frame.architecture;
  const gridText = `A model has many heads, each with a map of its own: here ${L} layers (rows) of ${H} heads.`;
  if (!verdict.conclusive) return `${tooShortNote(frame)} ${gridText}`;
  const share = verdict.sink;
  const name = firstName(frame);
  const opening =
    verdict.even > NEAR_EVEN * frame.eps
      ? 'On so short a text an even spread is almost a sink.'
      : share > 0.5
        ? `Most heads have a sink at ${name}.`
        : share === 0.5
          ? `Half of the heads have a sink at ${name}.`
          : share > 1.5 / (L * H)
            ? `Several heads have a sink at ${name}, most have none.`
            : share > 0
              ? `Only one head has a sink at ${name}.`
              : `No head has a sink at ${name} on ${textsWords(frame)}.`;
  const evenNote = isFirstHidden(frame)
    ? ''
    : ` (evenly spread ${spreadWords(frame)}, it would be ${formatPercent(verdict.even, 0)})`;
  const note = `${frame.eps === defaults.eps ? ', the usual threshold' : ''}${evenNote}`;
  return `${opening} ${gridText} ${sinkCountSentence(frame, share, note)}${shareCountSentence(frame)}${otherSinkWords(frame)}`;
}

/** Says how many heads have their sink at a later token, and which one gets most. */
function otherSinkWords(frame: Frame): string {
  const later = laterSinks(frame);
  const { L, H } = frame.architecture;
  if (!later.length) return '';
  const [most] = later;
  const which = `${later.length > 1 ? ', most in' : ':'} ${headName(most!.at, frame)}`;
  return ` ${capitalize(headsHave(frame, later.length / (L * H)))} a sink only at a later token${which}, ${laterSinkText(frame, most!)}.`;
}

/** Step 1: all heads, and the selected one beside them. */
const allHeadsStep: Build = (place, { context, scope }) => {
  const [words, picture] = addColumns(place);
  const answerPlace = addElement(words, '');
  const enlargedMap = new Figure(words, attention, context, scope, {
    isBare: true,
    extra: (frame) => {
      const state = context.state.peek();
      return { isPlain: true, remark: labelOf(frame, selectedHead(frame, state), state) };
    },
  });
  enlargedMap.root.ariaLabel = 'Attention map of the selected head';
  const thumbnails = new Figure(picture, allHeads, context, scope, { isBare: true });
  return {
    title: ([frame]) =>
      frame && !hasSink(frame, claimOf(frame, selectedHead(frame, context.state.peek())).attention)
        ? 'How many heads have a sink?'
        : 'First, is it only this head?',
    needs: () => ({ views: [allHeads] }),
    draw: (entries) => {
      const [frame] = framesOf(entries);
      if (frame) {
        const state = context.state.peek();
        const claim = claimOf(frame, selectedHead(frame, state), state);
        const { layer, head } = claim.at;
        render(
          html`${answerBlock(sinkCountWords(frame))}
            <p>
              Select a map to enlarge it; its number is what ${firstName(frame)} gets. Shown:
              ${headName(claim.at, frame)} (layer ${layerNumber(frame, layer)}, head ${head},
              counted from 0), ${amountOf(claim)}${averageWords(frame)}.
            </p>`,
          answerPlace,
        );
      }
      enlargedMap.update(entries.slice(0, 1));
      thumbnails.update(entries.slice(0, 1));
    },
  };
};

/** Step 2: one row of both models as strips; a folded section has its numbers, and shows where its scores come from. */
const rowStep: Build = (place, { context, scope, currentEntries }) => {
  const words = addElement(place, 'step-words');
  // Until the reader selects a row, this is the one that the first screen reads.
  const state = computed(() => {
    const [frame] = framesOf(currentEntries());
    const read = frame && rowToRead(frame, context.state.value);
    return { ...context.state.value, query: read?.query ?? context.state.value.query };
  });
  const rowContext: Context = { ...context, state };
  const numbers = addFold(place, 'Where do these numbers come from?');
  const figure = new Figure(numbers, row, rowContext, scope, { isBare: true });
  const vectorsNote = addElement(numbers, 'hint', 'p');
  const scoresText = addElement(numbers, '', 'p');
  const arrowsFigure = new Figure(numbers, arrows, rowContext, scope, {
    isBare: true,
    extra: () => ({ isPlain: true }),
  });
  return {
    title: ([frame]) => rowTitle(frame && workOutRow(frame, state.peek().query)),
    needs: () => ({ views: [row, arrows] }),
    draw: (entries) => {
      const frames = framesOf(entries);
      const [frame] = frames;
      const { query } = state.peek();
      const workedRow = frame && workOutRow(frame, query);
      const answer = frame?.T === 1 ? SINGLE_TOKEN_TEXT : workedRow && rowAnswer(workedRow, frame);
      render(
        html`<p class="answer">${answer}</p>
          ${workedRow ? html`${drawStrips(frames, query)} ${queryRange(frame, state.peek(), context.set, 'Row')} ${paragraphs(...(frame.operation.normalizes ? [FIRST_TOKEN_TEXT] : []), scoreWords(workedRow, frame))}` : nothing}`,
        words,
      );
      setText(vectorsNote, workedRow ? VECTORS_TEXT : '');
      numbers.hidden = !workedRow;
      if (workedRow)
        render(explainTerms(arrows.says(frame, selectedHead(frame, state.peek()))), scoresText);
      figure.update(entries);
      arrowsFigure.update(entries.slice(0, 1));
    },
  };
};

/**
 * The losses of a model in nats per token, rounded as the table draws them: words follow from the drawn numbers. A loss with
 * a token hidden is undefined until it is measured.
 */
interface Losses {
  readonly name: string;
  /** Whether any head has a sink at the first token. */
  readonly hasSinks: boolean;
  readonly loss: number;
  readonly withoutFirst: number | undefined;
  /** The loss with the second token hidden, as a control. */
  readonly withoutSecond: number | undefined;
}

const drawnLoss = (loss: number): number => Number(loss.toFixed(2));

function lossesOf(frame: Frame, context: Context): Losses {
  const loss = drawnLoss(lossOf(frame));
  const [withoutFirst, withoutSecond] = [WITHOUT_FIRST, WITHOUT_SECOND].map((edit) => {
    const change = lossChangeOf(frame, [edit], context);
    return change === undefined ? change : loss + drawnLoss(change);
  });
  const hasSinks = canCount(frame) && verdictOf(frame).sink > 0;
  return { name: modelName(frame), hasSinks, loss, withoutFirst, withoutSecond };
}

/** Says whether hiding the first token changes the loss, beside hiding the second one; empty until both are measured. */
export function contrastWords({
  name,
  hasSinks,
  loss,
  withoutFirst = NaN,
  withoutSecond = NaN,
}: Losses): string {
  if (!Number.isFinite(withoutFirst + withoutSecond)) return '';
  const subject = capitalize(name);
  const change = compareLosses(withoutFirst, loss);
  const control = compareLosses(withoutSecond, loss);
  if (!change)
    return `${subject}: hiding ${control ? 'the first token' : 'one of the first two tokens'} makes hardly any difference.`;
  if (change < 0) return `${subject}: with the first token hidden it predicts this text better.`;
  const cause = hasSinks ? ', since that attention then goes to other tokens (step 2)' : '';
  if (control <= 0)
    return `${subject}: hiding the first token makes the prediction worse${cause}; hiding the second ${control ? 'makes it better' : 'hardly does'}.`;
  const contrast = compareLosses(withoutFirst, withoutSecond);
  const amount = ['less than', 'about as much as', 'more than'][1 + contrast]!;
  return `${subject}: hiding the first token costs ${amount} hiding the second${contrast > 0 ? cause : ''}.`;
}

/** Says of models whose loss is above that of a blind guess that they have not learned such texts; empty without any. */
function blindNote(frames: readonly Frame[]): string {
  const blind = frames.filter((frame) => frame.tensors.loss_mean && blindRise(frame) < 0);
  const { V } = blind[0]?.architecture ?? {};
  if (!V) return '';
  return ` A blind guess among the ${V.toLocaleString('en')} tokens of the vocabulary would have a loss of ${Math.log(V).toFixed(2)}: ${listWords(blind.map(modelName))} ${blind.length > 1 ? 'have' : 'has'} not learned such texts.`;
}

/** Formats a change of the loss with the digits of the losses beside it. */
function changeWords(loss: number, changed: number | undefined): string {
  if (changed === undefined) return '…';
  if (!Number.isFinite(changed)) return '–';
  const verdict = ['better', 'about the same', 'worse'][1 + compareLosses(changed, loss)]!;
  return `${formatSigned(Number((changed - loss).toFixed(2)))}, ${verdict}`;
}

const lossTable = (losses: readonly Losses[]): TemplateResult =>
  tableRegion(
    'Losses with a token hidden',
    linesTable(
      'losses',
      explainTerms(
        'Loss of the small models on your text, in nats per token, lower is better: with nothing hidden, and its change with one token hidden. Up to 0.05, of a large loss 1%, is “about the same”',
      ),
      ['model', 'nothing hidden', 'first token hidden', 'second token hidden'],
      losses.map(({ name, loss, withoutFirst, withoutSecond }) => ({
        title: name,
        cells: [loss.toFixed(2), changeWords(loss, withoutFirst), changeWords(loss, withoutSecond)],
      })),
    ),
  );

/** Step 3: a real model's recorded text without its first token; below it, the small model on the reader's text. */
const hiddenTokenStep: Build = (place, { context, scope, currentEntries }) => {
  addRecordedTexts(addElement(place, ''), scope);
  const lossPlace = addElement(place, 'costs');
  const linksPlace = addElement(place, 'links');
  const deletionTrial = new DeletionTrial(addElement(place, 'start-without'), context, scope);
  // The maps of the shown models are on the first screen.
  const scrollToTop = () => scrollTo({ top: 0 });
  const startTrial = (frame: Frame) => deletionTrial.start(frame).catch(context.fail);
  let lastKey: unknown;
  scope.effect(() => {
    const { subject, question } = currentEntries()[0]?.frame ?? {};
    const key = subject && `${subject} ${JSON.stringify(question)}`;
    if (key !== lastKey) deletionTrial.stop();
    lastKey = key;
  });
  return {
    needs: () => ({
      more: ['loss_mean'],
      studies: framesOf(currentEntries())
        .filter(canMeasureLossChange)
        .flatMap((frame) => [
          ...lossStudies(frame, [WITHOUT_FIRST]),
          lossStudies(frame, [WITHOUT_SECOND])[1],
        ]),
    }),
    draw: (entries) => {
      const [entry] = entries;
      const { frame, isStale } = entry ?? {};
      const isRecorded = Boolean(frame?.recording);
      const frames = framesOf(entries);
      const losses = frames
        .map((shownFrame) => lossesOf(shownFrame, context))
        .filter(({ withoutFirst }) => withoutFirst === undefined || Number.isFinite(withoutFirst));
      render(
        losses.length
          ? html`<details class="more">
              <summary>
                What does it do to ${listWords(losses.map(({ name }) => name))} on your text?
              </summary>
              ${lossTable(losses)}
              <p>${losses.map(contrastWords).join(' ')}${blindNote(frames)}</p>
            </details>`
          : nothing,
        lossPlace,
      );
      const realState = { shown: [`recording:${REAL_MODEL}`], at: 0, layer: -1, head: -1, why: 0 };
      render(
        html`${
          frame && (isRecorded || !predictsNext(frame))
            ? nothing
            : html`<button
                type="button"
                ?disabled=${!frame || isStale}
                @click=${() => frame && void startTrial(frame)}
              >
                Try it with the small model on your text
              </button>`
        }
        ${
          isRecorded
            ? html`<a
                href=${context.link({ ...realState, shown: defaults.shown })}
                @click=${scrollToTop}
                >Back to the two small models</a
              >`
            : SHIPPED.includes(REAL_MODEL)
              ? html`<a href=${context.link(realState)} @click=${scrollToTop}
                  >See the real model’s attention maps</a
                >`
              : nothing
        }`,
        linksPlace,
      );
    },
  };
};

/** Says how the loss changes without the head's output; nothing where that cannot be measured. */
function ablationSentence(frame: Frame, at: Head, context: Context): unknown {
  const change = lossChangeOf(frame, [ablation(modelHead(frame, at))], context);
  if (change === undefined) return html`<p class="pending">Ablating it …</p>`;
  const [loss, changed] = [lossOf(frame), lossOf(frame) + change].map(drawnLoss) as [
    number,
    number,
  ];
  if (!Number.isFinite(changed)) return nothing;
  const verb = ['does better without', 'barely uses', 'uses'][1 + compareLosses(changed, loss)]!;
  const [before, after] = [loss.toFixed(2), changed.toFixed(2)];
  const result = before === after ? `stays at ${before}` : `goes from ${before} to ${after}`;
  const small =
    before !== after && !compareLosses(changed, loss)
      ? ', a change that is too small to count'
      : '';
  return paragraphs(
    `On ${textsWords(frame)} ${modelName(frame)} ${verb} what the head writes: with its output set to 0, the loss ${result} nats per token${small}.${blindNote([frame])}`,
  );
}

function barsText(frame: Frame, { sinkCount, noSinkCount }: OutputNorms): string {
  const name = firstName(frame);
  const colors = !canCount(frame)
    ? 'gray, since heads are not counted in so short a text'
    : !sinkCount
      ? `gray: no head has a sink at ${name}`
      : noSinkCount
        ? `red for heads with a sink at ${name}, gray for others`
        : `red: all heads have a sink at ${name}`;
  return `A bar is the mean length of what a head adds for a token${firstPromptWords(frame)}, ${colors}. Select one.`;
}

/** Step 4: what the selected head writes, compared with what other heads write. */
const outputStep: Build = (place, { context, scope }) => {
  const [words, picture] = addColumns(place);
  const figure = new Figure(picture, outputs, context, scope, {
    isBare: true,
    extra: () => ({ isPlain: true }),
  });
  return {
    needs: (frame, state) => ({
      views: [outputs],
      studies: canMeasureLossChange(frame)
        ? lossStudies(frame, [ablation(modelHead(frame, selectedHead(frame, state)))])
        : [],
    }),
    draw: (entries) => {
      const [frame] = framesOf(entries);
      let answer: unknown = nothing;
      if (frame?.T === 1) answer = answerBlock(SINGLE_TOKEN_TEXT);
      else if (frame?.tensors.head_out) {
        const at = selectedHead(frame, context.state.peek());
        const norms = outputNormsOf(frame, at);
        answer = html`<p class="answer">${outputWords(norms, frame)}</p>
          <div class="late">${ablationSentence(frame, at, context)}</div>
          ${paragraphs(`${barsText(frame, norms)} ${groupWords(norms)}`.trim())}`;
      }
      render(answer, words);
      figure.update(entries.slice(0, 1));
    },
  };
};

function drawSinkCourse(
  place: HTMLElement,
  courses: readonly Course[] | undefined,
  step: number | undefined,
): void {
  const lines = courses?.map((course) => lineSeries(course, SINK_QUANTITY)) ?? [];
  // Keeps the place while the courses are loading, so that the maps beside it do not change their size.
  place.parentElement!.hidden = courses?.length === 0;
  if (!lines.length) return;
  const lastStep = Math.max(...lines.flatMap(({ places }) => places));
  drawChart(place, {
    // Names at the curves tell them apart also on gray paper.
    ...{ kind: 'lines', steps: true, dots: false, domain: [0, 0.6], percent: true, named: true },
    xLabel: COURSE_AXIS,
    yLabel: 'heads with a sink, by shares of the row',
    label: 'Share of heads with an attention sink by training step',
    cursor: step ?? lastStep,
    series: lines.map((line) => ({ ...line, values: line.values.map((value) => value / 100) })),
  });
}

/** Says of lines above 0 of models whose rows need not sum to 1 what their shares are of, and what counts by weight. */
export function sharesNote(courses: readonly Course[] = [], context: Context): string {
  const { cards = [] } = context.engine.peek()?.models.zoo ?? {};
  const notes = courses.flatMap(({ id, title, timeline: { log } }) => {
    const { sink_1_raw, sink_1 } = cards.find((card) => card.id === id)?.measured ?? {};
    const [top] = log.toSorted((a, b) => (b['sink_1'] ?? 0) - (a['sink_1'] ?? 0));
    const [peak = 0, sum = 1] = [top?.['sink_1'], top?.['row_mass']];
    if (!peak || sum > 0.995 || sink_1_raw === undefined || sink_1_raw === sink_1) return [];
    const byWeight = sink_1_raw ? wholePercent(Number(sink_1_raw) / 100) : 'none';
    return ` The line of ${modelName({ title })} counts shares of rows that sum to little (${wholePercent(sum)} on average where it is highest, at ${wholePercent(peak / 100)}); by weight ${byWeight} of its heads have a sink after training.`;
  });
  return notes.join('');
}

/** Returns a context whose first model is at the step of a slider, which does not move the first screen. */
function contextAtStep(context: Context, scope: Scope): Context {
  const checkpointSubjects = signal<readonly string[] | undefined>(undefined);
  let [lastSubject] = context.state.peek().shown;
  scope.effect(() => {
    const [subject] = context.state.value.shown;
    if (subject !== lastSubject) checkpointSubjects.value = undefined;
    lastSubject = subject;
  });
  const state = computed(() => {
    const { value } = context.state;
    const subjects = trainedSubjects(value.shown.slice(0, 1));
    return { ...value, shown: checkpointSubjects.value ?? subjects };
  });
  const set: Context['set'] = (change) => {
    if (change.shown?.length === 1) checkpointSubjects.value = change.shown;
    else context.set(change);
  };
  return { ...context, state, set };
}

/** Returns the courses of the shown models; undefined until they are loaded. */
function loadCourses(context: Context, scope: Scope) {
  const courses = signal<readonly Course[] | undefined>(undefined);
  let courseKey = '';
  scope.effect(() => {
    const models = context.engine.value?.models;
    const ids = trainedSubjects(context.state.value.shown);
    const key = ids.join();
    if (!models || key === courseKey) return;
    courseKey = key;
    void models
      .timelines()
      .then((timelines) => coursesOf(timelines, ids))
      .then((loadedCourses) => {
        if (key === courseKey) courses.value = loadedCourses;
      }, context.fail);
  });
  return courses;
}

const LEARNED = 'No: this head begins without a sink and learns it.';

/**
 * Says whether the head has a sink in the two maps: at the shown step, and after training. At the end the first one is of
 * step 0 if that was drawn.
 */
export function checkpointAnswer(frame: Frame, trained: Frame, at: Head, start?: Frame): string {
  if (!canCount(trained)) return kindSentence('short', '');
  const isSink = (shown: Frame) => hasSink(shown, claimOf(shown, at).attention);
  const [isNow, isLater] = [frame, trained].map(isSink);
  const { step } = frame.model;
  if (!step && isLater && start && !isSink(start)) return LEARNED;
  if (!step)
    return isLater
      ? 'After training this head has a sink.'
      : 'After training this head has no sink at the first token.';
  if (isNow)
    return isLater
      ? 'At this step the head has its sink already.'
      : 'At this step the head has a sink, which is gone after training.';
  if (!isLater)
    return 'This head has no sink at the first token, neither at this step nor after training.';
  return step.step ? 'At this step the head has no sink yet.' : LEARNED;
}

/** Says what the head gives the first token at the shown step, and after training. */
function checkpointWords(
  frame: Frame,
  trained: Frame,
  at: Head,
  context: Context,
  start?: Frame,
): TemplateResult {
  const claim = claimOf(frame, at, context.state.peek());
  const { step } = frame.model;
  const uniformText = claim.isShare
    ? `${averageWords(frame)}, ${evenShareWords(claim.attention, claim.uniform)}`
    : averageWords(frame);
  const finalText =
    step && claim.isShare ? `; after training it gives ${amountOf(claimOf(trained, at))}` : '';
  return html`<p class="answer">${checkpointAnswer(frame, trained, at, start)}</p>
    <p>
      ${stepNameOf(frame)}: head ${headName(at, frame)} gives ${firstName(frame)}
      ${claim.isShare ? `${amountOf(claim)} ${shareWords(frame)}` : `a mean weight of ${amountOf(claim)}`}${uniformText}${finalText}.
    </p>
    <p>
      Training only asks for a better guess of the next token.
      ${step?.step === 0 && frame.operation.normalizes && canCount(frame) ? 'At step 0 only the first rows have large weights: they have few tokens to attend to.' : nothing}
    </p>`;
}

const stepNameOf = ({ model: { step } }: Frame): string =>
  step ? capitalize(stepWords(step.step, step.of)) : 'After training';

/** Step 5: one head through training. Drawn ahead, it shows the trained head and fetches no checkpoint. */
const trainingStep: Build = (place, { context, scope, isReached }) => {
  const wordsPlace = addElement(place, 'step-words');
  const sliderPlace = addElement(place, 'step-walk');
  const mapsPlace = addElement(place, 'step-maps');
  const [currentMap, finalMap] = [addElement(mapsPlace, ''), addElement(mapsPlace, '')];
  const currentTitle = addElement(currentMap, 'which', 'p');
  addElement(finalMap, 'which', 'p').textContent = 'After training';
  const coursePlace = addElement(mapsPlace, '');
  addElement(coursePlace, 'which', 'p').textContent = 'All heads through training';
  const chartPlace = addElement(coursePlace, 'chart');
  const seedsPlace = addElement(coursePlace, 'hint', 'p');
  const checkpointContext = contextAtStep(context, scope);
  const checkpointState = checkpointContext.state;
  const trainedFrame = (): Frame | undefined => {
    const [entry] = entriesOf(context, trainedSubjects(checkpointState.value.shown));
    return entry?.isStale ? undefined : entry?.frame;
  };
  /** The selected head, or else the one that gives the first token most after training. */
  const pinnedHead = (): Head | undefined => {
    const lastFrame = trainedFrame();
    return lastFrame && selectedHead(lastFrame, context.state.value);
  };
  const courses = loadCourses(context, scope);
  const addMap = (mapPlace: HTMLElement, label: string) => {
    const figure = new Figure(mapPlace, attention, checkpointContext, scope, {
      isBare: true,
      // The title above the map names a step, which comes when the reader may have scrolled on.
      get isEager() {
        return isReached();
      },
      extra: (frame) => ({
        at: pinnedHead() ?? selectedHead(frame, checkpointState.peek()),
        isPlain: true,
      }),
    });
    figure.root.ariaLabel = label;
    return figure;
  };
  const checkpointMap = addMap(currentMap, 'Attention map through training');
  const trainedMap = addMap(finalMap, 'Attention map after training');
  const isReady = () => isReached() && pinnedHead() !== undefined;
  /** The entries drawn at step 0, and the question that they answer: at the end they are beside the trained map. */
  let start: { readonly question: string; readonly entries: readonly SubjectEntry[] } | undefined;
  addTrainingSlider(sliderPlace, checkpointContext, scope, isReady);
  return {
    title: () => {
      const [frame, at] = [trainedFrame(), pinnedHead()];
      return frame && at && !hasSink(frame, claimOf(frame, at).attention)
        ? 'What does training change?'
        : 'Was it there from the start?';
    },
    needs: () => {
      const at = pinnedHead();
      const { shown } = checkpointState.value;
      return { views: [], subjects: shown, heads: at ? { [shown[0]!]: at } : {} };
    },
    draw: () => {
      const checkpointEntries = entriesOf(context, checkpointState.value.shown);
      const [frame] = framesOf(checkpointEntries);
      const at = pinnedHead();
      // The last picture stays until the next checkpoint is measured.
      if (!frame || !at || checkpointEntries[0]?.isStale) return;
      const [trained] = trainedSubjects(checkpointState.value.shown);
      const asked = questionOf(context.state.value, context.engine.value!.fileVersion.value);
      const question = [trained, at.layer, at.head, questionKey(asked)].join();
      if (frame.model.step?.step === 0) start = { question, entries: checkpointEntries };
      const before = !frame.model.step && start?.question === question ? start.entries : undefined;
      const [startFrame] = framesOf(before ?? []);
      render(checkpointWords(frame, trainedFrame()!, at, context, startFrame), wordsPlace);
      currentMap.classList.toggle('trained', !frame.model.step && !before);
      currentTitle.textContent = before ? 'Before training' : stepNameOf(frame);
      const frames = framesOf(entriesOf(context, context.state.value.shown));
      setText(seedsPlace, `${seedWords(frames, context)}${sharesNote(courses.value, context)}`);
      drawSinkCourse(chartPlace, courses.value, frame.model.step?.step);
      checkpointMap.update(before ?? checkpointEntries);
      trainedMap.update(entriesOf(context, trainedSubjects(checkpointState.value.shown)));
    },
  };
};

const { leftRun, rightRun } = PRESETS[0]!;

/** Step 6: the lab, with a preset that trains in seconds. */
const labStep: Build = (place, { context, scope }) => {
  addElement(place, 'answer', 'p').textContent = 'Train two small models here; it takes seconds.';
  addElement(place, '', 'p').textContent =
    'Both begin by weighing the tokens of a row alike: of n tokens, softmax gives each 1/n, and this sigmoid 1/(n + 1). After training, the number above a map is a mean over its rows with nothing to copy; the curve is one over those of the batches.';
  const startNote = addElement(place, '', 'p');
  const picture = addElement(place, 'step-lab');
  const linkPlace = addElement(place, 'links', 'p');
  const state = computed(() => ({
    ...context.state.value,
    ...{ leftRun, rightRun, controls: [] as readonly string[] },
  }));
  const labContext: Context = { ...context, state };
  // A static import would load these styles with the first screen.
  void Promise.all([import('../lab/embedded'), import('../lab/embedded.css')]).then(
    ([{ build }]) => build(picture, labContext, scope, false),
    context.fail,
  );
  return {
    draw: ([entry]) => {
      const { frame } = entry ?? {};
      const isWithout = frame && !frame.recording && !frame.first.length;
      startNote.hidden = !isWithout;
      setText(startNote, isWithout ? 'Here every text begins with a start token again.' : '');
      render(
        html`<a href=${context.link({ room: 'lab', leftRun, rightRun })}
          >Change what they learn in the Lab</a
        >`,
        linkPlace,
      );
    },
  };
};

const STEPS: readonly Build[] = [
  allHeadsStep,
  rowStep,
  hiddenTokenStep,
  outputStep,
  trainingStep,
  labStep,
];

/** The steps that show numbers of the run above, or recorded ones; the lab starts engines. */
const AHEAD = STEPS.flatMap((step, i) => (step === labStep ? [] : i));

/** Says whether the second model predicts the reader's text as it does the passages, and whether both do worse than a guess. */
export function ownLossWords(frames: readonly [Frame, Frame], verdict: string): string {
  const [loss = NaN, twinLoss = NaN] = frames.map(({ tensors }) =>
    drawnLoss(tensors.loss_mean?.data[0] ?? NaN),
  );
  if (!Number.isFinite(loss + twinLoss) || frames[0].question.input !== 'text') return '';
  const own = VERDICTS[1 + compareLosses(twinLoss, loss)]!;
  const opening =
    own === verdict ? 'Your text, too' : `But it predicts your text ${own} that model`;
  const blind = frames.every((frame) => blindRise(frame) < 0);
  const guess = blind
    ? `; both do worse than a blind guess (${Math.log(frames[0].architecture.V!).toFixed(2)})`
    : '';
  return ` ${opening}: its loss there is ${twinLoss.toFixed(2)} against ${loss.toFixed(2)}${guess}.`;
}

const VERDICTS = ['better than', 'about as well as', 'worse than'] as const;

/** States what a model does without a sink, from twins that differ only in the attention operation. */
function twinWords([frame, twinFrame]: readonly Frame[], context: Context): string {
  // The measured numbers are those of the trained weights.
  if (!frame || !twinFrame || !areTwins(frame, twinFrame) || frame.model.step) return '';
  const metric = (twin: Frame, name: Measurement) =>
    Number(cardOf(twin, context)?.measured[name] ?? NaN);
  const [loss, twinLoss] = [metric(frame, 'loss'), metric(twinFrame, 'loss')];
  // Of rows that need not sum to 1, attention is the weight, and not the share of the row.
  const [sinks, twinSinks] = [frame, twinFrame]
    .map((twin) => metric(twin, 'sink_1_raw'))
    .map((percent) => (percent ? wholePercent(percent / 100) : 'none')) as [string, string];
  if ([sinks, twinSinks].includes('–') || !Number.isFinite(loss + twinLoss)) return '';
  const percent = 100 * Math.expm1(twinLoss - loss);
  const verdict = VERDICTS[1 + compareLosses(twinLoss, loss)]!;
  return (
    `Yes. Over 100 other passages${startedWords(frame, context)}, ${twinSinks} of the heads of the sigmoid model have a sink by weight, of the softmax model (same ` +
    `size, same data) ${sinks}${otherSeeds(frame, context)}. The sigmoid model predicts these passages ${verdict} the softmax model: its loss is ${formatValue(twinLoss)} nats per token against ${formatValue(loss)}, its perplexity ` +
    `${Math.abs(percent).toFixed(0)}% ${percent > 0 ? 'higher' : 'lower'}.${ownLossWords([frame, twinFrame], verdict)} These are two models: Compare has further seeds.`
  );
}

const SUMMARY = 'An attention sink is where heads put the attention that they must give away.';
const TAKEAWAYS = {
  'Why is it there?': `${MUST_SPEND_SENTENCE} ${ALWAYS_THERE} can take it. Where its value is small, the head then writes little.`,
  'Is it harmful?':
    'Not by itself. But where old tokens are dropped to save memory, a model can lose it: the real model of step 3 then repeats itself. “Why it matters” measures it.',
} as const;

function drawTakeaways(place: HTMLElement, context: Context, frames: readonly Frame[]): void {
  const subjects = trainedSubjects(context.state.value.shown);
  const takeaways = { ...TAKEAWAYS, 'Can a model do without?': twinWords(frames, context) };
  render(
    html`<p class="answer">${SUMMARY}</p>
      <dl>
        ${Object.entries(takeaways).map(
          ([title, text]) =>
            text &&
            html`<dt>${title}</dt>
              <dd>${explainTerms(text)}</dd>`,
        )}
      </dl>
      <h3>Go deeper</h3>
      <a class="button primary" href=${lessonLink(LESSONS[0]!.slug)}
        >Lesson 1: ${LESSONS[0]!.title}</a
      >
      <ul>
        ${ROOMS.filter(({ name }) => name !== 'start').map(
          ({ name, title, description }) =>
            html`<li>
              <a href=${context.link({ room: name, why: 0, shown: subjects })}>${title}</a>
              ${description}
            </li>`,
        )}
      </ul>`,
    place,
  );
}

/**
 * Builds each step when the reader reaches it, or ahead. What needs further runs is measured for reached steps only.
 * @param takeawaysPlace the element after the last step
 * @returns a function that returns what these steps request
 */
export function createStory(
  places: readonly HTMLElement[],
  takeawaysPlace: HTMLElement,
  { reachedSteps, isAhead }: Drawn,
  inputs: StoryInputs,
): (frame: Frame | undefined, state: State) => Needs {
  const { context, scope, currentEntries } = inputs;
  const steps = signal<ReadonlyMap<number, Step>>(new Map());
  scope.effect(() => {
    const builtSteps = steps.peek();
    // Above the window a step that grows would move what the reader sees.
    const below = isAhead.value
      ? AHEAD.filter((i) => places[i]!.getBoundingClientRect().bottom >= 0)
      : [];
    const drawnSteps = new Set([...reachedSteps.value, ...below]);
    const indices = [...drawnSteps].filter((i) => !builtSteps.has(i));
    if (!indices.length) return;
    const newSteps = indices.map((i): [number, Step] => {
      const isReached = () => reachedSteps.value.has(i);
      return [i, STEPS[i]!(places[i]!, { ...inputs, isReached })];
    });
    // A step sets signals of its own, which must not happen inside this effect.
    queueMicrotask(() => (steps.value = new Map([...steps.peek(), ...newSteps])));
  });
  scope.effect(() => {
    const entries = currentEntries();
    void [context.state.value, context.theme.value];
    for (const [i, step] of steps.value) {
      step.draw(entries);
      const heading = places[i]!.parentElement!.querySelector<HTMLElement>('.step-title')!;
      if (step.title) setText(heading, step.title(framesOf(entries)));
    }
  });
  scope.effect(() => drawTakeaways(takeawaysPlace, context, framesOf(currentEntries())));
  return (frame, state) => {
    const needs = [...steps.value].map(([i, step]): Partial<Needs> => {
      const { studies = [], ...reads } = step.needs?.(frame, state) ?? {};
      return reachedSteps.value.has(i) ? { ...reads, studies } : reads;
    });
    return {
      views: needs.flatMap(({ views = [] }) => views),
      more: needs.flatMap(({ more = [] }) => more),
      subjects: needs.flatMap(({ subjects = [] }) => subjects),
      heads: Object.assign({}, ...needs.map(({ heads = {} }) => heads)) as Needs['heads'],
      studies: needs.flatMap(({ studies = [] }) => studies),
    };
  };
}
