/**
 * One row of attention over three tokens, computed from given scores. All forms are one formula with three switches:
 *
 * o = g (Σᵢ wᵢ vᵢ + w∗ v∗),   softmax: wᵢ = exp(xᵢ) / (E + Σⱼ exp(xⱼ)),   sigmoid: wᵢ = 1 / (1 + exp(−xᵢ)),   none: wᵢ
 * = xᵢ
 *
 * A sink logit s gives E = exp(s) (OpenAI 2025, gpt-oss). A bias key k∗ with its value v∗ gets a weight as a token
 * does, from the score q·k∗ (Gu et al. 2025, section 7); here q = 1. Softmax₁ has E = 1 (Miller 2023). A gate g scales
 * what the head writes (Qiu et al. 2025).
 */

import { formatFixed, formatPercent } from './format.ts';

export const SWITCHES = {
  normalizer: {
    label: 'Normalizer',
    values: { softmax: 'softmax', sigmoid: 'sigmoid', none: 'none' },
  },
  bias: { label: 'Bias', values: { none: 'none', logit: 'sink logit s', key: 'key bias k, v' } },
  gate: { label: 'Gate', values: { off: 'none', on: 'g' } },
} as const;

export type Switch = keyof typeof SWITCHES;
type Choice<Name extends Switch> = keyof (typeof SWITCHES)[Name]['values'];

/** The settings of a row. Keys, values and scores are single numbers, since D = 1. */
export interface Row {
  readonly scores: readonly number[];
  readonly values: readonly number[];
  readonly normalizer: Choice<'normalizer'>;
  readonly bias: Choice<'bias'>;
  readonly gate: Choice<'gate'>;
  readonly s: number;
  readonly k: number;
  readonly v: number;
  readonly g: number;
}

interface RowResult {
  readonly weights: readonly number[];
  /** The weight of the sink logit or of the bias key, which goes to no token. */
  readonly extraWeight: number;
  readonly output: number;
}

export const defaultRow: Row = {
  scores: [1, 0, -1],
  values: [0.1, 1, 0.8],
  ...{ normalizer: 'softmax', bias: 'none', gate: 'off' },
  ...{ s: 1, k: 1, v: 0.5, g: 0.5 },
};

export const forms: Readonly<
  Record<string, { readonly title: string; readonly settings: Partial<Row> }>
> = {
  softmax: { title: 'Softmax', settings: { normalizer: 'softmax', bias: 'none', gate: 'off' } },
  softmax1: {
    title: 'Softmax₁',
    settings: { normalizer: 'softmax', bias: 'logit', s: 0, gate: 'off' },
  },
  sigmoid: { title: 'Sigmoid', settings: { normalizer: 'sigmoid', bias: 'none', gate: 'off' } },
};

const sum = (numbers: readonly number[]) => numbers.reduce((a, b) => a + b, 0);

const weightFunctions: Readonly<Record<'sigmoid' | 'none', (score: number) => number>> = {
  sigmoid: (score) => 1 / (1 + Math.exp(-score)),
  none: (score) => score,
};

/** Computes the tokens' weights; `extraWeight` is that of the bias key or, under softmax, of the sink logit, or 0. */
function computeWeights({ scores, normalizer, bias, s, k }: Row): Omit<RowResult, 'output'> {
  if (normalizer !== 'softmax') {
    const weightOf = weightFunctions[normalizer];
    return { weights: scores.map(weightOf), extraWeight: bias === 'key' ? weightOf(k) : 0 };
  }
  const extraScore = { none: -Infinity, logit: s, key: k }[bias];
  // Subtracts the largest score, so that no exponential overflows.
  const largest = Math.max(...scores, extraScore);
  const exponentials = scores.map((score) => Math.exp(score - largest));
  const extraExponential = Math.exp(extraScore - largest);
  const total = sum(exponentials) + extraExponential;
  return {
    weights: exponentials.map((power) => power / total),
    extraWeight: extraExponential / total,
  };
}

export function attend(row: Row): RowResult {
  const { weights, extraWeight } = computeWeights(row);
  const biasTerm = row.bias === 'key' ? extraWeight * row.v : 0;
  const weightedSum = sum(weights.map((weight, i) => weight * row.values[i]!)) + biasTerm;
  return { weights, extraWeight, output: (row.gate === 'on' ? row.g : 1) * weightedSum };
}

export type MathNode = readonly [tag: string, ...children: (MathNode | string)[]];

const mi = (name: string): MathNode => ['mi', name];
const mn = (value: number): MathNode => ['mn', String(value)];
const mo = (sign: string): MathNode => ['mo', sign];
const mrow = (...children: MathNode[]): MathNode => ['mrow', ...children];
const sub = (name: string, index: string): MathNode => [
  'msub',
  mi(name),
  index === '∗' ? mo(index) : mi(index),
];
const exp = (...power: MathNode[]): MathNode => ['msup', mi('e'), mrow(...power)];
const sumSign = (index: string): MathNode => ['munder', mo('∑'), mi(index)];

const scoreSymbols = (index: string): MathNode[] =>
  index === '∗' ? [mi('q'), sub('k', '∗')] : [sub('x', index)];

function weightFormula({ normalizer, bias }: Row, index: string): MathNode {
  const weightSymbol = sub('w', index);
  if (normalizer === 'none') return mrow(weightSymbol, mo('='), ...scoreSymbols(index));
  const denominator =
    normalizer === 'sigmoid'
      ? [mn(1), mo('+'), exp(mo('−'), ...scoreSymbols(index))]
      : [
          ...(bias === 'logit' ? [exp(mi('s')), mo('+')] : []),
          ...(bias === 'key' ? [exp(...scoreSymbols('∗')), mo('+')] : []),
          sumSign('j'),
          exp(...scoreSymbols('j')),
        ];
  const numerator = normalizer === 'sigmoid' ? mn(1) : exp(...scoreSymbols(index));
  return mrow(weightSymbol, mo('='), ['mfrac', numerator, mrow(...denominator)]);
}

export function formulaOf(row: Row): readonly MathNode[] {
  const hasKey = row.bias === 'key';
  const isGated = row.gate === 'on';
  const weightedSum = [
    ...[sumSign('i'), sub('w', 'i'), sub('v', 'i')],
    ...(hasKey ? [mo('+'), sub('w', '∗'), sub('v', '∗')] : []),
  ];
  const scaledSum = isGated && hasKey ? [mo('('), ...weightedSum, mo(')')] : weightedSum;
  return [
    mrow(mi('o'), mo('='), ...(isGated ? [mi('g')] : []), ...scaledSum),
    weightFormula(row, 'i'),
    ...(hasKey ? [weightFormula(row, '∗')] : []),
  ];
}

const isSame = (a: RowResult, b: RowResult) =>
  Math.abs(a.extraWeight - b.extraWeight) < 1e-9 &&
  Math.abs(a.output - b.output) < 1e-9 &&
  a.weights.every((weight, i) => Math.abs(weight - b.weights[i]!) < 1e-9);

/** States which other form gives the same weights and output, or that the sink logit has no effect. */
function equivalenceWords(row: Row): string | undefined {
  const result = attend(row);
  const isUnchanged = (settings: Partial<Row>) => isSame(result, attend({ ...row, ...settings }));
  if (row.normalizer !== 'softmax')
    return row.bias === 'logit'
      ? 'A sink logit is a term of softmax’s sum. Without that sum it changes nothing.'
      : undefined;
  const { gate } = row;
  if (row.bias === 'key' && isUnchanged({ ...forms.softmax1!.settings, gate }))
    return 'These are the weights and the output of softmax₁: softmax₁ is a key bias with k = 0 and v = 0.';
  if (row.bias === 'key' && isUnchanged({ bias: 'logit', s: row.k }))
    return 'These are the weights and the output of a sink logit s = k: a sink logit is a key bias with v = 0.';
  if (row.bias === 'logit' && isUnchanged({ ...forms.softmax1!.settings, gate }))
    return 'These are the weights and the output of softmax₁: softmax₁ is a sink logit of 0.';
  return undefined;
}

/** States the weights and the output of a row, and those of other forms with the same scores. */
export function rowWords(row: Row, otherForms: readonly string[]): string {
  const result = attend(row);
  const otherPhrases = otherForms.map((name) => {
    const { title, settings } = forms[name]!;
    const { weights, output } = attend({ ...row, ...settings });
    return `${title}: ${formatPercent(sum(weights))} and ${formatFixed(output)}`;
  });
  const extraWords = result.extraWeight
    ? `, ${formatPercent(result.extraWeight)} goes to no token`
    : '';
  const numbersSentence = `The three weights sum to ${formatPercent(sum(result.weights))}${extraWords}, and the head writes ${formatFixed(result.output)} (${otherPhrases.join('; ')}).`;
  const equivalence = equivalenceWords(row);
  return equivalence ? `${equivalence} ${numbersSentence}` : numbersSentence;
}
