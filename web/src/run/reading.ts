/** Turns the run of an opened model into a frame: chooses the fields to record, and reads the metrics. */
import {
  editLabel,
  fieldsFor,
  type Describe,
  type Edit,
  type NamedEdit,
  type RunRead,
  type Run,
  type Tensor,
} from 'sinkscope';
import { OTHERS } from '../ask/arithmetic';
import { ALWAYS, notePrompt } from './averages';
import { EXACT_SIDE, isBidirectional, pooledSide, type Frame, type Head } from '../frame';
import type { OpenModel } from './opened';
import { isMeasurement } from './measurements';
import type { Request } from './request';
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

/** The part of a request that says what to read: names, names of one head, and how to read long maps. */
type Wanted = Pick<Request, 'reads' | 'headReads' | 'cells' | 'zoom'>;

/** Returns the edit that evicts in every head and query by query, if there is one. */
function evictionOf(edits: Frame['edits']) {
  return edits
    .filter((edit): edit is NamedEdit => edit.kind === 'evict')
    .find(
      ({ policy, layer, head }) => policy !== 'snapkv' && layer === undefined && head === undefined,
    );
}

/**
 * Returns the largest number of tokens of a run; Infinity if every head's cache stays inside the context.
 * @param window the number of tokens in the run of each prediction
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

/** The length of a text above which a run is streamed if possible, that is, drops keys outside the cache. */
export const LONG = 512;

/** Whether a run may keep only its cache, which bounds the memory and gives the same losses. */
export function isStreamed(
  { fields, metrics }: Describe,
  { context }: Frame['architecture'],
  edits: Frame['edits'],
  measures: readonly string[],
  T: number,
): boolean {
  const streamedNames = fields.filter(({ streamed }) => streamed).map(({ name }) => name);
  const isOfKept = (measure: string) =>
    metrics
      .find(({ name }) => name === measure)!
      .fields.every((field) => streamedNames.includes(field));
  const isAlone = edits.length === 1 && evictionOf(edits) !== undefined;
  return T > Math.min(context, LONG) && isAlone && measures.every(isOfKept);
}

/** Returns the requested names that this model has. */
export function namesFor(
  { fields, metrics, edits: kinds }: Describe,
  { architecture, edits }: Pick<Frame, 'architecture' | 'edits'>,
  reads: readonly string[],
): string[] {
  // The fields that only a run with an edit of their kind records.
  const absent = kinds
    .filter(({ name }) => !edits.some(({ kind }) => kind === name))
    .flatMap((row) => row.fields);
  const isOfEdit = (name: string) =>
    [name, ...(metrics.find((one) => one.name === name)?.fields ?? [])].some((one) =>
      absent.includes(one),
    );
  const all = new Set([...ALWAYS, ...reads.filter((name) => !isMeasurement(name))]);
  // Leaves out the next token, which a masked model does not predict.
  if (isBidirectional({ architecture })) all.delete('next');
  return [...all].filter((name) => {
    const needs = fields.find((field) => field.name === name)?.needs;
    return (!needs || architecture[needs]) && !isOfEdit(name);
  });
}

/** Returns the wanted side of the maps; a recording's maps have their own. */
function sideOf({ recording, pooled, T }: Frame, { cells = Infinity }: Wanted) {
  return recording ? pooled : pooledSide(T, cells);
}

/** Returns where the exact rows of a long map begin, limited to the text; undefined if none are wanted. */
function zoomOf(frame: Frame, { headReads, zoom, cells = Infinity }: Wanted) {
  const { recording, T } = frame;
  if (recording || T <= cells || !zoom || zoom.query < 0 || !headReads.includes('att'))
    return undefined;
  const fit = (place: number) => Math.max(0, Math.min(place, T - EXACT_SIDE));
  return { query: fit(zoom.query), key: fit(zoom.key) };
}

/** Returns the numbers of a head, if the frame has those of this one. */
const headAt = ({ head }: Frame, at: Head): Frame['head'] =>
  head?.layer === at.layer && head.head === at.head ? head : undefined;

/**
 * Whether a frame has all wanted numbers that exist, without measurements.
 * @param at the shown head; absent if no run is open to read a head from
 */
export function isAnswered(frame: Frame, describe: Describe, wanted: Wanted, at?: Head): boolean {
  const { tensors, lacks = {} } = frame;
  const ofHead = wanted.headReads.filter((name) => !(name in lacks));
  const headFrame = at && headAt(frame, at);
  const zoom = at && zoomOf(frame, wanted);
  const { query, key } = headFrame?.rows ?? {};
  return (
    frame.pooled === sideOf(frame, wanted) &&
    (!zoom || (zoom.query === query && zoom.key === key)) &&
    namesFor(describe, frame, wanted.reads).every((name) => name in tensors || name in lacks) &&
    ofHead.every((name) => name in (headFrame?.tensors ?? {}))
  );
}

/** The size above which standard fields are recorded only if a view reads them. */
const STANDARD_BYTES = 2 ** 28;

/** Whether a run can record what views that are opened later may read; maps are computed when they are read. */
function hasRoom({ fields }: Describe, architecture: Frame['architecture'], T: number): boolean {
  const { L, blocks = L } = architecture;
  const sizes = { ...architecture, T, 'L+1': blocks + 1 } as unknown as Record<string, number>;
  const bytes = fields
    .filter(({ standard, shape }) => standard && !isOfPairs(shape))
    .map(({ shape }) => shape.reduce((product, letter) => product * (sizes[letter] ?? 1), 4));
  return bytes.reduce((a, b) => a + b, 0) <= STANDARD_BYTES;
}

/** Whether a shape has a number for each query and key. */
const isOfPairs = (shape: readonly string[]): boolean =>
  shape.filter((letter) => letter === 'T').length > 1;

/**
 * Returns the fields that a run must record for the wanted names.
 * @param run the run's model and length
 */
export function recordedFor(
  describe: Describe,
  { reads, headReads }: Pick<Wanted, 'reads' | 'headReads'>,
  run: { readonly architecture: Frame['architecture']; readonly T: number },
): string[] {
  const isOfEdit = (name: string) => describe.edits.some(({ fields }) => fields.includes(name));
  const names = [...reads, ...headReads].filter((name) => !isMeasurement(name));
  const requests = names.map((name): RunRead =>
    describe.metrics.some((one) => one.name === name) ? { metric: name } : { field: name },
  );
  const isRoomy = run.T <= LONG || hasRoom(describe, run.architecture, run.T);
  const standard = describe.fields.filter((one) => one.standard && isRoomy).map(({ name }) => name);
  return [...new Set([...standard, ...fieldsFor(describe, requests)])].filter(
    (name) => !isOfEdit(name),
  );
}

/** Whether an edit changes nothing, as it sets the model's own operation and this has no parameters. */
function isNoEdit(
  edit: Edit,
  { attention: { operation } }: Frame['architecture'],
  { operations }: Describe,
): boolean {
  const row = operations.find(({ name }) => name === operation);
  return edit.kind === 'operation' && edit.operation === operation && !row?.parameters.length;
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
  const maskId = tokenizer.specials.find(({ kind }) => kind === 'mask')?.id;
  const maskToken = model.architecture.mask_token ?? maskId;
  return maskToken === undefined ? {} : { maskToken };
}

function choiceLabels(edit: Edit, describe: Describe): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(edit).flatMap(([parameter, value]) => {
      const choices = choicesOf(describe, edit.kind, parameter);
      return choices.filter(([choice]) => choice === value).map(([, label]) => [parameter, label]);
    }),
  );
}

/** Returns a frame without measurements. */
export async function emptyFrame(
  describe: Describe,
  subject: Subject,
  text: string,
  opened: OpenModel,
  question: Question,
  prompts: Prompts,
): Promise<Frame> {
  const { architecture } = opened.model;
  const subjectEdits = editsOf(subject, describe);
  const isPutIn = subjectEdits.map((edit) => !isNoEdit(edit, architecture, describe));
  const edits = subjectEdits.filter((_, i) => isPutIn[i]);
  const effective = { ...subject, edits: subject.edits.filter((_, i) => isPutIn[i]) };
  const swapped = operationOf(edits);
  const name = swapped ? swapped.operation : architecture.attention.operation;
  const { id, title, source, commit, sha256, step, bits } = opened;
  return {
    subject: text,
    // The title of a checkpoint holds its step, which may be the nearest stored one.
    title: titleOf(atStep(effective, undefined), title, describe),
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
 * Reads a frame's missing numbers from its run.
 * @param look the previous frame of the subject, and a function that returns the selected head of a frame
 */
export async function completeFrame(
  describe: Describe,
  given: Frame,
  { run, opened }: { readonly run?: Run | undefined; readonly opened: OpenModel },
  wanted: Wanted,
  look: { readonly before?: Frame; readonly headOf: (frame: Frame) => Head },
): Promise<Frame> {
  const { before, headOf } = look;
  const { reads, headReads } = wanted;
  const frame = asPooled(given, describe, wanted);
  const isMetric = (name: string) => describe.metrics.some((one) => one.name === name);
  const read = (name: string, at: Partial<Head> = {}): RunRead =>
    isMetric(name)
      ? { metric: name, eps: frame.eps, ...at }
      : { field: name, ...at, ...(name === 'att' ? blocksOf(frame, at) : {}) };
  const names = namesFor(describe, frame, reads).filter(
    (name) => !(name in frame.tensors) && !(name in (frame.lacks ?? {})),
  );
  // Guesses the selected head by the previous frame, until alpha is read, which decides it.
  const like = 'alpha' in frame.tensors ? frame : before;
  const guess = like && headOf(like);
  const hadAt = (one: Head): Readonly<Record<string, Tensor>> => headAt(frame, one)?.tensors ?? {};
  const isLacking = (name: string) => name in (frame.lacks ?? {});
  const missing = (had: object) => headReads.filter((name) => !(name in had) && !isLacking(name));
  const early = guess ? missing(hadAt(guess)) : [];
  const requests = [...names.map((name) => read(name)), ...early.map((name) => read(name, guess))];
  const results = requests.length ? await run!.read(requests) : [];
  // A recording may lack some of them.
  const tensorsByName = (own: readonly string[], from: readonly Tensor[]) =>
    Object.fromEntries(own.flatMap((name, i) => (from[i] ? [[name, from[i]] as const] : [])));
  const tensors = { ...frame.tensors, ...tensorsByName(names, results) };
  const perPrompt = frame.sequences === 1 ? notePrompt({}, tensors) : frame.perPrompt;
  const next = tensors.next && !frame.next.length ? likeliest(tensors.next, opened) : frame.next;
  const complete = { ...frame, tensors, perPrompt, next };
  const at = headOf(complete);
  const isAsGuessed = guess?.layer === at.layer && guess.head === at.head;
  const earlier = {
    ...hadAt(at),
    ...(isAsGuessed ? tensorsByName(early, results.slice(names.length)) : {}),
  };
  const remaining = missing(earlier);
  const zoom = zoomOf(frame, wanted);
  const earlierRows = headAt(frame, at)?.rows;
  const rows = isAt(earlierRows, zoom) ? earlierRows : undefined;
  const exactReads = zoom && !rows ? [exactRead(frame.T, at, zoom)] : [];
  const asks = [...remaining.map((name) => read(name, at)), ...exactReads];
  const headTensors = asks.length ? await run!.read(asks) : [];
  const att = exactReads.length ? headTensors.at(-1) : rows?.att;
  return {
    ...complete,
    head: {
      ...at,
      tensors: { ...earlier, ...tensorsByName(remaining, headTensors) },
      ...(zoom && att ? { rows: { ...zoom, att } } : {}),
    },
  };
}

const isAt = (
  rows: NonNullable<Frame['head']>['rows'],
  zoom: { query: number; key: number } | undefined,
): boolean => rows?.query === zoom?.query && rows?.key === zoom?.key;

function exactRead(T: number, at: Head, { query }: { query: number }): RunRead {
  return { field: 'att', ...at, rows: [query, Math.min(T, query + EXACT_SIDE)] };
}

/** The side of each head's small map, if all heads are shown. */
const SMALL = 64;

/** Returns the options for reading long maps in blocks, with smaller maps if all heads are shown. */
function blocksOf({ recording, pooled, T }: Frame, { head }: Partial<Head>) {
  if (recording || !pooled) return {};
  return { block: Math.ceil(T / (head === undefined ? Math.min(SMALL, pooled) : pooled)) };
}

/** Returns the frame without maps in another resolution, blocks or single cells, than the wanted one. */
function asPooled(frame: Frame, { metrics }: Describe, wanted: Wanted): Frame {
  const pooled = sideOf(frame, wanted);
  if (pooled === frame.pooled) return frame;
  const { head: _, pooled: __, lacks: ___, ...rest } = frame;
  const { att: ____, ...tensors } = frame.tensors;
  const pairs = metrics.filter(({ shape }) => isOfPairs(shape)).map(({ name }) => name);
  const reason = `is drawn of texts of up to ${wanted.cells} tokens, and this one has ${frame.T}`;
  const missing = Object.fromEntries(pairs.map((name) => [name, reason]));
  return { ...rest, tensors, ...(pooled ? { pooled, lacks: missing } : {}) };
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
