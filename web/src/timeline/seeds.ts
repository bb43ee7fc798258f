/**
 * Statistics over the long runs of a recipe, one run for each seed (models/README.md, "Seeds"). The build makes SEEDS,
 * the seeds of each model that have a log. The log of an interrupted run ends early.
 */
import { mean, deviation } from '../frame';
import { cachedPromise } from '../ask/cached';
import { fetchText } from '../ask/zoo';
import { studentT } from './student';
import type { Quantity } from './course';

export interface SeedRun {
  readonly seed: number;
  readonly training: { readonly steps: number };
  /** Where the recipe's sink is, counted from 1. The outcomes are measured on these positions. */
  readonly sink_tokens: readonly number[];
  /** For each measured step, the step and the outcomes by their names; null where undefined. */
  readonly points: readonly Readonly<Record<string, number | null>>[];
}

const MIN_RANGE_SEEDS = 2;
const MIN_INTERVAL_SEEDS = 4;
/** The page claims nothing about earlier steps. TOO_EARLY of models/train/protocol.py is the same. */
const FIRST_CLAIMED_STEP = 4000;
const runsById = new Map<string, Promise<readonly SeedRun[]>>();

/** Returns the runs of a model of the zoo; empty without logs. */
export function seedRuns(id: string): Promise<readonly SeedRun[]> {
  const read = async (seed: number) =>
    JSON.parse(await fetchText(`${id}/seeds/${seed}.json`)) as SeedRun;
  return cachedPromise(runsById, id, () => Promise.all((SEEDS[id] ?? []).map(read)));
}

/**
 * Returns the statistics at every step at which any of the runs was measured.
 * @param name an outcome of the logs
 */
export function statisticsByStep(runs: readonly SeedRun[], name: string) {
  const valuesByStep = new Map<number, number[]>();
  for (const point of runs.flatMap(({ points }) => points)) {
    const value = point[name] ?? NaN;
    if (!Number.isFinite(value)) continue;
    valuesByStep.set(point.step!, [...(valuesByStep.get(point.step!) ?? []), value]);
  }
  return [...valuesByStep]
    .sort(([a], [b]) => a - b)
    .map(([step, values]) => {
      const [low, high] = [Math.min(...values), Math.max(...values)];
      return { step, seeds: values.length, mean: mean(values), low, high };
    });
}

/** Returns the statistics at the steps that at least MIN_RANGE_SEEDS runs reached. */
export const bandOf = (runs: readonly SeedRun[], name: string) =>
  statisticsByStep(runs, name).filter(({ seeds }) => seeds >= MIN_RANGE_SEEDS);

export type Outcome = Pick<Quantity, 'name' | 'title' | 'unit' | 'digits' | 'possibleRange'>;

export const OUTCOMES: readonly Outcome[] = [
  { name: 'sink_0.3', title: 'Sink₁', unit: '%', digits: 1, possibleRange: [0, 100] },
  {
    name: 'alpha',
    title: 'α₁ above uniform attention',
    unit: '',
    digits: 3,
    possibleRange: [-1, 1],
  },
  {
    name: 'value_ratio',
    title: '‖v₁‖ / mean ‖v‖',
    unit: '',
    digits: 2,
    possibleRange: [0, Infinity],
  },
  {
    name: 'eviction',
    title: 'loss rises by, first key evicted (nats)',
    unit: '',
    digits: 3,
    possibleRange: [-Infinity, Infinity],
  },
  { name: 'loss', title: 'loss', unit: '', digits: 3, possibleRange: [0, Infinity] },
];

/** Formats a number with the typographic minus sign; 0 has no sign. */
export function formatNumber(x: number, digits: number): string {
  const text = x.toFixed(digits);
  return (Number(text) === 0 ? text.replace('-', '') : text).replace('-', '−');
}

/**
 * Returns half of the 95% interval of a mean, by Student's t. Returns NaN for fewer than MIN_INTERVAL_SEEDS values, and
 * if the interval leaves the range of possible values: the distribution is then not normal.
 */
export function halfInterval(
  values: readonly number[],
  [least, most]: Outcome['possibleRange'],
): number {
  const n = values.length;
  if (n < MIN_INTERVAL_SEEDS) return NaN;
  const halfWidth = (studentT(n - 1) * deviation(values)) / Math.sqrt(n);
  const center = mean(values);
  return center - halfWidth < least || center + halfWidth > most ? NaN : halfWidth;
}

/** Formats the number after a ±, so that a small value does not round to 0. */
export function halfIntervalWords(half: number, digits: number): string {
  const smallestShown = 10 ** -digits;
  return half > 0 && half < smallestShown / 2
    ? `<${formatNumber(smallestShown, digits)}`
    : formatNumber(half, digits);
}

/**
 * Returns the outcomes of the runs that reached FIRST_CLAIMED_STEP, at the last step that all of these have; undefined
 * for fewer than two such runs.
 * @param maxStep the last step that may be used
 */
export function spreadOf(runs: readonly SeedRun[], outcomes = OUTCOMES, maxStep = Infinity) {
  const longRuns = runs.filter(({ points }) => Number(points.at(-1)?.step) >= FIRST_CLAIMED_STEP);
  const [firstRun] = longRuns;
  if (!firstRun || longRuns.length < MIN_RANGE_SEEDS) return undefined;
  const step = Math.min(maxStep, ...longRuns.map(({ points }) => points.at(-1)!.step!));
  const points = longRuns.map(({ points }) => points.find((point) => point.step === step));
  const values = outcomes.map(({ name }) => {
    const finiteValues = points.map((point) => point?.[name] ?? NaN).filter(Number.isFinite);
    return [name, finiteValues.length < MIN_RANGE_SEEDS ? [] : finiteValues] as const;
  });
  return {
    seeds: longRuns.length,
    step,
    steps: firstRun.training.steps,
    /** Positions of the sink, counted from 1. */
    tokens: firstRun.sink_tokens,
    values: Object.fromEntries(values),
  };
}

export type Spread = NonNullable<ReturnType<typeof spreadOf>>;

export const OTHER_RUNS =
  'Long runs are separate training runs with more steps and a later learning-rate decay: the weights shown here come from shorter runs, so losses and sinks at the same step differ.';

/** States the range of each outcome over the seeds, and the interval of its mean; empty for fewer than two seeds. */
export function seedWords(runs: readonly SeedRun[], outcomes = OUTCOMES): string {
  const spread = spreadOf(runs, outcomes);
  if (!spread) return '';
  const phrases = outcomes.flatMap(({ name, title, unit, digits, possibleRange }) => {
    const values = spread.values[name]!;
    if (!values.length) return [];
    const [low, high] = [Math.min(...values), Math.max(...values)].map((x) =>
      formatNumber(x, digits),
    );
    const half = halfInterval(values, possibleRange);
    const interval = Number.isFinite(half)
      ? ` (mean ${formatNumber(mean(values), digits)} ± ${halfIntervalWords(half, digits)}, 95% interval)`
      : '';
    return `${title} ${low} to ${high}${unit}${interval}`;
  });
  return phrases.length ? `Over ${seedCountWords(spread)}: ${phrases.join(', ')}.` : '';
}

export function seedCountWords({ seeds, step, steps, tokens }: Spread): string {
  const [stepText, stepsText] = [step, steps].map((count) => count.toLocaleString('en'));
  const positions = tokens.map((token) => token - 1);
  const positionWords = `${positions.length > 1 ? 'positions' : 'position'} ${positions.join(' and ')}`;
  const positionNote =
    positionWords === 'position 0' ? '' : ` (at ${positionWords}, where this recipe has its sink)`;
  return `${seeds} seeds, at step ${stepText} of runs of ${stepsText}${positionNote}`;
}
