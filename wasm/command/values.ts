/** Types of the options' values, and functions that parse them. */
import { expect } from '../abi/errors.ts';
import { readIds } from '../text/ids.ts';
import type { GivenOptions } from './options.ts';

export type Values = {
  'text-file'?: string;
  text?: string;
  ids?: string[];
  lines?: boolean;
  join: string;
  tokens?: string;
  sequences: string;
  special: string;
  eps?: string;
  edit?: string[];
  streaming?: boolean;
  'per-prompt'?: boolean;
  json?: boolean;
  csv?: boolean;
  workers?: string;
  endpoint?: string;
  cache?: boolean;
  'tokenizer-limit': string;
  out?: string;
  keep: string;
  fields: string;
  precision: string;
  license?: string;
  tolerance: string;
  goal: string;
  length: string;
  steps: string;
  width: string;
  layer?: string;
  head?: string;
  count?: string;
  generate?: string;
  temperature?: string;
  'top-k': string;
  seed: string;
  prompt?: string;
  masked: string;
  causal?: string;
  copied: string;
  between: string;
  prompts: string;
};

export type SpecialTokens = 'auto' | 'none' | string[];

export type CommandInput = {
  values: Values;
  givenOptions: GivenOptions;
  names: string[];
  args: readonly string[];
};

export const parseThresholds = (list: string) =>
  list.split(',').map((text) => parseNumber(text, 0, 1, '--eps'));

export function parseIds(list: string) {
  const tokens = readIds(list, '--ids');
  expect(tokens.length > 0, '--ids', 'token ids such as 1, 2, 3', list);
  return tokens.map(({ id }) => id);
}

/** Returns the bound that a number exceeds: the upper one of more than 9 digits, else `other`. */
const boundOf = (text: string, other: string) =>
  /^[1-9]\d{9,}$/.test(text) ? ' below 1000000000' : other;

export function parsePositive(text: string, name: string) {
  expect(/^[1-9]\d{0,8}$/.test(text), name, `a whole number${boundOf(text, ' above 0')}`, text);
  return Number(text);
}

export function parseCount(text: string, name: string) {
  expect(/^\d{1,9}$/.test(text), name, `a whole number${boundOf(text, '')}`, text);
  return Number(text);
}

export function parseNumber(text: string, low: number, high: number, name: string) {
  const value = text.trim() === '' ? NaN : Number(text);
  expect(value >= low && value <= high, name, `a number from ${low} to ${high}`, text);
  return value;
}

export function parseOptional<Value>(
  parse: (text: string, name: string) => Value,
  text: string | undefined,
  name: string,
) {
  return text === undefined ? undefined : parse(text, name);
}
