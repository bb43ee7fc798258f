/** The metrics of a study's table: one row here is one column there, in the files, in the tests. */
import { mean } from '../frame';
import { firstAlphas, indexOfMost, means, type Column, type PerPrompt } from './study';

/** A number with its spread over the prompts (standard deviation, n - 1; NaN for one prompt). */
export interface Cell {
  readonly mean: number;
  readonly deviation: number;
  /** Where it was found, counted from 1, where it is a largest or a least. */
  readonly where?: { readonly layer?: number; readonly head?: number; readonly key?: number };
}

export interface TableMetric {
  readonly name: string;
  readonly title: string;
  /** A longer sentence: the definition. */
  readonly meaning: string;
  readonly digits: number;
  readonly percent?: boolean;
  /** Few models have it: no column where none does. */
  readonly isRare?: boolean;
  readonly of: (column: Column) => Cell;
}

export function deviation(values: readonly number[]): number {
  const n = values.length;
  if (n < 2) return NaN;
  const middle = mean(values);
  return Math.sqrt(values.reduce((sum, x) => sum + (x - middle) ** 2, 0) / (n - 1));
}

/** Of numbers that each prompt has. */
function perPrompt(name: PerPrompt) {
  return ({ perPrompt: each }: Column): Cell => ({
    mean: mean(each[name]),
    deviation: deviation(each[name]),
  });
}

/** Keys beyond these are seen by few queries. */
const KEYS = 10;

/** The largest Sink_k of the keys 2 to 10. */
function sinkElsewhere({ measurement }: Column): Cell {
  const { mean: sinks, deviation: spread } = measurement.metrics.sink_ratio;
  const at = 1 + indexOfMost(sinks.slice(1, KEYS).map((value) => value ?? NaN));
  const where = { key: at + 1 };
  return { mean: sinks[at] ?? NaN, deviation: spread[at] ?? NaN, ...(sinks[at] ? { where } : {}) };
}

/** The largest alpha of token 1: the largest of means, for each prompt has its own largest. */
function alphaMost(column: Column): Cell {
  const { H } = column.architecture;
  const alphas = firstAlphas(column);
  const at = indexOfMost(alphas);
  const spread = column.measurement.metrics.alpha.deviation[at * column.T];
  const where = { layer: Math.floor(at / H) + 1, head: (at % H) + 1 };
  return { mean: alphas[at], deviation: spread ?? NaN, where };
}

/** The layer, from 1 on, where token 1's hidden norm is largest beside the others'. */
function hiddenMost(column: Column): Cell {
  const at = indexOfMost(means(column, 'hidden_ratio').subarray(1)) + 1;
  const { mean: value, deviation: spread } = column.measurement.metrics.hidden_ratio;
  return { mean: value[at] ?? NaN, deviation: spread[at] ?? NaN, where: { layer: at } };
}

/** The key/value head with the least ratio of a metric [L, G]. */
function leastOf(name: string) {
  return (column: Column): Cell => {
    const { G } = column.architecture;
    const at = indexOfMost(means(column, name).map((value) => -value));
    const { mean: value, deviation: spread } = column.measurement.metrics[name];
    const where = { layer: Math.floor(at / G) + 1, head: (at % G) + 1 };
    return { mean: value[at] ?? NaN, deviation: spread[at] ?? NaN, where };
  };
}

export const tableMetrics: readonly TableMetric[] = [
  {
    name: 'sink_1',
    title: 'Sink₁',
    meaning:
      'Share of heads whose alpha of token 1 exceeds eps; of shares where rows need not sum to 1',
    digits: 1,
    percent: true,
    of: perPrompt('sink_1'),
  },
  {
    name: 'sink_1_raw',
    title: 'Sink₁ raw',
    meaning: 'The same from the weights as the model uses them',
    digits: 1,
    percent: true,
    of: perPrompt('sink_1_raw'),
  },
  {
    name: 'sink_elsewhere',
    title: 'Sinkₖ, k > 1',
    meaning: 'Largest share of heads with a sink at one of the keys 2 to 10',
    digits: 1,
    percent: true,
    of: sinkElsewhere,
  },
  {
    name: 'sink_bias',
    title: 'on bias key',
    meaning: 'Share of heads whose bias key receives more than eps',
    digits: 1,
    percent: true,
    isRare: true,
    of: perPrompt('sink_bias'),
  },
  {
    name: 'loss',
    title: 'loss',
    meaning: 'Mean loss in nats per token; models with other vocabularies count other tokens',
    digits: 3,
    of: perPrompt('loss'),
  },
  {
    name: 'alpha_max',
    title: 'largest α₁',
    meaning: 'Largest alpha of token 1 of a head, averaged over the prompts first',
    digits: 3,
    of: alphaMost,
  },
  {
    name: 'hidden_ratio',
    title: '‖h₁‖ ratio',
    meaning: "Token 1's hidden norm over the others' mean, at the layer where it is largest",
    digits: 2,
    of: hiddenMost,
  },
  {
    name: 'key_ratio_min',
    title: 'least ‖k₁‖ ratio',
    meaning: "Token 1's key norm over the others' mean, at the head where it is least",
    digits: 2,
    of: leastOf('key_ratio'),
  },
  {
    name: 'value_ratio',
    title: '‖v₁‖ ratio',
    meaning: "Token 1's value norm over the others' mean, averaged over the heads",
    digits: 2,
    of: perPrompt('value_ratio'),
  },
  {
    name: 'value_ratio_min',
    title: 'least ‖v₁‖ ratio',
    meaning: 'The same at the head where it is least',
    digits: 3,
    of: leastOf('value_ratio'),
  },
  {
    name: 'row_mass',
    title: 'row mass',
    meaning: "Mean sum of a query's weights, over queries and heads",
    digits: 3,
    of: perPrompt('row_mass'),
  },
];

/** The columns of a table of these models. */
export function metricsOf(columns: readonly Column[]): readonly TableMetric[] {
  const has = (metric: TableMetric) => columns.some((one) => Number.isFinite(metric.of(one).mean));
  return tableMetrics.filter((metric) => !metric.isRare || has(metric));
}

export interface Sorting {
  readonly name: string;
  readonly descending: boolean;
}

/** Undefined numbers stand last, whichever way is sorted; what is alike keeps its order. */
export function sorted<Row>(
  rows: readonly Row[],
  value: (row: Row) => number | string,
  descending: boolean,
): Row[] {
  const isNone = (one: number | string) => typeof one === 'number' && Number.isNaN(one);
  return rows
    .map((row) => ({ row, key: value(row) }))
    .sort((a, b) => {
      if (isNone(a.key) || isNone(b.key)) return Number(isNone(a.key)) - Number(isNone(b.key));
      const order = a.key < b.key ? -1 : a.key > b.key ? 1 : 0;
      return descending ? -order : order;
    })
    .map(({ row }) => row);
}
