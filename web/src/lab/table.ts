/** What a lab can be set to: a table for a model that begins anew, one for a trained one that goes on. */

export type Value = number | string;
export interface Row {
  readonly name: string;
  readonly label: string;
  readonly default: Value;
  /** Its values; absent: numbers from low to high. */
  readonly words?: readonly (readonly [Value, string])[];
  readonly low?: number;
  readonly high?: number;
  readonly whole?: boolean;
  /** What a number's field goes up and down by. */
  readonly step?: number | 'any';
  /** Of the model; absent: of its training. */
  readonly isModel?: boolean;
  /** How it is drawn, or for how long it trains: no number depends on it. */
  readonly isView?: boolean;
  /** Set for both at once. */
  readonly isShared?: boolean;
  /** Has its control elsewhere than among the others. */
  readonly isDrawn?: boolean;
  readonly hint?: string;
}

const same = (...values: Value[]) => values.map((value) => [value, String(value)] as const);

const OPTIMISER: Row = {
  name: 'optimiser',
  label: 'optimiser',
  default: 'adamw',
  words: [
    ['adamw', 'AdamW'],
    ['sgd', 'SGD, momentum .9'],
  ],
};
const RATE: Row = {
  name: 'learning_rate',
  label: 'learning rate',
  default: 0.003,
  low: 0,
  high: 1e30,
  step: 'any',
};
const DECAY: Row = {
  name: 'weight_decay',
  label: 'weight decay',
  default: 0.01,
  low: 0,
  high: 1000,
  step: 'any',
};
const LENGTH: Row = {
  name: 'length',
  label: 'length',
  default: 32,
  low: 4,
  high: 128,
  whole: true,
  step: 1,
};
const BATCH: Row = {
  name: 'batch',
  label: 'batch',
  default: 32,
  low: 1,
  high: 256,
  whole: true,
  step: 1,
};
const STEPS: Row = {
  name: 'steps',
  label: 'steps',
  default: 500,
  low: 1,
  high: 20_000,
  whole: true,
  step: 1,
  isShared: true,
  isView: true,
};

/** Of both tables, at their ends. */
const COMMON: readonly Row[] = [
  {
    name: 'seed',
    label: 'seed',
    default: 1,
    low: 0,
    high: 1e9,
    whole: true,
    step: 1,
    isShared: true,
  },
  {
    name: 'head',
    label: 'head shown',
    default: -1,
    low: -1,
    high: 255,
    whole: true,
    step: 1,
    isView: true,
    isDrawn: true,
    hint: 'counted through the layers from 0; −1: the strongest',
  },
  {
    name: 'speed',
    label: 'speed',
    default: 0,
    words: [
      [0, 'as fast as possible'],
      [10, '10 steps per second'],
      [2, '2 steps per second'],
    ],
    isView: true,
    isDrawn: true,
  },
];

/** A model that begins with drawn weights and learns the task of the lab. */
export const ANEW: readonly Row[] = [
  { name: 'operation', label: 'operation', default: 'softmax', words: [], isModel: true },
  { name: 'layers', label: 'layers', default: 1, words: same(1, 2, 3), isModel: true },
  { name: 'heads', label: 'heads', default: 1, words: same(1, 2, 4, 8), isModel: true },
  { name: 'width', label: 'width', default: 64, words: same(16, 32, 64, 128), isModel: true },
  {
    name: 'positions',
    label: 'positions',
    default: 'learned',
    words: same('learned', 'none', 'sinusoid', 'rotary', 'alibi', 'relative'),
    isModel: true,
  },
  {
    name: 'norm',
    label: 'norm',
    default: 'layer',
    words: [
      ['layer', 'LayerNorm'],
      ['rms', 'RMSNorm'],
    ],
    isModel: true,
  },
  {
    name: 'norm_place',
    label: 'norm placement',
    default: 'pre',
    words: same('pre', 'post'),
    isModel: true,
  },
  {
    name: 'feed_forward',
    label: 'feed-forward',
    default: 'plain',
    words: same('plain', 'gated'),
    isModel: true,
  },
  {
    name: 'activation',
    label: 'activation',
    default: 'gelu_new',
    words: [
      ['gelu_new', 'GELU'],
      ['relu', 'ReLU'],
      ['silu', 'SiLU'],
    ],
    isModel: true,
  },
  {
    name: 'bias_key',
    label: 'key bias',
    default: 'none',
    words: [
      ['none', 'none'],
      ['head', 'one a head'],
      ['shared', 'shared'],
    ],
    isModel: true,
    hint: 'a learned key with value 0 that every query can attend to',
  },
  {
    name: 'gate',
    label: 'gate',
    default: 'none',
    words: [
      ['none', 'none'],
      ['output_element', 'of the output, each channel'],
      ['output_head', 'of the output, each head'],
      ['value_element', 'of the value, each channel'],
      ['value_head', 'of the value, each head'],
    ],
    isModel: true,
  },
  OPTIMISER,
  RATE,
  DECAY,
  {
    name: 'embedding_deviation',
    label: 'embedding deviation',
    default: 1,
    low: 0,
    high: 100,
    step: 'any',
    hint: 'standard deviation of the initial embeddings',
  },
  {
    name: 'deviation',
    label: 'matrix deviation',
    default: 0.02,
    low: 0,
    high: 100,
    step: 'any',
    hint: 'standard deviation of the initial matrices; 0: 1/√(3 inputs), PyTorch’s default',
  },
  {
    name: 'task',
    label: 'task',
    default: 'backcopy',
    words: [
      ['backcopy', 'copy back at triggers, bigrams elsewhere'],
      ['conditional', 'mean of the past at triggers, nothing elsewhere'],
    ],
  },
  { name: 'triggers', label: 'triggers', default: 8, low: 1, high: 20, whole: true, step: 1 },
  {
    name: 'first',
    label: 'first token',
    default: 'fixed',
    words: [
      ['fixed', 'always the same'],
      ['any', 'random'],
    ],
  },
  LENGTH,
  BATCH,
  STEPS,
  ...COMMON,
];

/** The last step of a zoo model's training. */
export const TRAINED = 4000;

/** What a trained model has; another choice makes it a variant. */
const OWN = [['own', 'unchanged']] as const;

/** A model of the zoo that goes on, on a text; its own first value says which. */
export const ONWARD: readonly Row[] = [
  { name: 'from', label: 'model', default: '', words: [] },
  { name: 'operation', label: 'operation', default: 'own', words: OWN },
  {
    name: 'bias_key',
    label: 'key bias',
    default: 'own',
    words: [...OWN, ['head', 'one per head'], ['shared', 'shared']],
    hint: 'a learned key with value 0 that every query can attend to',
  },
  {
    name: 'gate',
    label: 'gate',
    default: 'own',
    words: [
      ...OWN,
      ['output_element', 'of the output, each channel'],
      ['output_head', 'of the output, each head'],
    ],
  },
  {
    name: 'at',
    label: 'from step',
    default: TRAINED,
    low: 0,
    high: TRAINED,
    whole: true,
    step: 'any',
    hint: 'training step of the checkpoint to start from; the nearest stored one is used',
  },
  {
    name: 'first',
    label: 'first token',
    default: 'own',
    words: [...OWN, ['fixed', 'start token'], ['any', 'none']],
  },
  OPTIMISER,
  { ...RATE, default: 0.001 },
  { ...DECAY, default: 1 },
  { ...LENGTH, default: 64 },
  { ...BATCH, default: 8 },
  {
    name: 'text',
    label: 'text',
    default: 'passages',
    words: [
      ['passages', 'passages of this page'],
      ['own', 'your file'],
    ],
    isShared: true,
    isDrawn: true,
  },
  { ...STEPS, default: 100 },
  ...COMMON,
];

export const VOCABULARY = 64;
