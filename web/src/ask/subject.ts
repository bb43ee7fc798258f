/**
 * A subject is a model, at a step of its training, with edits. A link names it by a text:
 *
 *     softmax   softmax@1400   softmax~sigmoid   softmax~sigmoid(-4.8)~evict(window,24)
 *     hub:owner/name@revision   hub:owner/name~mask(1,32)
 *     disk:FINGERPRINT/name, a model on a reader's disk
 *     recording:URL, a recording of a model's run (recordings.ts); recording:URL@1400, a checkpoint of a series
 *
 * A git revision cannot contain ~, and no name of the zoo contains @. An edit is the name of an operation
 * that replaces the model's own, or of a row of describe's table of edits. Its parameters follow in brackets,
 * in the order of the table or named, as in clamp_channel(35,to=mean); an empty place, as in hide_key(0,,,5), keeps
 * its default. Indices count from 0.
 */
import type { Describe, Edit, EditParameter, OperationEdit } from 'sinkscope';
import { editLabel, readEdit } from 'sinkscope/internal';
import { InputError } from './errors';

export const MAX_SUBJECTS = 6;

export type SubjectEdit = { readonly name: string; readonly values: readonly string[] };

export interface Subject {
  readonly id: string;
  /** Only for models of the zoo and series: a checkpoint on a hub is a model of its own, named by a revision. */
  readonly step?: number;
  readonly edits: readonly SubjectEdit[];
}

const MODEL_PATTERN =
  /^(?<id>[\w-]{1,64}|disk:[0-9a-f]{16}\/[\w.-]{1,80}|recording:[^\s\p{Cc}\\~,]{1,400}?|hub:\w[^\s\p{Cc}\\~,]{0,300}?)(?:@(?<step>\d{1,9}))?$/u;
const EDIT_PATTERN = /^(?<name>[\w-]{1,64})(?:\((?<list>[\w.,=+-]{0,120})\))?$/;

export function parseSubject(text: string): Subject | undefined {
  const [head = '', ...editTexts] = text.split('~');
  const groups = MODEL_PATTERN.exec(head)?.groups;
  const edits = editTexts.map((text) => EDIT_PATTERN.exec(text)?.groups);
  if (!groups || !edits.every((edit) => edit !== undefined)) return undefined;
  const { step } = groups;
  // An @ with digits at the end of a hub's revision is not a step.
  const isExternal = head.startsWith('hub:');
  return {
    id: isExternal ? head : groups.id!,
    ...(step === undefined || isExternal ? {} : { step: Number(step) }),
    edits: edits.map(({ name, list = '' }) => {
      const shortList = list.replace(/,+$/, '');
      return { name: name!, values: shortList ? shortList.split(',') : [] };
    }),
  };
}

export function printSubject({ edits, ...model }: Subject): string {
  return [modelIdOf(model), ...edits.map(printEdit)].join('~');
}

export const splitSubjects = (list: string): string[] =>
  list.split(/,(?![^()]*\))/).filter(Boolean);

/** Returns the id of the model that a subject opens; edits apply to its runs only. */
export function modelIdOf({ id, step }: Omit<Subject, 'edits'>): string {
  return `${id}${step === undefined ? '' : `@${step}`}`;
}

/** Returns the subject at another step of its training, or with the trained weights if no step is given. */
export const atStep = ({ step: _, ...subject }: Subject, step: number | undefined): Subject =>
  step === undefined ? subject : { ...subject, step };

export function withoutEdits(text: string): string {
  const parsedSubject = parseSubject(text);
  return parsedSubject ? printSubject({ ...parsedSubject, edits: [] }) : text;
}

/** Adds a subject to a list, or removes it; the list keeps at least one and at most MAX_SUBJECTS subjects. */
export function toggleSubject(list: readonly string[], text: string): readonly string[] {
  if (list.includes(text))
    return list.length > 1 ? list.filter((subject) => subject !== text) : list;
  return list.length < MAX_SUBJECTS ? [...list, text] : list;
}

type Choices = readonly (readonly [value: string, label: string])[];

export function choicesOf(
  { edits }: Pick<Describe, 'edits'>,
  edit: string,
  parameter: string,
): Choices {
  const parameters = edits.find(({ name }) => name === edit)?.parameters;
  const { choices = [], labels = choices } =
    parameters?.find(({ name }) => name === parameter) ?? {};
  return choices.map((choice, i) => [choice, labels[i]!] as const);
}

/** Returns the edit that replaces the operation; the last one if there are several. */
export const operationOf = (edits: readonly Edit[]): OperationEdit | undefined =>
  edits.findLast((edit): edit is OperationEdit => edit.kind === 'operation');

/** Whether a later edit sets the operation or the mask of all heads in which an earlier one sets it. */
function replaces(later: Edit, earlier: Edit): boolean {
  const covers = (name: 'layer' | 'head') =>
    later[name] === undefined || later[name] === earlier[name];
  const isChoice = later.kind === 'operation' || later.kind === 'mask';
  return isChoice && later.kind === earlier.kind && covers('layer') && covers('head');
}

/** A parameter of an edit in a form. */
interface Parameter {
  readonly name: string;
  readonly meaning?: string;
  readonly default: number | string;
  readonly choices?: Choices | undefined;
  readonly min: number;
  readonly max: number;
  readonly required?: boolean;
}

/** Above the number of layers, heads, tokens and channels of every model. */
const MAX_INDEX = 1e6;

/** An edit that the reader can choose: an operation, or a row of the table. */
interface EditChoice {
  readonly name: string;
  readonly label: string;
  readonly parameters: readonly Parameter[];
}

/** The first value of a parameter's field, and that of a required parameter that a link leaves out. */
const firstValueOf = (parameter: EditParameter): number | string =>
  parameter.default ?? parameter.choices?.[0] ?? parameter.min ?? 0;

/** Leaves out what links do not name: operations with weights of their own, and the row that names one. */
const offered = (describe: Describe): Describe => ({
  ...describe,
  operations: describe.operations.filter(({ features }) => features !== 'mlp'),
  edits: describe.edits.filter(({ name }) => name !== 'operation'),
});

export function editChoices(describe: Describe): readonly EditChoice[] {
  const { operations, edits } = offered(describe);
  return [
    ...operations,
    ...edits.map((row): EditChoice => ({
      name: row.name,
      label: row.meaning ?? row.name,
      parameters: row.parameters.map((parameter): Parameter => {
        const { min = 0, max = MAX_INDEX } = parameter;
        const choices = parameter.choices && choicesOf(describe, row.name, parameter.name);
        return { ...parameter, default: firstValueOf(parameter), min, max, choices };
      }),
    })),
  ];
}

const printEdit = ({ name, values }: SubjectEdit) =>
  `${name}${values.length ? `(${values.join(',')})` : ''}`;

/** Reads an edit; a required parameter that a link leaves out has its first value. */
function editOf(edit: SubjectEdit, describe: Describe): Edit {
  const table = offered(describe);
  const { kind, ...values } = readEdit(printEdit(edit), table);
  const { parameters = [] } = table.edits.find(({ name }) => name === kind) ?? {};
  const defaults = parameters
    .filter(({ required }) => required)
    .map((parameter) => [parameter.name, firstValueOf(parameter)]);
  return { kind, ...Object.fromEntries(defaults), ...values } as Edit;
}

/** @throws InputError for an unknown edit, a parameter out of its range, or an edit that a later one replaces */
export function editsOf(subject: Subject, describe: Describe): readonly Edit[] {
  const edits = subject.edits.map((edit) => {
    try {
      return editOf(edit, describe);
    } catch (error) {
      throw new InputError(`${printSubject(subject)}: ${(error as Error).message}.`);
    }
  });
  edits.forEach((edit, i) => {
    if (edits.slice(i + 1).some((later) => replaces(later, edit)))
      throw new InputError(
        `expected one ${edit.kind} for a head, found two, and only the last would act.`,
      );
  });
  return edits;
}

/** @throws InputError for an edit of a token that a text of T tokens lacks */
export function expectTokens(edits: readonly Edit[], T: number, describe: Describe): void {
  const beyond = edits.flatMap((edit) => tokensOf(edit, describe)).filter((t) => t >= T);
  if (!beyond.length) return;
  const names = [...new Set(beyond)].map((t) => `no token ${t}`).join(' and ');
  throw new InputError(`the text has ${T} tokens, numbered from 0, and so ${names}.`);
}

function tokensOf(edit: Edit, { edits }: Describe): readonly number[] {
  const parameters = edits.find(({ name }) => name === edit.kind)?.parameters ?? [];
  return Object.entries(edit)
    .filter(([key]) => parameters.some(({ name, below }) => name === key && below === 'T'))
    .map(([, position]) => Number(position));
}

/** Whether an edit makes the run counterfactual, unlike edits that change only how a model is served. */
export function isCounterfactual(edits: readonly Edit[], describe: Describe): boolean {
  return edits.some(
    ({ kind }) => describe.edits.find(({ name }) => name === kind)?.counterfactual ?? true,
  );
}

/** Returns a label for each edit of a subject; for an edit that the engine refuses, the link's text. */
export function labelsOf(subject: Subject, describe: Describe): string[] {
  return subject.edits.map((edit) => {
    const subjectWithEdit = { ...subject, edits: [edit] };
    try {
      return editLabel(editsOf(subjectWithEdit, describe)[0]!, describe);
    } catch {
      return printSubject({ id: '', edits: [edit] }).slice(1);
    }
  });
}

export function titleOf(subject: Subject, model: string, describe: Describe): string {
  const { step } = subject;
  const stepSuffix = step === undefined ? '' : ` at step ${step.toLocaleString('en')}`;
  const labels = labelsOf(subject, describe);
  return `${model}${stepSuffix}${labels.length ? `, ${labels.join(', ')}` : ''}`;
}
