/**
 * The room Training: the number of heads with a sink at each stored checkpoint, as curves; below them a strip of maps of
 * one head of each of two models at a few checkpoints, with a slider through all of them, which plays once by itself.
 */
import { signal } from '@preact/signals-core';
import { html, nothing, render, svg, type TemplateResult } from 'lit';
import {
  allows,
  segmentedControl,
  textField,
  tokenNoteLines,
  troubleNotes,
} from '../page/controls';
import { explainTerms } from '../page/terms';
import {
  cardOf,
  hideUntilDrawn,
  requestFrames,
  framesOf,
  entriesOf,
  type Context,
  type Scope,
  type SubjectEntry,
} from '../page/context';
import { Figure, type FigureLook } from '../page/figure';
import { checkpointOf, nearestStep } from '../ask/steps';
import { parseSubject } from '../ask/subject';
import { canCount, claimOf, hasSink } from '../claims';
import {
  lossOf,
  firstKey,
  isCommonToken,
  isHeadNamed,
  modelHead,
  selectedHead,
  type Frame,
  type Head,
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
import { countFigures, countWords } from './compared';
import {
  columnSteps,
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
/** The numbers of columns of the strip on a wide screen, and on a narrow one. */
const [WIDE_COLUMNS, NARROW_COLUMNS] = [5, 3];

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
    const { outcome, marks } = learnedOn(course);
    if (!outcome) return QUESTION;
    const [step, last] = [marks[0]?.point, course.points.at(-1)].map((point) =>
      point?.step.toLocaleString('en'),
    );
    const answer = outcome === 'learned' ? `by step ${step} of ${last}` : outcome;
    const names = namesByAnswer.get(answer) ?? [];
    namesByAnswer.set(answer, [...names, shortName(course.points[0]!.frame!)]);
  }
  const answers = [...namesByAnswer].map(([answer, names]) =>
    courses.length > 1 ? `${answer} (${listWords(names)})` : answer,
  );
  return answers.length ? `${QUESTION} ${capitalize(answers.join('; '))}.` : QUESTION;
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

/** Returns functions about the shown models: their heads, which are those that give the first token most in the end. */
function chooseHeads(context: Context) {
  const trainedEntries = () => entriesOf(context, trainedSubjects(context.state.value.shown));
  /** The selected head, or else the one that gives the first token most after training. */
  const pinnedHead = (subject: string): Head | undefined => {
    const [trained] = entriesOf(context, trainedSubjects([subject]));
    const { frame, isStale } = trained!;
    return frame && !isStale ? selectedHead(frame, context.state.value) : undefined;
  };
  const headOf = (frame: Frame): Head =>
    pinnedHead(frame.subject) ?? frame.head ?? selectedHead(frame, context.state.peek());
  const claimAt = (frame: Frame) => claimOf(frame, headOf(frame), context.state.peek());
  return { trainedEntries, pinnedHead, headOf, claimAt };
}

type Chosen = ReturnType<typeof chooseHeads>;

/** Returns what is written in a map: how much attention its first column gets at this step. */
function columnRemark(frame: Frame, { claimAt }: Chosen): DrawOptions['remark'] {
  const { column, attention } = claimAt(frame);
  if (!column || !isCommonToken(frame, firstKey(frame))) return undefined;
  const isSink = hasSink(frame, attention);
  return {
    kind: isSink ? 'sink' : 'none',
    text: `◀ ${isSink ? 'sink: ' : ''}${wholePercent(attention)}`,
  };
}

/** A loss that falls by this many nats on the text is called learning. */
const LEARNED_NATS = 1;

/** Says where the models are from if all were trained here, and whether two of them learn; otherwise ''. */
function modelsWords(
  frames: readonly Frame[],
  courses: readonly TextCourse[],
  context: Context,
): string {
  if (!frames.every((frame) => cardOf(frame, context))) return '';
  const learn = courses.filter(
    ({ points }) => lossOf(points[0]!.frame) - lossOf(points.at(-1)!.frame) >= LEARNED_NATS,
  );
  if (frames.length === 2 && learn.length === 2)
    return ' Both learn to write from children’s books.';
  return ' Trained here on children’s books.';
}

/** Says why a softmax model makes a sink, if it has one in the end and its twin has none; otherwise what a sink is. */
function reasonWords(frames: readonly Frame[], { claimAt }: Chosen): string {
  const [frame, other] = frames;
  if (!frame || !canCount(frame)) return '';
  const isSink = (one: Frame) => claimAt(one).attention > one.eps;
  return other && areTwins(frame, other) && isSink(frame) && !isSink(other)
    ? `${mustSpendWords(frame, '')} Sigmoid weighs each token by its own score.`
    : sinkDefinition(frame);
}

/** A map of the strip: that of the chosen step in one column of each row, in the others those of their own steps. */
interface StripCell {
  readonly entry: SubjectEntry;
  readonly row: number;
  readonly column: number;
  readonly isShown: boolean;
}

/** Returns the cells of a model. A column's range ends at its own step. */
function rowOf(
  entry: SubjectEntry,
  row: number,
  columns: readonly number[],
  points: TextCourse['points'] = [],
): StripCell[] {
  const { id = '', step = checkpointOf(id)?.step ?? Infinity } = parseSubject(entry.subject) ?? {};
  const range = columns.findIndex((own) => own >= step);
  const shownColumn = range < 0 ? columns.length - 1 : range;
  return columns.flatMap((own, column): StripCell[] => {
    // Without a text the last good result stays as it is.
    const shownEntry = entry.error ? { ...entry, isStale: false } : entry;
    if (column === shownColumn) return [{ entry: shownEntry, row, column, isShown: true }];
    if (!points.length) return [];
    const stored = nearestStep(
      points.map((point) => point.step),
      own,
    );
    const { subject, frame } = points.find((point) => point.step === stored)!;
    return [{ entry: { subject, frame, isStale: false }, row, column, isShown: false }];
  });
}

/** Returns the steps of the strip's columns, among them those at which sinks were learned. */
function columnsOf(courses: readonly TextCourse[], count: number): readonly number[] {
  const [learned] = courses.map(learnedOn).filter(({ outcome }) => outcome === 'learned');
  const steps = courses[0]?.points.map(({ step }) => step) ?? [];
  const learnedSteps = (learned?.marks ?? []).map(({ point }) => point.step).reverse();
  const marks = [steps[0]!, steps.at(-1)!, ...learnedSteps];
  const stored = marks.filter((mark) => steps.includes(mark));
  return steps.length ? columnSteps(steps, stored, count) : [Infinity];
}

/** What the strip shows. */
interface Strip {
  cells: readonly StripCell[];
  /** The steps of the columns. */
  columns: readonly number[];
  /** The colors of the rows. */
  colors: readonly string[];
}

/** Writes over a map how many of its model's heads have a sink at this step, and the first token below its column. */
function headsPicture(frame: Frame, isSink: boolean, isStale: boolean): TemplateResult {
  const [sinks = '', heads] = canCount(frame) ? countFigures(frame).split(' of ') : [];
  // Where others have a sink and the drawn head has none, that is said. A small map has the numbers alone.
  const isOther = !isSink && sinks !== '0';
  const more = (words: string) => svg`<tspan class="unit"> ${words}</tspan>`;
  const count = svg`${sinks}${isOther ? more(`other${sinks === '1' ? '' : 's'}`) : nothing} of ${heads}${isOther ? nothing : more('heads')}`;
  const first = isCommonToken(frame, firstKey(frame)) ? firstName(frame) : '';
  return html`<svg class="heads" overflow="visible">
    <text class="count" x="100%" dx="-4" y="36">
      ${isStale ? COUNTING : heads ? count : nothing}
    </text>
    <text class="first" x="0" y="100%" dy="12">${first}</text>
  </svg>`;
}

/** What a model writes after the text, on one line; nothing where that is not known. */
function writingOf({ writes }: Frame, isStale: boolean) {
  if (writes === undefined) return nothing;
  const words = writes.replace(/[\s\p{C}]+/gu, ' ').trim();
  // The last word may lack its end.
  const whole = words ? `${words.replace(/ \S*$/, '')} …` : '(nothing visible)';
  return html`<span class="text-strip writing" title=${words}>${isStale ? '…' : whole}</span>`;
}

/** Returns how a strip is drawn: each map with its step and the number of its sinks, and the last of a row with the model's name. */
function stripLook(strip: Strip, context: Context, chosen: Chosen): FigureLook {
  const rowName = (frame: Frame, row: number) => {
    const { layer, head } = modelHead(frame, chosen.headOf(frame));
    const why = row || isHeadNamed(context.state.peek()) ? '' : 'strongest: ';
    return html`<span class="row-name" style="--row: ${row}"
      ><b>${titleOf(frame)}</b> ${frame.writes === undefined ? nothing : html`<i>writes</i>`}
      <span class="hint">${explainTerms(`${why}layer ${layer}, head ${head}`, true)}</span></span
    >`;
  };
  return {
    ...{ isMain: true, isUnstamped: true, headOf: chosen.headOf },
    about: (frame, i) => {
      const { row, column, entry } = strip.cells[i]!;
      const isLast = strip.cells.every((cell) => cell.column <= column);
      const isSink = hasSink(frame, chosen.claimAt(frame).attention);
      return {
        title: row ? '' : headingAt(placeOf(frame)),
        text: html`${isLast ? rowName(frame, row) : nothing} ${writingOf(frame, entry.isStale)}
        ${headsPicture(frame, isSink, entry.isStale)}`,
        color: strip.colors[row]!,
      };
    },
    arrange: ({ style, classList }, i) => {
      const { entry, row, column, isShown } = strip.cells[i]!;
      style.gridArea = `${row + 1} / ${column + 1}`;
      classList.toggle('shown', isShown);
      classList.toggle('absent', !entry.frame);
    },
    extra: (frame, i) => ({
      isPlain: true,
      remark: strip.cells[i]!.entry.isStale ? undefined : columnRemark(frame, chosen),
    }),
  };
}

const headingAt = (place: string) => capitalize(place.replace(/^at /, ''));

/** Draws the frame around the chosen step, and the places of maps that are not there: each with its step, or that a model has no checkpoints. */
function drawPlaces(
  root: HTMLElement,
  { cells, columns }: Strip,
  rows: readonly SubjectEntry[],
  { hasCourse, waiting }: { hasCourse: (entry: SubjectEntry) => boolean; waiting: string },
): void {
  const shown = cells.filter(({ isShown }) => isShown);
  const framed = shown.filter(({ column }) => column === shown[0]!.column);
  const places = rows.flatMap((entry, row) => {
    const own = cells.filter((cell) => cell.row === row && cell.entry.frame);
    const isEndOnly = own.length > 0 && columns.length > 1 && !hasCourse(entry);
    return [
      ...columns.map((step, column) => {
        if (own.some((cell) => cell.column === column)) return nothing;
        const place = column < columns.length - 1 ? placeAt(step) : 'after training';
        const heading = row || Number.isNaN(step) ? '' : headingAt(place);
        return html`<p style="grid-area: ${row + 1} / ${column + 1}">
          <strong>${heading}</strong><span class="box">${isEndOnly ? '' : waiting}</span>
        </p>`;
      }),
      isEndOnly
        ? html`<p class="end-only" style="grid-area: ${row + 1} / 1 / auto / ${columns.length}">
            No checkpoints of this model are stored: its end alone is shown.
          </p>`
        : nothing,
    ];
  });
  // A frame for each column: one that moved would count as a shift of the layout.
  const frames = columns.map(
    (_, column) =>
      html`<div
        class="frame"
        ?hidden=${columns.length === 1 || column !== framed[0]?.column}
        style="grid-area: 1 / ${column + 1} / span ${framed.length || 1}"
      ></div>`,
  );
  render([...places, ...frames], root);
}

/** Adds the strip; returns a function that draws it. */
function addStrip(root: HTMLElement, context: Context, scope: Scope, chosen: Chosen) {
  const place = addElement(root, 'strip');
  const places = addElement(place, 'places');
  const strip: Strip = { cells: [], columns: [], colors: [] };
  /** The last entry of each place, which stays until a new frame is measured. */
  const lastEntries = new Map<string, SubjectEntry>();
  // The embedded figure shows the chosen step.
  const embed: Context['embed'] = (view, own, pinned) =>
    context.embed(view, own, { ...pinned, shown: context.state.peek().shown });
  const look = stripLook(strip, context, chosen);
  const figure = new Figure(place, attention, { ...context, embed }, scope, look);
  return (
    entries: readonly SubjectEntry[],
    courses: readonly TextCourse[],
    count: number,
    areListed: boolean,
    isPlaying: boolean,
  ) => {
    const idOf = ({ subject }: SubjectEntry) => parseSubject(subject)?.id ?? subject;
    const courseOf = (entry: SubjectEntry) => courses.find(({ id }) => id === idOf(entry));
    // The first row has the names of the columns.
    const rows = [...entries].sort((a, b) => Number(!courseOf(a)) - Number(!courseOf(b)));
    // The columns are known with the lists of checkpoints; until then there are their places.
    strip.columns = areListed
      ? columnsOf(courses, count)
      : Array.from({ length: count }, () => NaN);
    strip.colors = colorsOf(rows.map((entry) => ({ model: { id: idOf(entry) } })));
    const cells = rows.flatMap((entry, row) => {
      return rowOf(entry, row, strip.columns, courseOf(entry)?.points).map((cell): StripCell => {
        const key = [idOf(entry), row, cell.column, strip.columns.length].join();
        if (cell.entry.frame) lastEntries.set(key, cell.entry);
        const last = lastEntries.get(key);
        return last && last !== cell.entry ? { ...cell, entry: { ...last, isStale: true } } : cell;
      });
    });
    strip.cells = areListed ? cells : [];
    place.style.setProperty('--columns', String(strip.columns.length));
    place.style.setProperty('--rows', String(rows.length));
    place.classList.toggle('single', strip.columns.length === 1);
    figure.update(strip.cells.map(({ entry }) => entry));
    const hasCourse = (entry: SubjectEntry) =>
      courseOf(entry) !== undefined || checkpointOf(idOf(entry)) !== undefined;
    drawPlaces(places, strip, rows, { hasCourse, waiting: isPlaying ? 'not yet' : COUNTING });
  };
}

/** Draws the room's heading, the text, the choice of models, and what the models are. */
function headTemplate(
  words: Record<'heading' | 'reason' | 'finding', string> & { readonly isDrawn: boolean },
  entries: readonly SubjectEntry[],
  context: Context,
  isPlaying: boolean,
) {
  const state = context.state.value;
  const hasText = allows(state, 'text') && !entries.some(({ frame }) => frame?.recording);
  return html`<h1>${words.heading}</h1>
    <div class="text-place">
      ${hasText ? textField(context, 1) : nothing}
      <div class="model-choice">${modelChoice(entries, context)}</div>
    </div>
    ${tokenNoteLines(framesOf(entries))} ${troubleNotes(entries, context)}
    <div class="words">
      <p class="lead">${explainTerms(words.reason)}</p>
      <p>
        <strong
          class=${words.isDrawn ? 'unseen' : nothing}
          data-finding
          role="status"
          aria-live=${isPlaying ? 'off' : 'polite'}
          ?hidden=${!allows(state, 'finding')}
          >${words.finding}</strong
        >
      </p>
    </div>`;
}

/** Returns the choice of the models, and of the one that is drawn beside the first if there are several. */
function modelChoice(entries: readonly SubjectEntry[], context: Context) {
  const { state, set, pickModels } = context;
  const { at } = state.value;
  if (!allows(state.value, 'subjects')) return nothing;
  const names = entries.map(
    ({ subject, frame }, i) =>
      [i, frame ? titleOf(frame) : subject, frame && cardOf(frame, context)?.what] as const,
  );
  const chosen = besideFirst(at, names);
  return html`${names.length > 2 ? segmentedControl('Beside the first', names.slice(1), chosen, (next) => set({ at: next })) : nothing}
    <button type="button" class="add" @click=${pickModels}>Choose models</button>`;
}

/** Adds the legend of the maps, and what comes next. */
function addFoot(root: HTMLElement, context: Context) {
  const legend = addElement(root, 'map-legend');
  const drawLegend = addMapLegend(legend);
  const nextPlace = addElement(legend, 'after', 'p');
  return (frames: readonly Frame[]) => {
    const [state, theme] = [context.state.peek(), context.theme.peek()];
    drawLegend({ frames, state, theme });
    render(
      html`<a href=${context.link({ room: 'purpose' })}>Does it matter?</a>
        <a href=${context.link({ room: 'lab' })}>Train one yourself</a>`,
      nextPlace,
    );
  };
}

/** Adds the averages over other texts, with further runs, which are all that is known of checkpoints of a hub. */
function addOtherRuns(
  root: HTMLElement,
  context: Context,
  scope: Scope,
  goToStep: (step: number) => void,
) {
  const place = addElement(root, 'other-runs');
  const question = 'Do other runs have a sink, too?';
  const figure = new Figure(place, training, context, scope, { isUnstamped: true, question });
  place.addEventListener('choose-step', (event) => goToStep((event as CustomEvent<number>).detail));
  return () => figure.update(entriesOf(context, context.state.value.shown));
}

/** Whether the window is wide, as the style sheet counts it. */
function followWidth(scope: Scope) {
  const query = matchMedia('(width >= 820px)');
  const isWide = signal(query.matches);
  const follow = () => (isWide.value = query.matches);
  query.addEventListener('change', follow);
  scope.onEnd(() => query.removeEventListener('change', follow));
  return isWide;
}

/**
 * Requests the models at their step and in the end, and the next checkpoints: of the play, which measures each before it
 * shows it and to which nothing else may take its time, or else those that are not measured yet.
 */
function requestAll(
  context: Context,
  scope: Scope,
  { pinnedHead }: Chosen,
  nextSubjects: () => readonly string[],
): void {
  requestFrames(context, scope, ({ shown }) => {
    const ahead = nextSubjects();
    const subjects = [...new Set([...trainedSubjects(shown), ...shown, ...ahead])];
    const heads = subjects.flatMap((subject) => {
      const at = pinnedHead(subject);
      return at ? [[subject, at] as const] : [];
    });
    return {
      ...{
        views: [attention, training],
        writes: WRITTEN,
        subjects,
        ahead,
        heads: Object.fromEntries(heads),
      },
      more: ['alpha', 'alpha_raw', 'sink_ratio', 'sink_ratio_raw', 'alpha_uniform', 'loss_mean'],
    };
  });
}

export function build(root: HTMLElement, page: Context, scope: Scope): void {
  const { context, play } = openByPlaying(page, scope);
  const headingPlace = addElement(root, 'room-head');
  const chartPlace = addElement(root, 'chart');
  const walkPlace = addElement(root, 'walk-place');
  const goToStep = addTrainingSlider(walkPlace, context, scope, undefined, play);
  const chosen = chooseHeads(context);
  const kept = keepCheckpoints(context, scope, chosen.pinnedHead);
  const drawStrip = addStrip(root, context, scope, chosen);
  const drawFoot = addFoot(root, context);
  const updateOtherRuns = addOtherRuns(root, context, scope, goToStep);
  const isWide = followWidth(scope);
  // A model that the reader adds is drawn at once.
  let known = context.state.peek().shown.length;
  scope.effect(() => {
    const { length } = context.state.value.shown;
    if (length > known && length > 2) context.set({ at: length - 1 });
    known = length;
  });
  requestAll(context, scope, chosen, () => (play.isPlaying.value ? play.next.value : kept.next()));
  const shownEntries = () => entriesOf(context, context.state.value.shown);
  hideUntilDrawn(root, scope, () => [...chosen.trainedEntries(), ...shownEntries()]);
  /** The entries drawn last, and the models that they are of: all stays while a checkpoint loads. */
  let drawn: { readonly models: string; readonly entries: readonly SubjectEntry[] } | undefined;

  let reason = { models: '', words: '' };

  scope.effect(() => {
    const { shown, at } = context.state.value;
    void context.theme.value;
    const isPlaying = play.isPlaying.value;
    const models = trainedSubjects(shown).join();
    const latest = shownEntries();
    const isPending = latest.some(({ frame, error }) => !frame && !error);
    if (drawn?.models !== models || !isPending) drawn = { models, entries: latest };
    const { entries } = drawn;
    const current = framesOf(entries.filter(({ isStale }) => !isStale));
    const courses = kept.courses();
    const trained = chosen.trainedEntries();
    const isLoading = entries.some(({ frame, error }) => !frame && !error);
    if (reason.models !== models) reason = { models, words: '' };
    if (trained.every(({ frame, error }) => frame ?? error))
      reason.words = reasonWords(framesOf(trained), chosen);
    const words = {
      heading: headingOf(courses),
      // What is said of the models may change, and comes last: nothing moves.
      reason: `${reason.words}${modelsWords(framesOf(trained), courses, context)}`,
      finding: isLoading ? 'Loading the models …' : numbersSentence(current),
      // The curves and the strip show it.
      isDrawn: kept.hasCourses() && reason.words !== '' && current.every(canCount),
    };
    render(headTemplate(words, latest, context, isPlaying), headingPlace);
    root.classList.toggle('pending', isPending && !isPlaying);
    // The place of a chart that is to come is kept, so that nothing below it moves.
    chartPlace.hidden = !kept.hasCourses();
    if (courses.length) {
      const cursor = (current[0] && stepOf(current[0])) ?? courses[0]!.points.at(-1)!.step;
      const onChoose = (step: number) => goToStep(Math.max(0, step));
      drawTextCourses(chartPlace, courses, { cursor, isPlaying, onChoose });
    }
    const rows = entries.filter((_, i) => i === 0 || i === besideFirst(at, entries));
    drawStrip(
      rows,
      courses,
      isWide.value ? WIDE_COLUMNS : NARROW_COLUMNS,
      kept.areListed(),
      isPlaying,
    );
    drawFoot(framesOf(entries));
    updateOtherRuns();
  });
}
