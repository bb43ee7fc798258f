/**
 * Works out one row of a map: the scores of one query, the weights that the operation makes of these, and the vector
 * that each token adds to the head's output. The table gives its length.
 */
import { html, nothing, render } from 'lit';
import { defaults } from '../ask/state';
import { firstKey, mapsOf, mean, ofHead, type Frame, type Head } from '../frame';
import { quantity } from '../save/numbers';
import { firstBare, headName, percent, quote, show, sumWords } from '../words';
import { formatNumber } from '../timeline/seeds';
import { addElement, setText, type View } from '../page/view';
import { shownQuery } from '../views/query';

/** A token's part in a row. */
interface Entry {
  readonly key: number;
  readonly score: number;
  readonly weight: number;
  /** The length of the token's value. */
  readonly value: number;
  /** The length of the token's value times its weight. */
  readonly adds: number;
}

export interface Worked {
  readonly query: number;
  /** The first token, then the other tokens with the largest weights. */
  readonly named: readonly Entry[];
  readonly others: readonly Entry[];
  /** The length of the sum of the vectors that `others` add. */
  readonly othersAdd: number;
  /** The sum of the weights. */
  readonly sum: number;
  /** The length of the head's output. */
  readonly output: number;
  /** The length of the output if softmax shared the row among the other tokens; NaN for other operations. */
  readonly without: number;
}

/** The number of tokens, without the first one, that have a line each. */
const NAMED = 3;

/** Returns the number that the model's sigmoid adds to each score. */
function biasOf({ operation, architecture: { attention } }: Frame): number {
  const isOwn = operation.name === 'sigmoid' && attention.operation === 'sigmoid';
  const bias = Number(isOwn && attention.parameters?.bias);
  return Number.isFinite(bias) ? bias : 0;
}

/**
 * Returns the query that best shows what a model need not do whose rows may sum to anything: of the queries that give
 * the first token more than half in the first model, the one with the smallest row sum in the other; -1 without one.
 */
export function contrastQuery([first, other]: readonly Frame[]): number {
  const isContrast = first?.operation.normalizes && other && !other.operation.normalizes;
  if (!isContrast || first.pooled || other.pooled || first.T !== other.T) return -1;
  const [own, others] = [mapsOf(first), mapsOf(other)];
  if (!own || !others) return -1;
  const { T } = first;
  const sumOfRow = (query: number) =>
    sumOf(Array.from(others.weights.subarray(query * T, (query + 1) * T)).filter(Number.isFinite));
  // The queries of the first half see few tokens.
  return Array.from({ length: T }, (_, query) => query)
    .filter((query) => query >= T / 2 && own.weights[query * T + firstKey(first)]! > 0.5)
    .reduce((best, query) => (best < 0 || sumOfRow(query) < sumOfRow(best) ? query : best), -1);
}

/**
 * Works out a row; undefined if the frame lacks its numbers.
 * @param given the index of the query; -1: the one in the middle
 */
export function workedRow(frame: Frame, given: number): Worked | undefined {
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
  const query = shownQuery(frame, given);
  const first = firstKey(frame);
  const at = query * T;
  const lengthOf = (keys: readonly number[], weightOf: (key: number) => number) =>
    Math.hypot(
      ...Array.from({ length: K }, (_, i) =>
        keys.reduce((sum, key) => sum + weightOf(key) * values[key * K + i]!, 0),
      ),
    );
  const weight = (key: number) => maps.weights[at + key]!;
  const bias = biasOf(frame);
  const all = Array.from({ length: T }, (_, key) => key)
    .filter((key) => Number.isFinite(weight(key)))
    .map((key): Entry => ({
      ...{ key, score: scores.data[at + key]! + bias, weight: weight(key) },
      ...{ value: lengthOf([key], () => 1), adds: lengthOf([key], weight) },
    }));
  const rest = all
    .filter(({ key }) => key !== first)
    .sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight));
  // A single remaining token has a line of its own.
  const count = rest.length === NAMED + 1 ? NAMED + 1 : NAMED;
  const remaining = rest.slice(count);
  const keysOf = (entries: readonly Entry[]) => entries.map(({ key }) => key);
  const highest = Math.max(...rest.map(({ score }) => score));
  const power = ({ score }: Entry) => Math.exp(score - highest);
  const powers = new Map(rest.map((one) => [one.key, power(one)]));
  const shared = rest.reduce((sum, one) => sum + power(one), 0);
  const isShared = operation.name === 'softmax' && !architecture.bias_key && rest.length > 0;
  return {
    query,
    named: [...all.filter(({ key }) => key === first), ...rest.slice(0, count)],
    others: remaining,
    othersAdd: lengthOf(keysOf(remaining), weight),
    sum: all.reduce((sum, one) => sum + one.weight, 0),
    output: lengthOf(keysOf(all), weight),
    without: isShared ? lengthOf(keysOf(rest), (key) => powers.get(key)! / shared) : NaN,
  };
}

/** Whether a token's value is shorter than half of the others' mean. */
const isSmall = ({ value }: Entry, rest: readonly Entry[]) =>
  value < mean(rest.map((one) => one.value)) / 2;

const restOf = ({ named, others }: Worked) => [...named.slice(1), ...others];

/** Returns the answer in words, as far as the row supports it. */
export function answerOf(worked: Worked, { operation, ...frame }: Frame): string {
  const first = worked.named[0]!;
  const rest = restOf(worked);
  if (first.key !== firstKey(frame) || !rest.length) return '';
  const isTop = rest.every(
    ({ score, weight }) => first.score > score && first.weight > Math.abs(weight),
  );
  if (!isTop) return 'In this row another token gets more attention than the first one.';
  const isMost = operation.normalizes && first.weight > 0.5;
  const isLess = worked.without > 1.25 * worked.output;
  const less = isLess ? ': without it the head would write more' : '';
  const adds = isSmall(first, rest) ? `, but its small value adds little${less}` : '';
  return `The first token has the highest score${isMost ? ', so most of the attention goes to it' : ''}${adds}.`;
}

/** Explains the number that the model's sigmoid adds to each score; empty if there is none. */
function biasWords(frame: Frame): string {
  const bias = biasOf(frame);
  return bias < 0
    ? ` The bias of ${formatNumber(bias, 2)}, the same for all tokens, keeps a weight small unless its score is high.`
    : '';
}

/** States the sum of the row's weights, and for softmax how the first token affects the output. */
export function sharesWords(worked: Worked, frame: Frame): string {
  const { name, normalizes } = frame.operation;
  const { sum, output, without } = worked;
  const count = restOf(worked).length;
  const othersWords = count === 1 ? 'the other token' : `the other ${count} tokens`;
  if (name === 'sigmoid')
    return `Sigmoid weighs each token by its own score: this row sums to ${sumWords(sum)}, and no row has to reach 100%.${biasWords(frame)}`;
  const must = normalizes
    ? 'The weights must sum to 100%: what the first token does not take, '
    : '';
  if (!must || !Number.isFinite(without)) return `The weights of this row sum to ${sumWords(sum)}.`;
  const more =
    without > 1.25 * output
      ? ` Without it they would share all 100%, and the head would write ${lengthWords(without)} instead of ${lengthWords(output)}.`
      : '';
  return `${must}${othersWords} ${count === 1 ? 'takes' : 'take'}.${more}`;
}

/** Formats a length; one that would round to 0 as `<0.01`. */
const lengthWords = (x: number) => (x > 0 && x < 0.01 ? '<0.01' : show(x));

/** Returns a cell with a number over a bar, whose length is a share of the cell. */
const bar = (share: number, said: string) =>
  html`<td class="bar" style=${`--share: ${Math.max(0, Math.min(1, share))}`}>${said}</td>`;

const sumOf = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);

const longestIn = ({ named, others }: Worked) =>
  Math.max(...[...named, ...others].map(({ value }) => value));

/** @param most the length of a full bar */
function tableOf(worked: Worked, most: number, frame: Frame, at: Head) {
  const { query, named, others, othersAdd, sum, output } = worked;
  const isFirst = (key: number) => key === firstKey(frame);
  const scores = others.map(({ score }) => score);
  const weight = sumOf(others.map((one) => one.weight));
  const value = mean(others.map((one) => one.value));
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
      ${named.map(
        (one) =>
          html`<tr class=${isFirst(one.key) ? 'first' : ''}>
            <th scope="row">${isFirst(one.key) ? firstBare(frame) : quote(frame, one.key)}</th>
            <td>${formatNumber(one.score, 2)}</td>
            ${bar(Math.abs(one.weight), percent(one.weight))}
            ${bar(one.value / most, lengthWords(one.value))}
            ${bar(one.adds / most, lengthWords(one.adds))}
          </tr>`,
      )}
      ${
        others.length
          ? html`<tr>
              <th scope="row">${others.length} others</th>
              <td>
                ${formatNumber(Math.min(...scores), 2)} to ${formatNumber(Math.max(...scores), 2)}
              </td>
              ${bar(Math.abs(weight), percent(weight))}
              ${bar(value / most, `${lengthWords(value)} each`)}
              ${bar(othersAdd / most, `${lengthWords(othersAdd)} together`)}
            </tr>`
          : nothing
      }
    </tbody>
    <tfoot>
      <tr>
        <th scope="row">in all</th>
        <td></td>
        ${bar(sum, sumWords(sum))}
        <td>as vectors</td>
        ${bar(output / most, lengthWords(output))}
      </tr>
    </tfoot>
  </table>`;
}

/** The view of the table; the reader selects its row above the table. */
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
    const worked = workedRow(frame, -1);
    const all = worked ? [...worked.named, ...worked.others] : [];
    return (['key', 'score', 'weight', 'value', 'adds'] as const).map((name) =>
      quantity(name, ['line'], {
        shape: [all.length],
        data: Float32Array.from(all, (one) => one[name]),
      }),
    );
  },
  says: (frame, _, state = defaults) => {
    const worked = workedRow(frame, state.query);
    return worked ? `${answerOf(worked, frame)} ${sharesWords(worked, frame)}`.trim() : '';
  },
  draw(root) {
    const place = addElement(root, 'row-table');
    const reason = addElement(root, '', 'p');
    return (frame, { at, state, frames }) => {
      const worked = workedRow(frame, state.query);
      root.hidden = !worked;
      if (!worked) return;
      setText(reason, sharesWords(worked, frame));
      const others = frames.flatMap((one) =>
        one === frame ? [] : (workedRow(one, state.query) ?? []),
      );
      const most = Math.max(...[worked, ...others].map(longestIn));
      render(tableOf(worked, most, frame, at), place);
    };
  },
};
