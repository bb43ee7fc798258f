/**
 * The room Training: the number of heads with a sink at each stored checkpoint, as curves, and below them a slider
 * through the checkpoints, which plays once by itself; beside them the map of the strongest head of each of two models,
 * before training and at the step of the slider.
 */
import { html, nothing, render } from 'lit';
import {
  allows,
  segmentedControl,
  textField,
  tokenNoteLines,
  troubleNotes,
} from '../page/controls';
import { explainTerms } from '../page/terms';
import {
  hideUntilDrawn,
  requestFrames,
  framesOf,
  entriesOf,
  type Context,
  type Scope,
  type SubjectEntry,
} from '../page/context';
import { Figure, type FigureLook } from '../page/figure';
import { checkpointOf } from '../ask/steps';
import type { State } from '../ask/state';
import { parseSubject } from '../ask/subject';
import { savesData } from '../base';
import { canCount, claimOf, hasSink } from '../claims';
import {
  firstKey,
  isCommonToken,
  isHeadNamed,
  modelHead,
  selectedHead,
  type Frame,
} from '../frame';
import { colorsOf } from '../timeline/course';
import { addMapLegend, attention } from '../views/attention';
import { training } from '../views/training';
import { addElement, type DrawOptions } from '../page/view';
import {
  capitalize,
  countedOn,
  firstName,
  listWords,
  modelName,
  mustSpendWords,
  sinkDefinition,
  tooShortNote,
  verdictOf,
  wholePercent,
} from '../words';
import { countWords } from './compared';
import {
  COUNTING,
  drawTextCourses,
  keepCheckpoints,
  learnedOn,
  type TextCourse,
} from './text_course';
import { openByPlaying } from './opening';
import { areTwins } from './start_words';
import { addTrainingSlider, trainedSubjects } from './walk';
import './panes.css';
import './training.css';

/** How many tokens each model writes after the text. */
const WRITTEN = 12;

/** Returns the step of a frame's checkpoint; undefined after training. */
const stepOf = ({ model }: Frame): number | undefined =>
  model.step?.step ?? checkpointOf(model.id)?.step;

/** Names a step of training; undefined is its end. */
function placeAt(step: number | undefined): string {
  if (step === undefined) return 'after training';
  return step ? `at step ${step.toLocaleString('en')}` : 'before training';
}

const placeOf = (frame: Frame): string => placeAt(stepOf(frame));

/** Returns a model's title without its step. */
const titleOf = ({ model }: Frame): string => model.title.replace(/ at step .*/, '');

/** Names a model by its attention rule if its title does: "softmax"; otherwise by its title. */
function shortName(frame: Frame): string {
  const name = modelName({ title: titleOf(frame) });
  const { operation } = frame;
  return name === `the ${operation.name} model` ? operation.name : name;
}

function inModel(frame: Frame): string {
  const name = shortName(frame);
  return `${name === frame.operation.name ? 'with' : 'in'} ${name}`;
}

const QUESTION = 'When does the sink appear?';

/** Returns the room's heading: a question, and, once all is counted, when heads of the shown models had a sink on the text. */
export function headingOf(courses: readonly TextCourse[]): string {
  const namesByAnswer = new Map<string, string[]>();
  for (const course of courses) {
    const { outcome, first } = learnedOn(course);
    if (!outcome) return QUESTION;
    const [step, last] = [first, course.points.at(-1)].map((point) =>
      point?.step.toLocaleString('en'),
    );
    const answer = outcome === 'learned' ? `by step ${step} of ${last}` : outcome;
    const names = namesByAnswer.get(answer) ?? [];
    namesByAnswer.set(answer, [...names, shortName(course.points[0]!.frame!)]);
  }
  const answers = [...namesByAnswer].map(([answer, names]) =>
    courses.length > 1 ? `${answer} (${listWords(names)})` : answer,
  );
  return answers.length ? `${QUESTION} Here ${answers.join('; ')}.` : QUESTION;
}

/** States how many heads of each model have a sink at its step, on the text. */
export function numbersSentence(frames: readonly Frame[]): string {
  const [frame] = frames;
  if (!frame) return '';
  const short = frames.find((one) => !verdictOf(one).conclusive);
  if (short) return tooShortNote(short);
  const clauses = frames.map((one, i) => {
    const count = countWords(one);
    return `${i ? count : `${count.replace('none', 'no')} heads have a sink`} ${inModel(one)}`;
  });
  return `${capitalize(placeOf(frame))}, ${countedOn(frame)}, ${clauses.join(', ')}.`;
}

/** Which of the shown models is drawn beside the first one. */
const besideFirst = (at: number, shown: readonly unknown[]): number =>
  Math.min(Math.max(1, at), shown.length - 1);

/** Says why a softmax model makes a sink, if it has one in the end and its twin has none; otherwise what a sink is. */
function reasonWords(frames: readonly Frame[], state: State): string {
  const [frame, other] = frames;
  if (!frame || !canCount(frame)) return '';
  const isSink = (one: Frame) => claimOf(one, selectedHead(one, state), state).attention > one.eps;
  return other && areTwins(frame, other) && isSink(frame) && !isSink(other)
    ? `Why? ${mustSpendWords(frame)} Sigmoid weighs each token by its own score.`
    : sinkDefinition(frame);
}

/** A map: that of a model before training, or at the step of the slider. */
interface MapCell {
  readonly entry: SubjectEntry;
  readonly row: number;
  readonly isNow: boolean;
}

const idOf = ({ subject }: SubjectEntry) => parseSubject(subject)?.id ?? subject;

/** Returns the maps of each model, a row each. */
function cellsOf(rows: readonly SubjectEntry[], courses: readonly TextCourse[]): MapCell[] {
  return rows.flatMap((entry, row): MapCell[] => {
    const start = courses.find(({ id }) => id === idOf(entry))?.points[0];
    const before = start && { subject: start.subject, frame: start.frame, isStale: false };
    // Without a text the last good result stays as it is.
    const now = entry.error ? { ...entry, isStale: false } : entry;
    return [
      ...(before ? [{ entry: before, row, isNow: false }] : []),
      { entry: now, row, isNow: true },
    ];
  });
}

/** Returns what is written in a map: how much attention its first column gets, and what uniform attention would give. */
function columnRemark(frame: Frame, state: State): DrawOptions['remark'] {
  const { column, attention, uniform } = claimOf(frame, selectedHead(frame, state), state);
  if (!column || !isCommonToken(frame, firstKey(frame))) return undefined;
  const isSink = hasSink(frame, attention);
  const baseline = frame.operation.normalizes ? ` (uniform: ${wholePercent(uniform)})` : '';
  return {
    kind: isSink ? 'sink' : 'none',
    text: `◀ ${wholePercent(attention)} on ${firstName(frame)}${isSink ? ': a sink' : baseline}`,
  };
}

/** Returns the first words that a model writes after the text, up to bytes that are no text. */
function writingOf({ writes = '' }: Frame, isStale: boolean) {
  const [words = ''] = writes.split('\uFFFD', 1);
  const line = words.replace(/[\s\p{C}]+/gu, ' ').trim();
  // The last word may lack its end.
  const whole = line && `${line.replace(/ \S*$/, '')} …`;
  return html`<span class="writing"
    >${whole ? html`writes: <span class="text-strip" title=${line}>${isStale ? '…' : whole}</span>` : nothing}</span
  >`;
}

/** Names the head of a map, and in the first row says why it is shown. */
function headHint(frame: Frame, row: number, state: State) {
  const { layer, head } = modelHead(frame, selectedHead(frame, state));
  const why = row || isHeadNamed(state) ? '' : 'strongest: ';
  return html`<span class="hint"
    ><span class="reason">${why}</span>layer ${layer}, head ${head}</span
  >`;
}

/** Names a map's model and step; beside its map before training the step alone. */
function mapTitle(frame: Frame, isBeside: boolean): string {
  const place = placeOf(frame);
  return isBeside
    ? capitalize(place.replace(/^at /, ''))
    : `${titleOf(frame).replace(/ model$/, '')} ${place}`;
}

/** What the maps show. */
interface Maps {
  cells: readonly MapCell[];
  /** The colors of the rows. */
  colors: readonly string[];
}

function mapsLook(maps: Maps, context: Context): FigureLook {
  return {
    ...{ isMain: true, isUnstamped: true, how: HOW },
    about: (frame, i) => {
      const { row, entry, isNow } = maps.cells[i]!;
      const isBeside = isNow && maps.cells[i - 1]?.row === row;
      return {
        title: mapTitle(frame, isBeside),
        text: html`${writingOf(frame, entry.isStale)} ${headHint(frame, row, context.state.peek())}`,
        color: maps.colors[row]!,
      };
    },
    arrange: ({ style, classList }, i) => {
      const { entry, row, isNow } = maps.cells[i]!;
      style.gridRow = String(row + 1);
      classList.toggle('shown', isNow);
      classList.toggle('absent', !entry.frame);
    },
    extra: (frame, i) => ({
      isPlain: true,
      remark: maps.cells[i]!.entry.isStale ? undefined : columnRemark(frame, context.state.peek()),
    }),
  };
}

const HOW =
  'Each map is of one head: a row is a token, and its cells are how much it attends to each token before it. ' +
  'The number is what the first token gets, as a mean of all rows. ' +
  'Point at a cell, or use the arrow keys, to read its weight.';

/** Adds the maps; returns a function that draws them. */
function addMaps(root: HTMLElement, context: Context, scope: Scope) {
  const place = addElement(root, 'maps');
  const places = addElement(place, 'places');
  const maps: Maps = { cells: [], colors: [] };
  /** The last entry of each place, which stays until a new frame is measured. */
  const lastEntries = new Map<string, SubjectEntry>();
  // The embedded figure shows the chosen step.
  const embed: Context['embed'] = (view, own, pinned) =>
    context.embed(view, own, { ...pinned, shown: context.state.peek().shown });
  const look = mapsLook(maps, context);
  const figure = new Figure(place, attention, { ...context, embed }, scope, look);
  const drawLegend = addMapLegend(addElement(place, 'map-legend'));
  return (rows: readonly SubjectEntry[], courses: readonly TextCourse[], hasCourses: boolean) => {
    maps.colors = colorsOf(rows.map((entry) => ({ model: { id: idOf(entry) } })));
    maps.cells = cellsOf(rows, courses).map((cell): MapCell => {
      const key = `${idOf(cell.entry)} ${cell.row} ${cell.isNow}`;
      if (cell.entry.frame) lastEntries.set(key, cell.entry);
      const last = lastEntries.get(key);
      return last && last !== cell.entry ? { ...cell, entry: { ...last, isStale: true } } : cell;
    });
    place.style.setProperty('--rows', String(rows.length));
    place.classList.toggle('single', !hasCourses);
    figure.update(maps.cells.map(({ entry }) => entry));
    const [state, theme] = [context.state.peek(), context.theme.peek()];
    drawLegend({ frames: framesOf(rows), state, theme });
    const missing = rows.flatMap((_, row) => {
      const before = maps.cells.find((cell) => cell.row === row && !cell.isNow);
      if (!hasCourses || before?.entry.frame) return [];
      const words = !before
        ? 'No checkpoints of this model are stored: its end alone is shown.'
        : savesData()
          ? 'Before training: not measured, to save data'
          : COUNTING;
      return html`<p style="grid-row: ${row + 1}"><span class="box">${words}</span></p>`;
    });
    render(missing, places);
  };
}

/** Draws the room's heading, the text, and the choice of one of several models. */
function headTemplate(
  words: Record<'heading' | 'finding', string> & { readonly isDrawn: boolean },
  entries: readonly SubjectEntry[],
  context: Context,
  isPlaying: boolean,
) {
  const state = context.state.value;
  const hasText = allows(state, 'text') && !entries.some(({ frame }) => frame?.recording);
  return html`<h1>${words.heading}</h1>
    <div class="text-place">${hasText ? textField(context, 1) : nothing}</div>
    ${tokenNoteLines(framesOf(entries))} ${troubleNotes(entries, context)}
    ${modelChoice(entries, context)}
    <p class="finding" ?hidden=${!allows(state, 'finding')}>
      <strong
        class=${words.isDrawn ? 'unseen' : nothing}
        data-finding
        role="status"
        aria-live=${isPlaying ? 'off' : 'polite'}
        >${words.finding}</strong
      >
    </p>`;
}

/** Returns the choice of the model that is drawn beside the first if there are several. */
function modelChoice(entries: readonly SubjectEntry[], { state, set }: Context) {
  const { at } = state.value;
  if (!allows(state.value, 'subjects') || entries.length < 3) return nothing;
  const names = entries.map(
    ({ subject, frame }, i) => [i, frame ? titleOf(frame) : subject] as const,
  );
  const choose = (next: number) => set({ at: next });
  return html`<div class="model-choice">
    ${segmentedControl('Beside the first', names.slice(1), besideFirst(at, names), choose)}
  </div>`;
}

/** Says why there is a sink, and what comes next. */
function whyTemplate(reason: string, context: Context) {
  const { link, state, pickModels } = context;
  const models = html`<button type="button" class="add" @click=${pickModels}>Other models</button>`;
  const [, why = '', rest = ''] = /^(Why\? )?(.*)$/s.exec(reason) ?? [];
  return html`<p class="lead"><strong>${why}</strong>${explainTerms(rest)}</p>
    <p class="after">
      <a href=${link({ room: 'purpose' })}>Is a sink bad?</a>
      <a href=${link({ room: 'explore', view: 'training' })}>Other runs</a>
      ${allows(state.value, 'subjects') ? models : nothing}
    </p>`;
}

/** Adds averages over other texts: all that is known of checkpoints of a hub and of series of recordings. */
function addAverages(
  root: HTMLElement,
  context: Context,
  scope: Scope,
  goToStep: (step: number) => void,
) {
  const place = addElement(root, 'averages');
  const figure = new Figure(place, training, context, scope, { isUnstamped: true });
  place.addEventListener('choose-step', (event) => goToStep((event as CustomEvent<number>).detail));
  return (isShown: boolean) => {
    place.hidden = !isShown;
    if (isShown) figure.update(entriesOf(context, context.state.value.shown));
  };
}

/**
 * Requests the models at their step and in the end, and the next checkpoints: of the play, which measures each before it
 * shows it and to which nothing else may take its time, or else those that are not measured yet.
 */
function requestAll(context: Context, scope: Scope, nextSubjects: () => readonly string[]): void {
  requestFrames(context, scope, ({ shown }) => {
    const ahead = nextSubjects();
    return {
      ...{ views: [attention, training], writes: WRITTEN, ahead },
      subjects: [...new Set([...trainedSubjects(shown), ...shown, ...ahead])],
      more: ['alpha', 'alpha_raw', 'sink_ratio', 'sink_ratio_raw', 'alpha_uniform'],
    };
  });
}

export function build(root: HTMLElement, page: Context, scope: Scope): void {
  const { context, play } = openByPlaying(page, scope);
  const headingPlace = addElement(root, 'room-head');
  const chartPlace = addElement(root, 'chart');
  const walkPlace = addElement(root, 'walk-place');
  const goToStep = addTrainingSlider(walkPlace, context, scope, undefined, play);
  const kept = keepCheckpoints(context, scope);
  const updateAverages = addAverages(root, context, scope, goToStep);
  const whyPlace = addElement(root, 'why');
  const drawMaps = addMaps(root, context, scope);
  // A model that the reader adds is drawn at once.
  let known = context.state.peek().shown.length;
  scope.effect(() => {
    const { length } = context.state.value.shown;
    if (length > known && length > 2) context.set({ at: length - 1 });
    known = length;
  });
  requestAll(context, scope, () => (play.isPlaying.value ? play.next.value : kept.next()));
  const shownEntries = () => entriesOf(context, context.state.value.shown);
  const trainedEntries = () => entriesOf(context, trainedSubjects(context.state.value.shown));
  hideUntilDrawn(root, scope, () => [...trainedEntries(), ...shownEntries()]);
  /** The entries drawn last, and the models that they are of: all stays while a checkpoint loads. */
  let drawn: { readonly models: string; readonly entries: readonly SubjectEntry[] } | undefined;

  let reason = { models: '', words: '' };

  scope.effect(() => {
    const state = context.state.value;
    const { shown, at } = state;
    void context.theme.value;
    const isPlaying = play.isPlaying.value;
    const models = trainedSubjects(shown).join();
    const latest = shownEntries();
    const isPending = latest.some(({ frame, error }) => !frame && !error);
    if (drawn?.models !== models || !isPending) drawn = { models, entries: latest };
    const { entries } = drawn;
    const current = framesOf(entries.filter(({ isStale }) => !isStale));
    const courses = kept.courses();
    const trained = trainedEntries();
    const isLoading = entries.some(({ frame, error }) => !frame && !error);
    if (reason.models !== models) reason = { models, words: '' };
    if (trained.every(({ frame, error }) => frame ?? error))
      reason.words = reasonWords(framesOf(trained), state);
    const words = {
      heading: headingOf(courses),
      finding: isLoading ? 'Loading the models …' : numbersSentence(current),
      // The curves and the maps show it.
      isDrawn: kept.hasCourses() && reason.words !== '' && current.every(canCount),
    };
    render(headTemplate(words, latest, context, isPlaying), headingPlace);
    // The sentence about the models may change, and comes last: nothing moves.
    render(whyTemplate(reason.words, context), whyPlace);
    root.classList.toggle('pending', isPending && !isPlaying);
    // The place of a chart that is to come is kept, so that nothing below it moves.
    chartPlace.hidden = !kept.hasCourses();
    updateAverages(!kept.hasCourses());
    if (courses.length) {
      const shownStep = (current[0] && stepOf(current[0])) ?? courses[0]!.points.at(-1)!.step;
      drawTextCourses(chartPlace, courses, { shownStep, isPlaying, onChoose: goToStep });
    }
    const rows = entries.filter((_, i) => i === 0 || i === besideFirst(at, entries));
    drawMaps(rows, courses, kept.hasCourses());
  });
}
