/** Reads the curves of training from the logs of runs, as lines and points over the steps. */
import type { Checkpoint, Timeline } from 'sinkscope';
import { idWithoutStep } from '../ask/steps';
import type { Card } from '../ask/zoo';
import type { Frame } from '../frame';
import { formatValue } from '../words';

export interface Quantity {
  readonly name: string;
  readonly title: string;
  /** The axis label, if the title is a symbol. */
  readonly axis?: string;
  readonly shortTitle: string;
  /** The quantity's names in the log, in the facts of checkpoints, and in the logs of seeds. */
  readonly logName: string;
  readonly checkpointName: string;
  readonly seedsName: string;
  readonly unit: string;
  readonly isLog?: boolean;
  /** The axis shows at least this range; absent: the range of the values. */
  readonly domain?: readonly [number, number];
  readonly possibleRange: readonly [number, number];
  readonly digits: number;
}

function quantityRow(
  name: string,
  title: string,
  shortTitle: string,
  more: Partial<Quantity>,
): Quantity {
  const names = { name, logName: name, checkpointName: name, seedsName: name };
  return {
    ...names,
    title,
    shortTitle,
    unit: '',
    possibleRange: [0, Infinity],
    digits: 2,
    ...more,
  };
}

export const QUANTITIES: readonly Quantity[] = [
  quantityRow('loss', 'held-out loss', 'loss', {
    logName: 'held_out_loss',
    unit: 'nats per token',
  }),
  quantityRow('sink_1', 'Sink₁', 'heads with a sink', {
    axis: 'heads with a sink',
    seedsName: 'sink_0.3',
    possibleRange: [0, 100],
    unit: '%',
    domain: [0, 60],
    digits: 1,
  }),
  quantityRow('alpha_max', 'largest α₁ of a head', 'strongest head', {
    possibleRange: [0, 1],
    domain: [0, 1],
  }),
  quantityRow('hidden_ratio', '‖h₁‖ relative to the others, max over layers', 'first hidden norm', {
    unit: '×',
    isLog: true,
    domain: [0.7, 10],
  }),
  quantityRow('value_ratio', '‖v₁‖ relative to the others, mean over heads', 'first value norm', {
    unit: '×',
    isLog: true,
    domain: [0.3, 3],
  }),
  quantityRow('row_mass', 'mean row sum', 'row sum', {
    checkpointName: 'row_mass_mean',
    domain: [0, 1],
  }),
];

/** The name of the axis of training steps, whose scale has room for step 0. */
export const COURSE_AXIS = 'training step, as log(1 + step/100)';

export const SINK_QUANTITY = QUANTITIES.find(({ name }) => name === 'sink_1')!;

export type Point = { readonly step: number; readonly value: number };

/** The style of a run's line. Dashes are for readers who cannot distinguish its color. */
interface Style {
  readonly color: string;
  /** The lengths of the dashes in pixels; absent for a solid line. */
  readonly dash?: string;
}

const STYLES: readonly Style[] = [
  { color: '--run-1' },
  { color: '--run-2', dash: '5,3' },
  { color: '--run-3', dash: '2,2' },
  { color: '--run-4', dash: '8,2,2,2' },
  { color: '--run-5', dash: '10,3' },
  { color: '--run-6', dash: '4,2,1,2,1,2' },
];

export const styleOf = (index: number): Style => STYLES[index % STYLES.length]!;

/** The models with a timeline, in the order of the zoo. Each has the same style in every picture. */
export const STYLED_MODELS = [
  'softmax',
  'sigmoid',
  'key-bias',
  'gated',
  'lr-1e-3',
  'decay-0',
] as const;

/** Returns a color for each subject: the model's own, or else one that no other subject has. */
export function colorsOf(
  frames: readonly { readonly model: Pick<Frame['model'], 'id'> }[],
): string[] {
  const indices = frames.map(({ model }) => {
    const id = idWithoutStep(model.id);
    return STYLED_MODELS.findIndex((styled) => styled === id);
  });
  const fixedIndices = indices.map((index, i) => (indices.indexOf(index) === i ? index : -1));
  const freeIndices = STYLES.map((_, i) => i).filter((i) => !fixedIndices.includes(i));
  // Other models get the colors of the twins, which are the first two models, only if no other color is left.
  freeIndices.sort((a, b) => Number(a < 2) - Number(b < 2));
  return fixedIndices.map((index) => styleOf(index < 0 ? (freeIndices.shift() ?? 0) : index).color);
}

export interface Course {
  readonly id: string;
  readonly title: string;
  readonly style: Style;
  /** A series of recordings has checkpoints alone. */
  readonly timeline: Pick<Timeline, 'checkpoints' | 'log'> & Partial<Pick<Timeline, 'seed'>>;
  /** For a series, the conditions of all its checkpoints. */
  readonly series?: { readonly eps: number; readonly words: string };
}

/** @param frame of one of the checkpoints */
export function courseOfSeries(
  id: string,
  checkpoints: readonly Checkpoint[],
  { model, eps, T, sequences }: Frame,
): Course {
  const [prompts, title] = [
    sequences === 1 ? 'one prompt' : `${sequences} prompts`,
    model.title.replace(/ at step .*/, ''),
  ];
  const words = `recorded: ${prompts}, T = ${T}, ε = ${eps}`;
  // The style after those of the models that are shipped with the page.
  const style = styleOf(STYLED_MODELS.length);
  return { id, title, style, timeline: { checkpoints, log: [] }, series: { eps, words } };
}

/**
 * Loads the courses of models that have one, and leaves out those that fail to load.
 * @param ids the ids of the models; absent: all models
 */
export async function coursesOf(
  timelines: {
    readonly cards: readonly Pick<Card, 'id' | 'title'>[];
    readonly get: (id: string) => Promise<Timeline>;
  },
  ids?: readonly string[],
): Promise<Course[]> {
  const styledModels = timelines.cards.map(({ id, title }, i) => ({
    id,
    title,
    style: styleOf(i),
  }));
  const requestedModels = styledModels.filter(({ id }) => ids?.includes(id) ?? true);
  const loadResults = await Promise.allSettled(
    requestedModels.map(async (model) => ({ ...model, timeline: await timelines.get(model.id) })),
  );
  return loadResults.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
}

function definedPoints(
  lines: readonly { readonly step: number; readonly value: number | undefined }[],
): Point[] {
  return lines.filter((line): line is Point => line.value !== undefined);
}

/** Returns the values at the checkpoints, measured with the exact weights. */
export function checkpointPointsOf(
  { timeline }: Course,
  { checkpointName }: Pick<Quantity, 'checkpointName'>,
): Point[] {
  return definedPoints(
    timeline.checkpoints.map(({ step, measured }) => ({ step, value: measured[checkpointName] })),
  );
}

/** Returns the values of the log; those of the checkpoints if the log lacks the quantity at its end. */
export function lineOf(course: Course, quantity: Quantity): Point[] {
  const loggedPoints = definedPoints(
    course.timeline.log.map((line) => ({ step: line.step, value: line[quantity.logName] })),
  );
  const checkpointPoints = checkpointPointsOf(course, quantity);
  const isComplete =
    loggedPoints.length >= checkpointPoints.length &&
    loggedPoints.at(-1)?.step === checkpointPoints.at(-1)?.step;
  return isComplete ? loggedPoints : checkpointPoints;
}

/**
 * Returns the line of a course in a chart, with the quantity's values by step. That of a series has the 95% interval over
 * its prompts, where it is known at every step.
 */
export function lineSeries(course: Course, quantity: Quantity) {
  const points = lineOf(course, quantity);
  const [low, high] = ['low', 'high'].map((end) =>
    checkpointPointsOf(course, { checkpointName: `${quantity.checkpointName}_${end}` }),
  ) as [Point[], Point[]];
  const valuesOf = (line: readonly Point[]) => line.map(({ value }) => value);
  return {
    name: course.title,
    ...course.style,
    places: points.map(({ step }) => step),
    values: valuesOf(points),
    ...(course.series && low.length === points.length
      ? { band: { low: valuesOf(low), high: valuesOf(high) } }
      : {}),
  };
}

export function valueWords(value: number | undefined, { digits, unit }: Quantity): string {
  if (value === undefined) return '–';
  // A share of zero is 0.0%, not a power of ten.
  if (unit === '%') return `${value.toFixed(digits)}%`;
  return `${formatValue(value, digits)}${unit === '×' ? ' ×' : ''}`;
}
