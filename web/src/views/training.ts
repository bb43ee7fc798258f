/** Draws a quantity during training: a line for each stored run, with the shown runs stronger. */
import { signal } from '@preact/signals-core';
import { render } from 'lit';
import { segmented } from '../page/controls';
import type { Frame } from '../frame';
import { drawChart, type Series } from '../plot/chart';
import { keyOf } from '../ask/question';
import { arithmeticOf } from '../ask/subject';
import {
  coursesOf,
  dotsOf,
  lineOf,
  QUANTITIES,
  styleOf,
  valueWords,
  type Course,
  type Point,
} from '../timeline/course';
import {
  bandOf,
  OTHER_RUNS,
  seedRuns,
  seedWords,
  type Outcome,
  type SeedRun,
} from '../timeline/seeds';
import { LOG_SEQUENCES, MEASURING_CONDITIONS, stepOf, checkpointOf } from '../ask/steps';
import { judged } from '../words';
import { addElement, setText, type View } from '../page/view';

/** The courses that have loaded; views and rooms that state their numbers follow this signal. */
const readCourses = signal<readonly Course[]>([]);
/** Whether the courses have loaded or failed. */
const isRead = signal(false);
/** Counts the logs that have loaded or failed. */
const answers = signal(0);
/** Counts the logs that have loaded. */
const logs = signal(0);
/** The models whose logs are loading. */
const requested = new Set<string>();
/** The long runs of the shown models that have logs of several seeds. */
const long = new Map<string, readonly SeedRun[]>();
/** Sink_1 of the visited checkpoints of models on a hub, by question. */
const visits = new Map<string, Map<number, number>>();

/** The conditions of a checkpoint's numbers. */
const MEASURED = ` (exact weights, ${MEASURING_CONDITIONS.sequences} held-out sequences, T = ${MEASURING_CONDITIONS.T}, ε = ${MEASURING_CONDITIONS.eps}, BOS first)`;

/** A share of heads in percent below which hardly a head has a sink. */
const HARDLY = 10;

/** Returns the model of the zoo and the step of a frame; trained weights have no step. */
function walkOf(frame: Frame): { id: string; step?: number } {
  const { weights } = arithmeticOf(frame.model.id);
  return stepOf(weights) ?? { id: weights };
}

function visited(
  frame: Frame,
): { repository: string; visits: ReadonlyMap<number, number> } | undefined {
  const at = checkpointOf(frame.model.id);
  if (!at) return undefined;
  const key = `${at.repository} ${frame.class} ${frame.edits.length} ${keyOf(frame.question)}`;
  const visitedSteps = visits.get(key) ?? new Map<number, number>();
  if (!frame.generated) visitedSteps.set(at.step, judged(frame).sink);
  visits.set(key, visitedSteps);
  return {
    repository: at.repository,
    visits: new Map([...visitedSteps].sort(([a], [b]) => a - b)),
  };
}

/** Returns the spread over seeds of the shown models. */
function bands(frames: readonly Frame[], quantity: (typeof QUANTITIES)[number]): Series[] {
  const ids = [...new Set(frames.map((frame) => walkOf(frame).id))];
  return ids.flatMap((id, i): Series[] => {
    const runs = long.get(id) ?? [];
    const points = bandOf(runs, quantity.inSeeds);
    if (!points.length) return [];
    const course = readCourses.peek().find((one) => one.id === id);
    const { model } = frames.find((frame) => walkOf(frame).id === id)!;
    const steps = runs[0]!.training.steps.toLocaleString('en');
    return [
      {
        name: `${course?.title ?? model.title}, ${runs.length} seeds of ${steps} steps`,
        color: (course?.style ?? styleOf(readCourses.peek().length + i)).color,
        dash: '1,3',
        places: points.map(({ step }) => step),
        values: points.map(({ mean }) => mean),
        band: { low: points.map(({ low }) => low), high: points.map(({ high }) => high) },
      },
    ];
  });
}

function series(frames: readonly Frame[], quantity: (typeof QUANTITIES)[number]): Series[] {
  const shown = new Set(frames.map((frame) => walkOf(frame).id));
  const zooLines = readCourses.peek().map((course): Series => {
    const points = lineOf(course, quantity);
    const { color, dash } = course.style;
    return {
      name: course.title,
      color,
      ...(dash ? { dash } : {}),
      faint: !shown.has(course.id),
      places: points.map(({ step }) => step),
      values: points.map(({ value }) => value),
    };
  });
  const others =
    quantity.name !== 'sink_1'
      ? []
      : frames.flatMap((frame, i): Series[] => {
          const points = visited(frame);
          if (!points) return [];
          const values = [...points.visits.values()].map((sink) => 100 * sink);
          return [
            {
              name: `${points.repository}, visited steps`,
              color: styleOf(readCourses.peek().length + i).color,
              places: [...points.visits.keys()],
              values,
            },
          ];
        });
  // Draws the shown runs on top of the others.
  return [...bands(frames, quantity), ...zooLines, ...others].sort(
    (a, b) => Number(Boolean(b.faint)) - Number(Boolean(a.faint)),
  );
}

/**
 * Returns the step at which half of a model's sink had emerged, and `isNone` if hardly a head had a sink at any step.
 * Returns undefined until the model's course is loaded.
 */
export function emergence(frame: Frame):
  | {
      readonly isNone: boolean;
      readonly step: number;
      readonly from: number;
      readonly last: number;
    }
  | undefined {
  const course = readCourses.value.find(({ id }) => id === walkOf(frame).id);
  const sink = QUANTITIES.find(({ name }) => name === 'sink_1')!;
  const points = course ? lineOf(course, sink) : [];
  if (!points.length) return undefined;
  const last = points.at(-1)!.value;
  const maximum = Math.max(...points.map(({ value }) => value));
  const { step } = points.find(({ value }) => value >= last / 2)!;
  return { isNone: maximum < HARDLY, step, from: points[0]!.value, last };
}

/**
 * Returns sentences about the shown checkpoint, and about other seeds.
 * @param outcomes the outcomes to state; absent: all
 */
function sentences(frame: Frame, outcomes?: readonly Outcome[]): string[] {
  const { id, step } = walkOf(frame);
  const course = readCourses.peek().find((one) => one.id === id);
  const seedStats = seedRunsOf(frame, outcomes);
  if (!course) return seedStats;
  const { checkpoints, seed } = course.timeline;
  const at = checkpoints.find((one) => one.step === step) ?? checkpoints.at(-1)!;
  const phrases = QUANTITIES.slice(0, 3).map(
    (one) => `${one.title} ${valueWords(at.measured[one.inCheckpoint], one)}`,
  );
  return [
    `${course.title}, seed ${seed}, at step ${at.step.toLocaleString('en')}: ${phrases.join(', ')}${MEASURED}.`,
    // Its logs may still be loading.
    ...(seedStats.length || (SEEDS[id]?.length && !long.get(id)?.length)
      ? seedStats
      : ['One seed: the variation between seeds is unknown.']),
  ];
}

function seedRunsOf(frame: Frame, outcomes?: readonly Outcome[]): string[] {
  const seedNote = seedWords(long.get(walkOf(frame).id) ?? [], outcomes);
  return seedNote ? [seedNote] : [];
}

export const training: View = {
  name: 'training',
  title: 'Through training',
  question: 'When does the sink appear?',
  how:
    `Lines: measured during training on ${LOG_SEQUENCES} held-out sequences. The selected models are ` +
    'highlighted. Bands: min-max of long runs over seeds, with their mean as a dotted line. ' +
    `${OTHER_RUNS} Select a point to go to the nearest checkpoint.`,
  drawsAllSubjects: true,
  reads: ['sink_ratio'],
  conditions: (frame) => {
    // A hub's checkpoints are measured when they are visited.
    if (frame.model.source !== 'zoo') return {};
    const { T, eps } = MEASURING_CONDITIONS;
    const setting = `during training: ε = ${eps} · T = ${T} · start token first · mean of ${LOG_SEQUENCES} held-out sequences`;
    return { T, eps, sequences: LOG_SEQUENCES, setting };
  },
  fits: (frame) => frame.model.source === 'zoo' || checkpointOf(frame.model.id) !== undefined,
  numbers: (frame) => {
    const { id } = walkOf(frame);
    const course = readCourses.peek().find((one) => one.id === id);
    return QUANTITIES.flatMap((quantity) => {
      const seedBand = bandOf(long.get(id) ?? [], quantity.inSeeds);
      const ofRun: (readonly [string, readonly Point[]])[] = course
        ? [
            [quantity.name, lineOf(course, quantity)],
            [`${quantity.name}_at_checkpoints`, dotsOf(course, quantity)],
          ]
        : [];
      const ofSeeds = (['mean', 'low', 'high', 'seeds'] as const).map(
        (name): readonly [string, readonly Point[]] => [
          `${quantity.name}_over_seeds_${name}`,
          seedBand.map((at) => ({ step: at.step, value: at[name] })),
        ],
      );
      return [...ofRun, ...(seedBand.length ? ofSeeds : [])].map(([name, points]) => ({
        name,
        axes: ['step'],
        shape: [points.length],
        data: points.map(({ value }) => value),
        places: points.map(({ step }) => step),
      }));
    });
  },
  isPending: (frame) => {
    void answers.value;
    const { id } = walkOf(frame);
    return !isRead.value || requested.has(id);
  },
  says: (frame) => {
    // The sentence depends on them, and rooms that repeat it follow.
    void [readCourses.value, logs.value];
    return [...sentences(frame), ...(seedRunsOf(frame).length ? [OTHER_RUNS] : [])].join('\n');
  },
  draw(root, { set, timelines, fail }) {
    const kinds = addElement(root, '');
    const chart = addElement(root, 'chart');
    const words = addElement(root, 'caption lines', 'p');
    // Under the room's answer only the curves of the chosen models are visible; a folded section has the others.
    const section = addElement(root, 'more', 'details') as HTMLDetailsElement;
    addElement(section, '', 'summary').textContent = 'Other quantities, models and seeds';
    section.addEventListener('toggle', () => redraw());
    let redraw = () => {};
    timelines()
      .then(coursesOf)
      .then((found) => {
        readCourses.value = found;
        redraw();
      }, fail)
      .finally(() => (isRead.value = true));
    const fetchSeeds = (frames: readonly Frame[]) => {
      for (const { id } of frames.map(walkOf)) {
        if (long.has(id)) continue;
        long.set(id, []);
        requested.add(id);
        // Without a network the logs are missing, and the rest works.
        void seedRuns(id)
          .then(
            (runs) => {
              long.set(id, runs);
              if (!runs.length) return;
              redraw();
              logs.value++;
            },
            () => long.delete(id),
          )
          .finally(() => {
            requested.delete(id);
            answers.value++;
          });
      }
    };
    return (frame, { state, frames, isAnswered }) => {
      section.hidden = !isAnswered;
      if (isAnswered && kinds.parentElement !== section) section.append(kinds, words);
      fetchSeeds(frames);
      redraw = () => {
        const quantity = QUANTITIES.find(({ name }) => name === state.curve) ?? QUANTITIES[1]!;
        render(
          segmented(
            'Quantity',
            QUANTITIES.map(({ name, title, short }) => [name, short, title] as const),
            quantity.name,
            (curve) => set({ curve }),
            true,
          ),
          kinds,
        );
        const { inSeeds: outcome, ...as } = quantity;
        const unit = as.unit === '%' ? '%' : as.unit && ` ${as.unit}`;
        const lines = frames.flatMap((one) => sentences(one, [{ ...as, name: outcome, unit }]));
        const uniqueLines = [...new Set(lines)];
        // The conditions of the measurement are stated once, after the last model.
        const isLast = (i: number) =>
          !uniqueLines.slice(i + 1).some((one) => one.includes(MEASURED));
        const captions = uniqueLines
          .map((one, i) => (isLast(i) ? one : one.replace(MEASURED, '')))
          .join('\n');
        setText(words, captions);
        // The chosen models, including this one's twin.
        const chosen = readCourses.peek().filter(({ id }) => state.shown.includes(id));
        const titles = new Set(chosen.map(({ title }) => title));
        const { step } = walkOf(frame);
        const of = frame.model.step?.of ?? readCourses.peek()[0]?.timeline.checkpoints.at(-1)?.step;
        drawChart(chart, {
          kind: 'lines',
          steps: true,
          xLabel: 'training step (log above 100)',
          yLabel: `${quantity.axis ?? quantity.title}${quantity.unit ? `, ${quantity.unit}` : ''}`,
          ...(quantity.log ? { log: true } : {}),
          ...(quantity.domain ? { domain: quantity.domain } : {}),
          cursor: step ?? checkpointOf(frame.model.id)?.step ?? of ?? NaN,
          label: `${quantity.title} by training step. ${captions}`,
          series: series(frames, quantity).filter(
            (one) =>
              !isAnswered || section.open || titles.has(one.name) || !(one.faint ?? one.band),
          ),
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
