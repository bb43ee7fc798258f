/** The metrics of the comparison's table: one row here is one column there, in the files, in the tests. */
import { alphaOfKey, indexOfMost, keysOf, type Frame } from '../frame';
import { overPrompts } from '../averages';
import { csv, factsOf, notes, plain, type Facts } from '../save/numbers';
import { CLASS_WORDS, judged } from '../words';
import type { Reported } from '../zoo';

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
  /** What it needs, by the names in describe. */
  readonly reads: readonly string[];
  readonly digits: number;
  readonly percent?: boolean;
  /** Few models have it: no column where none does. */
  readonly isRare?: boolean;
  readonly of: (frame: Frame) => Cell;
}

/** Of numbers that each prompt has. */
const perPrompt = (name: string) => (frame: Frame) => overPrompts(frame, name);

/** An element of what was averaged. */
function cellAt({ tensors, spread }: Frame, name: string, i: number): Cell {
  return { mean: tensors[name]!.data[i] ?? NaN, deviation: spread[name]?.[i] ?? NaN };
}

/** Of a short text few queries see the keys; these are looked at in any. */
const KEYS = 10;

/** The largest Sink_k of any key but the first that enough queries see. */
function sinkElsewhere(frame: Frame): Cell {
  const last = Math.max(KEYS, keysOf(frame));
  const at = 1 + indexOfMost(Array.from(frame.tensors.sink_ratio!.data).slice(1, last));
  const cell = cellAt(frame, 'sink_ratio', at);
  return { ...cell, ...(cell.mean ? { where: { key: at + 1 } } : {}) };
}

/** The largest alpha of token 1: the largest of means, for each prompt has its own largest. */
function alphaMost(frame: Frame): Cell {
  const { H } = frame.architecture;
  const at = indexOfMost(alphaOfKey(frame, 0));
  const where = { layer: Math.floor(at / H) + 1, head: (at % H) + 1 };
  return { ...cellAt(frame, 'alpha', at * frame.T), where };
}

/** The layer, from 1 on, where token 1's hidden norm is largest beside the others'. */
function hiddenMost(frame: Frame): Cell {
  const at = indexOfMost(frame.tensors.hidden_ratio!.data.subarray(1)) + 1;
  return { ...cellAt(frame, 'hidden_ratio', at), where: { layer: at } };
}

/** The key/value head with the least ratio of a metric [L, G]. */
const leastOf =
  (name: string) =>
  (frame: Frame): Cell => {
    const { G } = frame.architecture;
    const at = indexOfMost(Array.from(frame.tensors[name]!.data, (value) => -value));
    const where = { layer: Math.floor(at / G) + 1, head: (at % G) + 1 };
    return { ...cellAt(frame, name, at), where };
  };

export const tableMetrics: readonly TableMetric[] = [
  {
    name: 'sink_1',
    title: 'Sink₁',
    meaning:
      'Share of heads whose alpha of token 1 exceeds eps; of shares where rows need not sum to 1',
    reads: ['sink_ratio'],
    digits: 1,
    percent: true,
    of: perPrompt('sink_ratio'),
  },
  {
    name: 'sink_1_raw',
    title: 'Sink₁ raw',
    meaning: 'The same from the weights as the model uses them',
    reads: ['sink_ratio_raw'],
    digits: 1,
    percent: true,
    of: perPrompt('sink_ratio_raw'),
  },
  {
    name: 'even',
    title: 'even α₁',
    meaning: 'What even attention would give token 1; above half of eps nothing can be told',
    reads: ['alpha_uniform'],
    digits: 3,
    of: (frame) => ({ mean: judged(frame).even, deviation: NaN }),
  },
  {
    name: 'sink_elsewhere',
    title: 'Sinkₖ, k > 1',
    meaning:
      'Largest share of heads with a sink at another key: 2 to 10, and any that eight queries see',
    reads: ['sink_ratio'],
    digits: 1,
    percent: true,
    of: sinkElsewhere,
  },
  {
    name: 'sink_bias',
    title: 'on bias key',
    meaning: 'Share of heads whose bias key receives more than eps',
    reads: ['sink_ratio_bias'],
    digits: 1,
    percent: true,
    isRare: true,
    of: perPrompt('sink_ratio_bias'),
  },
  {
    name: 'loss',
    title: 'loss',
    meaning: 'Mean loss in nats per token; models with other vocabularies count other tokens',
    reads: ['loss_mean'],
    digits: 3,
    of: perPrompt('loss_mean'),
  },
  {
    name: 'alpha_max',
    title: 'largest α₁',
    meaning: 'Largest alpha of token 1 of a head, averaged over the prompts first',
    reads: ['alpha'],
    digits: 3,
    of: alphaMost,
  },
  {
    name: 'hidden_ratio',
    title: '‖h₁‖ ratio',
    meaning: "Token 1's hidden norm over the others' mean, at the layer where it is largest",
    reads: ['hidden_ratio'],
    digits: 2,
    of: hiddenMost,
  },
  {
    name: 'key_ratio_min',
    title: 'least ‖k₁‖ ratio',
    meaning: "Token 1's key norm over the others' mean, at the head where it is least",
    reads: ['key_ratio'],
    digits: 2,
    of: leastOf('key_ratio'),
  },
  {
    name: 'value_ratio',
    title: '‖v₁‖ ratio',
    meaning: "Token 1's value norm over the others' mean, averaged over the heads",
    reads: ['value_ratio'],
    digits: 2,
    of: perPrompt('value_ratio'),
  },
  {
    name: 'value_ratio_min',
    title: 'least ‖v₁‖ ratio',
    meaning: 'The same at the head where it is least',
    reads: ['value_ratio'],
    digits: 3,
    of: leastOf('value_ratio'),
  },
  {
    name: 'entropy',
    title: 'entropy',
    meaning: 'Mean entropy of a row in nats, over queries and heads',
    reads: ['entropy_mean'],
    digits: 2,
    of: (frame) => {
      const { data } = frame.tensors.entropy_mean!;
      const finite = Array.from(data).filter(Number.isFinite);
      return { mean: finite.reduce((a, b) => a + b, 0) / finite.length, deviation: NaN };
    },
  },
  {
    name: 'row_mass',
    title: 'row mass',
    meaning: "Mean sum of a query's weights, over queries and heads",
    reads: ['row_mass_summary'],
    digits: 3,
    of: perPrompt('row_mass_summary'),
  },
];

/** What the table needs of every subject. */
export const tableReads = [...new Set(tableMetrics.flatMap(({ reads }) => reads))];

/** The columns of a table of these frames. */
export function metricsOf(frames: readonly Frame[]): readonly TableMetric[] {
  const has = (metric: TableMetric) => frames.some((one) => Number.isFinite(metric.of(one).mean));
  return tableMetrics.filter((metric) => !metric.isRare || has(metric));
}

/* Files. No date: the same again. */

/** Means and deviations, one number a line. */
export function tableCsv(frames: readonly Frame[], facts: Facts): string {
  const records = frames.flatMap((frame) =>
    tableMetrics.map(({ name, of }) => {
      const { mean, deviation, where } = of(frame);
      const place = [where?.layer ?? '', where?.head ?? '', where?.key ?? ''];
      return [
        frame.subject,
        CLASS_WORDS[frame.class],
        name,
        mean,
        deviation,
        ...place,
        frame.sequences,
      ];
    }),
  );
  const head = [
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
  return csv(notes(frames, facts), head, records);
}

/** The numbers of each prompt, a prompt a line. */
export function promptsCsv(frames: readonly Frame[], facts: Facts): string {
  const names = [...new Set(frames.flatMap(({ perPrompt: each }) => Object.keys(each)))];
  const records = frames.flatMap(({ subject, class: kind, perPrompt: each, sequences }) =>
    Array.from({ length: sequences }, (_, i) => [
      subject,
      CLASS_WORDS[kind],
      i + 1,
      ...names.map((name) => each[name]?.[i] ?? NaN),
    ]),
  );
  return csv(notes(frames, facts), ['subject', 'class', 'prompt', ...names], records);
}

/** What papers say of their own models; it stands apart, and says so. */
export type ReportedRow = Reported & { readonly title: string };

/** All that was measured. */
export function tableJson(
  frames: readonly Frame[],
  { corpus, version, link }: Facts,
  reported: readonly ReportedRow[],
): string {
  const subjects = frames.map((frame) => ({
    ...factsOf(frame),
    table: Object.fromEntries(
      tableMetrics.map(({ name, of }) => {
        const { mean, deviation, where } = of(frame);
        const [first, second] = plain([mean, deviation]);
        return [name, { mean: first, deviation: second, ...where }];
      }),
    ),
    prompts: Object.fromEntries(
      Object.entries(frame.perPrompt).map(([name, values]) => [name, plain(values)]),
    ),
  }));
  const whole = {
    corpus,
    indices: 'counted from 1',
    measured_by: `Sinkscope ${version}`,
    link,
    subjects,
  };
  return `${JSON.stringify(reported.length ? { ...whole, reported } : whole, null, 1)}\n`;
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
