/** From the run of an opened model to a frame: which names are recorded and read. */
import {
  editLabel,
  fieldsFor,
  type Describe,
  type Edit,
  type NamedEdit,
  type Read,
  type Run,
  type Tensor,
} from 'sinkscope';
import { OTHERS } from '../ask/arithmetic';
import { ALWAYS, notePrompt } from './averages';
import { isBidirectional, type Frame, type Head } from '../frame';
import type { OpenModel } from './opened';
import { isMeasurement } from './measurements';
import { firstTokens, specialWords, type Prompts, type Question } from '../ask/question';
import {
  atStep,
  choicesOf,
  editsOf,
  isCounterfactual,
  operationOf,
  titleOf,
  type Subject,
} from '../ask/subject';

/** Names of the metrics, fields and measurements that are shown, and those of one head. */
interface Wanted {
  readonly reads: readonly string[];
  readonly headReads: readonly string[];
}

/** An eviction that holds in every head and decides query by query. */
function evictionOf(edits: Frame['edits']) {
  return edits
    .filter((edit): edit is NamedEdit => edit.kind === 'evict')
    .find(
      ({ policy, layer, head }) => policy !== 'snapkv' && layer === undefined && head === undefined,
    );
}

/**
 * The largest number of tokens of a run; Infinity where every head's cache stays inside the context.
 *
 * @param window number of tokens in the run of each prediction
 */
export function contextOf(
  { context, positions }: Frame['architecture'],
  edits: Frame['edits'],
  window = Infinity,
): number {
  const eviction = evictionOf(edits);
  const isTurned = eviction?.positions === 'cache' && positions === 'rotary';
  const isEndless = window < context || (isTurned && Number(eviction.budget) <= context);
  return isEndless ? Infinity : context;
}

/** A longer text is streamed where that suffices: keys outside the cache are dropped during the run. */
export const LONG = 512;

/** Whether a run may keep only what its cache holds: the losses are the same, and memory is bounded. */
export function isStreamed(
  { fields, metrics }: Describe,
  { context }: Frame['architecture'],
  edits: Frame['edits'],
  measures: readonly string[],
  T: number,
): boolean {
  const kept = fields.filter(({ streamed }) => streamed).map(({ name }) => name);
  const isOfKept = (measure: string) =>
    metrics.find(({ name }) => name === measure)!.fields.every((field) => kept.includes(field));
  const isAlone = edits.length === 1 && evictionOf(edits) !== undefined;
  return T > Math.min(context, LONG) && isAlone && measures.every(isOfKept);
}

/** The names that this model has. */
export function namesFor(
  { fields, metrics, edits: kinds }: Describe,
  { architecture, edits }: Pick<Frame, 'architecture' | 'edits'>,
  reads: readonly string[],
): string[] {
  // Fields that only a run with an edit of their kind records.
  const absent = kinds
    .filter(({ name }) => !edits.some(({ kind }) => kind === name))
    .flatMap((row) => row.fields);
  const isOfEdit = (name: string) =>
    [name, ...(metrics.find((one) => one.name === name)?.fields ?? [])].some((one) =>
      absent.includes(one),
    );
  const all = new Set([...ALWAYS, ...reads.filter((name) => !isMeasurement(name))]);
  // A masked model predicts no next token.
  if (isBidirectional({ architecture })) all.delete('next');
  return [...all].filter((name) => {
    const needs = fields.find((field) => field.name === name)?.needs;
    return (!needs || architecture[needs]) && !isOfEdit(name);
  });
}

/**
 * Whether a frame holds all that is wanted and can be had; measurements apart.
 * @param at the head that is shown; absent: there is no run to read one of
 */
export function isAnswered(
  { tensors, head, lacks = {}, ...frame }: Frame,
  describe: Describe,
  { reads, headReads }: Wanted,
  at?: Head,
): boolean {
  const ofHead = headReads.filter((name) => !(name in lacks));
  const own = head && at && head.layer === at.layer && head.head === at.head ? head.tensors : {};
  return (
    namesFor(describe, frame, reads).every((name) => name in tensors || name in lacks) &&
    ofHead.every((name) => name in own)
  );
}

/** Fields that a run must record for the wanted names. */
export function recordedFor(describe: Describe, { reads, headReads }: Wanted): string[] {
  const isOfEdit = (name: string) => describe.edits.some(({ fields }) => fields.includes(name));
  const own = [...reads, ...headReads].filter((name) => !isMeasurement(name));
  const asked = own.map((name): Read =>
    describe.metrics.some((one) => one.name === name) ? { metric: name } : { field: name },
  );
  const standard = describe.fields.filter((one) => one.standard).map(({ name }) => name);
  return [...new Set([...standard, ...fieldsFor(describe, asked)])].filter(
    (name) => !isOfEdit(name),
  );
}

/** Whether an edit changes nothing: the model's own operation, where that has no parameters. */
function isNoEdit(
  edit: Edit,
  { attention: { operation } }: Frame['architecture'],
  { operations }: Describe,
): boolean {
  const own = operations.find(({ name }) => name === operation);
  return edit.kind === 'operation' && edit.operation === operation && !own?.parameters.length;
}

function classOf(
  edits: readonly Edit[],
  { arithmetic }: Subject,
  describe: Describe,
): Frame['class'] {
  if (isCounterfactual(edits, describe)) return 'counterfactual';
  return arithmetic ? OTHERS[arithmetic].class : 'measured';
}

function maskTokenOf({ model, tokenizer }: OpenModel): Pick<Frame, 'maskToken'> {
  const named = tokenizer.specials.find(({ kind }) => kind === 'mask')?.id;
  const maskToken = model.architecture.mask_token ?? named;
  return maskToken === undefined ? {} : { maskToken };
}

function choiceLabels(edit: Edit, describe: Describe): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(edit).flatMap(([parameter, value]) => {
      const known = choicesOf(describe, edit.kind, parameter);
      return known.filter(([choice]) => choice === value).map(([, label]) => [parameter, label]);
    }),
  );
}

/** A frame without any measurement. */
export async function emptyFrame(
  describe: Describe,
  subject: Subject,
  text: string,
  opened: OpenModel,
  question: Question,
  prompts: Prompts,
): Promise<Frame> {
  const { architecture } = opened.model;
  const given = editsOf(subject, describe);
  const isPutIn = given.map((edit) => !isNoEdit(edit, architecture, describe));
  const edits = given.filter((_, i) => isPutIn[i]);
  const named = { ...subject, edits: subject.edits.filter((_, i) => isPutIn[i]) };
  const swapped = operationOf(edits);
  const name = swapped ? swapped.operation : architecture.attention.operation;
  const { id, title, source, commit, sha256, step, bits } = opened;
  return {
    subject: text,
    // The title of a checkpoint holds its step, which may be the nearest stored one.
    title: titleOf(atStep(named, undefined), title, describe),
    model: { id, title, source, commit, sha256, step, bits },
    class: classOf(edits, subject, describe),
    architecture,
    operation: describe.operations.find((one) => one.name === name)!,
    edits,
    labels: edits.map((edit) => editLabel(edit, describe)),
    choices: edits.map((edit) => choiceLabels(edit, describe)),
    question,
    tokens: prompts.tokens,
    T: prompts.tokens.length,
    ids: prompts.ids,
    eps: question.eps,
    dropped: prompts.dropped,
    generated: 0,
    first: firstTokens(prompts.tokens),
    special: await specialWords(opened.tokenizer),
    ...maskTokenOf(opened),
    sequences: prompts.ids.length,
    ...(prompts.groups ? { groups: prompts.groups } : {}),
    tensors: {},
    spread: {},
    perPrompt: {},
    next: [],
    milliseconds: 0,
  };
}

/**
 * The frame with the wanted names that it lacks, read from its run.
 *
 * @param look the previous frame of the subject, and the selected head of a frame
 */
export async function completed(
  describe: Describe,
  frame: Frame,
  { run, opened }: { readonly run?: Run | undefined; readonly opened: OpenModel },
  { reads, headReads }: Wanted,
  look: { readonly before?: Frame; readonly headOf: (frame: Frame) => Head },
): Promise<Frame> {
  const { before, headOf } = look;
  const isMetric = (name: string) => describe.metrics.some((one) => one.name === name);
  const read = (name: string, at: Partial<Head> = {}): Read =>
    isMetric(name) ? { metric: name, eps: frame.eps, ...at } : { field: name, ...at };
  const names = namesFor(describe, frame, reads).filter(
    (name) => !(name in frame.tensors) && !(name in (frame.lacks ?? {})),
  );
  // Alpha decides which head is selected. Until it is read, the previous frame's head is the best guess.
  const like = 'alpha' in frame.tensors ? frame : before;
  const guess = like && headOf(like);
  const hadAt = ({ layer, head }: Head): Readonly<Record<string, Tensor>> =>
    frame.head?.layer === layer && frame.head.head === head ? frame.head.tensors : {};
  const isLacking = (name: string) => name in (frame.lacks ?? {});
  const missing = (had: object) => headReads.filter((name) => !(name in had) && !isLacking(name));
  const early = guess ? missing(hadAt(guess)) : [];
  const asked = [...names.map((name) => read(name)), ...early.map((name) => read(name, guess))];
  const found = asked.length ? await run!.read(asked) : [];
  // Of a recording some may be missing.
  const named = (own: readonly string[], from: readonly Tensor[]) =>
    Object.fromEntries(own.flatMap((name, i) => (from[i] ? [[name, from[i]] as const] : [])));
  const tensors = { ...frame.tensors, ...named(names, found) };
  const perPrompt = frame.sequences === 1 ? notePrompt({}, tensors) : frame.perPrompt;
  const next = tensors.next && !frame.next.length ? likeliest(tensors.next, opened) : frame.next;
  const whole = { ...frame, tensors, perPrompt, next };
  const at = headOf(whole);
  const isAsGuessed = guess?.layer === at.layer && guess.head === at.head;
  const had = { ...hadAt(at), ...(isAsGuessed ? named(early, found.slice(names.length)) : {}) };
  const left = missing(had);
  const own = left.length ? await run!.read(left.map((name) => read(name, at))) : [];
  return { ...whole, head: { ...at, tensors: { ...had, ...named(left, own) } } };
}

const SHOWN = 8;

function likeliest(logits: Tensor, { tokenizer }: OpenModel): Frame['next'] {
  const data = logits.data as Float32Array;
  const top = data.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = Float64Array.from(data, (x) => Math.exp(x - top));
  const sum = powers.reduce((a, b) => a + b, 0);
  return Array.from(powers.keys())
    .sort((i, j) => powers[j]! - powers[i]!)
    .slice(0, SHOWN)
    .map((id) => ({ text: tokenizer.piece(id), probability: powers[id]! / sum }));
}
