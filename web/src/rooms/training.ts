/**
 * The room Training: a head of each of two models at a step of their training, with all heads in the unused corner of
 * its map; a slider through the stored checkpoints, which plays once by itself; the number of heads with a sink at each.
 */
import { html, nothing, render } from 'lit';
import { allows, segmentedControl, textField, troubleNotes } from '../page/controls';
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
import { Figure } from '../page/figure';
import { claimOf } from '../claims';
import {
  firstKey,
  isBidirectional,
  isCommonToken,
  selectedHead,
  type Frame,
  type Head,
} from '../frame';
import type { Study } from '../run/request';
import { attention } from '../views/attention';
import { sinks } from '../views/sinks';
import { areCoursesSettled, colorOf, emergenceOf, loadCourses, training } from '../views/training';
import { addElement, addFold } from '../page/view';
import {
  capitalize,
  countedOn,
  firstName,
  listWords,
  modelName,
  mustSpendWords,
  sinkDefinition,
  SIGMOID_WEIGHS,
  sumWords,
  tooShortNote,
  verdictOf,
  wholePercent,
} from '../words';
import { addCardLegend, cardLooks, nameHeads } from './cards';
import { countWords } from './compared';
import { countThroughTraining, drawTextCourses, learnedWords } from './text_course';
import { openByPlaying } from './opening';
import { areTwins } from './start_words';
import { addTrainingSlider, trainedSubjects } from './walk';
import './panes.css';
import './training.css';

/** Names the point of training that a frame shows. */
const placeOf = ({ model: { step } }: Frame): string =>
  !step
    ? 'after training'
    : step.step
      ? `at step ${step.step.toLocaleString('en')}`
      : 'before training';

/** Returns a model's title without its step. */
const titleOf = ({ model }: Frame): string => model.title.replace(/ at step .*/, '');

/** Names a model by its attention rule if its title does: "with softmax"; otherwise by its title. */
function inModel(frame: Frame): string {
  const name = modelName({ title: titleOf(frame) });
  const { operation } = frame;
  return name === `the ${operation.name} model` ? `with ${operation.name}` : `in ${name}`;
}

/**
 * Returns the room's heading: what the courses of the shown models say of the sink. The courses are averages; a model
 * whose heads have a sink on the text after training is not said to have none.
 */
function headingOf(frames: readonly Frame[], trained: readonly Frame[]): string {
  const courses = frames.flatMap((frame) => {
    const emergence = emergenceOf(frame);
    return emergence ? [{ place: inModel(frame), ...emergence }] : [];
  });
  const learned = courses.filter(({ isNone }) => !isNone);
  if (!courses.length) return 'Training';
  if (!learned.length) return 'No sink appears in these training runs.';
  if (learned.some(({ from }) => from > 0)) return 'Training';
  const isClear = (place: string) =>
    trained.every((frame) => inModel(frame) !== place || !(verdictOf(frame).sink > 0));
  const others = courses.filter(({ isNone, place }) => isNone && isClear(place));
  const listOf = (list: typeof courses, word: 'and' | 'or') =>
    listWords(
      list.map(({ place }) => place),
      word,
    );
  return `The sink is learned: ${listOf(learned, 'and')}${others.length ? `, not ${listOf(others, 'or')}` : ''}.`;
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
    pinnedHead(frame.subject) ?? selectedHead(frame, context.state.peek());
  const claimAt = (frame: Frame) => claimOf(frame, headOf(frame), context.state.peek());
  /** The first subject and the chosen one, or else the second, as they are now. */
  const currentSubjects = (): string[] => {
    const { shown, at } = context.state.value;
    return [...new Set([shown[0]!, shown[besideFirst(at, shown)]!])];
  };
  return { trainedEntries, pinnedHead, headOf, claimAt, currentSubjects };
}

type Chosen = ReturnType<typeof chooseHeads>;

/** Attention differs from an even spread by less than this where the map says that it is one. */
const EVEN = 0.03;
/** Attention of more than this part of the threshold is almost a sink. */
const ALMOST = 0.8;

/** Returns what is written in a map: how strong its first column is at this step. */
function columnRemark(frame: Frame, { claimAt }: Chosen) {
  const { column, attention, uniform, isShare, rowSum } = claimAt(frame);
  if (!column || !isCommonToken(frame, firstKey(frame)) || frame.queries) return undefined;
  if (!verdictOf(frame).conclusive) return undefined;
  if (attention > frame.eps)
    return { kind: 'sink', text: `◀ attention sink: ${wholePercent(attention)}` };
  const share = `${wholePercent(attention)} on ${firstName(frame)}`;
  if (!isShare)
    return { kind: 'none', text: `no strong column; rows sum to ${sumWords(rowSum)} on average` };
  const isEven = Math.abs(attention - uniform) < EVEN && !isBidirectional(frame);
  return {
    kind: 'none',
    text: isEven
      ? `${share}: about an even share (early rows see few)`
      : `${attention > ALMOST * frame.eps ? 'almost a sink' : 'no strong column'}: ${share}`,
  };
}

/** Says why a softmax model makes a sink, if it has one in the end and its twin has none; otherwise what a sink is. */
function reasonWords(frames: readonly Frame[], { claimAt }: Chosen): string {
  const [frame, other] = frames;
  if (!frame) return '';
  const isSink = (one: Frame) => claimAt(one).attention > one.eps;
  if (!other || !areTwins(frame, other) || !isSink(frame) || isSink(other))
    return sinkDefinition(frame);
  return `${mustSpendWords(frame, ', the start token, which every row sees')} ${SIGMOID_WEIGHS}`;
}

function headTemplate(
  {
    entries,
    frames,
    current,
    trained,
    reason,
  }: {
    entries: readonly SubjectEntry[];
    frames: readonly Frame[];
    current: readonly Frame[];
    trained: readonly Frame[];
    reason: string;
  },
  context: Context,
  isPlaying: boolean,
) {
  const isLoading = !frames.length && !entries.some(({ error }) => error);
  return html`<h1>${headingOf(frames, trained)}</h1>
    ${troubleNotes(entries, context)}
    <p class="lead">${explainTerms(reason)}</p>
    <p class="counts">
      <strong
        data-finding
        role="status"
        aria-live=${isPlaying ? 'off' : 'polite'}
        ?hidden=${!allows(context.state.value, 'finding')}
        >${isLoading ? 'Loading the models …' : numbersSentence(current)}</strong
      >
    </p>`;
}

/** Says when the sink was learned, and what to do next. */
const nextTemplate = ({ link }: Context, when: string) =>
  html`<p class="why">${when}</p>
    <p class="next">
      → <a href=${link({ room: 'purpose' })}>Does it matter?</a>
      <a href=${link({ room: 'lab' })}>Train one yourself</a>
    </p>`;

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

/** Draws the counts on the text through training; a closed section has the averages over other texts and runs. */
function addCurves(
  places: { root: HTMLElement; chartPlace: HTMLElement; goToStep: (step: number) => void },
  context: Context,
  scope: Scope,
  isPlaying: () => boolean,
) {
  const { root, chartPlace, goToStep } = places;
  const counts = countThroughTraining(context, scope);
  let isFoldOpened = false;
  const fold = addFold(root, 'Other texts and runs');
  const curvesFigure = new Figure(fold, training, context, scope, { isUnstamped: true });
  const update = () => {
    if (fold.open) curvesFigure.update(entriesOf(context, context.state.value.shown));
  };
  fold.addEventListener('toggle', update);
  fold.addEventListener('choose-step', (event) => goToStep((event as CustomEvent<number>).detail));
  scope.effect(() => {
    const courses = counts.courses();
    const [frame] = framesOf(entriesOf(context, context.state.value.shown));
    // The place of a chart that is to come is kept, so that nothing beside it moves.
    chartPlace.hidden = !counts.hasCourses();
    // Checkpoints of a hub, and recordings, have the other chart alone.
    if (!counts.hasCourses() && frame && !isFoldOpened) isFoldOpened = fold.open = true;
    if (courses.length && frame)
      drawTextCourses(chartPlace, courses, {
        cursor: frame.model.step?.step ?? courses[0]!.points.at(-1)!.step,
        onChoose: (step) => goToStep(Math.max(0, step)),
        isPlaying: isPlaying(),
      });
  });
  // While the play counts each checkpoint that it shows, nothing else may take its time.
  return {
    studies: () => (isPlaying() ? [] : counts.studies()),
    update,
    when: () => learnedWords(counts.courses()),
  };
}

/** Adds the map of a head of each model with all its heads; returns a function that draws them. */
function addPictures(root: HTMLElement, context: Context, scope: Scope, chosen: Chosen) {
  const grid = addElement(root, 'training-grid');
  const cards = addElement(grid, 'pictures insets');
  const headWords = nameHeads(context);
  const looks = cardLooks(
    (frame) => ({
      title: titleOf(frame),
      hint: headWords(frame, chosen.headOf(frame)).replace(
        /^strongest head( now)?/,
        frame.model.step ? 'strongest head in the end' : '$&',
      ),
      color: colorOf(frame),
    }),
    chosen.headOf,
    (frame) => columnRemark(frame, chosen),
  );
  const mapsFigure = new Figure(cards, attention, context, scope, {
    ...looks.map,
    isMain: true,
  });
  const headsFigure = new Figure(cards, sinks, context, scope, {
    ...looks.heads,
    about: (frame, i) => {
      const about = looks.heads.about!(frame, i);
      const name = titleOf(frame).replace(/ model$/, '');
      return { ...about, title: about.title ? `${name}: ${about.title}` : name };
    },
  });
  return (entries: readonly SubjectEntry[]) => {
    mapsFigure.update(entries);
    headsFigure.update(entries);
    // Where rows see later tokens the corner of a map is in use.
    const isFilled = (frame: Frame) => isBidirectional(frame) || frame.queries !== undefined;
    grid.classList.toggle('filled', framesOf(entries).some(isFilled));
  };
}

/** Requests the models at their step and in the end, the next checkpoint of the play, and the courses. */
function requestAll(
  context: Context,
  scope: Scope,
  {
    chosen: { pinnedHead },
    next,
    studies,
  }: { chosen: Chosen; next: () => readonly string[]; studies: () => readonly Study[] },
): void {
  requestFrames(context, scope, ({ shown }) => {
    const subjects = [...new Set([...trainedSubjects(shown), ...shown, ...next()])];
    const heads = subjects.flatMap((subject) => {
      const at = pinnedHead(subject);
      return at ? [[subject, at] as const] : [];
    });
    return {
      views: [attention, sinks, training],
      more: ['alpha', 'alpha_raw', 'sink_ratio', 'sink_ratio_raw', 'alpha_uniform'],
      subjects,
      ahead: next(),
      heads: Object.fromEntries(heads),
      studies: studies(),
    };
  });
  // The heading follows the courses. Their chart, which may lie below the window, reports why they cannot be loaded.
  scope.effect(() => {
    const models = context.engine.value?.models;
    if (models)
      void loadCourses(
        () => models.timelines(),
        () => {},
      );
  });
}

export function build(root: HTMLElement, page: Context, scope: Scope): void {
  const { context, play } = openByPlaying(page, scope);
  const headingPlace = addElement(root, 'room-head');
  const walkPlace = addElement(root, 'walk-place');
  const goToStep = addTrainingSlider(walkPlace, context, scope, undefined, play);
  const chosen = chooseHeads(context);
  const { trainedEntries, currentSubjects } = chosen;
  const drawPictures = addPictures(root, context, scope, chosen);
  const acts = addElement(root, 'acts');
  const chartPlace = addElement(acts, 'chart');
  const side = addElement(acts, 'text-place');
  const legend = addElement(side, 'training-legend');
  const updateLegend = addCardLegend(legend, context);
  const choicePlace = addElement(legend, 'model-choice');
  const textPlace = addElement(side, '');
  const isPlaying = () => play.isPlaying.value;
  const curves = addCurves({ root, chartPlace, goToStep }, context, scope, isPlaying);
  // A model that the reader adds is drawn at once.
  let known = context.state.peek().shown.length;
  scope.effect(() => {
    const { length } = context.state.value.shown;
    if (length > known && length > 2) context.set({ at: length - 1 });
    known = length;
  });
  /** The entries drawn last, and the models that they are of: all stays while a checkpoint loads. */
  let drawn: { readonly models: string; readonly entries: readonly SubjectEntry[] } | undefined;

  requestAll(context, scope, { chosen, next: () => play.next.value, studies: curves.studies });
  const shownEntries = () => entriesOf(context, context.state.value.shown);
  hideUntilDrawn(
    root,
    scope,
    () => [...trainedEntries(), ...shownEntries()],
    () => areCoursesSettled.value,
  );

  scope.effect(() => {
    const state = context.state.value;
    void context.theme.value;
    const models = trainedSubjects(state.shown).join();
    const latest = shownEntries();
    const isPending = latest.some(({ frame, error }) => !frame && !error);
    if (drawn?.models !== models || !isPending) drawn = { models, entries: latest };
    const { entries } = drawn;
    const frames = framesOf(entries);
    const fresh = framesOf(entries.filter(({ isStale }) => !isStale));
    const trained = framesOf(trainedEntries());
    const reason = reasonWords(trained, chosen);
    const shown = { entries: latest, frames, current: fresh, trained, reason };
    render(headTemplate(shown, context, isPlaying()), headingPlace);
    root.classList.toggle('pending', isPending && !isPlaying());
    render(modelChoice(entries, context), choicePlace);
    updateLegend(frames);
    const names = currentSubjects();
    drawPictures(isPending ? entries : entries.filter(({ subject }) => names.includes(subject)));
    curves.update();
    const hasText = allows(state, 'text') && !frames.some(({ recording }) => recording);
    render(
      html`${hasText ? textField(context, 2) : nothing}${nextTemplate(context, curves.when())}`,
      textPlace,
    );
  });
}
