/**
 * The room Training: one head of each model before training and now, side by side, with a slider through the stored
 * checkpoints and the course of the number of heads with a sink.
 */
import { html, nothing, render } from 'lit';
import { allows, textField, troubleNotes } from '../page/controls';
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
import { claimOf } from '../claims';
import { isBidirectional, selectedHead, type Frame, type Head } from '../frame';
import { checkpointOf } from '../ask/steps';
import { parseSubject } from '../ask/subject';
import { drawScale } from '../plot/legend';
import { attention, weightScale } from '../views/attention';
import {
  areCoursesSettled,
  colorOf,
  courseTexts,
  emergenceOf,
  headsAt,
  loadCourses,
  neverWords,
  training,
} from '../views/training';
import { addElement, setText } from '../page/view';
import {
  countedOn,
  formatPercent,
  firstName,
  firstTokenName,
  headWords,
  capitalize,
  listWords,
  modelName,
  mustSpendWords,
  tooShortNote,
  verdictOf,
  wholePercent,
} from '../words';
import { countWords } from './compared';
import { addTrainingSlider, subjectsAtStep, trainedSubjects } from './walk';
import './panes.css';
import './training.css';

/** Attention differs from an even spread by less than this where the map says that it is one. */
const EVEN = 0.03;

/** Names the point of training that a frame shows. */
const placeOf = ({ model: { step } }: Frame): string =>
  !step
    ? 'after training'
    : step.step
      ? `step ${step.step.toLocaleString('en')}`
      : 'before training';

/** Returns a model's title without its step. */
const titleOf = ({ model }: Frame): string => model.title.replace(/ at step .*/, '');

/** Returns the room's heading: what the courses of the shown models say of the sink. */
function headingOf(frames: readonly Frame[]): string {
  const emergences = frames.flatMap((frame) => emergenceOf(frame) ?? []);
  const learned = emergences.find(({ isNone }) => !isNone);
  if (!emergences.length) return 'Training';
  if (!learned) return 'No sink appears in these training runs.';
  return learned.from > 0 ? 'Training' : 'The sink is learned: before training no head has one.';
}

/**
 * States how many heads of each model have a sink at its step: over the passages of the courses, or else on the text if
 * a model has no course.
 */
export function numbersSentence(frames: readonly Frame[]): string {
  const [frame] = frames;
  if (!frame) return '';
  const shares = frames.flatMap((one) => emergenceOf(one)?.shown ?? []);
  const hasCourses = shares.length === frames.length;
  const short = frames.find((one) => !verdictOf(one).conclusive);
  if (!hasCourses && short) return tooShortNote(short);
  const texts = hasCourses ? `(mean of ${courseTexts(frame)})` : countedOn(frame);
  const clauses = frames.map((one, i) => {
    const count = hasCourses ? headsAt(one, shares[i]!) : countWords(one);
    const model = `of ${modelName({ title: titleOf(one) })}${hasCourses ? neverWords(one) : ''}`;
    return i
      ? `${count} ${model}`
      : `${count.replace('none', 'no')} heads ${model} have a sink ${texts}`;
  });
  const place = frame.model.step?.step ? `at ${placeOf(frame)}` : placeOf(frame);
  return `${capitalize(place)}, ${clauses.join(', ')}.`;
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
  /** The shown subjects, with the chosen one before its training in front. */
  const drawnSubjects = (): string[] => {
    const { shown, at } = context.state.value;
    const chosen = shown[Math.min(at, shown.length - 1)]!;
    return isWalked(chosen) ? [firstSubject(chosen), ...shown] : [...shown];
  };
  return { trainedSubject, isWalked, pinnedHead, headOf, claimAt, drawnSubjects };
}

type Chosen = ReturnType<typeof chooseHeads>;

/** Returns how the maps are drawn: each with its model, its step and its number. */
function mapLook({ headOf, claimAt, isWalked }: Chosen): FigureLook {
  const isEven = (frame: Frame): boolean => {
    const { attention: share, uniform } = claimAt(frame);
    return Math.abs(share - uniform) < EVEN;
  };
  return {
    isMain: true,
    isUnstamped: true,
    headOf,
    about: (frame) => {
      const { attention: share, isStrongest } = claimAt(frame);
      const place = isWalked(frame.subject) ? `, ${placeOf(frame)}` : '';
      const head = headWords(headOf(frame), frame);
      const most = isStrongest ? 'the most: ' : '';
      const note = isEven(frame) ? ', as if spread evenly' : '';
      const words = `${head} gives ${firstName(frame)} ${note ? '' : most}${wholePercent(share)}${note}`;
      const text = html`<span class="hint">${words}</span>`;
      return { title: `${titleOf(frame)}${place}`, text, color: colorOf(frame) };
    },
    extra: (frame) => {
      const { attention: share } = claimAt(frame);
      const kind = share > frame.eps ? 'sink' : 'weak';
      const remark =
        isEven(frame) && !isBidirectional(frame)
          ? { kind: 'corner', text: '◀ early rows see few tokens' }
          : {
              kind,
              text: `◀ ${frame.queries ? '' : `${firstName(frame)}: `}${wholePercent(share)}`,
            };
      return { isPlain: true, remark };
    },
  };
}

/** Says what a head and a sink are, why softmax makes one if the drawn softmax model has it, and which models need none. */
function explanation(frames: readonly Frame[], { claimAt }: Chosen): string {
  const [frame] = frames;
  if (!frame) return '';
  const definition = `A head has a sink if it gives ${firstTokenName(frame)} over ${formatPercent(frame.eps, 0)}.`;
  const hasSink = frames.some(
    (one) => one.operation.name === 'softmax' && claimAt(one).attention > one.eps,
  );
  const free = frames.filter(({ operation }) => !operation.normalizes);
  const names = capitalize(listWords(free.map((one) => modelName({ title: titleOf(one) }))));
  const freeWords = free.length ? ` ${names} need not.` : '';
  return `${definition}${hasSink ? ` ${mustSpendWords(firstName(frame))}${freeWords}` : ''}`;
}

function headTemplate(entries: readonly SubjectEntry[], context: Context, chosen: Chosen) {
  const state = context.state.value;
  const frames = framesOf(entries.filter(({ isStale }) => !isStale));
  const waiting = entries.some(({ error }) => error) ? '' : 'Loading the models …';
  return html`<h1>${headingOf(frames)}</h1>
    <p class="hint explanation">${explanation(frames, chosen)}</p>
    <p class="lead" data-finding role="status" ?hidden=${!allows(state, 'finding')}>
      ${frames.length ? numbersSentence(frames) : waiting}
    </p>
    ${troubleNotes(entries, context)}`;
}

/** Says how to read the maps of these models. */
const mapWords = (frames: readonly Frame[]): string =>
  `rows look at columns${frames.every(isBidirectional) ? '' : '; gray: later tokens'}`;

/** Adds what all maps share: their scale, their text, and the choice of the models. */
function addControls(grid: HTMLElement, context: Context) {
  const root = addElement(grid, 'below-maps');
  const legend = addElement(root, 'map-legend');
  const scalePlace = addElement(legend, 'scale-place', 'span');
  const legendWords = addElement(legend, '', 'span');
  const choices = addElement(root, '');
  return (frames: readonly Frame[]): void => {
    const [state, theme] = [context.state.peek(), context.theme.peek()];
    setText(legendWords, mapWords(frames));
    drawScale(scalePlace, weightScale({ frames, state, theme }));
    const hasText = allows(state, 'text') && !frames.some(({ recording }) => recording);
    render(
      html`<div class="question" ?hidden=${!hasText}>
          <p class="hint">The maps read:</p>
          ${hasText ? textField(context, 3) : nothing}
        </div>
        ${
          allows(state, 'subjects')
            ? html`<button type="button" class="add" @click=${context.pickModels}>
                Choose models
              </button>`
            : nothing
        }`,
      choices,
    );
  };
}

export function build(root: HTMLElement, context: Context, scope: Scope): void {
  const headingPlace = addElement(root, 'room-head');
  const goToStep = addTrainingSlider(addElement(root, 'walk-place'), context, scope);
  const grid = addElement(root, 'training-grid');
  const chosen = chooseHeads(context);
  const { trainedSubject, pinnedHead, drawnSubjects } = chosen;
  const mapsFigure = new Figure(grid, attention, context, scope, mapLook(chosen));
  const curvesFigure = new Figure(grid, training, context, scope, {
    isMain: true,
    isUnstamped: true,
    extra: () => ({ isAnswered: true }),
  });
  const updateControls = addControls(grid, context);
  grid.addEventListener('choose-step', (event) => goToStep((event as CustomEvent<number>).detail));
  const currentEntries = () => entriesOf(context, context.state.value.shown);
  const drawnEntries = () => entriesOf(context, drawnSubjects());

  requestFrames(context, scope, ({ shown }) => {
    const subjects = [...new Set([...shown, ...drawnSubjects(), ...shown.map(trainedSubject)])];
    const heads = subjects.flatMap((subject) => {
      const at = pinnedHead(subject);
      return at ? [[subject, at] as const] : [];
    });
    return {
      views: [attention, training],
      more: ['alpha', 'alpha_raw', 'sink_ratio', 'sink_ratio_raw', 'alpha_uniform'],
      subjects,
      heads: Object.fromEntries(heads),
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
    void context.theme.value;
    const entries = currentEntries();
    render(headTemplate(entries, context, chosen), headingPlace);
    mapsFigure.update(drawnEntries());
    curvesFigure.update(entries);
    updateControls(framesOf(entries));
  });
}
