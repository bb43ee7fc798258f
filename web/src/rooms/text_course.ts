/**
 * The number of heads with a sink on the reader's text through training: counted at each stored checkpoint of the
 * page's models, in the background, so that grid, sentence and curve have one number.
 */
import { signal } from '@preact/signals-core';
import { questionKey, questionOf } from '../ask/question';
import { parseSubject } from '../ask/subject';
import { savesData } from '../base';
import type { Frame } from '../frame';
import type { Context, Scope } from '../page/context';
import { drawChart, type ChartData } from '../plot/chart';
import type { Study } from '../run/request';
import { styleOf, STYLED_MODELS } from '../timeline/course';
import { countedOn, verdictOf } from '../words';
import { stepsOf, subjectsAtStep, trainedSubjects } from './walk';

const COUNTED = ['alpha_uniform', 'sink_ratio', 'sink_ratio_raw'];

/** A stored checkpoint; its frame is undefined until its heads are counted. */
interface Point {
  readonly step: number;
  readonly study: Study;
  readonly frame: Frame | undefined;
}

/** A model with stored checkpoints. */
interface TextCourse {
  readonly id: string;
  readonly title: string;
  readonly points: readonly Point[];
}

/**
 * Returns functions that return the courses of the shown models, and the studies that count their next checkpoints. To
 * save data, only checkpoints are counted to which the reader has gone.
 */
export function countThroughTraining(context: Context, scope: Scope) {
  const storedSteps = signal<ReadonlyMap<string, readonly number[]>>(new Map());
  const requestedSubjects = new Set<string>();
  /** The frames that were drawn with a question, which need no study. */
  const drawn = { question: '', frames: new Map<string, Frame>() };
  const trained = () =>
    trainedSubjects(context.state.value.shown).filter((text) =>
      STYLED_MODELS.some((id) => id === parseSubject(text)?.id),
    );

  scope.effect(() => {
    const models = context.engine.value?.models;
    for (const subject of trained()) {
      if (!models || requestedSubjects.has(subject)) continue;
      requestedSubjects.add(subject);
      void stepsOf(models, [subject]).then((steps) => {
        storedSteps.value = new Map([...storedSteps.peek(), [subject, steps]]);
      }, context.fail);
    }
  });

  function courses(): TextCourse[] {
    const engine = context.engine.value;
    if (!engine) return [];
    const { models, queue, fileVersion } = engine;
    const question = questionOf(context.state.value, fileVersion.value);
    if (drawn.question !== questionKey(question)) {
      drawn.question = questionKey(question);
      drawn.frames.clear();
    }
    return trained().flatMap((trainedSubject): TextCourse[] => {
      const { id } = parseSubject(trainedSubject)!;
      const steps = storedSteps.value.get(trainedSubject) ?? [];
      const points = steps.map((step): Point => {
        const [subject] = subjectsAtStep(models, [trainedSubject], step, steps.at(-1)!);
        const study = { subject: subject!, question, measures: COUNTED, isQuiet: true };
        const entry = queue.entries.value.get(subject!);
        if (entry?.frame && !entry.isStale) drawn.frames.set(subject!, entry.frame);
        return { step, study, frame: queue.studyEntry(study)?.frame ?? drawn.frames.get(subject!) };
      });
      const title = models.zoo.cards.find((card) => card.id === id)?.title ?? id;
      return points.length ? [{ id, title, points }] : [];
    });
  }

  /** The next study of each model, the earliest first: the timelines of the others would forget their weights. */
  function studies(): Study[] {
    const { queue } = context.engine.value!;
    const isDue = ({ study, frame }: Point) => !frame && !queue.studyEntry(study) && !savesData();
    return courses()
      .flatMap(({ points }) => points.find(isDue) ?? [])
      .sort((a, b) => a.step - b.step)
      .map(({ study }) => study);
  }

  /** Whether a shown model has stored checkpoints, or may have them while their list loads. */
  const hasCourses = () => trained().some((text) => storedSteps.value.get(text)?.length !== 0);
  return { courses, studies, hasCourses };
}

/**
 * Says by which checkpoint the first head, and half as many heads as in the end, had a sink: of the first model all of
 * whose checkpoints are counted, if it had none before training; '' without one.
 */
export function learnedWords(courses: readonly TextCourse[]): string {
  for (const { points } of courses) {
    const sinks = points.map(({ frame }) => (frame ? verdictOf(frame).sink : NaN));
    const stepOf = (least: number) =>
      points[sinks.findIndex((sink) => sink > 0 && sink >= least)]!.step.toLocaleString('en');
    const last = sinks.at(-1)!;
    if (sinks[0] !== 0 || !(last > 0) || !sinks.every(Number.isFinite)) continue;
    const [first, half] = [stepOf(0), stepOf(last / 2)];
    return `First sink: step ${first}${half === first ? '' : `; half of them: step ${half}`}.`;
  }
  return '';
}

/** Draws the courses: a dot for each counted checkpoint, joined where their neighbors are counted, faint after the step of the cursor. */
export function drawTextCourses(
  place: HTMLElement,
  courses: readonly TextCourse[],
  { isPlaying, ...more }: Pick<ChartData, 'onChoose' | 'cursor'> & { readonly isPlaying?: boolean },
): void {
  const counted = courses.flatMap(({ points }) => points.flatMap(({ frame }) => frame ?? []));
  const headCounts = new Set(counted.map(({ architecture: { L, H } }) => L * H));
  const [heads = 1, ...others] = headCounts;
  const isPercent = others.length > 0;
  const valueOf = (frame: Frame | undefined) => {
    const verdict = frame && verdictOf(frame);
    return verdict?.conclusive ? verdict.sink * (isPercent ? 1 : heads) : NaN;
  };
  const { cursor = Infinity } = more;
  const series = courses.flatMap(({ id, title, points }) => {
    const style = styleOf(STYLED_MODELS.findIndex((styled) => styled === id));
    const lineOf = (name: string, isIn: (step: number) => boolean) => ({
      ...style,
      name,
      places: points.map(({ step }) => step),
      values: points.map(({ step, frame }) => (isIn(step) ? valueOf(frame) : NaN)),
    });
    return [
      lineOf(title, (step) => step <= cursor),
      { ...lineOf('', (step) => step >= cursor), faint: true },
    ];
  });
  const scope = counted[0] ? countedOn(counted[0]) : 'on this text';
  // A text that is too short to count stays without counts.
  const isComplete =
    counted.some((frame) => !verdictOf(frame).conclusive) ||
    courses.every(({ points }) => points.every(({ frame }) => frame));
  const yLabel = `heads with a sink ${scope}${isPercent ? '' : `, of ${heads}`}${isComplete || isPlaying ? '' : ' · counting …'}`;
  const words = courses.map(({ title, points }) => {
    const ends = [points[0]!, points.at(-1)!].filter(({ frame }) =>
      Number.isFinite(valueOf(frame)),
    );
    return `${title}: ${ends.map(({ step, frame }) => `${valueOf(frame)} at step ${step}`).join(', ')}`;
  });
  drawChart(place, {
    ...more,
    ...{ kind: 'lines', steps: true, named: true, percent: isPercent, series, yLabel, height: 150 },
    ...{ xLabel: 'training step, not evenly spaced', cursorWords: 'now' },
    domain: [0, isPercent ? 1 : heads],
    isExact: true,
    xDomain: [0, Math.max(...series.flatMap(({ places }) => places))],
    label: `Through training, ${yLabel}. ${words.join('. ')}.`,
  });
}
