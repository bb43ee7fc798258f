/**
 * The stored checkpoints of the page's models on the reader's text: each is measured once, in the background, and its
 * frame is kept, so that maps, counts and curves have one number. Of each model one head is followed through all of them.
 */
import { signal } from '@preact/signals-core';
import { questionKey, questionOf } from '../ask/question';
import { parseSubject } from '../ask/subject';
import { savesData } from '../base';
import { canCount, claimOf, hasSink } from '../claims';
import { verdictOf } from '../words';
import type { Frame, Head } from '../frame';
import type { Context, Scope } from '../page/context';
import { nearestStep } from '../ask/steps';
import { drawChart } from '../plot/chart';
import { styleOf, STYLED_MODELS } from '../timeline/course';
import { stepsOf, subjectsAtStep, trainedSubjects } from './walk';

/** A stored checkpoint; its frame is undefined until it is measured. */
interface Point {
  readonly step: number;
  readonly subject: string;
  readonly frame: Frame | undefined;
  /** What the followed head gives the first token; NaN until it is measured. */
  readonly attention: number;
}

/** A model with stored checkpoints. */
export interface TextCourse {
  readonly id: string;
  readonly title: string;
  readonly points: readonly Point[];
}

/**
 * Returns functions that return the courses of the shown models, and the subjects that are measured next. To save data,
 * only checkpoints are measured to which the reader has gone.
 * @param headOf returns the head that is followed in a frame's model
 */
export function keepCheckpoints(context: Context, scope: Scope, headOf: (frame: Frame) => Head) {
  const storedSteps = signal<ReadonlyMap<string, readonly number[]>>(new Map());
  const requestedSubjects = new Set<string>();
  /** The frames that answer a question, and the subjects that could not be measured. */
  const kept = { question: '', frames: new Map<string, Frame>(), failed: new Set<string>() };
  const trained = () =>
    trainedSubjects(context.state.value.shown).filter((text) =>
      STYLED_MODELS.some((id) => id === parseSubject(text)?.id),
    );

  scope.effect(() => {
    const models = context.engine.value?.models;
    for (const subject of trained()) {
      if (!models || requestedSubjects.has(subject)) continue;
      requestedSubjects.add(subject);
      const list = (steps: readonly number[]) =>
        (storedSteps.value = new Map([...storedSteps.peek(), [subject, steps]]));
      void stepsOf(models, [subject]).then(list, (error: unknown) => {
        list([]);
        context.fail(error);
      });
    }
  });

  function courses(): TextCourse[] {
    const engine = context.engine.value;
    if (!engine) return [];
    const { models, queue, fileVersion } = engine;
    const question = questionOf(context.state.value, fileVersion.value);
    const key = questionKey(question);
    // An empty text asks nothing.
    if (kept.question !== key && (question.input !== 'text' || question.prompt.trim())) {
      kept.question = key;
      for (const part of [kept.frames, kept.failed]) part.clear();
    }
    for (const [subject, { frame, isStale, error }] of queue.entries.value)
      if (frame && !isStale) kept.frames.set(subject, frame);
      else if (error) kept.failed.add(subject);
    return trained().flatMap((trainedSubject): TextCourse[] => {
      const { id } = parseSubject(trainedSubject)!;
      const steps = storedSteps.value.get(trainedSubject) ?? [];
      const points = steps.map((step): Point => {
        const subject = subjectsAtStep(models, [trainedSubject], step, steps.at(-1)!)[0]!;
        const frame = kept.frames.get(subject);
        const attention = frame
          ? claimOf(frame, headOf(frame), context.state.value).attention
          : NaN;
        return { step, subject, frame, attention };
      });
      const title = models.zoo.cards.find((card) => card.id === id)?.title ?? id;
      return points.length ? [{ id, title, points }] : [];
    });
  }

  /** The next checkpoint of each model, the earliest first: the timelines of the others would forget their weights. */
  function next(): string[] {
    if (savesData()) return [];
    const isDue = ({ subject, frame }: Point) => {
      const at = frame && headOf(frame);
      const isOther =
        frame?.head && (frame.head.layer !== at?.layer || frame.head.head !== at.head);
      return !kept.failed.has(subject) && (!frame || isOther);
    };
    return courses()
      .flatMap(({ points }) => points.find(isDue) ?? [])
      .sort((a, b) => a.step - b.step)
      .map(({ subject }) => subject);
  }

  /** Whether a shown model has stored checkpoints, or may have them while their list loads. */
  const hasCourses = () => trained().some((text) => storedSteps.value.get(text)?.length !== 0);
  return { courses, next, hasCourses };
}

/** Whether the followed head has a sink; undefined where that is not measured, or the text is too short to tell. */
const isSinkAt = ({ frame, attention }: Point): boolean | undefined =>
  frame && canCount(frame) ? hasSink(frame, attention) : undefined;

/**
 * Returns the first checkpoint at which the followed head has a sink, if it has none before training and one in the end,
 * as far as those before it are measured.
 */
export function firstOwnSink({ points }: Pick<TextCourse, 'points'>): Point | undefined {
  const sinks = points.map(isSinkAt);
  const first = sinks.findIndex((isSink) => isSink !== false);
  return first > 0 && sinks[first] && sinks.at(-1) ? points[first] : undefined;
}

const headCount = ({ architecture: { L, H } }: Frame): number => L * H;

/** Returns how many heads have a sink at each checkpoint; NaN where that is not measured or counted. */
const sinkCounts = ({ points }: Pick<TextCourse, 'points'>): number[] =>
  points.map(({ frame }) => {
    const verdict = frame && verdictOf(frame);
    return verdict?.conclusive ? Math.round(verdict.sink * headCount(frame!)) : NaN;
  });

/**
 * Returns the first checkpoint at which any head of the model has a sink, if all before it are counted, none has one
 * before training, and some have one in the end.
 */
function firstSinkOf(course: Pick<TextCourse, 'points'>): Point | undefined {
  const counts = sinkCounts(course);
  const first = counts.findIndex((count) => count !== 0);
  return first > 0 && counts[first]! > 0 && counts.at(-1)! > 0 ? course.points[first] : undefined;
}

const stepName = ({ step }: Point) => `step ${step.toLocaleString('en')}`;

/** Says when heads of the model have sinks on the text; undefined until each checkpoint is counted. */
export function appearanceOf(course: Pick<TextCourse, 'points'>): string | undefined {
  const counts = sinkCounts(course);
  if (!counts.length || counts.some(Number.isNaN)) return undefined;
  if (counts.every((count) => count === 0)) return 'never';
  if (counts.at(-1) === 0) return 'only for a time';
  const first = firstSinkOf(course);
  return first ? `by ${stepName(first)}` : 'even before training';
}

/** Says at which step the followed head has its first sink, and, once all is measured, whether it keeps it. */
function ownWords({ points }: TextCourse, own: Point): string {
  const later = points.filter(({ step }) => step >= own.step).map(isSinkAt);
  const word = later.includes(undefined) ? 'by' : later.includes(false) ? 'first at' : 'from';
  return `mapped: ${word} ${stepName(own)}`;
}

/** Returns the marks of a course: its first head with a sink, and the first sink of the head whose map is drawn. */
function marksOf(course: TextCourse, color: string) {
  const [any, own] = [firstSinkOf(course), firstOwnSink(course)];
  const counts = sinkCounts(course);
  const mark = (point: Point, text: string) => {
    const y = counts[course.points.indexOf(point)]!;
    return { x: point.step, y, color, text };
  };
  return [
    ...(any ? [mark(any, `first: ${stepName(any)}`)] : []),
    ...(own && own !== any ? [mark(own, ownWords(course, own))] : []),
  ];
}

/** Is in the place of numbers that are not measured on this text yet. */
const MEASURING = 'measuring …';

/** The height of the chart without a style sheet. */
const MIN_HEIGHT = 190;

/** Returns the steps at which any of the courses has a checkpoint, in rising order. */
const courseSteps = (courses: readonly TextCourse[]): number[] =>
  [...new Set(courses.flatMap(({ points }) => points.map(({ step }) => step)))].sort(
    (a, b) => a - b,
  );

/** Draws how many heads have a sink: a dot for each checkpoint, joined where its neighbors are measured. */
export function drawTextCourses(
  place: HTMLElement,
  courses: readonly TextCourse[],
  {
    shownStep,
    isPlaying,
    onChoose,
  }: {
    readonly shownStep: number;
    readonly isPlaying: boolean;
    readonly onChoose: (step: number) => void;
  },
): void {
  const frames = courses.flatMap(({ points }) => points.flatMap(({ frame }) => frame ?? []));
  const [frame] = frames;
  // What is drawn is of another text until a checkpoint is measured on this one.
  place.classList.toggle('stale', !frame);
  if (!frame) return;
  const steps = courseSteps(courses);
  // In the play the curve grows with it.
  const isShown = (step: number) => !isPlaying || step <= shownStep;
  const end = steps.at(-1)!;
  const styles = courses.map(({ id }) =>
    styleOf(STYLED_MODELS.findIndex((styled) => styled === id)),
  );
  const series = courses.map((course, i) => ({
    ...{ ...styles[i]!, name: course.title.replace(/ model$/, '') },
    places: course.points.map(({ step }) => step),
    values: sinkCounts(course).map((n, at) => (isShown(course.points[at]!.step) ? n : NaN)),
  }));
  const marks = courses
    .flatMap((course, i) => marksOf(course, styles[i]!.color))
    .filter(({ x }) => isShown(x));
  const isComplete = courses.every(({ points }) => points.every((point) => point.frame));
  const heads = Math.max(...frames.map(headCount));
  const yLabel = `heads with a sink, of ${heads}${isComplete || isPlaying ? '' : ` · ${MEASURING}`}`;
  const words = series.flatMap(({ name, places, values }) => {
    const ends = [0, values.length - 1].filter((at) => Number.isFinite(values[at]));
    return ends.length
      ? `${name}: ${ends.map((at) => `${values[at]} at step ${places[at]}`).join(', ')}`
      : [];
  });
  drawChart(place, {
    ...{
      kind: 'lines',
      named: true,
      series,
      marks,
      yLabel,
    },
    ...{ xLabel: 'training step', cursor: nearestStep(steps, shownStep) },
    onChoose: (x) => onChoose(nearestStep(steps, x)),
    // The style sheet keeps the place of the chart before it is drawn.
    height: parseFloat(getComputedStyle(place).minHeight) || MIN_HEIGHT,
    domain: [0, heads],
    xDomain: [0, end],
    label: [`Through training, ${yLabel}`, ...words, ...marks.map(({ text }) => text), '']
      .join('. ')
      .trim(),
  });
}
