/**
 * What is compared: two to six models, a model at a step of its training, a model with another
 * operation swapped in. Each has a text by which a link names it:
 *
 *     softmax    hub:owner/name@revision    softmax@2000    softmax~sigmoid    softmax~sigmoid=-4.8
 *
 * No revision of git may hold a ~, and no name of the zoo an @.
 */
import type { Edit, Operation } from 'sinkscope';

export const FEWEST = 2;
export const MOST = 6;

export type Pick =
  | { readonly kind: 'model'; readonly id: string }
  /** A checkpoint of a model of the zoo; those of a hub are models, named by their revision. */
  | { readonly kind: 'step'; readonly id: string; readonly step: number }
  | {
      readonly kind: 'edit';
      readonly id: string;
      readonly operation: string;
      /** Of the operation's first parameter; its default where absent. */
      readonly parameter?: number;
    };

const PATTERN =
  /^(?<id>[\w-]{1,64}|hub:\w[^\s\p{Cc}\\~,]{0,300})(?:@(?<step>\d{1,9}))?(?:~(?<operation>[\w-]{1,64})(?:=(?<parameter>-?\d{1,4}(?:\.\d{1,9})?))?)?$/u;

/** @returns undefined for what is no pick */
export function parsePick(text: string): Pick | undefined {
  const found = PATTERN.exec(text)?.groups;
  if (!found) return undefined;
  const { id, step, operation, parameter } = found;
  // An edit of a checkpoint would be two changes at once: what came of which could not be told.
  if (operation !== undefined && step !== undefined) return undefined;
  if (step !== undefined) return { kind: 'step', id, step: Number(step) };
  if (operation === undefined) return { kind: 'model', id };
  const given = parameter === undefined ? {} : { parameter: Number(parameter) };
  return { kind: 'edit', id, operation, ...given };
}

export function printPick(pick: Pick): string {
  if (pick.kind === 'step') return `${pick.id}@${pick.step}`;
  if (pick.kind === 'model') return pick.id;
  const { id, operation, parameter } = pick;
  return `${id}~${operation}${parameter === undefined ? '' : `=${parameter}`}`;
}

/** The model that a pick opens; an edit holds for its runs alone. */
export function modelOf(pick: Pick): string {
  return pick.kind === 'edit' ? pick.id : printPick(pick);
}

export interface Parsed {
  /** By their texts, each once, at most MOST. */
  readonly picks: ReadonlyMap<string, Pick>;
  readonly problems: readonly string[];
}

/** The picks that a link names, with a sentence for each that is none or is one too many. */
export function parsePicks(texts: readonly string[]): Parsed {
  const picks = new Map<string, Pick>();
  const problems: string[] = [];
  for (const text of texts) {
    const pick = parsePick(text);
    const name = text.length > 40 ? `${text.slice(0, 40)}…` : text;
    if (!pick) problems.push(`“${name}” is nothing that can be compared.`);
    else if (picks.size < MOST) picks.set(printPick(pick), pick);
    else if (!picks.has(printPick(pick)))
      problems.push(`“${name}” was left out: at most ${MOST} can be compared.`);
  }
  return { picks, problems };
}

/** What a pick is called, by the name of its model without a step. */
export function titleOf(pick: Pick, model: string, operations: readonly Operation[]): string {
  if (pick.kind === 'model') return model;
  if (pick.kind === 'step') return `${model} at step ${pick.step.toLocaleString('en')}`;
  const label = operations.find(({ name }) => name === pick.operation)?.label ?? pick.operation;
  const value = pick.parameter === undefined ? '' : ` (${pick.parameter})`;
  return `${model} + ${label}${value}`;
}

/** The what-ifs under which a pick runs. */
export function editsOf(pick: Pick, operations: readonly Operation[]): readonly Edit[] {
  if (pick.kind !== 'edit') return [];
  const [first] = operations.find(({ name }) => name === pick.operation)?.parameters ?? [];
  const given = first && pick.parameter !== undefined;
  const parameters = given ? { [first.name]: pick.parameter } : undefined;
  return [{ kind: 'operation', operation: pick.operation, parameters }];
}

/** The texts with one more, or one less. */
export function toggled(texts: readonly string[], text: string): readonly string[] {
  if (texts.includes(text)) return texts.filter((one) => one !== text);
  return texts.length < MOST ? [...texts, text] : texts;
}
