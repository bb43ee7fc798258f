/** Turns the run of an opened model into a frame: chooses the fields to record, and reads the metrics. */
import type { Describe, Edit, NamedEdit, RunRead, Run, Tensor } from 'sinkscope';
import { editLabel, fieldsFor } from 'sinkscope/internal';
import { ALWAYS_READ, addPromptNumbers } from './averages';
import { EXACT_SIDE, pooledSide, predictsNext, type Frame, type Head } from '../frame';
import type { OpenModel } from './opened';
import { EFFECT } from './effect';
import type { Request } from './request';
import { startTokens, specialWords, type Prompts, type Question } from '../ask/question';
import {
  atStep,
  choicesOf,
  editsOf,
  isCounterfactual,
  operationOf,
  titleOf,
  type Subject,
} from '../ask/subject';

/** What a request says about reading: names, names for one head, and the resolution of long maps. */
type ReadRequest = Pick<Request, 'reads' | 'headReads' | 'cells' | 'zoom'>;

function evictionOf(edits: Frame['edits']) {
  return edits
    .filter((edit): edit is NamedEdit => edit.kind === 'evict')
    .find(
      ({ policy, layer, head }) => policy !== 'snapkv' && layer === undefined && head === undefined,
    );
}

/**
 * Returns the largest number of tokens of a run. It is Infinity if no query sees more tokens than the context: only
 * those in its window, or those that every head's cache keeps.
 * @param window the number of tokens in the run of each prediction
 */
export function contextOf(
  { context, positions }: Frame['architecture'],
  edits: Frame['edits'],
  window = Infinity,
): number {
  const eviction = evictionOf(edits);
  const isRerotated = eviction?.positions === 'cache' && positions === 'rotary';
  const isUnlimited = window < context || (isRerotated && Number(eviction.budget) <= context);
  return isUnlimited ? Infinity : context;
}

/** A run of more tokens is streamed if possible: it then drops keys outside the cache. */
export const LONG_TEXT = 512;

/** Whether a run can be streamed, which bounds its memory and does not change the losses. */
export function canStream(
  { fields, metrics }: Describe,
  { context }: Frame['architecture'],
  edits: Frame['edits'],
  measures: readonly string[],
  T: number,
): boolean {
  const streamedNames = fields.filter(({ streamed }) => streamed).map(({ name }) => name);
  const usesStreamedFields = (measure: string) =>
    metrics
      .find(({ name }) => name === measure)!
      .fields.every((field) => streamedNames.includes(field));
  const isOnlyEviction = edits.length === 1 && evictionOf(edits) !== undefined;
  return T > Math.min(context, LONG_TEXT) && isOnlyEviction && measures.every(usesStreamedFields);
}

export function namesFor(
  { fields, metrics, edits: kinds }: Describe,
  { architecture, edits }: Pick<Frame, 'architecture' | 'edits'>,
  reads: readonly string[],
): string[] {
  // Fields that are recorded only under a kind of edit that this run does not have.
  const missingEditFields = kinds
    .filter(({ name }) => !edits.some(({ kind }) => kind === name))
    .flatMap((row) => row.fields);
  const needsMissingEdit = (name: string) =>
    [name, ...(metrics.find((metric) => metric.name === name)?.fields ?? [])].some((field) =>
      missingEditFields.includes(field),
    );
  const candidateNames = new Set([...ALWAYS_READ, ...reads.filter((name) => name !== EFFECT)]);
  // A masked model and one without an output head predict no next token.
  if (!predictsNext({ architecture })) candidateNames.delete('next');
  return [...candidateNames].filter((name) => {
    const needs = fields.find((field) => field.name === name)?.needs;
    return (!needs || architecture[needs]) && !needsMissingEdit(name);
  });
}

/** Returns the side to which maps are pooled. The maps of a recording have a fixed side. */
const mapSide = ({ recording, pooled, T }: Frame, { cells = Infinity }: ReadRequest) =>
  recording ? pooled : pooledSide(T, cells);

/** Returns where the exact rows of a long map begin, moved into the text; undefined if none are wanted. */
function zoomOf(frame: Frame, { headReads, zoom, cells = Infinity }: ReadRequest) {
  const { recording, T } = frame;
  if (recording || T <= cells || !zoom || zoom.query < 0 || !headReads.includes('att'))
    return undefined;
  const clampStart = (place: number) => Math.max(0, Math.min(place, T - EXACT_SIDE));
  return { query: clampStart(zoom.query), key: clampStart(zoom.key) };
}

const headFrameAt = ({ head }: Frame, at: Head): Frame['head'] =>
  head?.layer === at.layer && head.head === at.head ? head : undefined;

/** Returns the exact rows of a head's frame; undefined if they do not begin at `zoom`. */
function rowsAt(headFrame: Frame['head'], zoom: { query: number; key: number }) {
  const { rows } = headFrame ?? {};
  return rows?.query === zoom.query && rows.key === zoom.key ? rows : undefined;
}

/** Whether a frame has all wanted numbers that exist but heads' effects; `at` is the head of an open run. */
export function isAnswered(
  frame: Frame,
  describe: Describe,
  request: ReadRequest,
  at?: Head,
): boolean {
  const { tensors, lacks = {} } = frame;
  const headNames = request.headReads.filter((name) => !(name in lacks));
  const headFrame = at && headFrameAt(frame, at);
  const zoom = at && zoomOf(frame, request);
  return (
    frame.pooled === mapSide(frame, request) &&
    (!zoom || rowsAt(headFrame, zoom) !== undefined) &&
    namesFor(describe, frame, request.reads).every((name) => name in tensors || name in lacks) &&
    headNames.every((name) => name in (headFrame?.tensors ?? {}))
  );
}

/** Beyond this size, standard fields are recorded only if a view reads them. */
const MAX_STANDARD_BYTES = 2 ** 28;

/** Whether the standard fields fit, so that later views need no new run; maps, computed when read, take no memory. */
function fitsStandardFields(
  { fields }: Describe,
  architecture: Frame['architecture'],
  T: number,
): boolean {
  const { L, blocks = L } = architecture;
  const sizes = { ...architecture, T, 'L+1': blocks + 1 } as unknown as Record<string, number>;
  const bytes = fields
    .filter(({ standard, shape }) => standard && !isMapShape(shape))
    .map(({ shape }) => shape.reduce((product, letter) => product * (sizes[letter] ?? 1), 4));
  return bytes.reduce((a, b) => a + b, 0) <= MAX_STANDARD_BYTES;
}

const isMapShape = (shape: readonly string[]): boolean =>
  shape.filter((letter) => letter === 'T').length > 1;

/** Returns the fields that these metrics and fields are computed from, without those that only an edit records. */
function neededFields(describe: Describe, names: readonly string[]): string[] {
  const { metrics, edits } = describe;
  const isOfEdit = (name: string) => edits.some(({ fields }) => fields.includes(name));
  const requests = names
    .filter((name) => name !== EFFECT)
    .map((name): RunRead =>
      metrics.some((metric) => metric.name === name) ? { metric: name } : { field: name },
    );
  return fieldsFor(describe, requests).filter((name) => !isOfEdit(name));
}

/** @param run the model and the length of the run */
export function fieldsToRecord(
  describe: Describe,
  { reads, headReads }: Pick<ReadRequest, 'reads' | 'headReads'>,
  run: { readonly architecture: Frame['architecture']; readonly T: number },
): string[] {
  const fitsStandard = run.T <= LONG_TEXT || fitsStandardFields(describe, run.architecture, run.T);
  const standardFields = describe.fields
    .filter((field) => field.standard && fitsStandard)
    .map(({ name }) => name);
  return [...new Set([...standardFields, ...neededFields(describe, [...reads, ...headReads])])];
}

/** Returns the request without names that need a field that the run has not recorded. */
export function recordedRequest<T extends ReadRequest>(
  describe: Describe,
  request: T,
  recordedFields: ReadonlySet<string>,
): T {
  const isRecorded = (name: string) =>
    neededFields(describe, [name]).every((field) => recordedFields.has(field));
  const [reads, headReads] = [request.reads, request.headReads].map((n) => n.filter(isRecorded));
  return { ...request, reads, headReads };
}

/** Whether an edit sets the model's own operation, without parameters. */
function changesNothing(
  edit: Edit,
  { attention: { operation } }: Frame['architecture'],
  { operations }: Describe,
): boolean {
  const row = operations.find(({ name }) => name === operation);
  return edit.kind === 'operation' && edit.operation === operation && !row?.parameters.length;
}

function choiceLabels(edit: Edit, describe: Describe): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(edit).flatMap(([parameter, value]) => {
      const choices = choicesOf(describe, edit.kind, parameter);
      return choices.filter(([choice]) => choice === value).map(([, label]) => [parameter, label]);
    }),
  );
}

export async function emptyFrame(
  describe: Describe,
  subject: Subject,
  text: string,
  openModel: OpenModel,
  question: Question,
  prompts: Prompts,
): Promise<Frame> {
  const { architecture } = openModel.model;
  const subjectEdits = editsOf(subject, describe);
  const areEffective = subjectEdits.map((edit) => !changesNothing(edit, architecture, describe));
  const edits = subjectEdits.filter((_, i) => areEffective[i]);
  const effectiveSubject = { ...subject, edits: subject.edits.filter((_, i) => areEffective[i]) };
  const operationEdit = operationOf(edits);
  const operationName = operationEdit ? operationEdit.operation : architecture.attention.operation;
  const { id, title, source, commit, sha256, step, nearestStep, bits, tokenizer } = openModel;
  const maskId = tokenizer.specials.find(({ kind }) => kind === 'mask')?.id;
  const maskToken = architecture.mask_token ?? maskId;
  return {
    subject: text,
    // A checkpoint's title names the stored step, which may only be the nearest to the subject's step.
    title: titleOf(atStep(effectiveSubject, undefined), title, describe),
    model: { id, title, source, commit, sha256, step, nearestStep, bits },
    class: isCounterfactual(edits, describe) ? 'counterfactual' : 'measured',
    architecture,
    operation: describe.operations.find((row) => row.name === operationName)!,
    edits,
    labels: edits.map((edit) => editLabel(edit, describe)),
    choices: edits.map((edit) => choiceLabels(edit, describe)),
    question,
    // Each frame has a list of its own, by which views keep the results that a reader started.
    tokens: [...prompts.tokens],
    T: prompts.tokens.length,
    ids: prompts.ids,
    eps: question.eps,
    dropped: prompts.dropped,
    generated: prompts.generated ?? 0,
    first: startTokens(prompts.tokens),
    special: await specialWords(tokenizer),
    ...(maskToken === undefined ? {} : { maskToken }),
    sequences: prompts.ids.length,
    tensors: {},
    spread: {},
    perPrompt: {},
    next: [],
    milliseconds: 0,
  };
}

/** Reads a frame's missing numbers from its run; `headOf` returns the selected head. */
export async function completeFrame(
  describe: Describe,
  partialFrame: Frame,
  { run, openModel }: { readonly run?: Run | undefined; readonly openModel: OpenModel },
  request: ReadRequest,
  {
    previousFrame,
    headOf,
  }: { readonly previousFrame?: Frame; readonly headOf: (frame: Frame) => Head },
): Promise<Frame> {
  const { reads, headReads } = request;
  const frame = withMapSide(partialFrame, describe, request);
  const metricOf = (name: string) => describe.metrics.find((metric) => metric.name === name);
  const requestOf = (name: string, at: Partial<Head> = {}): RunRead =>
    metricOf(name)
      ? // A metric that takes no head is read with those of all heads, as of this prompt.
        { metric: name, eps: frame.eps, ...(metricOf(name)!.arguments.includes('layer') ? at : {}) }
      : { field: name, ...at, ...(name === 'att' ? mapOptions(frame, at) : {}) };
  const isLacking = (name: string) => name in (frame.lacks ?? {});
  const names = namesFor(describe, frame, reads).filter(
    (name) => !(name in frame.tensors) && !isLacking(name),
  );
  // Alpha decides which head is selected; until it is read, the previous frame decides.
  const similarFrame = 'alpha' in frame.tensors ? frame : previousFrame;
  const guessedHead = similarFrame && headOf(similarFrame);
  const tensorsAt = (head: Head): Readonly<Record<string, Tensor>> =>
    headFrameAt(frame, head)?.tensors ?? {};
  const missingNames = (available: object) =>
    headReads.filter((name) => !(name in available) && !isLacking(name));
  const guessedNames = guessedHead ? missingNames(tensorsAt(guessedHead)) : [];
  const requests = [
    ...names.map((name) => requestOf(name)),
    ...guessedNames.map((name) => requestOf(name, guessedHead)),
  ];
  const results = requests.length ? await run!.read(requests) : [];
  // A recording may lack some of the tensors.
  const tensorsByName = (tensorNames: readonly string[], values: readonly Tensor[]) =>
    Object.fromEntries(
      tensorNames.flatMap((name, i) => (values[i] ? [[name, values[i]] as const] : [])),
    );
  const tensors = { ...frame.tensors, ...tensorsByName(names, results) };
  const perPrompt = frame.sequences === 1 ? addPromptNumbers({}, tensors) : frame.perPrompt;
  const predictions =
    tensors.next && !frame.next.length ? likeliestTokens(tensors.next, openModel) : frame.next;
  const filledFrame = { ...frame, tensors, perPrompt, next: predictions };
  const at = headOf(filledFrame);
  const isGuessRight = guessedHead?.layer === at.layer && guessedHead.head === at.head;
  const availableTensors = {
    ...tensorsAt(at),
    ...(isGuessRight ? tensorsByName(guessedNames, results.slice(names.length)) : {}),
  };
  const remainingNames = missingNames(availableTensors);
  const headRequests = remainingNames.map((name) => requestOf(name, at));
  const zoom = zoomOf(frame, request);
  const earlierRows = zoom && rowsAt(headFrameAt(frame, at), zoom);
  if (zoom && !earlierRows) {
    const lastRow = Math.min(frame.T, zoom.query + EXACT_SIDE);
    headRequests.push({ field: 'att', ...at, rows: [zoom.query, lastRow] });
  }
  const headTensors = headRequests.length ? await run!.read(headRequests) : [];
  const att = earlierRows ? earlierRows.att : headTensors[remainingNames.length];
  return {
    ...filledFrame,
    head: {
      ...at,
      tensors: { ...availableTensors, ...tensorsByName(remainingNames, headTensors) },
      ...(zoom && att ? { rows: { ...zoom, att } } : {}),
    },
  };
}

const SMALL_SIDE = 64;

/** Returns the options for reading long maps in blocks; smaller ones if all heads are shown. */
function mapOptions({ recording, pooled, T }: Frame, { head }: Partial<Head>) {
  if (recording || !pooled) return {};
  return { block: Math.ceil(T / (head === undefined ? Math.min(SMALL_SIDE, pooled) : pooled)) };
}

/** Returns the frame with maps of the wanted side alone; pooled ones exclude metrics by query and key. */
function withMapSide(frame: Frame, { metrics }: Describe, request: ReadRequest): Frame {
  const pooled = mapSide(frame, request);
  if (pooled === frame.pooled) return frame;
  const { head: _, pooled: __, lacks: ___, ...rest } = frame;
  const { att: ____, ...tensors } = frame.tensors;
  const mapMetrics = metrics.filter(({ shape }) => isMapShape(shape)).map(({ name }) => name);
  const reason = `is drawn of texts of up to ${request.cells} tokens, and this one has ${frame.T}`;
  const lacks = Object.fromEntries(mapMetrics.map((name) => [name, reason]));
  return { ...rest, tensors, ...(pooled ? { pooled, lacks } : {}) };
}

const MAX_PREDICTIONS = 8;

function likeliestTokens(logits: Tensor, { tokenizer }: OpenModel): Frame['next'] {
  const data = logits.data as Float32Array;
  const maximum = data.reduce((a, b) => Math.max(a, b), -Infinity);
  const exponentials = Float64Array.from(data, (x) => Math.exp(x - maximum));
  const sum = exponentials.reduce((a, b) => a + b, 0);
  return Array.from(exponentials.keys())
    .sort((i, j) => exponentials[j]! - exponentials[i]!)
    .slice(0, MAX_PREDICTIONS)
    .map((id) => ({ text: tokenizer.piece(id), probability: exponentials[id]! / sum }));
}
