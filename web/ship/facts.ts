/** Looks up the numbers that lessons state in the tables of their origin, from which none may differ. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Card } from '../src/ask/zoo.ts';
import type { TestedClaim } from '../src/rooms/chapters.ts';
import { studentT } from '../src/timeline/student.ts';

const models = join(import.meta.dirname, '../../models');
const readJson = (file: string): unknown => JSON.parse(readFileSync(join(models, file), 'utf8'));

type TableRow = { readonly id?: string; readonly model?: string; readonly seed?: number };

/** Indexes rows by their id, model or seed. A row that has none of these is indexed by its place. */
function indexByName(rows: readonly TableRow[]): Record<string, unknown> {
  return Object.fromEntries(
    rows.map((row, i) => [
      row.id ?? row.model?.replaceAll(' ', '_') ?? (row.seed ? `seed-${row.seed}` : String(i)),
      row,
    ]),
  );
}

interface Log {
  readonly seed: number;
  readonly points: readonly Readonly<Record<string, number | null>>[];
}

/** Returns the logs of the long runs of a recipe, one for each seed (protocol A of models/README.md). */
export function longRuns(id: string): readonly Log[] {
  const folder = join(models, 'zoo', id, 'seeds');
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .sort()
    .map((file) => readJson(`zoo/${id}/seeds/${file}`) as Log);
}

export interface DecisiveRuns {
  readonly seeds: readonly number[];
  readonly alpha: readonly number[];
  readonly loss: readonly number[];
}

/** Reads the runs of protocol B, by the recipe's id, from the file that models/train/pages.py writes. */
export const decisiveRuns = () =>
  readJson('zoo/decisive.json') as Readonly<Record<string, DecisiveRuns>>;

const rangeOf = (values: readonly number[]) => ({
  mean: meanOf(values),
  min: Math.min(...values),
  max: Math.max(...values),
});

/** Returns protocol A's onset: the first step from which α₁ stays at least 0.1 above uniform attention. */
function onsetOf({ points }: Log): number {
  const lastIndexBelow = points.findLastIndex(({ alpha }) => !(alpha! >= 0.1));
  return points[lastIndexBelow + 1]?.step ?? NaN;
}

export const meanOf = (values: readonly number[]) =>
  values.reduce((a, b) => a + b, 0) / values.length;

/** Returns the mean of paired differences and its 95% interval. */
export function intervalOfPairs(differences: readonly number[]) {
  const n = differences.length;
  const mean = meanOf(differences);
  const deviation = Math.sqrt(
    differences.reduce((sum, difference) => sum + (difference - mean) ** 2, 0) / (n - 1),
  );
  const halfWidth = (studentT(n - 1) * deviation) / Math.sqrt(n);
  return { mean, low: mean - halfWidth, high: mean + halfWidth, seeds: n };
}

export function correlationOf(xs: readonly number[], ys: readonly number[]): number {
  const [x, y] = [meanOf(xs), meanOf(ys)];
  const sum = (term: (i: number) => number) => xs.reduce((all, _, i) => all + term(i), 0);
  return (
    sum((i) => (xs[i]! - x) * (ys[i]! - y)) /
    Math.sqrt(sum((i) => (xs[i]! - x) ** 2) * sum((i) => (ys[i]! - y) ** 2))
  );
}

const alphaAt = ({ points }: Log, step: number) =>
  points.find((point) => point.step === step)?.alpha;

/** Returns the change of α₁ at a step against softmax, over all seeds for which both recipes have a long run. */
function pairedFacts(id: string, step: number): Record<string, unknown> {
  const baseAlphas = new Map(longRuns('softmax').map((run) => [run.seed, alphaAt(run, step)]));
  const differences = longRuns(id).flatMap((run) => {
    const [alpha, baseAlpha] = [alphaAt(run, step), baseAlphas.get(run.seed)];
    return typeof alpha === 'number' && typeof baseAlpha === 'number' ? [alpha - baseAlpha] : [];
  });
  return { [step]: intervalOfPairs(differences) };
}

function onsetFacts(id: string, step: number): Record<string, unknown> {
  const runs = longRuns(id);
  const alphas = runs.map((run) => alphaAt(run, step) ?? NaN);
  return { [step]: { correlation: correlationOf(runs.map(onsetOf), alphas), seeds: runs.length } };
}

function logFacts(id: string): Record<string, unknown> {
  const runs = longRuns(id);
  const steps = [...new Set(runs.flatMap(({ points }) => points.map(({ step }) => step!)))];
  const factsAt = (step: number) => {
    const points = runs.flatMap((run) => run.points.filter((point) => point.step === step));
    const names = Object.keys(points[0] ?? {}).map((name) => name.replace('.', '_'));
    return Object.fromEntries(
      names.map((name) => {
        const values = points
          .map((point) => point[name] ?? point[name.replace('_', '.')])
          .filter((value): value is number => typeof value === 'number');
        return [name, { ...rangeOf(values), seeds: values.length }];
      }),
    );
  };
  return {
    onset: rangeOf(runs.map(onsetOf)),
    ...Object.fromEntries(steps.map((step) => [step, factsAt(step)])),
  };
}

function inputFacts(): Record<string, unknown> {
  const groups = readJson('train/inputs.json') as Readonly<
    Record<string, readonly Readonly<Record<string, unknown>>[]>
  >;
  return Object.fromEntries(
    Object.entries(groups).map(([name, models]) => [
      name.replaceAll(' ', '_'),
      Object.fromEntries(
        Object.keys(models[0] ?? {}).map((column) => {
          const values = models
            .map((model) => model[column])
            .filter((value) => typeof value === 'number');
          return [column, meanOf(values as number[])];
        }),
      ),
    ]),
  );
}

const tables: Readonly<Record<string, (rest: string[]) => unknown>> = {
  zoo: () => indexByName(readJson('zoo/index.json') as TableRow[]),
  reported: () => indexByName((readJson('zoo/reported.json') as { models: TableRow[] }).models),
  claims: () => indexByName((readJson('claims.json') as { rows: TableRow[] }).rows),
  inputs: inputFacts,
  long: ([id = '']) => ({ [id]: logFacts(id) }),
  pairs: ([id = '', step = '']) => ({ [id]: pairedFacts(id, Number(step)) }),
  onsets: ([id = '', step = '']) => ({ [id]: onsetFacts(id, Number(step)) }),
  decisive: () =>
    Object.fromEntries(
      Object.entries(decisiveRuns()).map(([id, { seeds, alpha, loss }]) => [
        id,
        { seeds: seeds.length, alpha: rangeOf(alpha), loss: rangeOf(loss) },
      ]),
    ),
  seeds: ([id = '']) => ({
    [id]: indexByName(
      (readJson('zoo/seeds.json') as TableRow[])
        .filter((row) => row.id === id)
        .map(({ id: _, ...row }) => row),
    ),
  }),
};

/** @param place the table, and the names that lead to the number: `zoo softmax measured sink_1` */
export function factAt(place: string): number {
  const [table = '', ...names] = place.split(/\s+/);
  let value: unknown = Object.hasOwn(tables, table) ? tables[table]!(names) : undefined;
  for (const name of names)
    value = Object.hasOwn(Object(value), name)
      ? (value as Record<string, unknown>)[name]
      : undefined;
  if (typeof value !== 'number' || !Number.isFinite(value))
    throw new Error(`“${place}”: expected a number of a table, found ${JSON.stringify(value)}.`);
  return value;
}

const FORMS: Readonly<Record<string, (value: number) => number>> = {
  '': (value) => value,
  percent: (value) => 100 * value,
  fall: (value) => -value,
};

/** Returns an error unless a text states the number of a table, in the form `as`, rounded to the text's decimals. */
export function numberProblem(text: string, place: string, as = ''): string | undefined {
  const form = Object.hasOwn(FORMS, as) && FORMS[as];
  if (!form) return `the form “${as}”: expected one of ${Object.keys(FORMS).join(', ')}`;
  const digits = /[−-]?\d[\d,]*(?:\.\d+)?/.exec(text)?.[0].replace('−', '-').replace(/,/g, '');
  if (!digits) return `“${text}”: expected a number`;
  const decimals = digits.split('.')[1]?.length ?? 0;
  const actual = form(factAt(place)).toFixed(decimals);
  return Number(actual) === Number(digits) ? undefined : `“${text}”: ${place} is ${actual}`;
}

/** A claim of a paper with our tests of it, as models/train/claims.py writes it. */
export interface Claim {
  readonly id: string;
  readonly claim: string;
  readonly source: string;
  readonly section: string;
  readonly paper: string | null;
  readonly effects: readonly {
    readonly recipe: string;
    /** A recipe, or the number that the mean over seeds is compared with. */
    readonly against: string | number;
    readonly outcome: string;
    readonly name: string | null;
    /** The protocol of the compared runs; null: shipped models, seeds of the lab, searches. */
    readonly protocol: 'a' | 'b' | null;
    readonly seeds: number;
    readonly mean: number | null;
    readonly low: number | null;
    readonly high: number | null;
    /** For claims that a sink is absent: the effect on α₁ if each row is divided by its sum, then its interval. */
    readonly by_shares: readonly [number, number, number] | null;
    /** Sink_1^0.3 of each seed or model, in percent. */
    readonly sinks: readonly number[];
  }[];
  readonly verdict: string;
  /** The verdict by the second version of the rules; null for a claim that is new since then. */
  readonly before: string | null;
  /** What made the verdict another one: the rule, the test or the runs. */
  readonly changed: string | null;
  readonly two_seeds: boolean;
  /** Whether the claim's verdicts on a direction survive Benjamini and Hochberg's procedure; null if it has none. */
  readonly survives: boolean | null;
  readonly why: string | null;
  /** The fewest and the most core hours that the missing runs would take. */
  readonly hours: readonly [number, number] | null;
  /** The state of the page that shows the claim. */
  readonly seen: string | null;
}

/** How many comparisons give a direction, how many of these survive a correction, and how many chance would give. */
export interface Chance {
  readonly comparisons: number;
  readonly directions: number;
  readonly survive: number;
  /** By the errors of one look, and of two. */
  readonly by_chance: readonly [number, number];
}

const claimsFile = () =>
  readJson('claims.json') as { readonly chance: Chance; readonly rows: readonly Claim[] };
export const claims = () => claimsFile().rows;

/** Returns the claims of papers that Compare states: those whose effect on attention on the first token was measured. */
export const testedClaims = (): TestedClaim[] =>
  claims().flatMap(({ claim, source, verdict, effects, seen }) =>
    effects.flatMap(({ recipe, against, outcome, protocol, seeds, mean, low, high }) =>
      outcome === 'alpha' && protocol && mean !== null && low !== null && high !== null
        ? {
            ...{ claim, source: source.replace(/ \(.*/, ''), verdict, recipe, runs: seeds },
            against: typeof against === 'string' ? against : null,
            effect: [mean, low, high] as const,
            seen: (/shown=([\w,-]+)$/.exec(seen ?? '')?.[1] ?? '').split(',').filter(Boolean),
          }
        : [],
    ),
  );
export const chance = () => claimsFile().chance;

export const modelsOfZoo = () => readJson('zoo/index.json') as readonly Card[];
