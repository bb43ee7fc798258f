/** The metrics of the comparison's table. Each is a column of the table and of its files. */
import type { Describe, Metric } from 'sinkscope';
import { csvOf } from 'sinkscope/internal';
import {
  attentionOf,
  firstKey,
  firstTokenWeights,
  sinkName,
  headAt,
  indexOfMax,
  comparableKeyCount,
  layerNumber,
  mean,
  statisticsOverPrompts,
  type Frame,
  type Head,
} from '../frame';
import type { Facts } from '../save/numbers';
import { factsOf, csvNotes, nullForNaN } from '../save/number_files';
import { CLASS_WORDS, firstTokenSubscript, verdictOf } from '../words';
import type { Reported } from '../ask/zoo';

export interface Cell {
  readonly mean: number;
  readonly deviation: number;
  /** Where a largest or smallest value is. */
  readonly where?: { readonly layer?: number; readonly head?: number; readonly key?: number };
}

export interface TableMetric {
  readonly name: string;
  readonly title: string;
  /** Undefined while the definition is loading. */
  readonly meaning: string | undefined;
  /** The metric or field that the column reads, by its name in describe. */
  readonly reads: string;
  readonly digits: number;
  readonly isPercent?: boolean;
  /** Whether few models have the metric; tables of other models omit the column. */
  readonly isRare?: boolean;
  readonly cellOf: (frame: Frame) => Cell;
}

function cellAt({ tensors, spread }: Frame, name: string, i: number): Cell {
  return { mean: tensors[name]?.data[i] ?? NaN, deviation: spread[name]?.[i] ?? NaN };
}

/** At least this many keys are searched for another sink. */
const MIN_KEY_COUNT = 10;

/** Returns the largest Sink_k of a key other than the first one, among the keys that enough queries see. */
function sinkElsewhere(frame: Frame): Cell {
  const keyCount = Math.max(MIN_KEY_COUNT, comparableKeyCount(frame));
  const name = sinkName(frame);
  const shares = Array.from(frame.tensors[name]!.data).slice(0, keyCount);
  shares[firstKey(frame)] = NaN;
  const at = indexOfMax(shares);
  // A text of one token has no other key, which gives NaN.
  const cell = cellAt(frame, name, at === firstKey(frame) ? frame.T : at);
  return { ...cell, ...(cell.mean ? { where: { key: at } } : {}) };
}

/** Returns the head of element `at` of a metric [L, n], with the model's own layer number. */
function whereOf(frame: Frame, at: number, n: number): Head {
  const { layer, head } = headAt(at, n);
  return { layer: layerNumber(frame, layer), head };
}

function largestAlpha(frame: Frame): Cell {
  const { H } = frame.architecture;
  const at = indexOfMax(firstTokenWeights(frame));
  const name = attentionOf(frame) === frame.tensors.alpha ? 'alpha' : 'alpha_raw';
  return { ...cellAt(frame, name, at * frame.T + firstKey(frame)), where: whereOf(frame, at, H) };
}

/** Returns Sink_1 by the weights that the model uses; of weights with signs by their shares. */
function sinkByWeight(frame: Frame): Cell {
  const name = sinkName(frame);
  const cell = statisticsOverPrompts(frame, name);
  // A recording may have the mean alone.
  return Number.isFinite(cell.mean) ? cell : cellAt(frame, name, firstKey(frame));
}

/**
 * Returns the largest ratio of the first token's hidden norm to the mean of the others, and the layer after which it
 * occurs.
 */
function largestHiddenRatio(frame: Frame): Cell {
  const ratios = frame.tensors.hidden_ratio?.data;
  // A recording may lack the ratios; the cell is then empty.
  if (!ratios) return cellAt(frame, 'hidden_ratio', 0);
  const at = indexOfMax(ratios.subarray(1)) + 1;
  return { ...cellAt(frame, 'hidden_ratio', at), where: { layer: at - 1 } };
}

/** Returns the smallest value of a metric [L, G], and its key/value head. */
function smallestValue(frame: Frame, name: string): Cell {
  const values = frame.tensors[name]?.data;
  if (!values) return cellAt(frame, name, 0);
  const at = indexOfMax(Array.from(values, (value) => -value));
  return { ...cellAt(frame, name, at), where: whereOf(frame, at, frame.architecture.G) };
}

type OwnColumn = Omit<TableMetric, 'meaning' | 'cellOf'> & {
  /** A function if the definition names the unit of what the column reads. */
  readonly meaning: string | ((unit: string) => string);
  /** Absent: the mean over the prompts. */
  readonly cellOf?: (frame: Frame, name: string) => Cell;
};

const UNITS: Readonly<Record<string, string>> = { nat: 'nats', 'of ln n': 'a share of ln n' };

const OWN_COLUMNS: readonly OwnColumn[] = [
  {
    name: 'sink_1',
    title: 'Sink₁',
    meaning:
      'Share of heads whose α₁, the mean attention on the first token, exceeds ε; attention is the weight that the model uses',
    reads: 'sink_ratio_raw',
    digits: 1,
    isPercent: true,
    cellOf: sinkByWeight,
  },
  {
    name: 'sink_1_by_shares',
    title: 'Sink₁ by shares',
    meaning: 'The paper’s measure: α₁ is a share of the row. The same where rows sum to 1',
    reads: 'sink_ratio',
    digits: 1,
    isPercent: true,
  },
  {
    name: 'uniform',
    title: 'uniform α₁',
    meaning: 'α₁ under uniform attention; above ε, heads cannot be counted',
    reads: 'alpha_uniform',
    digits: 3,
    cellOf: (frame) => ({ mean: verdictOf(frame).even, deviation: NaN }),
  },
  {
    name: 'sink_elsewhere',
    title: 'Sinkₖ, k > 1',
    meaning:
      'Largest share of heads with a sink at another key: k up to 10, and every k that eight queries can see',
    reads: 'sink_ratio',
    digits: 1,
    isPercent: true,
    cellOf: sinkElsewhere,
  },
  {
    name: 'sink_bias',
    title: 'on bias key',
    meaning: 'Share of heads whose bias key receives more than ε',
    reads: 'sink_ratio_bias',
    digits: 1,
    isPercent: true,
    isRare: true,
  },
  {
    name: 'loss',
    title: 'loss',
    meaning: (unit) => `Mean loss in ${unit} per token; not comparable between vocabularies`,
    reads: 'loss_mean',
    digits: 3,
  },
  {
    name: 'alpha_max',
    title: 'largest α₁',
    meaning: 'Largest α₁ of a head, of the means over prompts',
    reads: 'alpha',
    digits: 3,
    cellOf: largestAlpha,
  },
  {
    name: 'hidden_ratio',
    title: '‖h₁‖ ratio',
    meaning:
      'Hidden norm of the first token over the mean of the others, after the layer where it is largest',
    reads: 'hidden_ratio',
    digits: 2,
    cellOf: largestHiddenRatio,
  },
  {
    name: 'key_ratio_min',
    title: 'min ‖k₁‖ ratio',
    meaning:
      'Key norm of the first token over the mean of the others, at the head where it is smallest',
    reads: 'key_ratio',
    digits: 2,
    cellOf: smallestValue,
  },
  {
    name: 'value_ratio',
    title: '‖v₁‖ ratio',
    meaning: 'Value norm of the first token over the mean of the others, averaged over heads',
    reads: 'value_ratio',
    digits: 2,
  },
  {
    name: 'value_ratio_min',
    title: 'min ‖v₁‖ ratio',
    meaning: 'The same at the head where it is smallest',
    reads: 'value_ratio',
    digits: 3,
    cellOf: smallestValue,
  },
  {
    name: 'entropy',
    title: 'entropy',
    meaning: (unit) =>
      `Mean entropy of a row over queries and heads, ${unit} for n visible keys: 0 for one key, 1 for uniform attention`,
    reads: 'entropy_mean',
    digits: 2,
    cellOf: (frame) => {
      const data = frame.tensors.entropy_mean?.data ?? [];
      return { mean: mean(Array.from(data).filter(Number.isFinite)), deviation: NaN };
    },
  },
  {
    name: 'row_mass',
    title: 'row sum',
    meaning: 'Mean sum of the weights of a query, over queries and heads',
    reads: 'row_mass_summary',
    digits: 3,
  },
];

/**
 * Returns a column for a metric that describe calls a summary. If the metric has a value for each token, the column has
 * that of the first token; otherwise the mean over layers and heads.
 */
function summaryColumn({ name, label, question, unit, shape }: Metric): TableMetric {
  const isShare = unit.startsWith('share');
  const isOfTokens = shape.at(-1) === 'T';
  return {
    name,
    title: label,
    meaning:
      question && `${question} ${isOfTokens ? 'At the first token' : 'Mean over layers and heads'}`,
    reads: name,
    digits: isShare ? 1 : 2,
    isPercent: isShare,
    isRare: true,
    cellOf: (frame) => {
      const tensor = frame.tensors[name];
      if (!tensor) return { mean: NaN, deviation: NaN };
      if (isOfTokens || tensor.data.length === 1)
        return cellAt(frame, name, isOfTokens ? firstKey(frame) : 0);
      return { mean: mean(Array.from(tensor.data).filter(Number.isFinite)), deviation: NaN };
    },
  };
}

/** Returns OWN_COLUMNS, and a column for each other metric that describe calls a summary and that needs no baseline. */
export function tableOf({ metrics }: Pick<Describe, 'metrics'>): readonly TableMetric[] {
  const coveredFields = OWN_COLUMNS.map(({ reads }) => reads);
  const otherMetrics = metrics.filter(
    ({ name, summary, averaged, arguments: needs }) =>
      summary && averaged && !needs.includes('base') && !coveredFields.includes(name),
  );
  const unitOf = (name: string) => {
    const unit = metrics.find((metric) => metric.name === name)?.unit ?? '';
    return UNITS[unit] ?? unit;
  };
  const columns = OWN_COLUMNS.map(({ meaning, cellOf = statisticsOverPrompts, ...column }) => ({
    ...column,
    meaning: typeof meaning === 'string' ? meaning : meaning(unitOf(column.reads)),
    cellOf: (frame: Frame) => cellOf(frame, column.reads),
  }));
  return [...columns, ...otherMetrics.map(summaryColumn)];
}

export function readsOf(table: readonly TableMetric[]): string[] {
  return [...new Set(table.map(({ reads }) => reads))];
}

/**
 * Returns the columns that these frames fill. Titles have the index ₁ of the first token, or another index if all
 * frames have their first token at another position.
 */
export function metricsOf(
  frames: readonly Frame[],
  table: readonly TableMetric[],
): readonly TableMetric[] {
  const hasValue = (metric: TableMetric) =>
    frames.some((frame) => Number.isFinite(metric.cellOf(frame).mean));
  const [subscript, ...otherSubscripts] = new Set(frames.map(firstTokenSubscript));
  const key = firstKey(frames[0] ?? {}) + 1;
  const withIndex = (words: string) =>
    words.replaceAll('₁', subscript ?? '₁').replace('k > 1', `k ≠ ${key}`);
  return table
    .filter((metric) => !metric.isRare || hasValue(metric))
    .map((metric) =>
      key === 1 || otherSubscripts.length
        ? metric
        : {
            ...metric,
            title: withIndex(metric.title),
            meaning: metric.meaning && withIndex(metric.meaning),
          },
    );
}

/** This many columns fit on a screen, next to the column of the names. */
export const MAX_COLUMNS = 7;

/** The first table; the columns that the reader can add have all numbers. */
const DEFAULT_COLUMNS = ['sink_1', 'sink_bias', 'alpha_max', 'loss'];

/** Returns the chosen columns, or else the usual ones, as many as fit. */
export function shownColumns(
  table: readonly TableMetric[],
  chosen: readonly string[],
): readonly TableMetric[] {
  const knownNames = chosen.filter((name) => table.some((metric) => metric.name === name));
  const names = knownNames.length ? knownNames : DEFAULT_COLUMNS;
  return table.filter(({ name }) => names.includes(name)).slice(0, MAX_COLUMNS);
}

const notesOf = (frames: readonly Frame[], facts: Facts) =>
  csvNotes(
    frames.map((frame) => ({ frame })),
    facts,
  );

/**
 * Returns means and standard deviations as CSV, one metric per line. There is no date, so that equal results are equal
 * files.
 */
export function tableCsv(
  frames: readonly Frame[],
  table: readonly TableMetric[],
  facts: Facts,
): string {
  const columns = metricsOf(frames, table);
  const records = frames.flatMap((frame) =>
    columns.map(({ name, cellOf }) => {
      const { subject, sequences } = frame;
      const { mean, deviation, where } = cellOf(frame);
      const place = [where?.layer ?? '', where?.head ?? '', where?.key ?? ''];
      return [subject, CLASS_WORDS[frame.class], name, mean, deviation, ...place, sequences];
    }),
  );
  const header = [
    'subject',
    'class',
    'metric',
    'mean',
    'deviation',
    'layer',
    'head',
    'key',
    'prompts',
  ];
  return csvOf(notesOf(frames, facts), header, records);
}

export function promptsCsv(frames: readonly Frame[], facts: Facts): string {
  const names = [...new Set(frames.flatMap(({ perPrompt }) => Object.keys(perPrompt)))];
  const records = frames.flatMap(({ subject, class: kind, perPrompt, sequences }) =>
    Array.from({ length: sequences }, (_, i) => [
      subject,
      CLASS_WORDS[kind],
      i,
      ...names.map((name) => perPrompt[name]?.[i] ?? NaN),
    ]),
  );
  return csvOf(notesOf(frames, facts), ['subject', 'class', 'prompt', ...names], records);
}

/** What a paper reports of its own model, which this page did not measure. */
export type ReportedRow = Reported & { readonly title: string };

export function tableJson(
  frames: readonly Frame[],
  table: readonly TableMetric[],
  { corpus, version, link }: Facts,
  reported: readonly ReportedRow[],
): string {
  const columns = metricsOf(frames, table);
  const subjects = frames.map((frame) => ({
    ...factsOf(frame),
    table: Object.fromEntries(
      columns.map(({ name, cellOf }) => {
        const { where, ...cell } = cellOf(frame);
        const [mean, deviation] = nullForNaN([cell.mean, cell.deviation]);
        return [name, { mean, deviation, ...where }];
      }),
    ),
    prompts: Object.fromEntries(
      Object.entries(frame.perPrompt).map(([name, values]) => [name, nullForNaN(values)]),
    ),
  }));
  const report = {
    corpus,
    indices: 'counted from 0',
    measured_by: `Sinkscope ${version}`,
    link,
    subjects,
  };
  return `${JSON.stringify(reported.length ? { ...report, reported } : report, null, 1)}\n`;
}

export interface Sorting {
  readonly name: string;
  readonly descending: boolean;
}

/** Sorts rows, with undefined numbers last in both directions; equal rows keep their order. */
export function sortRows<Row>(
  rows: readonly Row[],
  keyOf: (row: Row) => number | string,
  descending: boolean,
): Row[] {
  const isMissing = (key: number | string) => typeof key === 'number' && Number.isNaN(key);
  return rows
    .map((row) => ({ row, key: keyOf(row) }))
    .sort((a, b) => {
      if (isMissing(a.key) || isMissing(b.key))
        return Number(isMissing(a.key)) - Number(isMissing(b.key));
      const order = a.key < b.key ? -1 : a.key > b.key ? 1 : 0;
      return descending ? -order : order;
    })
    .map(({ row }) => row);
}
