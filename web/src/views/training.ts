/** Draws a quantity during training: a line for each shown model, and a thin one for each of its further runs. */
import { signal } from '@preact/signals-core';
import type { Frame } from '../frame';
import { drawChart, type Series } from '../plot/chart';
import { questionKey } from '../ask/question';
import {
  COURSE_AXIS,
  coursesOf,
  checkpointPointsOf,
  lineOf,
  lineSeries,
  QUANTITIES,
  SINK_QUANTITY,
  styleOf,
  valueWords,
  type Course,
  type Point,
  type Quantity,
} from '../timeline/course';
import { bandOf, OTHER_RUNS, seedRuns, seedWords, type SeedRun } from '../timeline/seeds';
import { LOG_SEQUENCES, MEASURING_CONDITIONS, splitStep, checkpointOf } from '../ask/steps';
import type { Timelines } from '../timeline/timelines';
import { verdictOf } from '../words';
import { addElement, setText, type View } from '../page/view';

/**
 * The courses of the zoo's runs and of the series that were shown, once loaded. Views and rooms that state the courses'
 * numbers follow this signal.
 */
const loadedCourses = signal<readonly Course[]>([]);
/** Whether the courses of the page's own models are loaded, or could not be. */
const areCoursesSettled = signal(false);
/** The series whose courses are loaded or loading, each with its ε. */
const requestedSeries = new Set<string>();
/** The long runs with several seeds, by model; undefined while their logs are loading. */
const longRuns = new Map<string, readonly SeedRun[] | undefined>();
/** The number of models whose logs have been loaded. */
const loadedLogCount = signal(0);
/** The number of models whose logs have been loaded, or could not be. */
const settledLogCount = signal(0);
/**
 * Sink_1 of the checkpoints on a hub that the reader has visited, by step. The key names the repository, the class of
 * the numbers, the number of edits and the question.
 */
const visitedSinks = new Map<string, Map<number, number>>();

const CONDITIONS_NOTE = ` (exact weights, ${MEASURING_CONDITIONS.sequences} held-out sequences, T = ${MEASURING_CONDITIONS.T}, ε = ${MEASURING_CONDITIONS.eps}, start token first)`;

/** Below this percentage of heads a model counts as having no sink. */
const MIN_SINK_PERCENT = 10;

/** Returns a frame's model of the zoo, or its series, and the step of its checkpoint; the end of a training has no step. */
function zooStepOf(frame: Frame): { id: string; step?: number } {
  const { id } = frame.model;
  return splitStep(id) ?? { id };
}

/**
 * Remembers Sink_1 of the frame's model if it is a checkpoint of a hub, and returns all visits so far to checkpoints of
 * its repository under the same conditions; otherwise undefined.
 */
function recordVisit(frame: Frame) {
  const checkpoint = checkpointOf(frame.model.id);
  if (!checkpoint) return undefined;
  const key = `${checkpoint.repository} ${frame.class} ${frame.edits.length} ${questionKey(frame.question)}`;
  const visitedSteps = visitedSinks.get(key) ?? new Map<number, number>();
  if (!frame.generated) visitedSteps.set(checkpoint.step, verdictOf(frame).sink);
  visitedSinks.set(key, visitedSteps);
  const visits = [...visitedSteps].sort(([a], [b]) => a - b);
  return { repository: checkpoint.repository, visits };
}

/** Returns a thin line for each further run of the shown models. */
function runLines(frames: readonly Frame[], quantity: Quantity): Series[] {
  const ids = [...new Set(frames.map((frame) => zooStepOf(frame).id))];
  return ids.flatMap((id, i) => {
    const { style } = loadedCourses.peek().find((course) => course.id === id) ?? {};
    return (longRuns.get(id) ?? []).map(({ points }): Series => ({
      ...(style ?? styleOf(loadedCourses.peek().length + i)),
      ...{ name: '', faint: true },
      places: points.map(({ step }) => step!),
      values: points.map((point) => point[quantity.seedsName] ?? NaN),
    }));
  });
}

function seriesOf(frames: readonly Frame[], quantity: Quantity): Series[] {
  const shownIds = new Set(frames.map((frame) => zooStepOf(frame).id));
  const zooLines = loadedCourses
    .peek()
    .filter(({ id }) => shownIds.has(id))
    .map((course) => lineSeries(course, quantity));
  const hubLines = frames.flatMap((frame, i): Series[] => {
    const visitedCourse = quantity === SINK_QUANTITY ? recordVisit(frame) : undefined;
    if (!visitedCourse) return [];
    return [
      {
        name: `${visitedCourse.repository}, visited steps`,
        color: styleOf(loadedCourses.peek().length + i).color,
        places: visitedCourse.visits.map(([step]) => step),
        values: visitedCourse.visits.map(([, sink]) => 100 * sink),
      },
    ];
  });
  return [...runLines(frames, quantity), ...zooLines, ...hubLines];
}

/**
 * Returns the step at which Sink_1 first reached half of its last value, and Sink_1 at the first and the last
 * step and its maximum, in percent; undefined until the model's course is loaded. `isNone`: whether the model has no
 * sink at any step.
 */
export function emergenceOf(frame: Frame) {
  const course = loadedCourses.value.find(({ id }) => id === zooStepOf(frame).id);
  const points = course ? lineOf(course, SINK_QUANTITY) : [];
  if (!points.length) return undefined;
  const lastValue = points.at(-1)!.value;
  const maximum = Math.max(...points.map(({ value }) => value));
  const { step } = points.find(({ value }) => value >= lastValue / 2)!;
  const isNone = maximum < MIN_SINK_PERCENT;
  return { isNone, step, from: points[0]!.value, last: lastValue, maximum };
}

/** Returns sentences about the shown checkpoint, and about other seeds. */
function checkpointSentences(frame: Frame): string[] {
  const { id, step } = zooStepOf(frame);
  const course = loadedCourses.peek().find((candidate) => candidate.id === id);
  const seedLines = seedSentences(frame);
  if (!course) return seedLines;
  const { checkpoints, seed } = course.timeline;
  const checkpoint =
    checkpoints.find((candidate) => candidate.step === step) ?? checkpoints.at(-1)!;
  const phrases = QUANTITIES.slice(0, 3).map(
    (quantity) =>
      `${course.series ? quantity.shortTitle : quantity.title} ${valueWords(checkpoint.measured[quantity.checkpointName], quantity)}`,
  );
  const at = `at step ${checkpoint.step.toLocaleString('en')}: ${phrases.join(', ')}`;
  if (course.series) return [`${course.title} ${at} (${course.series.words}).`];
  return [
    `${course.title}, seed ${seed}, ${at}${CONDITIONS_NOTE}.`,
    // The logs of more seeds may still be loading.
    ...(seedLines.length || (SEEDS[id]?.length && !longRuns.get(id)?.length)
      ? seedLines
      : ['One seed: the variation between seeds is unknown.']),
  ];
}

function seedSentences(frame: Frame): string[] {
  const seedNote = seedWords(longRuns.get(zooStepOf(frame).id) ?? []);
  return seedNote ? [seedNote] : [];
}

/** Says in how many of the further runs of each shown model many heads have a sink, and when. */
function runSentences(frames: readonly Frame[]): string[] {
  const frameById = new Map(frames.map((frame) => [zooStepOf(frame).id, frame]));
  return [...frameById].flatMap(([id, { model }]) => {
    const runs = longRuns.get(id) ?? [];
    if (runs.length < 2) return [];
    const sinkOf = (point: SeedRun['points'][number]) => point[SINK_QUANTITY.seedsName] ?? 0;
    // A share below 10% is not rounded up to it.
    const short = (x: number) => (x < 10 ? Math.floor(10 * x) / 10 : Math.round(x));
    const range = (values: readonly number[]) =>
      [...new Set([Math.min(...values), Math.max(...values)].map(short))]
        .map((value) => value.toLocaleString('en'))
        .join(' to ');
    const found = runs
      .map(({ points }) => points.find((point) => sinkOf(point) >= MIN_SINK_PERCENT))
      .filter((point) => point !== undefined);
    const ends = runs.map(({ points }) => points.at(-1)!);
    const count =
      found.length === runs.length
        ? `all ${runs.length}`
        : `${found.length || 'none'} of ${runs.length}`;
    const when = found.length ? `, first at step ${range(found.map(({ step }) => step!))}` : '';
    return [
      `${model.title.replace(/ at step .*/, '')}: ${count} further runs ${found.length > 1 ? 'reach' : 'reaches'} ${MIN_SINK_PERCENT}% of heads${when}; ${range(ends.map(sinkOf))}% at the end (step ${range(ends.map(({ step }) => step!))}).`,
    ];
  });
}

/** Returns the step that a frame shows; of trained weights the last one. NaN until the timelines are loaded. */
function shownStep({ model }: Frame): number {
  const step = splitStep(model.id)?.step ?? checkpointOf(model.id)?.step ?? model.step?.of;
  return step ?? loadedCourses.peek()[0]?.timeline.checkpoints.at(-1)?.step ?? NaN;
}

function axisLabel({ axis, title, shortTitle, unit }: Quantity, frames: readonly Frame[]): string {
  // The prompts of a recording need not be held out.
  const areRecorded = frames.every(({ recording }) => recording);
  const name = axis ?? (areRecorded ? shortTitle : title);
  return `${name}${areRecorded ? '' : `, mean of ${LOG_SEQUENCES} passages`}${unit ? `, ${unit}` : ''}`;
}

/** Loads the courses of the shown series; again where the reader chose another ε. */
function loadSeries(
  frames: readonly Frame[],
  timelines: () => Promise<Timelines>,
  redraw: () => void,
  fail: (error: unknown) => void,
): void {
  for (const frame of frames.filter(({ recording, model }) => recording && model.step)) {
    const key = `${zooStepOf(frame).id} ${frame.eps}`;
    if (requestedSeries.has(key)) continue;
    requestedSeries.add(key);
    const show = (course: Course | undefined) => {
      if (!course) return;
      loadedCourses.value = [...loadedCourses.peek().filter(({ id }) => id !== course.id), course];
      redraw();
    };
    timelines()
      .then((loaded) => loaded.seriesCourse(frame))
      .then(show, (error: unknown) => {
        requestedSeries.delete(key);
        fail(error);
      });
  }
}

/** The timelines whose courses are all loaded. */
const readTimelines = new WeakSet<Timelines>();

/** Loads the courses of the page's own models, each once. */
export const loadCourses = (timelines: () => Promise<Timelines>, fail: (error: unknown) => void) =>
  timelines()
    .then(async (loaded) => {
      if (readTimelines.has(loaded)) return;
      const courses = await coursesOf(loaded);
      if (readTimelines.has(loaded)) return;
      if (courses.length === loaded.cards.length) readTimelines.add(loaded);
      loadedCourses.value = [...courses, ...loadedCourses.peek().filter(({ series }) => series)];
    })
    .catch(fail)
    .finally(() => (areCoursesSettled.value = true));

/** Fetches the logs of the further seeds of models, each once, and draws when some have come. */
function fetchSeeds(frames: readonly Frame[], redraw: () => void): void {
  for (const { id } of frames.map(zooStepOf)) {
    if (longRuns.has(id)) continue;
    longRuns.set(id, undefined);
    // Logs that cannot be fetched, as without a network, are left out.
    const seedsPromise = seedRuns(id).then(
      (runs) => {
        longRuns.set(id, runs);
        if (!runs.length) return;
        redraw();
        loadedLogCount.value++;
      },
      () => void longRuns.delete(id),
    );
    // Only isPending follows failures: a redraw would fetch the logs again.
    void seedsPromise.then(() => settledLogCount.value++);
  }
}

export const training: View = {
  name: 'training',
  title: 'Through training',
  question: 'When does the sink appear?',
  how:
    `Lines: measured during training on ${LOG_SEQUENCES} held-out sequences. Thin lines: further runs with other seeds. ` +
    `A series of recordings has its own prompts; its band is the 95% interval over them. ${OTHER_RUNS} Select a point to go to the nearest checkpoint.`,
  drawsAllSubjects: true,
  reads: ['sink_ratio'],
  conditions: (frame) => {
    // Checkpoints on a hub are measured under the conditions of their own frames.
    if (frame.model.source !== 'zoo') return {};
    const { T, eps } = MEASURING_CONDITIONS;
    const setting = `during training: ε = ${eps} · T = ${T} · start token first · mean of ${LOG_SEQUENCES} held-out sequences`;
    // The curves are of weights in full, however few bits the checkpoint is stored in.
    const { bits: _bits, ...model } = frame.model;
    return { T, eps, sequences: LOG_SEQUENCES, setting, model };
  },
  fits: ({ model }) =>
    model.source === 'zoo' || Boolean(model.step) || checkpointOf(model.id) !== undefined,
  numbers: (frame) => {
    const { id } = zooStepOf(frame);
    const course = loadedCourses.peek().find((candidate) => candidate.id === id);
    return QUANTITIES.flatMap((quantity) => {
      const { name } = quantity;
      const seedBand = bandOf(longRuns.get(id) ?? [], quantity.seedsName);
      const seedStatistics = seedBand.length ? (['mean', 'low', 'high', 'seeds'] as const) : [];
      const curves: [string, readonly Point[]][] = seedStatistics.map((statistic) => [
        `${name}_over_seeds_${statistic}`,
        seedBand.map((at) => ({ step: at.step, value: at[statistic] })),
      ]);
      if (course)
        curves.unshift(
          [name, lineOf(course, quantity)],
          [`${name}_at_checkpoints`, checkpointPointsOf(course, quantity)],
        );
      return curves.map(([curve, points]) => ({
        name: curve,
        axes: ['step'],
        shape: [points.length],
        data: points.map(({ value }) => value),
        places: points.map(({ step }) => step),
      }));
    });
  },
  isPending: (frame) => {
    void settledLogCount.value;
    const { id } = zooStepOf(frame);
    return !areCoursesSettled.value || (longRuns.has(id) && !longRuns.get(id));
  },
  says: (frame) => {
    // Reads the signals, so that views that state the sentence update when courses or logs load.
    void [loadedCourses.value, loadedLogCount.value];
    return [
      ...checkpointSentences(frame),
      ...(seedSentences(frame).length ? [OTHER_RUNS] : []),
    ].join('\n');
  },
  draw(root, { timelines, fail }) {
    const chart = addElement(root, 'chart');
    const captionElement = addElement(root, 'caption lines', 'p');
    let redraw = () => {};
    void loadCourses(timelines, fail).then(() => redraw());
    return (frame, { state, frames }) => {
      fetchSeeds(frames, () => redraw());
      loadSeries(frames, timelines, () => redraw(), fail);
      redraw = () => {
        const quantity = QUANTITIES.find(({ name }) => name === state.curve) ?? SINK_QUANTITY;
        const runs = quantity === SINK_QUANTITY ? runSentences(frames) : [];
        const captions = runs.length
          ? [...runs, OTHER_RUNS].join(' ')
          : frames.flatMap((one) => checkpointSentences(one)).join('\n');
        setText(captionElement, captions);
        const { domain } = quantity;
        drawChart(chart, {
          kind: 'lines',
          steps: true,
          xLabel: COURSE_AXIS,
          yLabel: axisLabel(quantity, frames),
          ...(quantity.isLog ? { log: true } : {}),
          ...(domain && { domain }),
          cursor: shownStep(frame),
          label: `${quantity.title} by training step. ${captions}`,
          series: seriesOf(frames, quantity),
          onChoose: (place) =>
            root.dispatchEvent(
              new CustomEvent('choose-step', { detail: Math.max(0, place), bubbles: true }),
            ),
        });
      };
      redraw();
    };
  },
};
