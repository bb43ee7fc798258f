/**
 * Works out one row of a map: the scores of one query, the weights that the operation makes of them, and the length of
 * the vector that each token adds to the head's output. Strips show how the row is filled, and what the head then writes.
 */
import { html, nothing, render, type TemplateResult } from 'lit';
import { defaults } from '../ask/state';
import { firstKey, mapsOf, mean, ofHead, type Frame, type Head } from '../frame';
import { quantity } from '../save/numbers';
import {
  capitalize,
  compare,
  firstName,
  firstTokenText,
  headName,
  formatParts,
  formatPercent,
  modelName,
  quote,
  formatValue,
  SMALL_SHARE,
} from '../words';
import { barCell } from '../page/tables';
import { formatNumber } from '../timeline/seeds';
import { addElement, type View } from '../page/view';
import { shownQuery } from '../views/query';
import { isCut, partStyles } from './start_words';

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

/** Whether the head would write more if the others shared the first token's weight. */
const reducesOutput = ({ output, outputWithoutFirst }: WorkedRow) =>
  compare(outputWithoutFirst, output, 0) > 0;

const rowEntries = ({ topEntries, otherEntries }: WorkedRow) => [...topEntries, ...otherEntries];

const othersOf = (workedRow: WorkedRow) => rowEntries(workedRow).slice(1);

/** Returns the entries from the largest weight on. */
const ranked = (workedRow: WorkedRow) =>
  rowEntries(workedRow).sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight));

/** Returns the entry with the largest weight; undefined if a reader would call another weight as large. */
function winnerOf(workedRow: WorkedRow): Entry | undefined {
  const [winner, second] = ranked(workedRow);
  return second && compare(Math.abs(winner!.weight), Math.abs(second.weight)) ? winner : undefined;
}

/** Asks about the drawn row. */
export function rowTitle(workedRow: WorkedRow | undefined): string {
  const winner = workedRow && winnerOf(workedRow);
  if (!winner) return 'How do scores become attention?';
  return winner === workedRow.topEntries[0]
    ? 'Why does the first token win?'
    : 'Which token wins in this row?';
}

/** Returns the entries that a reader would call as large as the largest one. */
function alikeOnTop(workedRow: WorkedRow): readonly Entry[] {
  const [top, ...others] = ranked(workedRow).map(
    (entry) => [entry, Math.abs(entry.weight)] as const,
  );
  return [top!, ...others.filter(([, weight]) => !compare(top![1], weight))].map(
    ([entry]) => entry,
  );
}

/** Returns the tokens that the answer names besides the first one: the winner, or the two that are alike. */
function namedBesideFirst(workedRow: WorkedRow): readonly Entry[] {
  const [first] = workedRow.topEntries;
  const alike = alikeOnTop(workedRow);
  return (alike.length > 2 ? [] : alike).filter((entry) => entry !== first);
}

/** Says where the row's attention goes, and why a row that must give all of it away gives it to the first token. */
export function rowAnswer(workedRow: WorkedRow, frame: Frame): string {
  const [firstEntry] = workedRow.topEntries;
  if (firstEntry!.key !== firstKey(frame) || !othersOf(workedRow).length) return '';
  const name = firstName(frame);
  const nameOf = (entry: Entry) => (entry === firstEntry ? name : quote(frame, entry.key));
  const opening = `In this row of ${modelName(frame)}`;
  const winner = winnerOf(workedRow);
  if (!winner) {
    const alike = alikeOnTop(workedRow);
    if (alike.length > 2)
      return `${opening} no token wins: ${alike.length} tokens get about the same attention, ${alike.includes(firstEntry!) ? `${name} among them` : `but not ${name}`}.`;
    const [one, other] = alike as [Entry, Entry];
    const pair = other === firstEntry ? [other, one] : [one, other];
    const isRepeated = quote(frame, one.key) === quote(frame, other.key);
    const names = pair.map(
      (entry) => `${nameOf(entry)}${isRepeated ? ` at position ${entry.key}` : ''}`,
    );
    return `${opening} no token wins: ${names.join(' and ')} get about the same attention.`;
  }
  if (winner !== firstEntry)
    return `${opening} ${nameOf(winner)} gets more attention than ${name}.`;
  if (!frame.operation.normalizes || Math.round(100 * winner.weight) <= 50)
    return `${opening} ${name} gets the most attention.`;
  const effect = !reducesOutput(workedRow)
    ? ''
    : hasSmallValue(workedRow) && workedRow.output < workedRow.outputWithoutFirst / 2
      ? ', whose small value keeps what the head writes small'
      : ', and the head writes less than it would without it';
  return `This row must give all its attention away: most goes to ${name}${effect}.`;
}

/** Says why a token gets its weight: of a first token with the highest score, how it wins. */
export function scoreWords(workedRow: WorkedRow, frame: Frame): string {
  const [first, ...others] = rowEntries(workedRow);
  const isHighest =
    first!.key === firstKey(frame) && others.every(({ score }) => first!.score > score);
  return `A weight comes from a score, which says how well a token’s key fits the query${isHighest ? `: here that of ${firstName(frame)} is the highest` : ''}.`;
}

/** Formats a norm; `<0.01` if it would round to 0. */
const lengthWords = (x: number) => (x > 0 && x < 0.01 ? '<0.01' : formatValue(x));

/** Formats a sum of weights with the digits of the weights above it. */
const rowTotal = (sum: number) => formatPercent(sum, Math.abs(sum - 1) < 5e-4 ? 0 : 1);

const sumOf = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);

/** A part of a strip: what it is on, and its share of 100%. */
interface Part {
  readonly kind: 'given' | 'named' | 'others';
  readonly on: string;
  readonly share: number;
}

/** A row as a strip: the parts of its attention, and the length of what the head writes. */
interface Strip {
  readonly title: string;
  readonly note: string;
  readonly parts: readonly Part[];
  readonly output: number;
}

/** A strip without the first token is drawn where the first token's part, which the others would share, can be seen. */
const SHARED = 0.05;

/** Returns the first token, the tokens that the answer names, and the others, of a row as parts. */
function partsOf(workedRow: WorkedRow, frame: Frame, named: readonly Entry[]): readonly Part[] {
  const shareOf = (entries: readonly Entry[]) =>
    sumOf(entries.map(({ weight }) => Math.abs(weight)));
  const first = workedRow.topEntries.filter(({ key }) => key === firstKey(frame));
  const others = rowEntries(workedRow).filter(
    (entry) => !first.includes(entry) && !named.includes(entry),
  );
  return [
    ...first.map((entry): Part => ({
      kind: 'given',
      on: firstTokenText(frame),
      share: shareOf([entry]),
    })),
    ...named.map((entry): Part => ({
      kind: 'named',
      on: quote(frame, entry.key),
      share: shareOf([entry]),
    })),
    ...(others.length
      ? [{ kind: 'others', on: countOthers(others.length), share: shareOf(others) } as const]
      : []),
  ];
}

const countOthers = (count: number): string =>
  count === 1 ? 'the other token' : `${count} others`;

/**
 * Returns the strips of a model: its row, and for softmax, where the first token has a part to give, the row that the
 * other tokens would share without it.
 * @param isAnswered whether the answer above the strips is about this model, and may name tokens besides the first one
 */
function stripsOf(frame: Frame, query: number, isAnswered: boolean): readonly Strip[] {
  const workedRow = workOutRow(frame, query);
  if (!workedRow) return [];
  const { output, outputWithoutFirst } = workedRow;
  const title = `${capitalize(modelName(frame))}, ${headName(frame.head!, frame)}`;
  const { normalizes } = frame.operation;
  const note = `each row ${normalizes ? 'must' : 'need not'} sum to 100%`;
  const parts = partsOf(workedRow, frame, isAnswered ? namedBesideFirst(workedRow) : []);
  const drawn = { title, note, parts, output };
  const [first] = parts;
  if (!Number.isFinite(outputWithoutFirst) || first!.kind !== 'given' || first!.share < SHARED)
    return [drawn];
  const others: Part = { kind: 'others', on: countOthers(othersOf(workedRow).length), share: 1 };
  return [
    drawn,
    {
      title: `Without ${firstTokenText(frame)}`,
      note: 'the others would share 100%',
      parts: [others],
      output: outputWithoutFirst,
    },
  ];
}

/** Says what the parts of a strip are. */
function partWords({ parts }: Strip) {
  const sum = sumOf(parts.map(({ share }) => share));
  const unused = 1 - sum >= SMALL_SHARE ? [1 - sum] : [];
  const written = formatParts([...parts.map(({ share }) => share), ...unused]);
  const words = parts.map(({ kind, on }, i) => {
    const text = `${written[i]} on ${on}`;
    return html`${i ? ', ' : ''}${kind === 'others' ? text : html`<b class=${kind}>${text}</b>`}`;
  });
  const rest = unused.length
    ? `; ${written.at(-1)} unused`
    : isCut(sum)
      ? '; the strip is cut at 100%'
      : '';
  return html`${words}${rest}`;
}

/** Draws where the attention of one row can go in each model, and how much the head then writes. */
export function drawStrips(frames: readonly Frame[], query: number): TemplateResult {
  const [frame] = frames as [Frame];
  const strips = frames.flatMap((shown) => stripsOf(shown, query, shown === frame));
  const longest = Math.max(...strips.map(({ output }) => output));
  const shown = shownQuery(frame, query);
  return html`<table class="strips">
    <thead>
      <tr>
        <th scope="col">model</th>
        <th scope="col">attention of ${quote(frame, shown)}</th>
        <th scope="col">the head writes <small>length</small></th>
      </tr>
    </thead>
    ${strips.map((strip) => {
      const { title, note, parts, output } = strip;
      const styles = partStyles(parts.map(({ share }) => share));
      return html`<tr>
        <th scope="row">${title} <small>${note}</small></th>
        <td>
          <div class="strip">
            ${parts.map(({ kind }, i) => html`<i class=${kind} style=${styles[i]}></i>`)}
          </div>
          <p class="parts">${partWords(strip)}</p>
        </td>
        ${barCell(output / longest, lengthWords(output))}
      </tr>`;
    })}
  </table>`;
}

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
    return workedRow ? rowAnswer(workedRow, frame) : '';
  },
  draw(root) {
    const tablePlace = addElement(root, 'row-table');
    return (frame, { at, state, frames }) => {
      const workedRow = workOutRow(frame, state.query);
      root.hidden = !workedRow;
      if (!workedRow) return;
      const otherRows = frames.flatMap((otherFrame) =>
        otherFrame === frame ? [] : (workOutRow(otherFrame, state.query) ?? []),
      );
      const entries = [workedRow, ...otherRows].flatMap(rowEntries);
      const barMax = Math.max(...entries.map(({ value }) => value));
      render(tableOf(workedRow, barMax, frame, at), tablePlace);
    };
  },
};
