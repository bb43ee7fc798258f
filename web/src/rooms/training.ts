/**
 * The room Training: the number of heads with a sink at each stored checkpoint, as curves; below them a strip of maps of
 * one head of each of two models at a few checkpoints, with a slider through all of them, which plays once by itself.
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
import { addElement, addFold, type DrawOptions } from '../page/view';
import {
  capitalize,
  countedOn,
  firstName,
  formatReal,
  listWords,
  modelName,
  mustSpendWords,
  sinkDefinition,
  SIGMOID_WEIGHS,
  tooShortNote,
  verdictOf,
  wholePercent,
} from '../words';
import { countFigures, countWords } from './compared';
import {
  columnSteps,
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

/** The numbers of columns of the strip on a wide screen, and on a narrow one. */
const [WIDE_COLUMNS, NARROW_COLUMNS] = [5, 3];

/** Returns the step of a frame's checkpoint; undefined after training. */
const stepOf = ({ model }: Frame): number | undefined =>
  model.step?.step ?? checkpointOf(model.id)?.step;

/** Names the point of training that a frame shows. */
function placeOf(frame: Frame): string {
  const step = stepOf(frame);
  if (step === undefined) return 'after training';
  return step ? `at step ${step.toLocaleString('en')}` : 'before training';
}

/** Returns a model's title without its step. */
const titleOf = ({ model }: Frame): string => model.title.replace(/ at step .*/, '');

/** Names a model by its attention rule if its title does: "with softmax"; otherwise by its title. */
function inModel(frame: Frame): string {
  const name = modelName({ title: titleOf(frame) });
  const { operation } = frame;
  return name === `the ${operation.name} model` ? `with ${operation.name}` : `in ${name}`;
}

/** Returns the room's heading: when heads of the shown models had a sink on the text; a question until that is counted. */
export function headingOf(courses: readonly TextCourse[]): string {
  const known = courses.flatMap((course) => {
    const found = learnedOn(course);
    return found ? [{ ...found, place: inModel(course.points[0]!.frame!) }] : [];
  });
  const isWhole = known.length > 0 && known.length === courses.length;
  const [one, ...more] = known.filter(({ learned }) => learned);
  const never = known.filter(({ isNever }) => isNever).map(({ place }) => place);
  if (!isWhole || (!one && never.length < known.length)) return 'When does the sink appear?';
  if (!one)
    return `${capitalize(countedOn(courses[0]!.points[0]!.frame!))}, no head has a sink at any stored step.`;
  const { first, half } = one.learned!;
  const stepText = ({ step }: { readonly step: number }) => step.toLocaleString('en');
  // Where one model has a sink, the first one, the others are named as those that never have it.
  const name = one === known[0] && !more.length ? '' : ` ${one.place}`;
  const others = more
    .map(({ place, learned }) => `, ${stepText(learned!.first)} ${place}`)
    .join('');
  const halfClause =
    half === first || others ? '' : `, in ${countWords(half.frame!)} heads by ${stepText(half)}`;
  const neverClause = never.length ? `; ${listWords(never, 'or')} never` : '';
  return `The sink is learned${others ? '' : name}: here first at step ${stepText(first)}${others && name}${others}${halfClause}${neverClause}.`;
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
  // The name of a token of an encoder would cover a map.
  if (!column || !isCommonToken(frame, firstKey(frame)) || frame.queries) return undefined;
  const kind = attention > frame.eps && verdictOf(frame).conclusive ? 'sink' : 'none';
  return { kind, text: `◀ ${firstName(frame)} ${wholePercent(attention)}` };
}

/** Says why a softmax model makes a sink, if it has one in the end and its twin has none; otherwise what a sink is. */
function reasonWords(frames: readonly Frame[], { claimAt }: Chosen): string {
  const [frame, other] = frames;
  if (!frame) return '';
  const isSink = (one: Frame) => claimAt(one).attention > one.eps;
  if (!other || !areTwins(frame, other) || !isSink(frame) || isSink(other))
    return sinkDefinition(frame);
  return `${mustSpendWords(frame, '')} ${SIGMOID_WEIGHS}`;
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
    if (column === shownColumn) return [{ entry, row, column, isShown: true }];
    if (!points.length) return [];
    const stored = nearestStep(
      points.map((point) => point.step),
      own,
    );
    const { subject, frame } = points.find((point) => point.step === stored)!;
    return [{ entry: { subject, frame, isStale: false }, row, column, isShown: false }];
  });
}

/** Returns the steps of the strip's columns, and notes on those at which sinks were learned. */
function columnsOf(courses: readonly TextCourse[], count: number) {
  const [learned] = courses.flatMap((course) => learnedOn(course)?.learned ?? []);
  const steps = courses[0]?.points.map(({ step }) => step) ?? [];
  const notes = new Map(
    (learned?.marks ?? []).map(({ point, text }) => [point.step, text.replace(/ of .*/, '')]),
  );
  const marks = [steps[0]!, steps.at(-1)!, ...[...notes.keys()].reverse()];
  const stored = marks.filter((mark) => steps.includes(mark));
  return { columns: steps.length ? columnSteps(steps, stored, count) : [Infinity], notes };
}

/** What the strip shows. */
interface Strip {
  cells: readonly StripCell[];
  notes: ReadonlyMap<number, string>;
  /** The colors of the rows. */
  colors: readonly string[];
}

/** Returns how a strip is drawn: each map with its step and its numbers, and the last of a row with the model's name. */
function stripLook(strip: Strip, context: Context, chosen: Chosen): FigureLook {
  const headingAt = (frame: Frame) => {
    const note = strip.notes.get(stepOf(frame) ?? -1);
    return `${capitalize(placeOf(frame).replace(/^at /, ''))}${note ? `: ${note}` : ''}`;
  };
  const rowName = (frame: Frame, row: number) => {
    const { layer, head } = modelHead(frame, chosen.headOf(frame));
    const why = row || isHeadNamed(context.state.peek()) ? '' : 'strongest after training: ';
    return html`<span class="row-name" style="--row: ${row}"
      ><b>${titleOf(frame)}</b>
      <span class="hint">${explainTerms(`${why}layer ${layer}, head ${head}`, true)}</span></span
    >`;
  };
  return {
    ...{ isMain: true, isUnstamped: true, headOf: chosen.headOf },
    about: (frame, i) => {
      const { row, column } = strip.cells[i]!;
      const count = countFigures(frame);
      const loss = frame.tensors.loss_mean?.data[0] ?? NaN;
      const { attention } = chosen.claimAt(frame);
      const isOther = verdictOf(frame).sink > 0 && !hasSink(frame, attention);
      const isLast = strip.cells.every((cell) => cell.column <= column);
      return {
        title: row ? '' : headingAt(frame),
        text: html`${canCount(frame) ? html`<span>${count}${isOther ? ' elsewhere' : column ? '' : ' heads'}</span>` : nothing}
        ${Number.isFinite(loss) ? html`<span class="hint">loss ${formatReal(loss)}</span>` : nothing}
        ${isLast ? rowName(frame, row) : nothing}`,
        color: strip.colors[row]!,
      };
    },
    arrange: ({ style, classList }, i) => {
      const { row, column, isShown } = strip.cells[i]!;
      style.gridArea = `${row + 1} / ${column + 1}`;
      classList.toggle('shown', isShown);
    },
    extra: (frame) => ({ isPlain: true, remark: columnRemark(frame, chosen) }),
  };
}

/** Adds the strip; returns a function that draws it. */
function addStrip(root: HTMLElement, context: Context, scope: Scope, chosen: Chosen) {
  const place = addElement(root, 'strip');
  const strip: Strip = { cells: [], notes: new Map(), colors: [] };
  /** The last entry of each place, which stays until a new frame is measured. */
  const lastEntries = new Map<string, SubjectEntry>();
  // The embedded figure shows the chosen step.
  const embed: Context['embed'] = (view, own, pinned) =>
    context.embed(view, own, { ...pinned, shown: context.state.peek().shown });
  const look = stripLook(strip, context, chosen);
  const figure = new Figure(place, attention, { ...context, embed }, scope, look);
  return (rows: readonly SubjectEntry[], courses: readonly TextCourse[], count: number) => {
    const { columns, notes } = columnsOf(courses, count);
    const idOf = ({ subject }: SubjectEntry) => parseSubject(subject)?.id ?? subject;
    strip.notes = notes;
    strip.colors = colorsOf(rows.map((entry) => ({ model: { id: idOf(entry) } })));
    strip.cells = rows.flatMap((entry, row) => {
      const points = courses.find(({ id }) => id === idOf(entry))?.points;
      return rowOf(entry, row, columns, points).map((cell): StripCell => {
        const key = [idOf(entry), row, cell.column, columns.length].join();
        if (cell.entry.frame) lastEntries.set(key, cell.entry);
        const last = lastEntries.get(key);
        return last && last !== cell.entry ? { ...cell, entry: { ...last, isStale: true } } : cell;
      });
    });
    place.style.setProperty('--columns', String(columns.length));
    place.classList.toggle('single', columns.length === 1);
    figure.update(strip.cells.map(({ entry }) => entry));
  };
}

function headTemplate(
  words: Record<'heading' | 'reason' | 'finding', string> & { readonly isDrawn: boolean },
  entries: readonly SubjectEntry[],
  context: Context,
  isPlaying: boolean,
) {
  return html`<h1>${words.heading}</h1>
    ${troubleNotes(entries, context)}
    <div class="words">
      <p class="lead">${explainTerms(words.reason)}</p>
      <p>
        <strong
          class=${words.isDrawn ? 'unseen' : nothing}
          data-finding
          role="status"
          aria-live=${isPlaying ? 'off' : 'polite'}
          ?hidden=${!allows(context.state.value, 'finding')}
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

/** Adds the legend of the maps, the choice of models, the text and what comes next. */
function addFoot(root: HTMLElement, context: Context) {
  const legend = addElement(root, 'map-legend');
  const drawLegend = addMapLegend(legend);
  const textPlace = addElement(legend, 'text-place');
  const choicePlace = addElement(legend, 'model-choice');
  const nextPlace = addElement(root, '');
  return (entries: readonly SubjectEntry[]) => {
    const [state, theme] = [context.state.peek(), context.theme.peek()];
    const frames = framesOf(entries);
    drawLegend({ frames, state, theme });
    render(modelChoice(entries, context), choicePlace);
    const hasText = allows(state, 'text') && !frames.some(({ recording }) => recording);
    render(hasText ? textField(context, 2) : nothing, textPlace);
    render(
      html`${tokenNoteLines(frames)}
        <p class="next">
          → <a href=${context.link({ room: 'purpose' })}>Does it matter?</a>
          <a href=${context.link({ room: 'lab' })}>Train one yourself</a>
        </p>`,
      nextPlace,
    );
  };
}

/** Adds a closed section with the averages over other texts and runs, which only it has of checkpoints of a hub. */
function addOtherRuns(
  root: HTMLElement,
  context: Context,
  scope: Scope,
  goToStep: (step: number) => void,
) {
  let isOpened = false;
  const fold = addFold(root, 'Other texts and runs');
  const figure = new Figure(fold, training, context, scope, {
    ...{ isUnstamped: true, isEager: true },
  });
  const update = () => {
    if (fold.open) figure.update(entriesOf(context, context.state.value.shown));
  };
  fold.addEventListener('toggle', update);
  fold.addEventListener('choose-step', (event) => goToStep((event as CustomEvent<number>).detail));
  return (hasCourses: boolean) => {
    if (!hasCourses && !isOpened) isOpened = fold.open = true;
    update();
  };
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
      ...{ views: [attention, training], subjects, ahead, heads: Object.fromEntries(heads) },
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
    const isLoading = !entries.some(({ frame, error }) => frame ?? error);
    const reason = reasonWords(framesOf(chosen.trainedEntries()), chosen);
    const words = {
      ...{ heading: headingOf(courses), reason },
      finding: isLoading ? 'Loading the models …' : numbersSentence(current),
      // The curves and the strip show it.
      isDrawn: courses.length > 0 && reason !== '' && current.every(canCount),
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
    // The columns are known with the lists of checkpoints.
    if (kept.areListed()) drawStrip(rows, courses, isWide.value ? WIDE_COLUMNS : NARROW_COLUMNS);
    drawFoot(entries);
    updateOtherRuns(kept.hasCourses() || isLoading);
  });
}
