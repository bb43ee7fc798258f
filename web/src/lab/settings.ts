/**
 * Reads and writes a lab's settings by the tables of table.ts. A link lists only the settings that differ from the
 * defaults, for example `operation:relu,width:32` or `from:softmax,first:any`. Throws InputError for a part that is not
 * in the table.
 */
import type { Describe } from 'sinkscope';
import { LAB_MODEL } from 'sinkscope/internal';
import { PASSAGE_FILES, type Card } from '../ask/zoo';
import {
  FROM_SCRATCH,
  FINE_TUNE,
  HELD_SEQUENCES,
  HELD_TOKENS,
  TRAINED_STEPS,
  type Row,
  type Value,
} from './table';

export type Settings = Readonly<Record<string, Value>>;

export interface Setting extends Row {
  readonly default: Value;
  readonly values: readonly (readonly [Value, string])[] | undefined;
}

export interface Tables {
  readonly fromScratch: readonly Setting[];
  readonly fineTune: readonly Setting[];
}

/** Returns both tables, with the trainer's defaults, the trainable operations and the available models. */
export function tablesOf({ operations, training }: Describe, cards: readonly Card[]): Tables {
  const trainerDefaults = new Map(training?.settings.map((row) => [row.name, row.default]));
  const dynamicChoices: Readonly<Record<string, Row['choices']>> = {
    operation: operations
      .filter(({ trainable, features }) => trainable && features !== 'mlp')
      .map(({ name, label }) => [name, label] as const),
    from: cards.map(({ id, title }) => [id, title] as const),
  };
  const fillRows = (rows: readonly Row[]) =>
    rows.map((row) => {
      const addedChoices = dynamicChoices[row.name];
      const values = addedChoices ? [...(row.choices ?? []), ...addedChoices] : row.choices;
      return {
        ...row,
        values,
        default: row.default ?? trainerDefaults.get(row.name) ?? values![0]![0],
      };
    });
  return { fromScratch: fillRows(FROM_SCRATCH), fineTune: fillRows(FINE_TUNE) };
}

export function isFineTune(settings: Settings | string): boolean {
  return typeof settings === 'string' ? /(?:^|,)from:/.test(settings) : 'from' in settings;
}

const tableOf = (settings: Settings) => (isFineTune(settings) ? FINE_TUNE : FROM_SCRATCH);

export const settingsOf = (settings: Settings, { fromScratch, fineTune }: Tables) =>
  isFineTune(settings) ? fineTune : fromScratch;

export function refusalReason(
  { label, values, low = -Infinity, high = Infinity, isWhole }: Setting,
  value: Value,
) {
  const isValid = values
    ? values.some(([choice]) => choice === value)
    : typeof value === 'number' &&
      value >= low &&
      value <= high &&
      (!isWhole || Number.isInteger(value));
  if (isValid) return undefined;
  const expected = values
    ? values.map(([choice]) => choice).join(', ')
    : `${isWhole ? 'a whole number' : 'a number'} from ${low} to ${high}`;
  return `${label}: expected ${expected}, found “${value}”`;
}

/** Parses a link's text into settings, with a sentence for each invalid part. */
export function readSettings(
  text: string,
  { fromScratch, fineTune }: Tables,
): { readonly settings: Settings; readonly problems: readonly string[] } {
  const rows = isFineTune(text) ? fineTune : fromScratch;
  const settings = Object.fromEntries(rows.map((row) => [row.name, row.default]));
  // The zoo's first model, which is documented best, is the default for fine-tuning.
  if (rows === fineTune) settings.from = fineTune[0]!.values![0]![0];
  const problems: string[] = [];
  for (const part of text.split(',').filter(Boolean)) {
    const [name = '', valueText = ''] = part.split(':');
    const row = rows.find((candidate) => candidate.name === name);
    const value =
      valueText !== '' && Number.isFinite(Number(valueText)) ? Number(valueText) : valueText;
    const reason = row ? refusalReason(row, value) : `expected a lab setting, found “${name}”`;
    if (reason) problems.push(reason);
    else settings[name] = value;
  }
  return { settings, problems };
}

/** Returns a link's text: the values that differ from the defaults, in the order of the table. */
export function printSettings(settings: Settings, tables: Tables): string {
  return settingsOf(settings, tables)
    .filter(({ name, default: standard }) => settings[name] !== standard)
    .map(({ name }) => `${name}:${settings[name]}`)
    .join(',');
}

/** Returns a text that identifies a training run: the settings that its results depend on. */
export function recipeOf(settings: Settings): string {
  return tableOf(settings)
    .filter(({ name, isDisplayOnly }) => !isDisplayOnly && name in settings)
    .map(({ name }) => `${name}:${settings[name]}`)
    .join(',');
}

/** Returns the settings of the model, or those of its training. */
export function pickSettings(settings: Settings, isModel: boolean): Record<string, Value> {
  const rows = tableOf(settings).filter(
    (row) => Boolean(row.isModel) === isModel && (!row.isDisplayOnly || row.name === 'steps'),
  );
  return Object.fromEntries(rows.map(({ name }) => [name, settings[name]!]));
}

export function commandOf(settings: Settings, tables: Tables): string {
  const changedRows = settingsOf(settings, tables).filter(
    ({ name, default: standard, isDisplayOnly }) =>
      settings[name] !== standard &&
      (!isDisplayOnly || name === 'steps') &&
      !['first', 'text', 'at'].includes(name),
  );
  const isTrained = !isFineTune(settings) || Number(settings.at) >= TRAINED_STEPS;
  const checkpoint = isTrained ? '' : `@${settings.at}`;
  const options = changedRows.map(({ name }) => {
    const value = name === 'from' ? `models/zoo/${settings.from}${checkpoint}` : settings[name];
    return `--${name.replaceAll('_', '-')} ${value}`;
  });
  if (settings.first === 'any') options.push('--first=-1');
  if (settings.first === 'fixed' && isFineTune(settings)) options.push('--first=0');
  if (isFineTune(settings)) {
    options.push(
      settings.text === 'passages'
        ? PASSAGE_FILES.map((file) => `--text-file models/zoo/${file}`).join(' ')
        : `--text-file ${settings.text === 'own' ? 'FILE' : 'LICENSE'}`,
    );
    // The page cuts longer held-out sequences to HELD_TOKENS tokens; the command cannot.
    if (settings.text !== 'passages' && Number(settings.length) <= HELD_TOKENS)
      options.push(`--held-file models/zoo/${PASSAGE_FILES[0]} --held ${HELD_SEQUENCES}`);
  } else {
    if (settings.width !== LAB_MODEL.width) options.push(`--inner ${4 * Number(settings.width)}`);
    if (settings.length !== LAB_MODEL.context) options.push(`--context ${settings.length}`);
  }
  return ['sinkscope train', ...options, '--json'].join(' ');
}

/** Lists the settings that differ from earlier ones, with their new values; '' if none does. */
export const changesWords = (settings: Settings, earlier: Settings, tables: Tables): string =>
  settingsOf(settings, tables)
    .filter(({ name, hasOwnControl }) => !hasOwnControl && settings[name] !== earlier[name])
    .map(({ name, label, values }) => {
      const [, word = settings[name]] = values?.find(([value]) => value === settings[name]) ?? [];
      return `${label} ${word}`;
    })
    .join(', ');

/** Names two labs by the settings that differ; by their operation if none does. A fine-tuned model has its source's name. */
export function namesOf(
  pair: readonly [Settings, Settings],
  tables: Tables,
): readonly [string, string] {
  const wordOf = ({ name, label, values }: Setting, settings: Settings) => {
    const word = values?.find(([value]) => value === settings[name])?.[1] ?? settings[name];
    if (word === 'none' || (name === 'planted' && !word)) return `no ${label}`;
    if (settings[name] === 'head') return label;
    const isChanged = name === 'operation' && isFineTune(settings) && settings[name] !== 'own';
    if (isChanged) return `now ${word}`;
    const standsAlone = ['operation', 'from', 'optimizer'].includes(name);
    return standsAlone || settings[name] === 'own' ? String(word) : `${label} ${word}`;
  };
  const nameOf = (settings: Settings, otherSettings: Settings) => {
    const rows = settingsOf(settings, tables);
    const named = rows.filter(
      ({ name, isDisplayOnly }) =>
        name === 'from' || (!isDisplayOnly && settings[name] !== otherSettings[name]),
    );
    const words = (named.length ? named : rows.slice(0, 1)).map((row) => wordOf(row, settings));
    return [...new Set(words)].join(', ');
  };
  return [nameOf(...pair), nameOf(pair[1], pair[0])];
}
