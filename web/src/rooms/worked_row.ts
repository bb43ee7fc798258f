/**
 * Works out one row of a map: the scores of one query, the weights that the operation makes of them, and the length of
 * the vector that each token adds to the head's output.
 */
import { html, nothing, render } from 'lit';
import { defaults } from '../ask/state';
import { firstKey, mapsOf, mean, ofHead, rowSumOf, type Frame, type Head } from '../frame';
import { quantity } from '../save/numbers';
import {
  firstName,
  firstTokenText,
  headName,
  formatPercent,
  modelName,
  quote,
  formatValue,
} from '../words';
import { barCell } from '../page/tables';
import { formatNumber } from '../timeline/seeds';
import { addElement, setText, type View } from '../page/view';
import { shownQuery } from '../views/query';

interface Entry {
  readonly key: number;
  readonly score: number;
  readonly weight: number;
  /** ‖v‖ of the token. */
  readonly value: number;
  /** ‖v‖ times the weight. */
  readonly adds: number;
}

interface WorkedRow {
  readonly query: number;
  /** The first token, and then the other tokens with the largest weights. */
  readonly topEntries: readonly Entry[];
  readonly otherEntries: readonly Entry[];
  /** The norm of the sum of the vectors that `otherEntries` add. */
  readonly othersOutput: number;
  readonly sum: number;
  readonly output: number;
  /** The norm of the output if softmax shared the row among the other tokens; NaN for other operations. */
  readonly outputWithoutFirst: number;
}

/** Besides the first token, this many tokens have a line each. */
const TOP_COUNT = 3;

/** Returns what the model's sigmoid adds to each score. */
function biasOf({ operation, architecture: { attention } }: Frame): number {
  const isModelOperation = operation.name === 'sigmoid' && attention.operation === 'sigmoid';
  const bias = Number(isModelOperation && attention.parameters?.bias);
  return Number.isFinite(bias) ? bias : 0;
}

/**
 * Returns the query that best shows that rows need not sum to 1. Among the queries that give the first token more than
 * half in the first model, it is the one with the smallest row sum in the other model; -1 without one.
 */
export function contrastQuery([frame, otherFrame]: readonly Frame[]): number {
  const isContrast = frame?.operation.normalizes && otherFrame && !otherFrame.operation.normalizes;
  if (!isContrast || frame.pooled || otherFrame.pooled || frame.T !== otherFrame.T) return -1;
  const [firstMaps, otherMaps] = [mapsOf(frame), mapsOf(otherFrame)];
  if (!firstMaps || !otherMaps) return -1;
  const { T } = frame;
  const sumOfRow = (query: number) => rowSumOf(otherMaps.weights, T, query);
  // Queries in the first half see few tokens.
  return Array.from({ length: T }, (_, query) => query)
    .filter((query) => query >= T / 2 && firstMaps.weights[query * T + firstKey(frame)]! > 0.5)
    .reduce((best, query) => (best < 0 || sumOfRow(query) < sumOfRow(best) ? query : best), -1);
}

/**
 * Works out a row; undefined if the frame lacks its numbers.
 * @param requestedQuery the index of the query; -1: the one in the middle
 */
export function workOutRow(frame: Frame, requestedQuery: number): WorkedRow | undefined {
  const { T, head, tensors, operation, architecture } = frame;
  const { scores } = head?.tensors ?? {};
  const maps = frame.pooled ? undefined : mapsOf(frame);
  if (!scores || !maps || !tensors.v || T < 2) return undefined;
  const { H, G } = architecture;
  const [, , , K] = tensors.v.shape as [number, number, number, number];
  const values = ofHead(
    { ...tensors.v, shape: [architecture.L, G, T * K] },
    { layer: head!.layer, head: Math.floor(head!.head / (H / G)) },
  );
  const query = shownQuery(frame, requestedQuery);
  const firstIndex = firstKey(frame);
  const offset = query * T;
  /** Returns the norm of the sum of these tokens' values, each times its weight. */
  const outputOf = (weighted: readonly Pick<Entry, 'key' | 'weight'>[]) =>
    Math.hypot(
      ...Array.from({ length: K }, (_, i) =>
        weighted.reduce((sum, { key, weight }) => sum + weight * values[key * K + i]!, 0),
      ),
    );
  const bias = biasOf(frame);
  const entries = Array.from({ length: T }, (_, key) => ({
    key,
    weight: maps.weights[offset + key]!,
  }))
    .filter(({ weight }) => Number.isFinite(weight))
    .map(({ key, weight }): Entry => ({
      ...{ key, score: scores.data[offset + key]! + bias, weight },
      ...{ value: outputOf([{ key, weight: 1 }]), adds: outputOf([{ key, weight }]) },
    }));
  const others = entries
    .filter(({ key }) => key !== firstIndex)
    .sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight));
  // A single remaining token gets a line of its own.
  const lineCount = others.length === TOP_COUNT + 1 ? TOP_COUNT + 1 : TOP_COUNT;
  const remainingEntries = others.slice(lineCount);
  const highestScore = Math.max(...others.map(({ score }) => score));
  const powers = others.map(({ score }) => Math.exp(score - highestScore));
  const powerSum = sumOf(powers);
  const isRedistributed =
    operation.name === 'softmax' && !architecture.bias_key && others.length > 0;
  return {
    query,
    topEntries: [...entries.filter(({ key }) => key === firstIndex), ...others.slice(0, lineCount)],
    otherEntries: remainingEntries,
    othersOutput: outputOf(remainingEntries),
    sum: sumOf(entries.map(({ weight }) => weight)),
    output: outputOf(entries),
    outputWithoutFirst: isRedistributed
      ? outputOf(others.map(({ key }, i) => ({ key, weight: powers[i]! / powerSum })))
      : NaN,
  };
}

/** Whether the first entry's ‖v‖ is below half of the others' mean, and clearly below that of each other token of the table. */
const hasSmallValue = (workedRow: WorkedRow) => {
  const [{ value }, ...shown] = workedRow.topEntries as [Entry, ...Entry[]];
  return (
    value < mean(othersOf(workedRow).map((entry) => entry.value)) / 2 &&
    shown.every((entry) => value < 0.75 * entry.value)
  );
};

/** Whether the head would write clearly more if the others shared the first token's weight. */
const reducesOutput = ({ output, outputWithoutFirst }: WorkedRow) =>
  outputWithoutFirst > 1.25 * output;

const rowEntries = ({ topEntries, otherEntries }: WorkedRow) => [...topEntries, ...otherEntries];

const othersOf = (workedRow: WorkedRow) => rowEntries(workedRow).slice(1);

/** Returns the entry with the largest weight; undefined if the first token and another have the same printed weight. */
function winnerOf({ topEntries: [first, second] }: WorkedRow): Entry | undefined {
  if (!second || formatPercent(Math.abs(first!.weight)) === formatPercent(Math.abs(second.weight)))
    return undefined;
  return Math.abs(first!.weight) > Math.abs(second.weight) ? first : second;
}

/** Asks about the drawn row. */
export function rowTitle(workedRow: WorkedRow | undefined): string {
  const winner = workedRow && winnerOf(workedRow);
  if (!winner) return 'How do scores become attention?';
  return winner === workedRow.topEntries[0]
    ? 'Why does the first token win?'
    : 'Why does another token win in this row?';
}

export function rowAnswer(workedRow: WorkedRow, frame: Frame): string {
  const { operation } = frame;
  const firstEntry = workedRow.topEntries[0]!;
  const otherEntries = othersOf(workedRow);
  if (firstEntry.key !== firstKey(frame) || !otherEntries.length) return '';
  const name = firstName(frame);
  const opening = `In this row of ${modelName(frame)}`;
  const winner = winnerOf(workedRow);
  if (!winner)
    return `${opening} no token wins: ${name} and ${quote(frame, otherEntries[0]!.key)} get the same attention.`;
  if (winner !== firstEntry)
    return `${opening} ${quote(frame, winner.key)} gets more attention than ${name}.`;
  if (!otherEntries.every(({ score }) => firstEntry.score > score))
    return `${opening} ${name} gets the most attention.`;
  const takesMost = operation.normalizes && firstEntry.weight > 0.5;
  const lessWords = reducesOutput(workedRow) ? ': without it the head would write more' : '';
  const valueWords = hasSmallValue(workedRow)
    ? `, but its small value adds little for that weight${lessWords}`
    : '';
  return `${opening} ${name} has the highest score${takesMost ? ', so most of the attention goes to it' : ''}${valueWords}.`;
}

function biasWords(frame: Frame): string {
  const bias = biasOf(frame);
  return bias < 0
    ? ` The bias of ${formatNumber(bias, 2)} keeps a weight small unless the key fits the query well.`
    : '';
}

/** Says that the first token adds little by its weight and not by its value; '' unless that is so. */
function longValueWords(workedRow: WorkedRow, frame: Frame): string {
  const [first, ...others] = rowEntries(workedRow);
  return first!.key === firstKey(frame) &&
    first!.value > mean(others.map(({ value }) => value)) &&
    first!.adds < 0.1 * first!.value
    ? ` The value of ${firstName(frame)} is not small here; its weight is.`
    : '';
}

/** States the sum of the row's weights, and for softmax how the first token affects the output. */
export function rowSumWords(workedRow: WorkedRow, frame: Frame): string {
  const { name, normalizes } = frame.operation;
  const { sum, output, outputWithoutFirst } = workedRow;
  const otherCount = othersOf(workedRow).length;
  const othersWords = otherCount === 1 ? 'the other token' : `the other ${otherCount} tokens`;
  if (name === 'sigmoid')
    return `Sigmoid weighs each token by its own score: this row sums to ${rowTotal(sum)}, and no row has to reach 100%.${biasWords(frame)}${longValueWords(workedRow, frame)}`;
  if (!normalizes || !Number.isFinite(outputWithoutFirst))
    return `The weights of this row sum to ${rowTotal(sum)}.`;
  const withoutWords = reducesOutput(workedRow)
    ? ` Without it they would share all 100%, and the head would write a vector of length ${lengthWords(outputWithoutFirst)} instead of ${lengthWords(output)}.`
    : '';
  return `The weights must sum to 100%: what ${firstName(frame)} does not take, ${othersWords} ${otherCount === 1 ? 'takes' : 'take'}.${withoutWords}`;
}

/** Compares a softmax row whose first token keeps the output small with a row that sums to less; otherwise ''. */
export function compareRows(frames: readonly Frame[], query: number): string {
  const [frame, otherFrame] = frames;
  const [workedRow, otherRow] = frames.map((eachFrame) => workOutRow(eachFrame, query));
  if (!workedRow || !otherRow || !reducesOutput(workedRow)) return '';
  const firstEntry = workedRow.topEntries[0]!;
  if (firstEntry.key !== firstKey(frame!) || !hasSmallValue(workedRow)) return '';
  const isContrast =
    firstEntry.weight > 0.5 && otherFrame!.operation.name === 'sigmoid' && otherRow.sum < 0.5;
  const areOutputsSmall =
    Math.max(workedRow.output, otherRow.output) < workedRow.outputWithoutFirst / 2;
  if (!isContrast || !areOutputsSmall) return '';
  return (
    `Both heads write less than half of the ${lengthWords(workedRow.outputWithoutFirst)} that softmax would write without ${firstName(frame!)} (${lengthWords(workedRow.output)} and ${lengthWords(otherRow.output)}): softmax gives ${formatPercent(firstEntry.weight)} to ` +
    `${firstTokenText(frame!)}, whose value is small, and sigmoid gives ${rowTotal(otherRow.sum)} in all.`
  );
}

/** Formats a norm; `<0.01` if it would round to 0. */
const lengthWords = (x: number) => (x > 0 && x < 0.01 ? '<0.01' : formatValue(x));

/** Formats a sum of weights with the digits of the weights above it. */
const rowTotal = (sum: number) => formatPercent(sum, Math.abs(sum - 1) < 5e-4 ? 0 : 1);

const sumOf = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);

/** @param barMax the norm of a full bar */
function tableOf(workedRow: WorkedRow, barMax: number, frame: Frame, at: Head) {
  const { query, topEntries, otherEntries, othersOutput, sum, output } = workedRow;
  const isFirst = (key: number) => key === firstKey(frame);
  const isRepeated = (key: number) =>
    topEntries.some((entry) => entry.key !== key && quote(frame, entry.key) === quote(frame, key));
  const scores = otherEntries.map(({ score }) => score);
  const otherWeight = sumOf(otherEntries.map((entry) => entry.weight));
  const otherValue = mean(otherEntries.map((entry) => entry.value));
  const bias = biasOf(frame);
  return html`<table class="worked">
    <caption>
      ${frame.title}, head ${headName(frame.head ?? at, frame)}, row of ${quote(frame, query)}
    </caption>
    <thead>
      <tr>
        <th scope="col">token</th>
        <th scope="col">
          score ${bias ? html`<small>with bias ${formatNumber(bias, 2)}</small>` : nothing}
        </th>
        <th scope="col">weight <small>by ${frame.operation.label}</small></th>
        <th scope="col">× value</th>
        <th scope="col">= adds</th>
      </tr>
    </thead>
    <tbody>
      ${topEntries.map(
        (entry) =>
          html`<tr class=${isFirst(entry.key) ? 'first' : ''}>
            <th scope="row">
              ${isFirst(entry.key) ? firstTokenText(frame) : quote(frame, entry.key)}
              ${isRepeated(entry.key) ? html`<small>position ${entry.key}</small>` : nothing}
            </th>
            <td>${formatNumber(entry.score, 2)}</td>
            ${barCell(Math.abs(entry.weight), formatPercent(entry.weight))}
            ${barCell(entry.value / barMax, lengthWords(entry.value))}
            ${barCell(entry.adds / barMax, lengthWords(entry.adds))}
          </tr>`,
      )}
      ${
        otherEntries.length
          ? html`<tr>
              <th scope="row">${otherEntries.length} others</th>
              <td>
                ${formatNumber(Math.min(...scores), 2)} to ${formatNumber(Math.max(...scores), 2)}
              </td>
              ${barCell(Math.abs(otherWeight), formatPercent(otherWeight))}
              ${barCell(otherValue / barMax, `${lengthWords(otherValue)} on average`)}
              ${barCell(othersOutput / barMax, `${lengthWords(othersOutput)} together`)}
            </tr>`
          : nothing
      }
    </tbody>
    <tfoot>
      <tr>
        <th scope="row">in all</th>
        <td></td>
        ${barCell(sum, rowTotal(sum))}
        <td>as vectors</td>
        ${barCell(output / barMax, lengthWords(output))}
      </tr>
    </tfoot>
  </table>`;
}

/** The view of the table. Its row is selected above the table. */
export const row: View = {
  name: 'row',
  title: 'One row, worked out',
  question: 'How do scores become what a head writes?',
  how:
    'One row of the attention map: the score of each token that the query sees, the weight that the head makes of it, the ' +
    'length of the token’s value, and of the value times its weight, before biases, gates and the output matrix.',
  reads: ['v'],
  headReads: ['scores', 'att'],
  numbers: (frame) => {
    const workedRow = workOutRow(frame, -1);
    const entries = workedRow ? rowEntries(workedRow) : [];
    return (['key', 'score', 'weight', 'value', 'adds'] as const).map((name) =>
      quantity(name, ['line'], {
        shape: [entries.length],
        data: Float32Array.from(entries, (entry) => entry[name]),
      }),
    );
  },
  says: (frame, _, state = defaults) => {
    const workedRow = workOutRow(frame, state.query);
    return workedRow
      ? `${rowAnswer(workedRow, frame)} ${rowSumWords(workedRow, frame)}`.trim()
      : '';
  },
  draw(root) {
    const tablePlace = addElement(root, 'row-table');
    const explanation = addElement(root, '', 'p');
    return (frame, { at, state, frames }) => {
      const workedRow = workOutRow(frame, state.query);
      root.hidden = !workedRow;
      if (!workedRow) return;
      setText(explanation, rowSumWords(workedRow, frame));
      const otherRows = frames.flatMap((otherFrame) =>
        otherFrame === frame ? [] : (workOutRow(otherFrame, state.query) ?? []),
      );
      const entries = [workedRow, ...otherRows].flatMap(rowEntries);
      const barMax = Math.max(...entries.map(({ value }) => value));
      render(tableOf(workedRow, barMax, frame, at), tablePlace);
    };
  },
};
