/** The numbers of a figure's run that a lesson states, from the event `run`, for its own text and the reader's. */
import { uniformAlphas } from 'sinkscope/internal';
import type { Quantity } from '../save/numbers';
import { formatFixed, formatPercent, formatRatio } from './format';

export interface Result {
  readonly subject: string;
  readonly T: number;
  readonly eps: number;
  readonly tokens: readonly string[];
  readonly says?: string | undefined;
  readonly numbers: readonly Quantity[];
}

/** The detail of the event `run`. */
export type Run = { readonly view: string; readonly results: readonly Result[] };

export type HeadScore = { readonly layer: number; readonly head: number; readonly alpha: number };

const quantityOf = (result: Result | undefined, name: string) =>
  result?.numbers.find((quantity) => quantity.name === name);
const mean = (numbers: ArrayLike<number>) =>
  Array.from(numbers).reduce((a, b) => a + b, 0) / numbers.length;

/** Returns α₁ of every head: the mean of the first column of its map or, for the sink map, its value there. */
export function headScores(result: Result): HeadScore[] {
  const alphas = quantityOf(result, 'alpha_1');
  const maps = quantityOf(result, 'weight');
  const source = alphas ?? maps;
  if (!source) return [];
  const [L, H] = source.shape as [number, number];
  const { T } = result;
  const alphaOf = (i: number) =>
    alphas
      ? alphas.data[i]!
      : mean(Array.from({ length: T }, (_, t) => maps!.data[(i * T + t) * T]!));
  return Array.from({ length: L * H }, (_, i) => ({
    ...{ layer: Math.floor(i / H), head: i % H },
    alpha: alphaOf(i),
  }));
}

/** Returns the mean weight of a key over the queries that see it, in the map of one head. */
function columnMean(result: Result | undefined, key = 0): number | undefined {
  const map = quantityOf(result, 'weight');
  if (!map || map.shape.length !== 2) return undefined;
  const { T } = result!;
  return mean(Array.from({ length: T - key }, (_, i) => map.data[(key + i) * T + key]!));
}

function atStrongestHead(result: Result | undefined, name: string): number | undefined {
  const alphas = quantityOf(result, 'alpha');
  const quantity = quantityOf(result, name);
  if (!alphas || !quantity) return undefined;
  const { T } = result!;
  const firstAlphas = Array.from({ length: alphas.data.length / T }, (_, i) => alphas.data[i * T]!);
  return quantity.data[firstAlphas.indexOf(Math.max(...firstAlphas)) * T];
}

function lossOf(result: Result | undefined): number | undefined {
  const losses = quantityOf(result, 'loss_at');
  // The first token has no loss.
  return losses && mean(Array.from(losses.data).filter(Number.isFinite));
}

function meanRowSum(result: Result | undefined): number | undefined {
  const sums = quantityOf(result, 'row_mass');
  return sums && mean(sums.data);
}

function outputNorms(result: Result | undefined) {
  const norms = quantityOf(result, 'output_norm');
  const alphas = quantityOf(result, 'alpha_1');
  if (!norms || !alphas) return undefined;
  const shares = Array.from(alphas.data);
  const strongest = shares.indexOf(Math.max(...shares));
  const otherNorms = Array.from(norms.data).filter((_, i) => i !== strongest);
  return { strongest: norms.data[strongest]!, others: mean(otherNorms) };
}

/** Returns the first token's norm divided by the others' mean, for each row [T] of a quantity. */
function firstRatios(result: Result | undefined, name: string): number[] {
  const norms = Array.from(quantityOf(result, name)?.data ?? []);
  const T = result?.T ?? 1;
  return Array.from({ length: norms.length / T }, (_, i) => {
    const [first, ...others] = norms.slice(i * T, (i + 1) * T);
    return first! / mean(others);
  });
}

/** Returns the means of a map's first column and of its other visible cells, and the visible cells of its last row. */
function columnMeans(result: Result | undefined, name: string) {
  const map = quantityOf(result, name);
  if (!map) return undefined;
  const { T } = result!;
  const cells = Array.from(map.data);
  const rows = Array.from({ length: T - 1 }, (_, i) =>
    cells.slice((i + 1) * T, (i + 1) * T + i + 2),
  );
  return {
    // With the first row, like `cos_gap`.
    first: mean([cells[0]!, ...rows.map((row) => row[0]!)]),
    others: mean(rows.flatMap((row) => row.slice(1))),
    lastRow: rows.at(-1)!,
  };
}

export const valueFormatters: Readonly<Record<string, (results: readonly Result[]) => string>> = {
  tokens: ([first]) => String(first?.T ?? '–'),
  uniform: ([first]) => formatPercent(first && uniformAlphas(first.T)[0]),
  heads: ([first]) => String(first ? headScores(first).length : '–'),
  count: ([first]) =>
    String(first ? headScores(first).filter(({ alpha }) => alpha > first.eps).length : '–'),
  share: ([first]) => {
    // Over several prompts the mean of Sink₁ is not the share of heads whose mean α₁ exceeds ε.
    const sink = quantityOf(first, 'sink_1');
    if (sink) return formatPercent(sink.data[0]);
    const scores = first ? headScores(first) : [];
    return formatPercent(scores.filter(({ alpha }) => alpha > first!.eps).length / scores.length);
  },
  alpha: ([first]) => formatPercent(columnMean(first)),
  second_alpha: ([, second]) => formatPercent(columnMean(second)),
  gets: ([first]) => formatPercent(atStrongestHead(first, 'alpha')),
  gives: ([first]) => formatPercent(atStrongestHead(first, 'contribution_out_at')),
  at_10: ([first]) => formatPercent(quantityOf(first, 'sink_1_by_eps')?.data[10]),
  at_30: ([first]) => formatPercent(quantityOf(first, 'sink_1_by_eps')?.data[30]),
  at_50: ([first]) => formatPercent(quantityOf(first, 'sink_1_by_eps')?.data[50]),
  row_sum: ([first]) => formatPercent(meanRowSum(first)),
  second_row_sum: ([, second]) => formatPercent(meanRowSum(second)),
  bias: ([first]) => formatPercent(quantityOf(first, 'sink_bias')?.data[0]),
  gate: ([first]) => {
    const gates = quantityOf(first, 'gate_mean');
    return gates ? mean(gates.data).toFixed(2) : '–';
  },
  second_key: ([first]) => formatPercent(columnMean(first, 1)),
  most_given: ([first]) =>
    formatPercent(Math.max(...Array.from(quantityOf(first, 'alpha_1')?.data ?? [NaN]))),
  output: ([first]) => formatFixed(outputNorms(first)?.strongest),
  other_outputs: ([first]) => formatFixed(outputNorms(first)?.others),
  embedding_ratio: ([first]) => formatRatio(firstRatios(first, 'hidden_norm')[0]),
  hidden_ratio: ([first]) => formatRatio(Math.max(...firstRatios(first, 'hidden_norm'))),
  value_ratio: ([first]) => formatRatio(Math.min(...firstRatios(first, 'value_norm'))),
  cos_first: ([first]) => formatFixed(columnMeans(first, 'cos')?.first),
  cos_others: ([first]) => formatFixed(columnMeans(first, 'cos')?.others),
  key_size: ([first]) => {
    // One row suffices: its cells share ‖q‖, which cancels.
    const row = columnMeans(first, 'norm')?.lastRow;
    return formatRatio(row && row[0]! / mean(row.slice(1)));
  },
  /** The second subject's loss minus the first's, in nats per token. */
  rise: ([first, second]) => formatRise(first, second),
  second_rise: ([first, , third]) => formatRise(first, third),
};

/** Returns a dash for an unknown name. */
export const formattedValue = (name: string, results: readonly Result[]): string =>
  Object.hasOwn(valueFormatters, name) ? valueFormatters[name]!(results) : '–';

const formatRise = (base: Result | undefined, other: Result | undefined): string =>
  formatFixed((lossOf(other) ?? NaN) - (lossOf(base) ?? NaN));
