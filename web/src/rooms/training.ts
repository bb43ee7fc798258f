/**
 * The room Training: one head of each of two models is followed through the stored checkpoints: the one that gives the
 * first token most in the end. A curve shows what it gives there, above a slider that plays once by itself; beside them
 * is its map at the step of the slider, with the map before training as an inset.
 */
import { signal } from '@preact/signals-core';
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
import { canCount, claimOf, hasSink } from '../claims';
import { isHeadNamed, modelHead, selectedHead, type Frame, type Head } from '../frame';
import { colorsOf } from '../timeline/course';
import { addMapLegend, attention, labelOf } from '../views/attention';
import { training } from '../views/training';
import { addElement, type DrawOptions } from '../page/view';
import {
  capitalize,
  countedOn,
  cutWords,
  firstName,
  formatPercent,
  headsWords,
  listWords,
  modelName,
  sinkDefinition,
  SPENDS_ALL,
  slotShare,
  startRole,
  startsSpecial,
  tooShortNote,
  verdictOf,
  wholePercent,
} from '../words';
import { countWords } from './compared';
import {
  drawTextCourses,
  appearanceOf,
  keepCheckpoints,
  firstOwnSink,
  type TextCourse,
} from './text_course';
import { openByPlaying } from './opening';
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

/**
 * Returns the room's heading: when heads with a sink appear in each model; a question until all checkpoints are
 * measured, and what is wanted of a text that is too short to tell.
 */
function headingOf(courses: readonly TextCourse[]): string {
  const frames = courses.flatMap(({ points }) => points.flatMap(({ frame }) => frame ?? []));
  const short = frames.map(shortWords).find(Boolean);
  if (short) return short;
  const models = new Map<string, string[]>();
  for (const course of courses) {
    const when = appearanceOf(course);
    if (!when) return QUESTION;
    models.set(when, [...(models.get(when) ?? []), inModel(course.points.at(-1)!.frame!)]);
  }
  if (!models.size) return QUESTION;
  // After a time, "never" needs no verb.
  const clauses = [...models]
    .toSorted(([a], [b]) => Number(a === 'never') - Number(b === 'never'))
    .map(([when, places], i) => {
      const verb = i ? when : when === 'never' ? 'never appear' : `appear ${when}`;
      return `${verb} ${listWords(places)}`;
    });
  return `Sinks ${clauses.join(', ')}`;
}

/** Says how many tokens a text needs for heads with a sink to be counted; empty if it has enough, or if none do. */
function shortWords(frame: Frame): string {
  const { conclusive, least } = verdictOf(frame);
  return conclusive || !Number.isFinite(least) || frame.recording
    ? ''
    : `Too short to tell: type at least ${least} tokens`;
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
  const scope = countedOn(frame).replace('on this text', 'here');
  return `${capitalize(scope)}, ${placeOf(frame)}, ${clauses.join(', ')}.`;
}

/** Which of the shown models is drawn beside the first one. */
const besideFirst = (at: number, shown: readonly unknown[]): number =>
  Math.min(Math.max(1, at), shown.length - 1);

/** Says what a sink is, and why a head of the first model has one, if the followed one has it in the end. */
function reasonWords(
  [frame]: readonly Frame[],
  headOf: (frame: Frame) => Head,
  state: State,
): string {
  if (!frame) return '';
  const { bias_key } = frame.architecture;
  const isSink = hasSink(frame, claimOf(frame, headOf(frame), state).attention);
  const [slot, name] = [slotShare(frame), firstName(frame)];
  if (Number.isFinite(slot) && !isSink)
    return `${capitalize(modelName({ title: titleOf(frame) }))} has an extra slot ∗ besides the tokens: ${headsWords(frame, slot)} give it over ${formatPercent(frame.eps, 0)}.`;
  // A short text shows no sink, and says nothing against one.
  const hasNone = canCount(frame) && !isSink;
  if (frame.operation.name !== 'softmax' || bias_key || hasNone) return sinkDefinition(frame);
  const role = startsSpecial(frame) ? `${name}, ${startRole(frame)},` : name;
  return `A sink: a head that gives ${role} over ${formatPercent(frame.eps, 0)} of its attention on average. ${SPENDS_ALL} A head that needs no other token can spend it there.`;
}

/** A map: that of a model at the step of the slider, or, in its corner, before training. */
interface MapCell {
  readonly entry: SubjectEntry;
  readonly row: number;
  readonly isNow: boolean;
}

const idOf = ({ subject }: SubjectEntry) => parseSubject(subject)?.id ?? subject;

/** Returns the maps of each model. */
function cellsOf(rows: readonly SubjectEntry[], courses: readonly TextCourse[]): MapCell[] {
  return rows.flatMap((entry, row): MapCell[] => {
    const start = courses.find(({ id }) => id === idOf(entry))?.points[0];
    const before = start && { subject: start.subject, frame: start.frame, isStale: false };
    // The few large cells of a short text leave the small map no room.
    const hasRoom = !start?.frame || canCount(start.frame);
    // Without a text the last good result stays as it is.
    const now = entry.error ? { ...entry, isStale: false } : entry;
    return [
      { entry: now, row, isNow: true },
      ...(before && hasRoom && before.subject !== now.subject
        ? [{ entry: before, row, isNow: false }]
        : []),
    ];
  });
}

/** Returns what is written above the map before training. */
function beforeRemark(frame: Frame, at: Head, state: State): DrawOptions['remark'] {
  const { attention } = claimOf(frame, at, state);
  const place = startsSpecial(frame) ? ` on ${firstName(frame)}` : '';
  return { kind: 'before', text: `at step 0: ${wholePercent(attention)}${place}` };
}

/** Returns the first words that a model writes after the text, up to bytes that are no text. */
function writingOf({ writes = '' }: Frame): string {
  const [words = ''] = writes.split('\uFFFD', 1);
  const line = words.replace(/[\s\p{C}]+/gu, ' ').trim();
  // The last word may lack its end.
  return line && `${line.replace(/ \S*$/, '')} …`;
}

/** Names a model and its step: "Softmax at step 400". */
const placeWords = (frame: Frame): string =>
  `${titleOf(frame).replace(/ model$/, '')} ${placeOf(frame)}`;

/** What the maps show. */
interface Maps {
  cells: readonly MapCell[];
  /** The colors of the models. */
  colors: readonly string[];
}

function mapsLook(maps: Maps, context: Context, headOf: (frame: Frame) => Head): FigureLook {
  return {
    ...{ isMain: true, isUnstamped: true, how: HOW, headOf },
    about: (frame, i) => {
      const { row } = maps.cells[i]!;
      const { layer, head } = modelHead(frame, headOf(frame));
      const place = `layer ${layer}, head ${head}`;
      return {
        title: placeWords(frame),
        text: html` <span class="hint"
          >${isHeadNamed(context.state.peek()) ? place : `strongest after training: ${place}`}</span
        >`,
        color: maps.colors[row]!,
      };
    },
    arrange: ({ style, classList }, i) => {
      const { entry, row, isNow } = maps.cells[i]!;
      style.setProperty('--at', String(row + 1));
      classList.toggle('shown', isNow);
      classList.toggle('before', !isNow);
      classList.toggle('absent', !entry.frame);
    },
    extra: (frame, i) => {
      const { entry, isNow } = maps.cells[i]!;
      const [at, state] = [headOf(frame), context.state.peek()];
      // A map of another head has no remark: it is measured again.
      const isOwn = frame.head?.layer === at.layer && frame.head.head === at.head;
      const label = isNow ? labelOf(frame, at, state, true) : beforeRemark(frame, at, state);
      return { isPlain: true, remark: isOwn && !entry.isStale ? label : undefined };
    },
  };
}

const HOW =
  'Each map is of one head: a row is a token, and its cells are how much it attends to each token before it. ' +
  'The number is what the first token gets, as a mean of all rows. The small map is of the same head before training. ' +
  'Point at a cell, or use the arrow keys, to read its weight.';

/** Adds the maps; returns a function that draws them. */
function addMaps(
  root: HTMLElement,
  context: Context,
  scope: Scope,
  headOf: (frame: Frame) => Head,
) {
  const place = addElement(root, 'maps');
  const maps: Maps = { cells: [], colors: [] };
  /** The last entry of each place, which stays until a new frame is measured. */
  const lastEntries = new Map<string, SubjectEntry>();
  // The embedded figure shows the chosen step.
  const embed: Context['embed'] = (view, own, pinned) =>
    context.embed(view, own, { ...pinned, shown: context.state.peek().shown });
  const look = mapsLook(maps, context, headOf);
  const figure = new Figure(place, attention, { ...context, embed }, scope, look);
  const drawLegend = addMapLegend(addElement(place, 'map-legend'));
  return (rows: readonly SubjectEntry[], courses: readonly TextCourse[]) => {
    maps.colors = colorsOf(rows.map((entry) => ({ model: { id: idOf(entry) } })));
    maps.cells = cellsOf(rows, courses).map((cell): MapCell => {
      const key = `${idOf(cell.entry)} ${cell.row} ${cell.isNow}`;
      if (cell.entry.frame) lastEntries.set(key, cell.entry);
      const last = lastEntries.get(key);
      return last && last !== cell.entry ? { ...cell, entry: { ...last, isStale: true } } : cell;
    });
    place.style.setProperty('--maps', String(rows.length));
    figure.update(maps.cells.map(({ entry }) => entry));
    const [state, theme] = [context.state.peek(), context.theme.peek()];
    drawLegend({ frames: framesOf(rows), state, theme });
  };
}

/** Draws the room's heading, why there is a sink, the text, and the choice of one of several models. */
function headTemplate(
  words: Record<'heading' | 'reason', string>,
  entries: readonly SubjectEntry[],
  context: Context,
) {
  const state = context.state.value;
  const hasText = allows(state, 'text') && !entries.some(({ frame }) => frame?.recording);
  const [cut] = framesOf(entries);
  return html`<h1>${words.heading}</h1>
    <p class="lead">${explainTerms(words.reason, true)}</p>
    <div class="text-place">${hasText ? textField(context, 1) : nothing}</div>
    ${cut?.dropped ? html`<p class="hint" data-token-note>${cutWords(cut)}.</p>` : nothing}
    ${tokenNoteLines(framesOf(entries))} ${troubleNotes(entries, context)}
    ${modelChoice(entries, context)}`;
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

/** Counts the heads with a sink, and says what comes next. */
function countTemplate(
  words: { readonly finding: string; readonly isPlaying: boolean },
  frames: readonly Frame[],
  context: Context,
  onFold: (isOpen: boolean) => void,
) {
  const { link, pickModels } = context;
  const state = context.state.value;
  const models = html`<button type="button" class="add" @click=${pickModels}>Other models</button>`;
  const toggle = ({ currentTarget }: Event) => onFold((currentTarget as HTMLDetailsElement).open);
  return html`<p class="finding" ?hidden=${!allows(state, 'finding')}>
      <span data-finding role="status" aria-live=${words.isPlaying ? 'off' : 'polite'}
        >${words.finding}</span
      >
    </p>
    <p class="next">→ <a href=${link({ room: 'purpose' })}>Are sinks bad?</a></p>
    <details class="more" @toggle=${toggle}>
      <summary>More</summary>
      ${frames.map((frame) => {
        const line = writingOf(frame);
        return line
          ? html`<p class="writing">
              ${placeWords(frame)} writes next: <span class="text-strip">${line}</span>
            </p>`
          : nothing;
      })}
      <p class="after">
        <a href=${link({ room: 'explore', view: 'training' })}>Other runs</a>
        ${allows(state, 'subjects') ? models : nothing}
      </p>
    </details>`;
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
function requestAll(
  context: Context,
  scope: Scope,
  followed: (subject: string) => Head | undefined,
  nextSubjects: () => readonly string[],
  isOpen: () => boolean,
): void {
  requestFrames(context, scope, ({ shown }) => {
    const ahead = nextSubjects();
    const subjects = [...new Set([...trainedSubjects(shown), ...shown, ...ahead])];
    const heads = subjects.flatMap((subject) => {
      const head = followed(subject);
      return head ? [[subject, head] as const] : [];
    });
    return {
      ...{ views: [attention, training], ahead, subjects, heads: Object.fromEntries(heads) },
      ...(isOpen() ? { writes: WRITTEN } : {}),
      more: MORE,
    };
  });
}

const MORE = [
  ...['alpha', 'alpha_raw', 'sink_ratio', 'sink_ratio_raw', 'alpha_uniform', 'row_mass_summary'],
  ...['att_bias', 'sink_ratio_bias'],
];

/** For how many milliseconds the play shows a checkpoint, and one at which a followed head gets its sink. */
const [STAY_MS, PAUSE_MS] = [450, 2000];

/** Returns the head that is followed in a subject's model: the one that gives the first token most in the end. */
const followHeads = (context: Context) => (subject: string) => {
  const [entry] = entriesOf(context, trainedSubjects([subject]));
  return entry?.frame && selectedHead(entry.frame, context.state.value);
};

export function build(root: HTMLElement, page: Context, scope: Scope): void {
  const { context, play } = openByPlaying(page, scope, () => (isAtSink() ? PAUSE_MS : STAY_MS));
  const followed = followHeads(context);
  const headOf = (frame: Frame): Head =>
    followed(frame.subject) ?? selectedHead(frame, context.state.value);
  const kept = keepCheckpoints(context, scope, headOf);
  const isAtSink = () =>
    kept.courses().some((course) => {
      const first = firstOwnSink(course)?.subject;
      return first !== undefined && context.state.value.shown.includes(first);
    });
  const headingPlace = addElement(root, 'room-head');
  const chartPlace = addElement(root, 'chart');
  const walkPlace = addElement(root, 'walk-place');
  const goToStep = addTrainingSlider(walkPlace, context, scope, undefined, play, kept.hasCourses);
  const updateAverages = addAverages(root, context, scope, goToStep);
  const countPlace = addElement(root, 'counts');
  const drawMaps = addMaps(root, context, scope, headOf);
  // A model that the reader adds is drawn at once.
  let known = context.state.peek().shown.length;
  scope.effect(() => {
    const { length } = context.state.value.shown;
    if (length > known && length > 2) context.set({ at: length - 1 });
    known = length;
  });
  const isFoldOpen = signal(false);
  const nextSubjects = () => (play.isPlaying.value ? play.next.value : kept.next());
  requestAll(context, scope, followed, nextSubjects, () => isFoldOpen.value);
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
      reason.words = reasonWords(framesOf(trained), headOf, state);
    const rows = entries.filter((_, i) => i === 0 || i === besideFirst(at, entries));
    const drawnCourses = courses.filter(({ id }) => rows.some((entry) => idOf(entry) === id));
    const heading = headingOf(drawnCourses);
    render(headTemplate({ heading, reason: reason.words }, latest, context), headingPlace);
    const counts = {
      finding: isLoading ? 'Loading the models …' : numbersSentence(current),
      isPlaying,
    };
    const onFold = (isOpen: boolean) => (isFoldOpen.value = isOpen);
    render(countTemplate(counts, current, context, onFold), countPlace);
    root.classList.toggle('pending', isPending && !isPlaying);
    // The place of a chart that is to come is kept, so that nothing below it moves.
    chartPlace.hidden = !kept.hasCourses();
    updateAverages(!kept.hasCourses());
    if (courses.length) {
      const shownStep = (current[0] && stepOf(current[0])) ?? courses[0]!.points.at(-1)!.step;
      drawTextCourses(chartPlace, courses, { shownStep, isPlaying, onChoose: goToStep });
    }
    drawMaps(rows, courses);
  });
}
