/**
 * What the long runs of a recipe say together, one for each seed: models/README.md, "Seeds". The build
 * tells which logs there are (SEEDS); a run may have been broken off, and its log then ends early.
 */
import { mean, deviation } from '../frame';
import { textOf, type Difference } from '../zoo';

export interface SeedRun {
  readonly seed: number;
  readonly training: { readonly steps: number };
  /** Counted from 1: where the recipe puts its sink, and of which tokens the outcomes are. */
  readonly sink_tokens: readonly number[];
  /** Every point has the same outcomes beside its step; null where one is undefined. */
  readonly points: readonly Readonly<Record<string, number | null>>[];
}

/** A number at a step of the training, over the seeds whose runs were measured there. */
export interface Over {
  readonly step: number;
  readonly seeds: number;
  readonly mean: number;
  readonly low: number;
  readonly high: number;
  /** Half of the 95 % interval of the mean, by Student's t; NaN for fewer than TOLD_FROM seeds. */
  readonly half: number;
}

/** Of so many seeds the spread is seen, of so many an interval is said: TOO_FEW of models/train/protocol.py. */
const SEEN_FROM = 2;
const TOLD_FROM = 3;
/** Before this step nothing is said: TOO_EARLY of models/train/protocol.py. */
const SAID_FROM = 4000;
/** The 97.5th percentile of Student's t, by degrees of freedom; 1.96 beyond. */
const STUDENT = [NaN, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];

const coming = new Map<string, Promise<readonly SeedRun[]>>();

/** The runs of a model of the zoo, none where there is no log. */
export function seedRuns(id: string): Promise<readonly SeedRun[]> {
  const known =
    coming.get(id) ??
    Promise.all(
      (SEEDS[id] ?? []).map(
        async (seed) => JSON.parse(await textOf(`${id}/seeds/${seed}.json`)) as SeedRun,
      ),
    );
  coming.set(id, known);
  known.catch(() => coming.delete(id));
  return known;
}

/** At every step that any of the runs was measured at. @param name an outcome of the logs */
export function overSeeds(runs: readonly SeedRun[], name: string): Over[] {
  const byStep = new Map<number, number[]>();
  for (const point of runs.flatMap(({ points }) => points)) {
    const value = point[name] ?? NaN;
    if (!Number.isFinite(value)) continue;
    byStep.set(point.step!, [...(byStep.get(point.step!) ?? []), value]);
  }
  return [...byStep]
    .sort(([a], [b]) => a - b)
    .map(([step, values]) => {
      const n = values.length;
      return {
        step,
        seeds: n,
        mean: mean(values),
        low: Math.min(...values),
        high: Math.max(...values),
        half: n < TOLD_FROM ? NaN : halfOf(values),
      };
    });
}

/** The steps where there is a spread to be seen. */
export function bandOf(runs: readonly SeedRun[], name: string): Over[] {
  return overSeeds(runs, name).filter(({ seeds }) => seeds >= SEEN_FROM);
}

const OUTCOMES: readonly (readonly [string, string, string, number])[] = [
  ['sink_0.3', 'Sink₁', ' %', 1],
  ['alpha', 'α₁ above even attention', '', 3],
  ['value_ratio', '‖v₁‖ over the others', '', 2],
  ['eviction', 'nats lost without token 1', '', 3],
];

/** With the sign of typesetting, and none of a nought. */
function fixed(x: number, digits: number): string {
  const text = x.toFixed(digits);
  return (Number(text) === 0 ? text.replace('-', '') : text).replace('-', '−');
}

/** The last step that all have, and the half of the 95 % interval of a mean. */
const lastOf = (runs: readonly SeedRun[]) =>
  Math.min(...runs.map(({ points }) => points.at(-1)!.step!));
const halfOf = (values: readonly number[]) =>
  ((STUDENT[values.length - 1] ?? 1.96) * deviation(values)) / Math.sqrt(values.length);

const BESIDE: readonly (readonly [string, string])[] = [
  ['value_ratio', '‖v₁‖ over the others'],
  ['eviction', 'nats lost without token 1'],
  ['loss', 'loss'],
];

/** What a factor does, as it is told. */
export function differenceWords({ seeds, says, outcomes }: Difference): string {
  const signed = (x: number) => `${x > 0 ? '+' : ''}${fixed(x, 3)}`;
  const beside = BESIDE.flatMap(([name, title]) => {
    const [mean, low, high] = outcomes[name] ?? [];
    return high === undefined
      ? []
      : `${title} ${signed(mean!)} (${signed(low!)} to ${signed(high)})`;
  });
  const mean = says.replace(/(?<=[ (])-(?=\d)/g, '−');
  const others = beside.length ? ` In other outcomes: ${beside.join(', ')}.` : '';
  return `In α₁ above even attention, ${seeds} seeds in pairs (95 %): ${mean}.${others}`;
}

/**
 * What the seeds have alike and apart, at the last step that all have which came far enough; empty where
 * there are fewer than two. The weights that are shown are of other runs, and it says so.
 */
export function seedWords(runs: readonly SeedRun[], steps?: number): string {
  const far = runs.filter(({ points }) => (points.at(-1)?.step ?? 0) >= SAID_FROM);
  if (far.length < SEEN_FROM) return '';
  const last = lastOf(far);
  const said = OUTCOMES.flatMap(([name, title, unit, digits]) => {
    const at = overSeeds(far, name).find(({ step, seeds }) => step === last && seeds >= SEEN_FROM);
    if (!at) return [];
    const [low, high] = [at.low, at.high].map((x) => fixed(x, digits));
    const interval = Number.isFinite(at.half)
      ? ` (mean ${fixed(at.mean, digits)} ± ${fixed(at.half, digits)}, 95 %)`
      : '';
    return `${title} ${low} to ${high}${unit}${interval}`;
  });
  const of = far[0]!.training.steps.toLocaleString('en');
  const tokens = far[0]!.sink_tokens.join(' and ');
  const where = tokens === '1' ? '' : ` (of token ${tokens}, where this recipe has its sink)`;
  const own = steps
    ? ` The weights here are of another run, of ${steps.toLocaleString('en')} steps, whose learning rate falls sooner.`
    : '';
  return `Over ${far.length} seeds, at step ${last.toLocaleString('en')} of runs of ${of}${where}: ${said.join(', ')}.${own}`;
}
