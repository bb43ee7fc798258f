/**
 * The stored checkpoints of the page's models on the reader's text: each is measured once, in the background, and its
 * frame is kept, so that maps, counts and curves have one number.
 */
import { signal } from '@preact/signals-core';
import { questionKey, questionOf } from '../ask/question';
import { parseSubject } from '../ask/subject';
import { savesData } from '../base';
import { countedOn, firstName, formatPercent, verdictOf } from '../words';
import { selectedHead, type Frame } from '../frame';
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
 */
export function keepCheckpoints(context: Context, scope: Scope) {
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
        return { step, subject, frame: kept.frames.get(subject) };
      });
      const title = models.zoo.cards.find((card) => card.id === id)?.title ?? id;
      return points.length ? [{ id, title, points }] : [];
    });
  }

  /** The next checkpoint of each model, the earliest first: the timelines of the others would forget their weights. */
  function next(): string[] {
    if (savesData()) return [];
    const isDue = ({ subject, frame }: Point) => {
      const at = frame && selectedHead(frame, context.state.value);
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

/** The share of a frame's heads with a sink; NaN where they are not counted. */
function sinkOf(frame: Frame | undefined): number {
  const verdict = frame && verdictOf(frame);
  return verdict?.conclusive ? verdict.sink : NaN;
}

/**
 * Returns what became of the sink on the text, once all checkpoints are counted; and, if none had one before training,
 * the first checkpoint at which a head has a sink, as far as those before it are counted.
 */
export function learnedOn({ points }: TextCourse) {
  const sinks = points.map(({ frame }) => sinkOf(frame));
  const last = sinks.at(-1)!;
  const uncounted = sinks.findIndex((sink) => !Number.isFinite(sink));
  const counted = uncounted < 0 ? sinks : sinks.slice(0, uncounted);
  const isLearned = sinks[0] === 0 && last > 0;
  const first = isLearned ? points[counted.findIndex((sink) => sink > 0)] : undefined;
  const end = isLearned
    ? 'learned'
    : sinks[0]! > 0
      ? 'already before training'
      : sinks.every((sink) => sink === 0)
        ? 'never'
        : 'only for a time';
  return { outcome: uncounted < 0 ? end : undefined, first } as const;
}

/** Is in the place of numbers that are not counted on this text yet. */
export const COUNTING = 'counting …';

const X_LABEL = 'training step, not evenly spaced';

/** The height of the chart without a style sheet. */
const MIN_HEIGHT = 190;

/** Returns the steps at which any of the courses has a checkpoint, in rising order. */
const courseSteps = (courses: readonly TextCourse[]): number[] =>
  [...new Set(courses.flatMap(({ points }) => points.map(({ step }) => step)))].sort(
    (a, b) => a - b,
  );

/**
 * Draws the courses: a dot for each counted checkpoint, joined where their neighbors are counted. Checkpoints are evenly
 * spaced, as on the slider below.
 */
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
  const counted = courses.flatMap(({ points }) => points.flatMap(({ frame }) => frame ?? []));
  const headCounts = new Set(counted.map(({ architecture: { L, H } }) => L * H));
  const [heads, ...others] = headCounts;
  // What is drawn is of another text until a checkpoint is counted on this one.
  place.classList.toggle('stale', !heads);
  if (!heads) return;
  const isPercent = others.length > 0;
  // A count is whole on one text, where a share in 32 bits is not.
  const isWhole = !isPercent && counted.every(({ sequences }) => sequences === 1);
  const valueOf = (frame: Frame | undefined) => {
    const value = sinkOf(frame) * (isPercent ? 1 : heads);
    return isWhole ? Math.round(value) : value;
  };
  const steps = courseSteps(courses);
  const cursor = steps.indexOf(nearestStep(steps, shownStep));
  const styles = courses.map(({ id }) =>
    styleOf(STYLED_MODELS.findIndex((styled) => styled === id)),
  );
  const series = courses.map(({ title, points }, i) => ({
    ...{ ...styles[i]!, name: title },
    places: points.map(({ step }) => steps.indexOf(step)),
    values: points.map(({ frame }) => valueOf(frame)),
  }));
  const marks = courses.flatMap((course, i) => {
    const { first } = learnedOn(course);
    const { color } = styles[i]!;
    return first
      ? {
          ...{ x: steps.indexOf(first.step), y: valueOf(first.frame), color },
          text: `first sink: step ${first.step.toLocaleString('en')}`,
        }
      : [];
  });
  const [frame] = counted;
  const what = frame
    ? ` (>${formatPercent(frame.eps, 0)} on ${firstName(frame)}) ${countedOn(frame)}`
    : '';
  // A text that is too short to count stays without counts.
  const isComplete =
    counted.some((frame) => !verdictOf(frame).conclusive) ||
    courses.every(({ points }) => points.every(({ frame }) => frame));
  const yLabel = `heads with a sink${what}${isPercent ? '' : `, of ${heads}`}${isComplete || isPlaying ? '' : ` · ${COUNTING}`}`;
  const words = courses.flatMap(({ title, points }) => {
    const ends = [points[0]!, points.at(-1)!].filter(({ frame }) =>
      Number.isFinite(valueOf(frame)),
    );
    return ends.length
      ? [
          `${title}: ${ends.map(({ step, frame }) => `${valueOf(frame)} at step ${step}`).join(', ')}`,
        ]
      : [];
  });
  drawChart(place, {
    ...{ kind: 'lines', named: true, percent: isPercent, series, marks, yLabel, cursor },
    ...{ xLabel: X_LABEL, xNames: steps.map((step) => step.toLocaleString('en')) },
    onChoose: (x) => onChoose(steps[Math.max(0, Math.min(steps.length - 1, Math.round(x)))]!),
    // The style sheet keeps the place of the chart before it is drawn.
    height: parseFloat(getComputedStyle(place).minHeight) || MIN_HEIGHT,
    domain: [0, isPercent ? 1 : heads],
    isExact: true,
    xDomain: [0, steps.length - 1],
    label: [`Through training, ${yLabel}`, ...words, ...marks.map(({ text }) => text), '']
      .join('. ')
      .trim(),
  });
}
