/** Reads edits from text and names them in words. The code knows no edit by name: all comes from the tables of describe. */
import { check, checkList } from '../abi/arguments.ts';
import { SinkscopeError, expect, rowNamed } from '../abi/errors.ts';
import type { Describe, EditKind, EditParameter, Operation } from '../abi/types.ts';
import type { Edit } from './types.ts';

/** A parameter of an edit, or of an operation, whose values are numbers. */
export type Parameter = Pick<EditParameter, 'name'> & Partial<Omit<EditParameter, 'default'>>;

export type UncheckedEdit = Record<string, unknown> & {
  kind?: unknown;
  parameters?: Record<string, unknown>;
};

/** Lists the parameters in the order of values: those of the edit, then of its operation. */
export function parametersOf(
  { parameters }: { readonly parameters: readonly Parameter[] },
  values: Record<string, unknown>,
  { operations }: Describe,
): readonly Parameter[] {
  const operationParameter = parameters.find(({ type }) => type === 'operation');
  const operation =
    operationParameter && operations.find(({ name }) => name === values[operationParameter.name]);
  const operationParameters = operation?.parameters ?? [];
  return [...parameters, ...operationParameters];
}

/** Reads a value of a parameter: a word of its list, or a number in its range. */
function readValue(
  { type, choices, min = type === 'index' ? 0 : -Infinity, max = Infinity }: Parameter,
  text: string,
  where: string,
  { operations }: Describe,
) {
  const words = type === 'operation' ? operations.map(({ name }) => name) : choices;
  if (words) {
    expect(words.includes(text), where, `one of ${words.join(', ')}`, text);
    return text;
  }
  const value = text.trim() === '' ? NaN : Number(text);
  const isInRange = value >= min && value <= max;
  const range = Number.isFinite(min + max) ? ` from ${min} to ${max}` : '';
  expect(isInRange, where, `a number${range}`, text);
  return value;
}

/**
 * Parses an edit from "NAME" or "NAME(value,value,key=value)", as links and the command line write it: the name of an
 * operation that replaces the model's own, or of a row of the table, and parameters in the order of the table or
 * named. An empty place keeps its default.
 * @throws SinkscopeError 'argument' for a name that is in no table, or a value that its parameter does not take
 * @example readEdit('evict(window,24)', engine.describe)
 */
export function readEdit(text: string, describe: Describe): Edit {
  check(text, 'text', 'edit');
  check(describe, 'object', 'describe');
  checkList(describe.operations, 'object', 'describe.operations');
  checkList(describe.edits, 'object', 'describe.edits');
  const [, name = text, list = ''] = /^([\w-]+)(?:\((.*)\))?$/s.exec(text) ?? [];
  const row = rowNamed<Operation | EditKind>(
    [...describe.operations, ...describe.edits],
    name,
    'edit',
  );
  const values: Record<string, string | number> = {};
  list.split(',').forEach((argument, i) => {
    if (!argument) return;
    const parameters = parametersOf(row, values, describe);
    const [, key = parameters[i]?.name, value] = /^(?:(.*?)=)?(.*)$/s.exec(argument)!;
    const parameter = parameters.find((parameter) => parameter.name === key);
    const names = parameters.map((parameter) => parameter.name).join(', ');
    if (!parameter || key === undefined)
      throw new SinkscopeError(
        'argument',
        name,
        `expected a value of ${names || 'nothing'}, got "${argument}"`,
      );
    if (key in values)
      throw new SinkscopeError('argument', name, `expected ${key} once, got "${argument}" too`);
    values[key] = readValue(parameter, value, `${name}.${key}`, describe);
  });
  if (!describe.operations.some((operation) => operation === row)) return { kind: name, ...values };
  const parameters = values as Record<string, number>;
  return {
    kind: 'operation',
    operation: name,
    ...(Object.keys(values).length ? { parameters } : {}),
  };
}

type LabeledEdit = { row: EditKind; values: Record<string, unknown>; describe: Describe };

/** Returns the text for {name} in a label, at its beginning if `isFirst`; undefined if absent. */
function labelPart(name: string, { row, values, describe }: LabeledEdit, isFirst: boolean) {
  const { layer, head, group } = values;
  if (name === 'heads') {
    if (layer !== undefined)
      return head === undefined ? `every head of layer ${layer}` : `head L${layer}H${head}`;
    return head === undefined ? 'every head' : `head ${head} of every layer`;
  }
  if (name === 'at') {
    const kvHead = group === undefined ? '' : `key/value head ${group}`;
    if (layer !== undefined && head !== undefined) return ` in L${layer}H${head}`;
    if (layer !== undefined) return ` in layer ${layer}${kvHead && `, ${kvHead}`}`;
    if (head !== undefined || kvHead) return ` in ${kvHead || `head ${head}`} of every layer`;
    return '';
  }
  if (name === 'after') {
    if (layer === undefined) return '';
    return Number(layer) === 0 ? ' at the embedding' : ` after layer ${Number(layer) - 1}`;
  }
  const parameter = row.parameters.find((parameter) => parameter.name === name);
  const value = values[name] ?? parameter?.default ?? undefined;
  if (value === undefined || !parameter) return undefined;
  if (parameter.type === 'operation')
    return (
      describe.operations.find((operation) => operation.name === value)?.label ?? String(value)
    );
  if (parameter.type === 'index' && parameter.below === 'T')
    return value === 0 ? `${isFirst ? '' : 'the '}first token` : `token ${value}`;
  return String(value).replace(/^-/, '\u2212');
}

function fillLabel(text: string, edit: LabeledEdit) {
  const template = text.replace(/\[([^\]]*)\]/g, (_, part) => {
    const names = [...part.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    const isSet = (name: string) => {
      const defaultValue =
        edit.row.parameters.find((parameter) => parameter.name === name)?.default ?? undefined;
      return edit.values[name] !== undefined && edit.values[name] !== defaultValue;
    };
    return names.every(isSet) ? part : '';
  });
  return template.replace(
    /\{(\w+)\}/g,
    (_, name, offset) => labelPart(name, edit, offset === 0) ?? `no ${name}`,
  );
}

/**
 * Names an edit in a phrase for titles and legends, with indices from 0.
 * @throws SinkscopeError 'argument' for a kind that is not in the table
 * @example editLabel({ kind: 'hide_key', key: 0, layer: 1, head: 3 }, describe) // first token hidden in L1H3
 */
export function editLabel(edit: Edit, describe: Describe): string {
  check(edit, 'object', 'edit');
  check(describe, 'object', 'describe');
  checkList(describe.edits, 'object', 'describe.edits');
  const { kind, parameters, ...fields } = edit as UncheckedEdit;
  const row = rowNamed(describe.edits, kind, 'edit.kind');
  const values = { ...fields, ...parameters };
  const labeledEdit = { row, values, describe };
  const alternatives = row.label
    .split('|')
    .map((text) => /^(?:(\w+)=(\w+)\?)?(.*)$/s.exec(text) ?? []);
  const valueOf = (name: string) =>
    values[name] ?? row.parameters.find((parameter) => parameter.name === name)?.default;
  const [, , , text = row.name] =
    alternatives.find(
      ([, name, expectedValue]) => name === undefined || String(valueOf(name)) === expectedValue,
    ) ?? [];
  return fillLabel(text, labeledEdit);
}
