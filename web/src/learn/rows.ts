/**
 * One row of attention over three tokens, by hand: what each way of normalizing makes of the same scores.
 * All of them are one formula, in which a weight is e^x over the sum of all e^x plus an extra term. The
 * extra term is 0 for softmax, 1 for softmax1 (Miller 2023), e^s for a sink logit s (gpt-oss), and e^b for a
 * bias key whose score is b (Gu et al. 2025, section 7).
 */

/** What the reader sets; values are those of the tokens, as numbers. */
export interface Row {
  readonly scores: readonly number[];
  readonly values: readonly number[];
  /** The sink logit s. */
  readonly logit: number;
  /** The score b of the bias key: 0 where the key is 0. */
  readonly bias: number;
  readonly biasValue: number;
  readonly gate: number;
}

export interface Weighed {
  /** Of the tokens. */
  readonly weights: readonly number[];
  /** What goes to no token. */
  readonly nowhere: number;
  /** What the head writes. */
  readonly output: number;
}

export interface Variant {
  readonly name: string;
  readonly title: string;
  readonly formula: string;
  readonly of: (row: Row) => Weighed;
}

const sum = (all: readonly number[]) => all.reduce((a, b) => a + b, 0);
const output = (weights: readonly number[], values: readonly number[]) =>
  sum(weights.map((weight, i) => weight * values[i]!));

/** Softmax with a term in the denominator that is no token's, and whose value is `value`. */
function normalized({ scores, values }: Row, extra: number, value = 0): Weighed {
  // With the largest score subtracted, no exponential overflows.
  const top = Math.max(...scores, extra);
  const powers = scores.map((score) => Math.exp(score - top));
  const rest = Math.exp(extra - top);
  const whole = sum(powers) + rest;
  const weights = powers.map((power) => power / whole);
  const nowhere = rest / whole;
  return { weights, nowhere, output: output(weights, values) + nowhere * value };
}

export const variants: readonly Variant[] = [
  {
    name: 'softmax',
    title: 'Softmax',
    formula: 'eˣ / Σ eˣ',
    of: (row) => normalized(row, -Infinity),
  },
  {
    name: 'sigmoid',
    title: 'Sigmoid',
    formula: '1 / (1 + e⁻ˣ)',
    of: ({ scores, values }) => {
      const weights = scores.map((score) => 1 / (1 + Math.exp(-score)));
      return { weights, nowhere: 0, output: output(weights, values) };
    },
  },
  {
    name: 'softmax1',
    title: 'Softmax₁',
    formula: 'eˣ / (1 + Σ eˣ)',
    of: (row) => normalized(row, 0),
  },
  {
    name: 'sink_logit',
    title: 'Sink logit',
    formula: 'eˣ / (eˢ + Σ eˣ)',
    of: (row) => normalized(row, row.logit),
  },
  {
    name: 'key_bias',
    title: 'Key bias',
    formula: 'eˣ / (eᵇ + Σ eˣ)',
    of: (row) => normalized(row, row.bias, row.biasValue),
  },
  {
    name: 'gated',
    title: 'Gated softmax',
    formula: 'g · eˣ / Σ eˣ',
    of: (row) => {
      const { weights, output: written } = normalized(row, -Infinity);
      return { weights, nowhere: 0, output: row.gate * written };
    },
  },
];

export const start: Row = {
  scores: [1, 0, -1],
  values: [0.1, 1, 0.8],
  logit: 1,
  bias: 1,
  biasValue: 0.5,
  gate: 0.5,
};

/** What a reader should see now, in a sentence; every sentence is computed from the columns. */
export function saysOf(row: Row, shown: readonly string[]): string {
  const of = (name: string) => variants.find((one) => one.name === name)!.of(row);
  const has = (...names: string[]) => names.every((name) => shown.includes(name));
  const isSame = (a: Weighed, b: Weighed) =>
    Math.abs(a.nowhere - b.nowhere) < 1e-9 && Math.abs(a.output - b.output) < 1e-9;
  if (has('softmax1', 'key_bias') && isSame(of('softmax1'), of('key_bias')))
    return 'Softmax₁ and the key bias now give the same weights and write the same: softmax₁ is a bias key with score 0 and value 0.';
  if (has('sink_logit', 'key_bias') && isSame(of('sink_logit'), of('key_bias')))
    return 'The sink logit and the key bias now give the same weights and write the same: a sink logit is a bias key with value 0.';
  if (has('softmax', 'sigmoid')) {
    const total = (name: string) => `${(100 * sum(of(name).weights)).toFixed(0)}%`;
    return `The row sums to ${total('softmax')} with softmax and to ${total('sigmoid')} with sigmoid.`;
  }
  if (has('softmax', 'gated'))
    return `The weights are the same; softmax writes ${of('softmax').output.toFixed(2)}, and with the gate the head writes ${of('gated').output.toFixed(2)}.`;
  const nowhere = shown
    .map((name) => variants.find((one) => one.name === name)!)
    .map(({ title, of: weigh }) => `${title} ${(100 * weigh(row).nowhere).toFixed(0)}%`);
  return `Weight that goes to no token: ${nowhere.join(', ')}.`;
}
