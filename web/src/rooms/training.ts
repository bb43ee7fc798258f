/**
 * The room Training: one head before training and now, side by side, with a slider through the stored checkpoints and
 * the course of the number of heads with a sink.
 */
import { html, nothing, render } from 'lit';
import { allows, segmentedControl, nameOf, textField, troubleNotes } from '../page/controls';
import {
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
import type { State } from '../ask/state';
import { checkpointOf, LOG_SEQUENCES } from '../ask/steps';
import { parseSubject } from '../ask/subject';
import { drawScale } from '../plot/legend';
import { attention, weightScale } from '../views/attention';
import {
  areCoursesSettled,
  loadCourses,
  training,
  courseWords,
  emergenceOf,
} from '../views/training';
import { addElement, setText } from '../page/view';
import {
  countedOn,
  formatPercent,
  firstName,
  firstTokenName,
  headName,
  modelName,
  mustSpendWords,
  tooShortNote,
  verdictOf,
  wholePercent,
} from '../words';
import { countWords, mapWords } from './compared';
import { addTrainingSlider, subjectsAtStep, trainedSubjects } from './walk';
import './panes.css';
import './training.css';

const stepOf = ({ model: { step } }: Frame): string =>
  step ? `step ${step.step.toLocaleString('en')}` : 'after training';

/** Names the texts over which the course averages. */
function courseTexts(frame: Frame | undefined): string {
  if (!frame?.recording) return `${LOG_SEQUENCES} other passages`;
  return frame.sequences === 1 ? 'one recorded prompt' : `${frame.sequences} recorded prompts`;
}

/** Returns a model's name within a sentence, without its step. */
const nameOfModel = ({ model }: Frame): string =>
  modelName({ title: model.title.replace(/ at step .*/, '') });

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
  const threshold = `over ${formatPercent(frame.eps, 0)} of their attention on ${firstName(frame)}`;
  const sink = hasCourses
    ? `a sink (${threshold}; mean of ${courseTexts(frame)})`
    : `a sink ${countedOn(frame)} (${threshold})`;
  const clauses = frames.map((one, i) => {
    const count = hasCourses ? formatPercent(shares[i]! / 100, 0) : countWords(one);
    const model = `of ${nameOfModel(one)}`;
    if (i) return `${count} ${model}`;
    return `${hasCourses ? `${count} of the` : count.replace('none', 'no')} heads ${model} have ${sink}`;
  });
  const place = frame.model.step ? `At ${stepOf(frame)}` : 'After training';
  return `${place}, ${clauses.join(', ')}.`;
}

/** Returns functions about the chosen model: its subjects before, during and after training, and the head that is shown. */
function chooseModel(context: Context) {
  const subjectOf = ({ shown, at }: State): string => shown[Math.min(at, shown.length - 1)]!;
  const trainedSubject = (state: State): string => trainedSubjects([subjectOf(state)])[0]!;
  /** The chosen model before its training; the model itself if its first checkpoint is not shipped with the page. */
  const firstSubject = (state: State): string => {
    const models = context.engine.value?.models;
    const subject = subjectOf(state);
    const isShipped = models && !checkpointOf(subject);
    return isShipped ? subjectsAtStep(models, [subject], 0, Infinity)[0]! : subject;
  };
  const entryOf = (subject: string): SubjectEntry => entriesOf(context, [subject])[0]!;
  /** The selected head, or else the one that gives the first token most after training. */
  const pinnedHead = (state: State): Head | undefined => {
    const { frame, isStale } = entryOf(trainedSubject(state));
    return frame && !isStale ? selectedHead(frame, state) : undefined;
  };
  const headOf = (frame: Frame): Head =>
    pinnedHead(context.state.peek()) ?? selectedHead(frame, context.state.peek());
  const claimAt = (frame: Frame) => claimOf(frame, headOf(frame), context.state.peek());
  const isEven = (frame: Frame): boolean => {
    const { isShare, attention: share, uniform } = claimAt(frame);
    return isShare && Math.abs(share - uniform) < 0.03;
  };
  return { subjectOf, trainedSubject, firstSubject, entryOf, pinnedHead, headOf, claimAt, isEven };
}

type Chosen = ReturnType<typeof chooseModel>;

/** Draws the map before training, the one now, and the course. */
function addFigures(
  [beforePlace, nowPlace, curvesPlace]: readonly HTMLElement[],
  context: Context,
  scope: Scope,
  { headOf, claimAt, isEven }: Chosen,
) {
  const beforeFigure = new Figure(beforePlace!, attention, context, scope, {
    isBare: true,
    headOf,
    extra: (frame) => ({
      isPlain: true,
      ...(isEven(frame)
        ? { remark: { kind: 'corner', text: '◀ early rows share 100% among few tokens' } }
        : {}),
    }),
  });
  // Two regions of one page need names of their own.
  beforeFigure.root.ariaLabel = 'Attention map before training';
  const nowFigure = new Figure(nowPlace!, attention, context, scope, {
    isMain: true,
    isUnstamped: true,
    headOf,
    extra: (frame) => ({
      isPlain: true,
      remark: {
        kind: claimAt(frame).attention > frame.eps ? 'sink' : 'weak',
        text: `◀ ${firstName(frame)}: ${wholePercent(claimAt(frame).attention)}`,
      },
    }),
  });
  const curvesFigure = new Figure(curvesPlace!, training, context, scope, {
    isMain: true,
    isUnstamped: true,
    extra: () => ({ isAnswered: true }),
  });
  return { beforeFigure, nowFigure, curvesFigure };
}

/** Says why training changes the first map. */
function explanation(
  state: State,
  { entryOf, firstSubject, trainedSubject, claimAt }: Chosen,
): string {
  const trained = entryOf(trainedSubject(state)).frame;
  if (!entryOf(firstSubject(state)).frame?.model.step || !trained) return '';
  const isLearned =
    trained.operation.name === 'softmax' && claimAt(trained).attention > trained.eps;
  const why = isLearned ? ` ${mustSpendWords(firstTokenName(trained))}` : '';
  return `Training only rewards guessing the next token.${why}`;
}

/** Names a map and its number. */
function mapTitle(frame: Frame, name: string, { headOf, claimAt, isEven }: Chosen) {
  const { attention, isStrongest } = claimAt(frame);
  const note = isEven(frame) ? ', as if spread evenly' : isStrongest ? ', strongest head' : '';
  return html`<h2>${name}</h2>
    <p class="hint">
      ${headName(headOf(frame), frame)} gives ${firstName(frame)} ${wholePercent(attention)}${note}
    </p>`;
}

function modelChoice(entries: readonly SubjectEntry[], context: Context) {
  const { at } = context.state.value;
  const names = entries.map(
    (entry, i) => [i, nameOf(entry, context).replace(/( model)?( at step.*)?$/, '')] as const,
  );
  return html`${names.length > 1 ? segmentedControl('Model', names, Math.min(at, names.length - 1), (at) => context.set({ at }), true) : nothing}
    <button type="button" class="add" @click=${context.pickModels}>Choose models</button>`;
}

function headTemplate(entries: readonly SubjectEntry[], context: Context, chosen: Chosen) {
  const state = context.state.value;
  const frames = framesOf(entries.filter(({ isStale }) => !isStale));
  const waiting = entries.some(({ error }) => error) ? '' : 'Loading the models …';
  return html`<h1>${headingOf(frames)}</h1>
    <p class="hint explanation">${explanation(state, chosen)}</p>
    <p class="lead" data-finding role="status" ?hidden=${!allows(state, 'finding')}>
      ${frames.length ? `${numbersSentence(frames)} ${courseWords(frames)}`.trim() : waiting}
    </p>
    ${troubleNotes(entries, context)}`;
}

/** Adds what stands below both maps: their scale, their text, and the choice of the model. */
function addControls(grid: HTMLElement, context: Context) {
  const root = addElement(grid, 'below-maps');
  const legend = addElement(root, 'map-legend');
  const scalePlace = addElement(legend, 'scale-place', 'span');
  const legendWords = addElement(legend, '', 'span');
  const choices = addElement(root, '');
  return (entries: readonly SubjectEntry[], frames: readonly Frame[]): void => {
    const [state, theme] = [context.state.peek(), context.theme.peek()];
    setText(legendWords, mapWords(frames));
    drawScale(scalePlace, weightScale({ frames, state, theme }));
    const hasText = allows(state, 'text') && !frames.some(({ recording }) => recording);
    render(
      html`<div class="question" ?hidden=${!hasText}>
          <span class="hint">Both maps read:</span> ${hasText ? textField(context, 2) : nothing}
        </div>
        ${allows(state, 'subjects') ? html`<div class="numbers">${modelChoice(entries, context)}</div>` : nothing}`,
      choices,
    );
  };
}

export function build(root: HTMLElement, context: Context, scope: Scope): void {
  const headingPlace = addElement(root, 'room-head');
  const goToStep = addTrainingSlider(addElement(root, 'walk-place'), context, scope);
  const grid = addElement(root, 'training-grid');
  const [beforePlace, nowPlace, curvesPlace] = ['before', 'now', 'inspector'].map((name) =>
    addElement(grid, name),
  ) as [HTMLElement, HTMLElement, HTMLElement];
  const [beforeWords, nowWords, courseTitle] = [beforePlace, nowPlace, curvesPlace].map((place) =>
    addElement(place, 'which'),
  ) as [HTMLElement, HTMLElement, HTMLElement];
  render(html`<h2>Heads with a sink</h2>`, courseTitle);
  const chosen = chooseModel(context);
  const { subjectOf, trainedSubject, firstSubject, entryOf, pinnedHead } = chosen;
  const places = [beforePlace, nowPlace, curvesPlace];
  const { beforeFigure, nowFigure, curvesFigure } = addFigures(places, context, scope, chosen);
  const updateControls = addControls(grid, context);
  curvesPlace.addEventListener('choose-step', (event) =>
    goToStep((event as CustomEvent<number>).detail),
  );
  const currentEntries = () => entriesOf(context, context.state.value.shown);

  requestFrames(context, scope, (state) => {
    const compared = [subjectOf(state), firstSubject(state), trainedSubject(state)];
    const at = pinnedHead(state);
    return {
      views: [attention, training],
      more: ['alpha', 'alpha_raw', 'sink_ratio', 'sink_ratio_raw', 'alpha_uniform'],
      subjects: [...new Set([...state.shown, ...compared])],
      heads: at ? Object.fromEntries(compared.map((subject) => [subject, at])) : {},
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
  hideUntilDrawn(root, scope, currentEntries, () => areCoursesSettled.value);

  scope.effect(() => {
    const state = context.state.value;
    void context.theme.value;
    const entries = currentEntries();
    render(headTemplate(entries, context, chosen), headingPlace);
    const [before, now] = [firstSubject(state), subjectOf(state)].map(entryOf) as [
      SubjectEntry,
      SubjectEntry,
    ];
    const isWalked = parseSubject(before.subject)?.step === 0;
    beforePlace.hidden = !isWalked;
    render(
      isWalked && before.frame
        ? mapTitle(
            before.frame,
            `One head of ${nameOfModel(before.frame)}, ${stepOf(before.frame)}`,
            chosen,
          )
        : nothing,
      beforeWords,
    );
    render(
      now.frame
        ? mapTitle(
            now.frame,
            isWalked ? `Same head, ${stepOf(now.frame)}` : now.frame.title,
            chosen,
          )
        : nothing,
      nowWords,
    );
    beforeFigure.update(isWalked ? [before] : []);
    nowFigure.update([now]);
    curvesFigure.update(entries);
    updateControls(entries, framesOf([now]));
  });
}
