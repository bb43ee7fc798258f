/**
 * A subject is what is looked at: a model, at a step of its training, in which arithmetic, with edits
 * put in. Each has a text by which a link names it:
 *
 *     softmax   softmax@1400   softmax~sigmoid   softmax~sigmoid(-4.8)~evict(window,24)
 *     softmax~int8   softmax~relaxed   hub:owner/name@revision   hub:owner/name~int8~mask(1,32)
 *
 * No revision of git may hold a ~, and no name of the zoo an @. An edit is an operation that is swapped
 * in, by its name, or a row of describe's table of edits; in brackets are its parameters in the order of
 * the table, or named, as in clamp_channel(35,to=mean); those left out have their defaults.
 */
import type { Arithmetic, Describe, Edit, OperationEdit } from 'sinkscope';
import { OTHERS, others, type Other } from './arithmetic';
import { InputError } from './models';

/** As many as stand side by side. */
export const MOST = 6;

export interface SubjectEdit {
  readonly name: string;
  readonly values: readonly string[];
}

export interface Subject {
  readonly id: string;
  /** Of a model of the zoo; checkpoints of a hub are models, named by their revisions. */
  readonly step?: number;
  /** Absent: exact. */
  readonly arithmetic?: Other;
  readonly edits: readonly SubjectEdit[];
}

const HEAD = /^(?<id>[\w-]{1,64}|hub:\w[^\s\p{Cc}\\~,]{0,300}?)(?:@(?<step>\d{1,9}))?$/u;
/** Links of earlier versions wrote a single parameter behind an equals sign. */
const EDIT =
  /^(?<name>[\w-]{1,64})(?:\((?<list>[\w.,=+-]{0,120})\)|=(?<value>-?\d{1,4}(?:\.\d{1,9})?))?$/;

/** @returns undefined for what is no subject */
export function parseSubject(text: string): Subject | undefined {
  const [head = '', ...said] = text.split('~');
  const arithmetic = others.find((one) => said.includes(one));
  const rest = said.filter((one) => one !== arithmetic);
  const found = HEAD.exec(head)?.groups;
  const edits = rest.map((one) => EDIT.exec(one)?.groups);
  if (!found || !edits.every((one) => one !== undefined)) return undefined;
  const { step } = found;
  const isOfHub = head.startsWith('hub:');
  return {
    id: isOfHub ? head : found.id!,
    ...(step === undefined || isOfHub ? {} : { step: Number(step) }),
    ...(arithmetic ? { arithmetic } : {}),
    edits: edits.map(({ name, list, value }) => ({
      name: name!,
      values: (list ?? value ?? '').split(',').filter(Boolean),
    })),
  };
}

export function printSubject({ edits, ...model }: Subject): string {
  const said = edits.map(({ name, values }) => {
    const list = values.length ? `(${values.join(',')})` : '';
    return `~${name}${list}`;
  });
  return `${modelIdOf(model)}${said.join('')}`;
}

/** The texts of a list; commas inside brackets belong to an edit. */
export function splitSubjects(list: string): string[] {
  return list.split(/,(?![^()]*\))/).filter(Boolean);
}

/** The model that is opened for a subject; an edit holds for its runs alone. */
export function modelIdOf({ id, step, arithmetic }: Omit<Subject, 'edits'>): string {
  return `${id}${step === undefined ? '' : `@${step}`}${arithmetic ? `~${arithmetic}` : ''}`;
}

/** The weights of a model that is opened, and how its products are computed. */
export function arithmeticOf(id: string): { weights: string; arithmetic: Arithmetic } {
  const arithmetic = others.find((one) => id.endsWith(`~${one}`));
  return arithmetic
    ? { weights: id.slice(0, -1 - arithmetic.length), arithmetic }
    : { weights: id, arithmetic: 'exact' };
}

/** The same subject at another step; undefined: the trained weights. */
export function atStep({ step: _, ...subject }: Subject, step: number | undefined): Subject {
  return step === undefined ? subject : { ...subject, step };
}

/** The same model without what-ifs. */
export function unedited(text: string): string {
  const parsed = parseSubject(text);
  return parsed ? printSubject({ ...parsed, edits: [] }) : text;
}

/** A list with one more, or one less; never none, never more than MOST. */
export function toggled(list: readonly string[], text: string): readonly string[] {
  if (list.includes(text)) return list.length > 1 ? list.filter((one) => one !== text) : list;
  return list.length < MOST ? [...list, text] : list;
}

interface Parameter {
  readonly name: string;
  readonly meaning: string;
  /** What a form begins with; it is put in where the table says that something must be. */
  readonly default: number | string;
  readonly choices?: readonly string[];
  readonly min: number;
  readonly max: number;
  readonly required?: boolean;
}

/** No model has as many layers, heads, tokens or channels. */
const MOST_PLACES = 1e6;

/** The edit that swaps the operation, if there is one; of several the last one wins. */
export function operationOf(edits: readonly Edit[]): OperationEdit | undefined {
  return edits.findLast((edit): edit is OperationEdit => edit.kind === 'operation');
}

/** What may be put in at inference: every operation that needs no weights of its own, every other edit. */
export interface EditChoice {
  readonly name: string;
  readonly label: string;
  readonly parameters: readonly Parameter[];
  /** Of operations: what a model that was trained with it does not change by. */
  readonly operation?: string;
  readonly make: (parameters: Readonly<Record<string, number | string>>) => Edit;
}

export function editChoices({ operations, edits }: Describe): readonly EditChoice[] {
  const swaps = operations.map(({ name, label, parameters, features }) => ({
    name,
    label,
    parameters,
    operation: name,
    isHidden: features === 'mlp',
    make: (given: Readonly<Record<string, number | string>>): Edit => ({
      kind: 'operation',
      operation: name,
      ...(Object.keys(given).length ? { parameters: given as Record<string, number> } : {}),
    }),
  }));
  const others = edits
    .filter(({ name }) => name !== 'operation')
    .map((row) => {
      const { name, meaning } = row;
      const own = row.parameters.map((one): Parameter => {
        const { name: called, meaning: meant, min = 0, max = MOST_PLACES, required, choices } = one;
        const standard = one.default ?? choices?.[0] ?? min;
        return {
          name: called,
          meaning: meant,
          default: standard,
          min,
          max,
          required,
          ...(choices ? { choices } : {}),
        };
      });
      return {
        name,
        label: meaning,
        parameters: own,
        isHidden: row.parameters.some(({ type }) => type === 'operation'),
        make: (given: Readonly<Record<string, number | string>>): Edit => {
          const needed = own.filter(({ required }) => required);
          const standard = needed.map((one) => [one.name, one.default] as const);
          return { kind: name, ...Object.fromEntries(standard), ...given } as unknown as Edit;
        },
      };
    });
  return [...swaps, ...others].filter(({ isHidden }) => !isHidden);
}

/** @throws InputError for an edit that is not here, or a parameter out of its range */
export function editsOf(subject: Subject, describe: Describe): readonly Edit[] {
  const all = subject.edits.length ? editChoices(describe) : [];
  return subject.edits.map(({ name, values }) => {
    const choice = all.find((one) => one.name === name);
    if (!choice) {
      const names = all.map((one) => one.name).join(', ');
      throw new InputError(`${printSubject(subject)}: expected an edit of ${names}.`);
    }
    const given = values.map((said, i) => {
      const [text = '', called] = said.split('=').reverse();
      const value = text === '' ? NaN : Number(text);
      const parameter =
        called === undefined
          ? choice.parameters[i]
          : choice.parameters.find((one) => one.name === called);
      if (!parameter && called !== undefined) {
        const names = choice.parameters.map((one) => one.name).join(', ');
        throw new InputError(`${name}: expected a parameter of ${names}, found ${called}.`);
      }
      if (!parameter)
        throw new InputError(`${name}: expected ${choice.parameters.length} parameters.`);
      if (parameter.choices) {
        if (!parameter.choices.includes(text))
          throw new InputError(
            `${name}: expected ${parameter.name} to be ${parameter.choices.join(', ')}, found ${text}.`,
          );
        return [parameter.name, text] as const;
      }
      if (!(value >= parameter.min && value <= parameter.max))
        throw new InputError(
          `${name}: expected ${parameter.name} from ${parameter.min} to ${parameter.max}, found ${text}.`,
        );
      return [parameter.name, value] as const;
    });
    return choice.make(Object.fromEntries(given));
  });
}

/** Whether it shows what no trained model computes; else it is what a model computes that is served so. */
export function isCounterfactual(edits: readonly Edit[], describe: Describe): boolean {
  return edits.some(
    ({ kind }) => describe.edits.find(({ name }) => name === kind)?.counterfactual ?? true,
  );
}

/** What a subject is called, by the name of its model without a step. */
export function titleOf(subject: Subject, model: string, describe: Describe): string {
  const { step, edits, arithmetic } = subject;
  const how = arithmetic ? ` ${OTHERS[arithmetic].title}` : '';
  const at = step === undefined ? '' : ` at step ${step.toLocaleString('en')}`;
  const all = edits.length ? editChoices(describe) : [];
  const said = edits.map(({ name, values }) => {
    const choice = all.find((one) => one.name === name);
    const label = choice?.operation ? choice.label : name;
    return ` + ${label}${values.length ? ` (${values.join(', ')})` : ''}`;
  });
  return `${model}${at}${how}${said.join('')}`;
}
