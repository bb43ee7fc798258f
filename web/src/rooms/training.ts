/**
 * The room Training: one head of a model before its training, the same head now, and the strongest head of a second model,
 * with all heads beside each; a slider through the stored checkpoints; the course of the number of heads with a sink.
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
import { selectedHead, type Frame, type Head } from '../frame';
import { checkpointOf } from '../ask/steps';
import { parseSubject } from '../ask/subject';
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
  tooShortNote,
  verdictOf,
  wholePercent,
} from '../words';
import { addCardLegend, cardLooks, nameHeads, type CardWords, type HeadNamer } from './cards';
import { countWords } from './compared';
import { countThroughTraining, drawTextCourses, learnedWords } from './text_course';
import { addTrainingSlider, subjectsAtStep, trainedSubjects } from './walk';
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

/** Returns the room's heading: what the courses of the shown models say of the sink. */
function headingOf(frames: readonly Frame[]): string {
  const courses = frames.flatMap((frame) => {
    const emergence = emergenceOf(frame);
    return emergence ? [{ place: inModel(frame), ...emergence }] : [];
  });
  const learned = courses.filter(({ isNone }) => !isNone);
  if (!courses.length) return 'Training';
  if (!learned.length) return 'No sink appears in these training runs.';
  if (learned.some(({ from }) => from > 0)) return 'Training';
  const others = courses.filter(({ isNone }) => isNone);
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

/** Returns functions about the shown models: their subjects before and after training, and the head that is shown. */
function chooseHeads(context: Context) {
  const trainedSubject = (subject: string): string => trainedSubjects([subject])[0]!;
  /** The model before its training; the model itself if its first checkpoint is not shipped with the page. */
  const firstSubject = (subject: string): string => {
    const models = context.engine.value?.models;
    const isShipped = models && !checkpointOf(subject);
    return isShipped ? subjectsAtStep(models, [subject], 0, Infinity)[0]! : subject;
  };
  const isWalked = (subject: string): boolean => parseSubject(firstSubject(subject))?.step === 0;
  /** The selected head, or else the one that gives the first token most after training. */
  const pinnedHead = (subject: string): Head | undefined => {
    const [trained] = entriesOf(context, [trainedSubject(subject)]);
    const { frame, isStale } = trained!;
    return frame && !isStale ? selectedHead(frame, context.state.value) : undefined;
  };
  const headOf = (frame: Frame): Head =>
    pinnedHead(frame.subject) ?? selectedHead(frame, context.state.peek());
  const claimAt = (frame: Frame) => claimOf(frame, headOf(frame), context.state.peek());
  /** The chosen subject and the next one, as they are now. */
  const currentSubjects = (): string[] => {
    const { shown, at } = context.state.value;
    const chosen = Math.min(at, shown.length - 1);
    return [...new Set([shown[chosen]!, shown[(chosen + 1) % shown.length]!])];
  };
  /** The chosen subject before its training, if that is stored, and the current ones. */
  const drawnSubjects = (): string[] => {
    const current = currentSubjects();
    return isWalked(current[0]!) ? [firstSubject(current[0]!), ...current] : current;
  };
  return { trainedSubject, isWalked, pinnedHead, headOf, claimAt, currentSubjects, drawnSubjects };
}

type Chosen = ReturnType<typeof chooseHeads>;

/** Returns what is written above a card: the model, its point of training, and which head its map shows. */
const wordsOfCards =
  ({ headOf, claimAt, isWalked }: Chosen, headWords: HeadNamer) =>
  (frame: Frame): CardWords => {
    const place = isWalked(frame.subject) ? ` ${placeOf(frame)}` : '';
    return {
      title: `${titleOf(frame).replace(/ model$/, '')}${place}`,
      // Of a trained model the number stands above the column.
      hint: frame.model.step
        ? `same head: ${wholePercent(claimAt(frame).attention)} on ${firstName(frame)}`
        : headWords(frame, headOf(frame)),
      color: colorOf(frame),
    };
  };

function headTemplate(
  entries: readonly SubjectEntry[],
  frames: readonly Frame[],
  context: Context,
) {
  const current = framesOf(entries.filter(({ isStale }) => !isStale));
  const isLoading = !frames.length && !entries.some(({ error }) => error);
  return html`<h1>${headingOf(frames)}</h1>
    ${troubleNotes(entries, context)}
    <p class="lead">
      ${frames[0] ? explainTerms(sinkDefinition(frames[0])) : nothing}
      <strong data-finding role="status" ?hidden=${!allows(context.state.value, 'finding')}
        >${isLoading ? 'Loading the models …' : numbersSentence(current)}</strong
      >
    </p>`;
}

/** Says what to do next, and after training when the sink was learned, and why softmax makes one if a drawn model has it. */
function nextTemplate(
  frames: readonly Frame[],
  { link }: Context,
  { claimAt }: Chosen,
  when: string,
) {
  const isTrained = frames.length > 0 && frames.every(({ model }) => !model.step);
  const softmax = frames.find(
    (one) => one.operation.name === 'softmax' && claimAt(one).attention > one.eps,
  );
  return html`${isTrained ? html`<p class="why">${when} ${softmax ? mustSpendWords(softmax) : nothing}</p>` : nothing}
    <p class="next">
      → <a href=${link({ room: 'purpose' })}>Does it matter?</a>
      <a href=${link({ room: 'lab' })}>Train one yourself</a>
    </p>`;
}

/** Returns the choice of the models, and of the one that is drawn before and after its training if there are several. */
function modelChoice(entries: readonly SubjectEntry[], context: Context) {
  const { state, set, pickModels } = context;
  const { at } = state.value;
  if (!allows(state.value, 'subjects')) return nothing;
  const names = entries.map(
    ({ subject, frame }, i) =>
      [i, frame ? titleOf(frame) : subject, frame && cardOf(frame, context)?.what] as const,
  );
  return html`${names.length > 2 ? segmentedControl('Model of the maps', names, Math.min(at, names.length - 1), (chosen) => set({ at: chosen })) : nothing}
    <button type="button" class="add" @click=${pickModels}>Choose models</button>`;
}

/** Draws the counts on the text through training; a closed section has the averages over other texts and runs. */
function addCurves(
  places: { root: HTMLElement; chartPlace: HTMLElement; goToStep: (step: number) => void },
  context: Context,
  scope: Scope,
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
    chartPlace.hidden = !courses.length;
    // Checkpoints of a hub, and recordings, have the other chart alone.
    if (!counts.hasCourses() && frame && !isFoldOpened) isFoldOpened = fold.open = true;
    if (courses.length && frame)
      drawTextCourses(chartPlace, courses, {
        cursor: frame.model.step?.step ?? courses[0]!.points.at(-1)!.step,
        onChoose: (step) => goToStep(Math.max(0, step)),
      });
  });
  return { studies: counts.studies, update, when: () => learnedWords(counts.courses()) };
}

export function build(root: HTMLElement, context: Context, scope: Scope): void {
  const headingPlace = addElement(root, 'room-head');
  const goToStep = addTrainingSlider(addElement(root, 'walk-place'), context, scope);
  const grid = addElement(root, 'training-grid');
  const cards = addElement(grid, 'pictures cards');
  const chosen = chooseHeads(context);
  const { trainedSubject, pinnedHead, currentSubjects, drawnSubjects } = chosen;
  const looks = cardLooks(context, wordsOfCards(chosen, nameHeads(context)), chosen.headOf);
  const mapsFigure = new Figure(cards, attention, context, scope, { ...looks.map, isMain: true });
  const headsFigure = new Figure(cards, sinks, context, scope, looks.heads);
  const legend = addElement(grid, 'training-legend');
  const updateLegend = addCardLegend(legend, context);
  const choicePlace = addElement(legend, 'model-choice');
  const acts = addElement(root, 'acts');
  const chartPlace = addElement(acts, 'chart');
  const textPlace = addElement(acts, 'text-place');
  const curves = addCurves({ root, chartPlace, goToStep }, context, scope);
  const currentEntries = () => entriesOf(context, context.state.value.shown);
  /** The frames drawn last, and the models that they are of: heading and scale stay while a checkpoint loads. */
  let drawn: { readonly models: string; readonly frames: readonly Frame[] } | undefined;
  const drawnEntries = () => entriesOf(context, drawnSubjects());

  requestFrames(context, scope, ({ shown }) => {
    const subjects = [...new Set([...shown, ...drawnSubjects(), ...shown.map(trainedSubject)])];
    const heads = subjects.flatMap((subject) => {
      const at = pinnedHead(subject);
      return at ? [[subject, at] as const] : [];
    });
    return {
      views: [attention, sinks, training],
      more: ['alpha', 'alpha_raw', 'sink_ratio', 'sink_ratio_raw', 'alpha_uniform'],
      subjects,
      heads: Object.fromEntries(heads),
      studies: curves.studies(),
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
  hideUntilDrawn(root, scope, drawnEntries, () => areCoursesSettled.value);

  scope.effect(() => {
    const state = context.state.value;
    void context.theme.value;
    const entries = currentEntries();
    const models = trainedSubjects(state.shown).join();
    if (drawn?.models !== models || framesOf(entries).length)
      drawn = { models, frames: framesOf(entries) };
    const { frames } = drawn;
    render(headTemplate(entries, frames, context), headingPlace);
    render(modelChoice(entries, context), choicePlace);
    updateLegend(frames);
    mapsFigure.update(drawnEntries());
    const current = entriesOf(context, currentSubjects());
    headsFigure.update(current);
    grid.dataset.count = String(current.length);
    grid.classList.toggle('has-before', current.length < drawnSubjects().length);
    curves.update();
    const hasText = allows(state, 'text') && !frames.some(({ recording }) => recording);
    render(
      html`${hasText ? textField(context, 2) : nothing}
      ${nextTemplate(frames, context, chosen, curves.when())}`,
      textPlace,
    );
  });
}
