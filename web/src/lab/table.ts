/**
 * The settings of a lab: a table for models with random initial weights, and one for fine-tuning. A row without a
 * default has the default of the trainer's setting with the same name; failing that, its first choice is the default.
 */
import { labOnward } from 'sinkscope';
import { LAB_MODEL } from 'sinkscope/internal';

export type Value = number | string;
type Choices = readonly (readonly [Value, string])[];

export interface Row {
  readonly name: string;
  readonly label: string;
  readonly default?: Value;
  /** The choices with their labels; absent: numbers from low to high. */
  readonly choices?: Choices;
  readonly low?: number;
  readonly high?: number;
  readonly isWhole?: boolean;
  readonly step?: number | 'any';
  /** Whether the setting belongs to the model; the others belong to its training. */
  readonly isModel?: boolean;
  /** Whether the results do not depend on the setting, such as the shown head or the number of steps. */
  readonly isDisplayOnly?: boolean;
  readonly isShared?: boolean;
  /** Whether the setting's control is drawn elsewhere, not among the fields. */
  readonly hasOwnControl?: boolean;
}

type More = Partial<Omit<Row, 'name' | 'label'>>;

const labelsOf = (...values: Value[]): Choices =>
  values.map((value) => [value, String(value)] as const);
/** Returns choices from their labels by value. */
const choicesOf = (labels: Readonly<Record<string, string>>): Choices => Object.entries(labels);

function choiceRow(name: string, label: string, choices: Choices, more: More = {}): Row {
  return { name, label, choices, ...more };
}

/** Returns a row for a setting of the model, with the package's default. */
function modelRow(name: keyof typeof LAB_MODEL, label: string, choices: Choices): Row {
  return { name, label, default: LAB_MODEL[name], choices, isModel: true };
}

type Range = readonly [low: number, high: number];

function realRow(name: string, label: string, [low, high]: Range, more: More = {}): Row {
  return { name, label, low, high, ...more };
}

function wholeRow(name: string, label: string, range: Range, more: More = {}): Row {
  return realRow(name, label, range, { isWhole: true, step: 1, ...more });
}

const OPTIMIZERS = choicesOf({ adamw: 'AdamW', sgd: 'SGD (momentum .9)' });
const OPTIMIZER = choiceRow('optimizer', 'optimizer', OPTIMIZERS);
const LEARNING_RATE = realRow('learning_rate', 'learning rate', [0, 1e30]);
const WEIGHT_DECAY = realRow('weight_decay', 'weight decay', [0, 1000]);
const LENGTH = wholeRow('length', 'length', [4, 128]);
const BATCH = wholeRow('batch', 'batch', [1, 256]);
const STEPS = wholeRow('steps', 'steps', [1, 20_000], { isShared: true, isDisplayOnly: true });
const OUTPUT_GATES = choicesOf({
  output_element: 'of the output, each channel',
  output_head: 'of the output, each head',
});

const COMMON_ROWS: readonly Row[] = [
  wholeRow('seed', 'seed', [0, 1e9], { isShared: true }),
  // Heads are counted through the layers from 0; -1 is the strongest one.
  wholeRow('head', 'head shown', [-1, 255], {
    default: -1,
    isDisplayOnly: true,
    hasOwnControl: true,
  }),
  choiceRow(
    'speed',
    'speed',
    [
      [0, 'as fast as possible'],
      [10, '10 steps per second'],
      [2, '2 steps per second'],
    ],
    { isDisplayOnly: true, hasOwnControl: true },
  ),
];

export const FROM_SCRATCH: readonly Row[] = [
  // tablesOf adds the operations of describe.
  modelRow('operation', 'operation', []),
  modelRow('layers', 'layers', labelsOf(1, 2, 3)),
  modelRow('heads', 'heads', labelsOf(1, 2, 4, 8)),
  modelRow('width', 'width', labelsOf(16, 32, 64, 128)),
  modelRow(
    'positions',
    'positions',
    labelsOf('learned', 'none', 'sinusoid', 'rotary', 'alibi', 'relative'),
  ),
  modelRow('norm', 'norm', choicesOf({ layer: 'LayerNorm', rms: 'RMSNorm' })),
  modelRow('norm_place', 'norm placement', labelsOf('pre', 'post')),
  modelRow('feed_forward', 'feed-forward', labelsOf('plain', 'gated')),
  modelRow('activation', 'activation', choicesOf({ gelu_new: 'GELU', relu: 'ReLU', silu: 'SiLU' })),
  modelRow(
    'bias_key',
    'extra slot',
    choicesOf({ none: 'none', head: 'in each head', shared: 'shared' }),
  ),
  modelRow('gate', 'gate', [
    ['none', 'none'],
    ...OUTPUT_GATES,
    ['value_element', 'of the value, each channel'],
    ['value_head', 'of the value, each head'],
  ]),
  OPTIMIZER,
  LEARNING_RATE,
  WEIGHT_DECAY,
  // The factor on the gradient of the first token's values on its way back.
  realRow('first_value_gradient', 'gradient of v₁ ×', [0, 1000]),
  realRow('embedding_deviation', 'embedding deviation', [0, 100]),
  // With 0, the trainer uses PyTorch's default, 1/√(3 inputs).
  realRow('deviation', 'matrix deviation', [0, 100]),
  choiceRow('task', 'task', [
    ['backcopy', 'copy at triggers'],
    ['conditional', 'mean at triggers'],
  ]),
  wholeRow('triggers', 'triggers', [1, 20]),
  choiceRow('first', 'start token', choicesOf({ fixed: '<s>', any: 'none' }), {
    default: 'fixed',
  }),
  LENGTH,
  BATCH,
  STEPS,
  ...COMMON_ROWS,
];

export const TRAINED_STEPS = 4000;

/** The number of held-out sequences, and the most tokens of one, which is the length of a passage. */
export const [HELD_SEQUENCES, HELD_TOKENS] = [8, 64] as const;

/** The choice that keeps the trained model's own value. */
const UNCHANGED = choicesOf({ own: 'unchanged' });

const { learning_rate, weight_decay, length, batch, steps } = labOnward({}).recipe;

const TEXTS = choicesOf({
  passages: 'passages of this page',
  license: 'the Apache license',
  own: 'your file',
});

export const FINE_TUNE: readonly Row[] = [
  // tablesOf adds the models of the zoo; a link always states the model.
  choiceRow('from', 'model', [], { default: '' }),
  choiceRow('operation', 'operation', UNCHANGED),
  choiceRow('bias_key', 'extra slot', [
    ...UNCHANGED,
    ['head', 'in each head'],
    ['shared', 'shared'],
  ]),
  choiceRow('gate', 'gate', [...UNCHANGED, ...OUTPUT_GATES]),
  // The training step of the checkpoint to start from; the nearest stored one is used.
  wholeRow('at', 'from step', [0, TRAINED_STEPS], { default: TRAINED_STEPS, step: 'any' }),
  choiceRow('first', 'start token', [...UNCHANGED, ['fixed', '<s>'], ['any', 'none']], {
    default: 'own',
  }),
  OPTIMIZER,
  { ...LEARNING_RATE, default: learning_rate! },
  { ...WEIGHT_DECAY, default: weight_decay! },
  { ...LENGTH, default: length! },
  { ...BATCH, default: batch! },
  choiceRow('text', 'text', TEXTS, { isShared: true, hasOwnControl: true }),
  // The share of sequences with three fixed tokens that five other tokens follow to the end.
  realRow('planted', 'planted trigger', [0, 1]),
  { ...STEPS, default: steps! },
  ...COMMON_ROWS,
];
