/**
 * What a lab can be set to: one table. A link writes a lab as the settings that are not the defaults,
 * `operation:relu,width:32`, and any text that is not of this table is refused with what stood there.
 */
import { labConfig, type Describe, type TrainOptions } from 'sinkscope';

type Value = number | string;
export type Settings = Readonly<Record<string, Value>>;

interface Row {
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
  /** Set for both at once. */
  readonly isShared?: boolean;
  readonly hint?: string;
}

const same = (...values: Value[]) => values.map((value) => [value, String(value)] as const);

const ROWS: readonly Row[] = [
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
    label: 'norm stands',
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
    hint: 'a learned key without a value, that every query sees',
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
  {
    name: 'optimiser',
    label: 'optimiser',
    default: 'adamw',
    words: [
      ['adamw', 'AdamW'],
      ['sgd', 'SGD, momentum .9'],
    ],
  },
  {
    name: 'learning_rate',
    label: 'learning rate',
    default: 0.003,
    low: 0,
    high: 1e30,
    step: 'any',
  },
  { name: 'weight_decay', label: 'weight decay', default: 0.01, low: 0, high: 1000, step: 'any' },
  {
    name: 'embedding_deviation',
    label: 'embedding deviation',
    default: 1,
    low: 0,
    high: 100,
    step: 'any',
    hint: 'of the token vectors at the beginning',
  },
  {
    name: 'deviation',
    label: 'matrix deviation',
    default: 0.02,
    low: 0,
    high: 100,
    step: 'any',
    hint: 'at the beginning; 0: 1/√(3 inputs), as PyTorch draws them',
  },
  {
    name: 'task',
    label: 'task',
    default: 'backcopy',
    words: [
      ['backcopy', 'copy back at a trigger, else go on by pairs'],
      ['conditional', 'mean of the past at a trigger, else nothing'],
    ],
  },
  { name: 'triggers', label: 'triggers', default: 8, low: 1, high: 20, whole: true, step: 1 },
  {
    name: 'first',
    label: 'first token',
    default: 'fixed',
    words: [
      ['fixed', 'always the same'],
      ['any', 'any'],
    ],
  },
  { name: 'length', label: 'length', default: 32, low: 4, high: 128, whole: true, step: 1 },
  { name: 'batch', label: 'batch', default: 32, low: 1, high: 256, whole: true, step: 1 },
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
    name: 'steps',
    label: 'steps',
    default: 500,
    low: 1,
    high: 20_000,
    whole: true,
    step: 1,
    isShared: true,
  },
];

export const VOCABULARY = 64;

export interface Setting extends Row {
  readonly values: readonly (readonly [Value, string])[] | undefined;
}

/** The table, with the operations that can be trained. */
export function settingsOf({ operations }: Describe): readonly Setting[] {
  const trained = operations.filter(({ trainable, features }) => trainable && features !== 'mlp');
  return ROWS.map((row) => ({
    ...row,
    values:
      row.name === 'operation'
        ? trained.map(({ name, label }) => [name, label] as const)
        : row.words,
  }));
}

export const defaults: Settings = Object.fromEntries(ROWS.map((row) => [row.name, row.default]));

/** Why a value cannot be had; undefined: it can. */
export function refusal({ label, values, low = 0, high = 0, whole }: Setting, value: Value) {
  if (values)
    return values.some(([known]) => known === value)
      ? undefined
      : `${label}: expected ${values.map(([known]) => known).join(', ')}, found “${value}”`;
  const fits =
    typeof value === 'number' &&
    value >= low &&
    value <= high &&
    (!whole || Number.isInteger(value));
  const kind = whole ? 'a whole number' : 'a number';
  return fits ? undefined : `${label}: expected ${kind} from ${low} to ${high}, found “${value}”`;
}

/** What a link's text says, with a sentence for each part that makes no sense. */
export function readSettings(
  text: string,
  rows: readonly Setting[],
): { readonly settings: Settings; readonly problems: readonly string[] } {
  const settings: Record<string, Value> = { ...defaults };
  const problems: string[] = [];
  for (const part of text.split(',').filter(Boolean)) {
    const [name = '', word = ''] = part.split(':');
    const row = rows.find((one) => one.name === name);
    const value = word !== '' && Number.isFinite(Number(word)) ? Number(word) : word;
    const why = row ? refusal(row, value) : `expected a setting of the lab, found “${name}”`;
    if (why) problems.push(why);
    else settings[name] = value;
  }
  return { settings, problems };
}

/** Only what is not the default, in the order of the table. */
export function printSettings(settings: Settings): string {
  return ROWS.filter(({ name, default: usual }) => settings[name] !== usual)
    .map(({ name }) => `${name}:${settings[name]}`)
    .join(',');
}

/** What a model is made of and trained by. */
export function optionsOf(settings: Settings): TrainOptions {
  const { first, width, length } = settings;
  const pick = (isModel: boolean) =>
    Object.fromEntries(
      ROWS.filter((row) => Boolean(row.isModel) === isModel).map(({ name }) => [
        name,
        settings[name],
      ]),
    ) as Record<string, Value>;
  const sizes = { inner: 4 * Number(width), context: Number(length), vocabulary: VOCABULARY };
  return {
    config: labConfig({ ...pick(true), ...sizes }),
    recipe: { ...pick(false), first: first === 'fixed' ? 0 : -1 },
  };
}

/** The same run on the command line. */
export function commandOf(settings: Settings): string {
  const changed = ROWS.filter(({ name, default: usual }) => settings[name] !== usual);
  const words = changed
    .filter(({ name }) => name !== 'first')
    .map(({ name }) => `--${name.replaceAll('_', '-')} ${settings[name]}`);
  if (settings.first !== 'fixed') words.push('--first -1');
  if (settings.width !== defaults.width) words.push(`--inner ${4 * Number(settings.width)}`);
  if (settings.length !== defaults.length) words.push(`--context ${settings.length}`);
  return ['sinkscope train', ...words, '--json'].join(' ');
}

/** Of two labs each: its operation, and what else is not as in the other. */
export function namesOf(
  pair: readonly [Settings, Settings],
  rows: readonly Setting[],
): readonly [string, string] {
  const wordOf = ({ name, label, values }: Setting, settings: Settings) => {
    const known = values?.find(([value]) => value === settings[name])?.[1];
    return name === 'operation' ? (known ?? '') : `${label} ${known ?? settings[name]}`;
  };
  const name = (own: Settings, other: Settings) =>
    rows
      .filter((row) => row.name === 'operation' || own[row.name] !== other[row.name])
      .map((row) => wordOf(row, own))
      .join(', ');
  return [name(...pair), name(pair[1], pair[0])];
}
