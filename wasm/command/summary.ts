/** Writes the lines that `measure` and `record` print. */
import { hasShares, leastTokens, operationOf } from '../study/judge.ts';
import { oneLine } from './output.ts';
import { editLabelsOf } from './sheet.ts';
import { whyNoLoss } from '../abi/head.ts';
import { layerNumber } from '../abi/layers.ts';
import type { Architecture, Describe, Metric } from '../abi/types.ts';
import type { MeasureResult } from './measure.ts';
import type { Cut } from '../study/types.ts';

export function summaryText(result: MeasureResult, describe: Describe) {
  const { family } = result.architecture;
  const { sequences, T, special, first } = result;
  const position = firstPosition(result);
  const thresholdResults = result.byEps ?? [{ eps: result.eps, metrics: result.metrics }];
  const notes = [
    ...cutNotes(result),
    lossNote(result.architecture),
    ...thresholdResults.map(({ eps }) => lengthNote(result, eps)),
  ].filter(Boolean);
  const measuredRows = describe.metrics.filter(({ name }) => name in result.metrics);
  const rows = hasShares(operationOf(describe, result.architecture, result.edits))
    ? weightsFirst(measuredRows)
    : measuredRows;
  const lines = rows.flatMap((row) => {
    // In a recording the first token may have another position, which these labels then name.
    const label = row.label.replace(/_(k|1)\b/g, `_${position + 1}`);
    const hasThreshold = result.byEps?.some(({ metrics }) => row.name in metrics);
    return (hasThreshold ? thresholdResults : thresholdResults.slice(0, 1)).map(
      ({ eps, metrics }) => {
        const resultAtThreshold = { ...result, metrics: { ...result.metrics, ...metrics } };
        const name = hasThreshold ? `${label}, eps ${eps}` : label;
        return `${name.padEnd(16)}  ${metricText(row, resultAtThreshold, describe)}`;
      },
    );
  });
  const thresholds = thresholdResults.map(({ eps }) => eps).join(', ');
  const editLabels = editLabelsOf(result, describe);
  return `${oneLine([result.model, ...editLabels].join(', '))}: ${oneLine(family)}, ${sizeText(result.architecture)}
${result.class} over ${countText(sequences, 'sequence')} of ${T} tokens, eps ${thresholds}, ${special === null ? 'the token ids given' : special ? `special tokens ${special}` : 'recorded'}, ${(first ?? null) === null ? 'no common first token' : `first token ${JSON.stringify(first)}`}${position > 0 ? ` at position ${position}` : ''}
${notes.map((note) => `${note}\n`).join('')}${lines.join('\n')}
`;
}

/** The metrics of a key's weight and of its share of the row: where they differ, attention is the weight. */
const WEIGHTS: Record<string, string> = { alpha_raw: 'alpha', sink_ratio_raw: 'sink_ratio' };

/** Puts each weight, under the name of attention, before its share, whose label then says so. */
function weightsFirst(rows: readonly Metric[]): Metric[] {
  const shareOf = ({ name }: Metric) => rows.find((row) => row.name === WEIGHTS[name]);
  const pairs = rows.flatMap((row) => {
    const share = shareOf(row);
    return share
      ? [
          { ...row, label: share.label },
          { ...share, label: `${share.label} by share` },
        ]
      : [];
  });
  return [...pairs, ...rows.filter(({ name }) => !pairs.some((row) => row.name === name))];
}

/** Returns the position of the token that counts as the first: 0, except in some recordings. */
const firstPosition = (result: MeasureResult) => ('position' in result ? result.position : 0);

function sizeText(architecture: Pick<Architecture, 'L' | 'H' | 'blocks' | 'layers'>) {
  const { L, H, blocks = L, layers = [] } = architecture;
  const attentionText = blocks > L ? `, attention in ${L} (${layers.join(', ')})` : '';
  return `${countText(blocks, 'layer')}${attentionText}, ${countText(H, 'head')}`;
}

function countText(count: number, noun: string) {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** Says how many sequences the text did not give of those asked for, and what is odd about its tokens. */
export const cutNotes = ({ cut, T }: { readonly cut?: Cut; readonly T: number }): string[] =>
  !cut
    ? []
    : [
        ...(cut.sequences < cut.asked ? [countNote(cut, T)] : []),
        ...cut.notes.map((note) => `note: ${oneLine(note)}`),
      ];

function countNote({ asked, sequences, short, read, texts }: Cut, T: number) {
  if (texts !== undefined) {
    const exception = ` except ${short} too short; fewer --tokens than ${T} give more`;
    const places = `each of ${countText(texts, 'text')}${short > 0 ? exception : ''}`;
    return `note: ${sequences} of the ${asked} sequences asked for, one for ${places}`;
  }
  return (
    `note: ${sequences} of the ${asked} sequences asked for: the text has ${read} tokens; ` +
    `fewer --tokens than ${T} or more text give more`
  );
}

function lossNote(architecture: MeasureResult['architecture']) {
  const reason = whyNoLoss(architecture);
  const { mask, bias_key, gate } = architecture as Partial<Architecture>;
  const absent = [bias_key ? '' : 'no bias key (Sink_*)', gate ? '' : 'no gate'].filter(Boolean);
  const rest =
    mask?.kind === 'bidirectional' && absent.length
      ? `; the model has ${absent.join(' and ')}`
      : '';
  return reason && `note: ${reason}: no loss, no accuracy${rest}`;
}

/** Returns a note if the text is too short to interpret Sink_1, by the page's rule, else ''. */
function lengthNote(result: MeasureResult, eps: number) {
  const first = firstPosition(result);
  const tokensMin = leastTokens(eps, { ...result.architecture, first });
  if (result.T >= tokensMin) return '';
  const reason = `uniform attention alone exceeds eps ${eps}`;
  return Number.isFinite(tokensMin)
    ? `too short: ${reason}; Sink_${first + 1} needs at least ${tokensMin} tokens`
    : `no text is long enough: ${reason}`;
}

/**
 * Writes one metric on a line. A metric of keys shows the first token and the largest later value;
 * one of heads, the mean and the largest value; one of layers, each value. Further dimensions show
 * their first number. A place names the layer and the head, L0H0, or the key/value head, L0G0.
 */
export function metricText(
  { name, shape: letters, unit }: Metric,
  result: MeasureResult,
  { defaults: { keys } }: Describe,
) {
  const { metrics, architecture } = result;
  const position = firstPosition(result);
  const { shape } = metrics[name];
  const [mean, deviation] = [metrics[name].mean, metrics[name].deviation].map(roundToFloat32);
  const isShare = unit.startsWith('share of');
  const format = (x: number | null) =>
    x === null ? '-' : isShare ? `${(100 * x).toFixed(2)}%` : x.toFixed(3);
  const token = letters[0] === 'T' ? position : 0;
  const deviationText = deviation[token] === null ? '' : ` (deviation ${format(deviation[token])})`;
  if (letters[0] === 'T') {
    const otherKeys = mean.slice(0, keys).map((x, k) => (k === position ? null : x));
    const k = indexOfLargest(otherKeys);
    const last = Math.min(keys, mean.length);
    const range = last > 2 ? `2-${last}` : `${last}`;
    const keyRange = position === 0 ? `k = ${range}` : `the other k up to ${last}`;
    const largestOther =
      k >= 0 ? `; largest of ${keyRange}: ${format(mean[k])} at k = ${k + 1}` : '';
    return `${format(mean[position])}${deviationText}${largestOther}`;
  }
  if (letters.length === 1)
    return mean.length === 1 ? format(mean[0]) + deviationText : mean.map(format).join(' ');
  const [rows, heads, ...rest] = shape;
  const rowSize = rest.reduce((a: number, b: number) => a * b, 1);
  const offset = letters[2] === 'T' ? position : 0;
  const values = Array.from({ length: rows * heads }, (_, i) => mean[i * rowSize + offset]);
  const largest = indexOfLargest(values);
  if (largest < 0) return '-';
  // The mean leaves out heads without the number, such as key/value heads that a layer lacks.
  const knownValues = values.filter((value) => value !== null);
  const sum = knownValues.reduce((a: number, b) => a + b, 0);
  const layer = layerNumber(architecture, Math.floor(largest / heads));
  const place = `L${layer}${letters[1]}${largest % heads}`;
  return `mean ${format(sum / knownValues.length)}, largest ${format(values[largest])} (${place})`;
}

/** Rounds numbers as a recording stores them, so that model and recording print the same digits. */
const roundToFloat32 = (numbers: readonly (number | null)[]) =>
  numbers.map((x) => (x === null ? null : Math.fround(x)));

function indexOfLargest(values: readonly (number | null)[]) {
  let best = -1;
  values.forEach((value, i) => {
    if (value !== null && (best < 0 || value > (values[best] as number))) best = i;
  });
  return best;
}
