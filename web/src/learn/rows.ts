/**
 * One row of attention over three tokens, by hand. All its forms are one formula with three switches:
 *
 *     o = g (Σᵢ wᵢ vᵢ + w∗ v∗),   softmax: wᵢ = exp(xᵢ) / (E + Σⱼ exp(xⱼ)),   sigmoid: wᵢ = 1 / (1 + exp(−xᵢ)),   none: wᵢ = xᵢ
 *
 * A sink logit s gives E = exp(s) (OpenAI 2025, gpt-oss). A bias key k∗ with its value v∗ gets a weight as a token
 * does, from the score q·k∗ (Gu et al. 2025, section 7); here q = 1. Softmax₁ has E = 1 (Miller 2023). A gate g scales
 * what the head writes (Qiu et al. 2025).
 */

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

/** The settings of a row; keys, values and scores are numbers, since D = 1. */
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

/** The weights and the output of a row. */
interface Attended {
  /** The weights of the tokens. */
  readonly weights: readonly number[];
  /** The weight that no token receives: that of the sink logit or of the bias key. */
  readonly extraWeight: number;
  /** The output of the head. */
  readonly output: number;
}

export const start: Row = {
  scores: [1, 0, -1],
  values: [0.1, 1, 0.8],
  ...{ normalizer: 'softmax', bias: 'none', gate: 'off' },
  ...{ s: 1, k: 1, v: 0.5, g: 0.5 },
};

/** Named forms of attention, each as settings of the formula. */
export const forms: Readonly<
  Record<string, { readonly title: string; readonly set: Partial<Row> }>
> = {
  softmax: { title: 'Softmax', set: { normalizer: 'softmax', bias: 'none', gate: 'off' } },
  softmax1: { title: 'Softmax₁', set: { normalizer: 'softmax', bias: 'logit', s: 0, gate: 'off' } },
  sigmoid: { title: 'Sigmoid', set: { normalizer: 'sigmoid', bias: 'none', gate: 'off' } },
};

const sum = (all: readonly number[]) => all.reduce((a, b) => a + b, 0);

const each: Readonly<Record<'sigmoid' | 'none', (score: number) => number>> = {
  sigmoid: (score) => 1 / (1 + Math.exp(-score)),
  none: (score) => score,
};

/** Computes the weights of the tokens and of the bias key, which is 0 without a bias key. */
function weigh({ scores, normalizer, bias, s, k }: Row): Omit<Attended, 'output'> {
  if (normalizer !== 'softmax') {
    const of = each[normalizer];
    return { weights: scores.map(of), extraWeight: bias === 'key' ? of(k) : 0 };
  }
  const extra = { none: -Infinity, logit: s, key: k }[bias];
  // Subtracts the largest score, so that no exponential overflows.
  const top = Math.max(...scores, extra);
  const powers = scores.map((score) => Math.exp(score - top));
  const rest = Math.exp(extra - top);
  const total = sum(powers) + rest;
  return { weights: powers.map((power) => power / total), extraWeight: rest / total };
}

export function attend(row: Row): Attended {
  const { weights, extraWeight } = weigh(row);
  const biasTerm = row.bias === 'key' ? extraWeight * row.v : 0;
  const mixed = sum(weights.map((weight, i) => weight * row.values[i]!)) + biasTerm;
  return { weights, extraWeight, output: (row.gate === 'on' ? row.g : 1) * mixed };
}

/** An element of MathML with its children; a leaf has a text. */
export type MathNode = readonly [tag: string, ...children: (MathNode | string)[]];

const mi = (name: string): MathNode => ['mi', name];
const mn = (value: number): MathNode => ['mn', String(value)];
const mo = (sign: string): MathNode => ['mo', sign];
const line = (...all: MathNode[]): MathNode => ['mrow', ...all];
const sub = (name: string, index: string): MathNode => [
  'msub',
  mi(name),
  index === '∗' ? mo(index) : mi(index),
];
const exp = (...power: MathNode[]): MathNode => ['msup', mi('e'), line(...power)];
const total = (index: string): MathNode => ['munder', mo('∑'), mi(index)];

const score = (index: string): MathNode[] =>
  index === '∗' ? [mi('q'), sub('k', '∗')] : [sub('x', index)];

function weight({ normalizer, bias }: Row, index: string): MathNode {
  const weightSymbol = sub('w', index);
  if (normalizer === 'none') return line(weightSymbol, mo('='), ...score(index));
  const denominator =
    normalizer === 'sigmoid'
      ? [mn(1), mo('+'), exp(mo('−'), ...score(index))]
      : [
          ...(bias === 'logit' ? [exp(mi('s')), mo('+')] : []),
          ...(bias === 'key' ? [exp(...score('∗')), mo('+')] : []),
          total('j'),
          exp(...score('j')),
        ];
  const numerator = normalizer === 'sigmoid' ? mn(1) : exp(...score(index));
  return line(weightSymbol, mo('='), ['mfrac', numerator, line(...denominator)]);
}

/** Returns the formulas of the head's output and of the weights as MathML. */
export function formulaOf(row: Row): readonly MathNode[] {
  const hasKey = row.bias === 'key';
  const isGated = row.gate === 'on';
  const mixed = [
    ...[total('i'), sub('w', 'i'), sub('v', 'i')],
    ...(hasKey ? [mo('+'), sub('w', '∗'), sub('v', '∗')] : []),
  ];
  const scaled = isGated && hasKey ? [mo('('), ...mixed, mo(')')] : mixed;
  return [
    line(mi('o'), mo('='), ...(isGated ? [mi('g')] : []), ...scaled),
    weight(row, 'i'),
    ...(hasKey ? [weight(row, '∗')] : []),
  ];
}

const isSame = (a: Attended, b: Attended) =>
  Math.abs(a.extraWeight - b.extraWeight) < 1e-9 &&
  Math.abs(a.output - b.output) < 1e-9 &&
  a.weights.every((weight, i) => Math.abs(weight - b.weights[i]!) < 1e-9);

export const percent = (share: number) => `${(100 * share).toFixed(0).replace('-', '−')}%`;
export const fixed = (value: number) => value.toFixed(2).replace('-', '−');

/** Names the form that has the row's settings, if any. */
function formName(row: Row): string | undefined {
  const result = attend(row);
  const isUnchanged = (set: Partial<Row>) => isSame(result, attend({ ...row, ...set }));
  if (row.normalizer !== 'softmax')
    return row.bias === 'logit'
      ? 'A sink logit is a term of softmax’s sum. Without that sum it changes nothing.'
      : undefined;
  const { gate } = row;
  if (row.bias === 'key' && isUnchanged({ ...forms.softmax1!.set, gate }))
    return 'These are the weights and the output of softmax₁: softmax₁ is a key bias with k = 0 and v = 0.';
  if (row.bias === 'key' && isUnchanged({ bias: 'logit', s: row.k }))
    return 'These are the weights and the output of a sink logit s = k: a sink logit is a key bias with v = 0.';
  if (row.bias === 'logit' && isUnchanged({ ...forms.softmax1!.set, gate }))
    return 'These are the weights and the output of softmax₁: softmax₁ is a sink logit of 0.';
  return undefined;
}

/** Describes a row and other forms of it in sentences that hold for any numbers. */
export function rowWords(row: Row, beside: readonly string[]): string {
  const result = attend(row);
  const others = beside.map((name) => {
    const { title, set } = forms[name]!;
    const { weights, output } = attend({ ...row, ...set });
    return `${title}: ${percent(sum(weights))} and ${fixed(output)}`;
  });
  const extraWords = result.extraWeight ? `, ${percent(result.extraWeight)} goes to no token` : '';
  const numbers = `The three weights sum to ${percent(sum(result.weights))}${extraWords}, and the head writes ${fixed(result.output)} (${others.join('; ')}).`;
  const equalForms = formName(row);
  return equalForms ? `${equalForms} ${numbers}` : numbers;
}
