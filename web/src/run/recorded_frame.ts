/** Reads frames from open recordings. */
import {
  SinkscopeError,
  type Describe,
  type Model,
  type RunRead,
  type Recording,
  type Run,
  type Tensor,
  type Token,
} from 'sinkscope';
import { uniformAlphas } from 'sinkscope/internal';
import type { Question } from '../ask/question';
import { isolate } from '../ask/ids';
import { nameOfRecording } from '../ask/recordings';
import { nearestStep, splitStep, stepWords } from '../ask/steps';
import type { Frame, FrameArchitecture, NumberClass } from '../frame';
import { averagesOf } from './averages';
import { EFFECT } from './effect';
import type { OpenModel } from './opened';
import type { CachedRun } from './runs';

export { openSeries } from 'sinkscope/internal';

const NEEDS_RUNS = 'needs runs of the model, and a recording has none';

const CLASSES: readonly NumberClass[] = ['counterfactual', 'edited'];

/** Returns the title of the recorded model with the edits of its runs. @param steps those of its series; else empty */
export function titleOf(
  { conditions }: Pick<Recording, 'conditions'>,
  id: string,
  steps: readonly number[] = [],
): string {
  const name = isolate(conditions.model.id.slice(0, 120) || nameOfRecording(id));
  const step = stepOf(id, steps);
  // A series names its checkpoints by their revisions: lab/model@step1000.
  const words = step ? `${name.replace(/@[^@]*$/, '')} at ${stepWords(step.step, step.of)}` : name;
  const { part } = conditions.model;
  const partWords = part === 'cross' ? 'cross-attention' : isolate(part?.slice(0, 120) ?? '');
  return [
    words,
    ...(partWords ? [partWords] : []),
    ...conditions.edits.map(({ label }) => isolate(label.slice(0, 120))),
  ].join(', ');
}

/** Returns the stored step that an id of a series shows, and the last one; undefined for a recording. */
function stepOf(id: string, steps: readonly number[]) {
  if (!steps.length) return undefined;
  const of = steps.at(-1)!;
  return { step: nearestStep(steps, splitStep(id)?.step ?? of), of };
}

/** Returns the architecture of a recording, without unknown facts, which a comparison would count as differences. */
function architectureOf(
  { operations }: Describe,
  { architecture, conditions, tensors }: Recording,
): FrameArchitecture {
  const operation = operations.find(({ name }) => name === conditions.model.operation);
  // The tensor att_bias is the weight of a bias key or of the operation's own sink logit, which is not a key.
  const hasSinkLogit = operation?.parameters.some(({ per_head }) => per_head);
  // A recording of maps alone lacks the model's other sizes.
  const { D, K, U, V, ...others } = architecture;
  return {
    ...others,
    ...(K === 1 ? {} : { D, K, U, V }),
    context: conditions.prompts.T,
    ...(conditions.model.part ? { part: conditions.model.part } : {}),
    mask_token: null,
    bias_key: tensors.has('0.att_bias') && !hasSinkLogit ? 'head' : null,
    gate: tensors.has('0.gate') ? 'output_head' : null,
  };
}

const queriesOf = ({ conditions: { cross } }: Recording): Token[] | undefined =>
  cross?.tokens[0]?.map((text) => ({ id: 0, text, start: 0, end: 0, special: false }));

function tokensOf({ conditions, tokens }: Recording): Token[] {
  const { first } = conditions;
  // If the first token is at another position, the file does not name the token at position 0.
  const isNamedToken = (text: string) => first.position > 0 || text === first.token;
  const isSpecial = (text: string) => isNamedToken(text) && /^(<.*>|\[.*\])$/.test(text);
  return (conditions.tokens[0] ?? []).map((text, t) => {
    const special = t === 0 && isSpecial(text);
    // Without ids no two tokens count as the same one.
    return { id: tokens[t] ?? t, text, start: 0, end: 0, special };
  });
}

/** Reads the means over all prompts, their deviations, and one number per prompt. */
async function meansOf(describe: Describe, recording: Recording, eps: number) {
  const { tensors: fileTensors, conditions } = recording;
  const { count, T, kept } = conditions.prompts;
  const isSameLength = kept === 0 || conditions.tokens[0]!.length === T;
  const tensors: Record<string, Tensor> = {};
  const spread: Record<string, Float32Array> = {};
  for (const { name, shape, arguments: args } of describe.metrics) {
    if (!fileTensors.has(`mean.${name}`)) continue;
    // Averages by token need a first prompt as long as the averaged ones.
    if (shape.includes('T') && !isSameLength) continue;
    const options = args.includes('eps') ? { eps } : {};
    tensors[name] = await recording.mean(name, options);
    if (!fileTensors.has(`deviation.${name}`)) continue;
    const deviation = await recording.deviation(name, options);
    spread[name] = deviation.data as Float32Array;
  }
  // A file without means may have all prompts, which are then averaged here.
  const hasAllPrompts =
    kept > 0 && kept === count && ![...fileTensors.keys()].some((name) => /^mean\./.test(name));
  for (const { name, averaged, arguments: args } of describe.metrics) {
    if (!hasAllPrompts || !averaged || args.includes('base')) continue;
    const result = await recording.measure({ eps, metrics: [name] }).catch((error: unknown) => {
      if (!(error instanceof SinkscopeError)) throw error;
    });
    const averages = averagesOf(result?.metrics ?? {});
    Object.assign(tensors, averages.tensors);
    Object.assign(spread, averages.spread);
  }
  const perPrompt: Record<string, number[]> = {};
  const readRow = async (name: string) =>
    fileTensors.has(name) ? Array.from((await recording.tensor(name)).data) : undefined;
  const sinks = await readRow('prompt.sink_1');
  const epsIndex = conditions.eps.findIndex(isSameEps(eps));
  const E = conditions.eps.length;
  if (sinks && epsIndex >= 0)
    perPrompt.sink_ratio = Array.from({ length: count }, (_, i) => sinks[i * E + epsIndex]!);
  const losses = await readRow('prompt.loss');
  if (losses) perPrompt.loss_mean = losses;
  return { tensors, spread, perPrompt };
}

/** Returns whether a recorded threshold, in 32 bits, is the given one. */
const isSameEps = (eps: number) => (recorded: number) => Math.fround(recorded) === Math.fround(eps);

/** Adds NaN for numbers that the recording lacks and every view and sentence reads. */
function fillGaps(frame: Frame): Frame {
  const { T, architecture } = frame;
  const { L, H } = architecture;
  const nanTensor = (...shape: number[]): Tensor => ({
    shape,
    data: new Float32Array(shape.reduce((a, b) => a * b, 1)).fill(NaN),
  });
  const { tensors } = frame;
  const sinkRatio = tensors.sink_ratio ?? nanTensor(T);
  const alpha = tensors.alpha ?? nanTensor(L, H, T);
  const { normalizes } = frame.operation;
  return {
    ...frame,
    tensors: {
      alpha,
      // Weights are shares if rows sum to 1.
      alpha_raw: normalizes ? alpha : nanTensor(L, H, T),
      alpha_uniform: { shape: [T], data: Float32Array.from(uniformAlphas(T, architecture)) },
      sink_ratio: sinkRatio,
      sink_ratio_raw: normalizes ? sinkRatio : nanTensor(T),
      row_mass_summary: nanTensor(L, H, 3),
      ...tensors,
    },
  };
}

/** Returns what the first kept prompt's image is drawn from. */
async function imageOf(recording: Recording): Promise<Pick<Frame, 'image'>> {
  const [image] = recording.conditions.images ?? [];
  if (!image) return {};
  const picture = recording.tensors.has('0.picture')
    ? { picture: await recording.tensor('0.picture') }
    : {};
  return { image: { ...image, ...picture } };
}

const classOf = ({ conditions }: Recording): NumberClass =>
  CLASSES.find((name) => name === conditions.class.toLowerCase()) ?? 'measured';

export async function recordedFrame(
  describe: Describe,
  subject: string,
  id: string,
  recording: Recording,
  question: Question,
  steps: readonly number[] = [],
): Promise<Frame> {
  const { conditions } = recording;
  const { model, prompts } = conditions;
  const { eps: requestedEps } = question;
  const isEpsRecorded = conditions.eps.some(isSameEps(requestedEps));
  const eps = isEpsRecorded ? requestedEps : (conditions.eps[0] ?? requestedEps);
  const title = titleOf(recording, id, steps);
  const step = stepOf(id, steps);
  const tokens = tokensOf(recording);
  const specialTexts = tokens.filter(({ special }) => special).map(({ text }) => text);
  const frame: Frame = {
    subject,
    title,
    model: {
      id,
      title,
      source: 'recording',
      ...(step ? { step } : {}),
      ...(model.revision ? { commit: model.revision } : {}),
      ...(model.sha256 ? { sha256: model.sha256 } : {}),
    },
    recording: conditions,
    ...(await imageOf(recording)),
    firstAt: {
      key: conditions.first.position,
      isCommon: conditions.first.token !== null || prompts.count === 1,
    },
    queries: queriesOf(recording),
    lacks: {},
    pooled: pooledOf(recording),
    class: classOf(recording),
    architecture: architectureOf(describe, recording),
    operation: describe.operations.find(({ name }) => name === model.operation)!,
    edits: [],
    labels: [],
    choices: [],
    question: { ...question, n: prompts.count, T: prompts.T, eps },
    tokens,
    T: tokens.length || prompts.T,
    ids: [[...recording.tokens]],
    eps,
    dropped: 0,
    generated: Math.min(prompts.generated ?? 0, tokens.length),
    first: specialTexts,
    special: { automatic: specialTexts, bos: specialTexts[0] ?? null, choices: [] },
    sequences: prompts.count,
    next: [],
    milliseconds: 0,
    ...(await meansOf(describe, recording, eps)),
  };
  return fillGaps(frame);
}

/** Returns the side of the pooled maps of a long text; undefined if the file has exact maps. */
const pooledOf = ({ tensors }: Recording): number | undefined =>
  tensors.has('0.att') ? undefined : tensors.get('0.att_pooled')?.shape.at(-1);

function reasonOf(read: RunRead, error: unknown): string {
  if (!(error instanceof SinkscopeError) || error.code !== 'bad_request') throw error;
  const isMissing = 'field' in read && error.where === read.field;
  return isMissing ? `needs the field ${read.field}, not recorded` : error.text;
}

/** Reads a recording's first kept prompt like an open run; `lacks` gets the reason why a number is missing. */
export function recordedRun(id: string, recording: Recording, describe: Describe): CachedRun {
  const reasons: Record<string, string> = { [EFFECT]: NEEDS_RUNS };
  const isPooled = pooledOf(recording) !== undefined;
  const read = async (reads: readonly RunRead[]) => {
    const tensors: (Tensor | undefined)[] = [];
    for (const request of reads) {
      const name = 'field' in request ? request.field : request.metric;
      const { layer, head } = request;
      tensors.push(
        isPooled && name === 'att'
          ? await recording.pooled({ layer, head })
          : name === 'att' && recording.conditions.cross && recording.tensors.has('0.att')
            ? await recording.tensor('0.att', { layer, head })
            : await recording.read([request]).then(
                ([tensor]) => tensor,
                (error: unknown) => {
                  reasons[name] = reasonOf(request, error);
                  return undefined;
                },
              ),
      );
    }
    return tensors as Tensor[];
  };
  const run = {
    tokens: recording.tokens,
    edits: [],
    read,
    close: async () => {},
  } as unknown as Run;
  const model = { describe, architecture: architectureOf(describe, recording) } as unknown as Model;
  const openModel = {
    id,
    title: titleOf(recording, id),
    source: 'recording',
    model,
    tokenizer: { piece: String },
  } as unknown as OpenModel;
  const fields = new Set(describe.fields.map(({ name }) => name));
  return { run, capacity: recording.tokens.length, openModel, fields, lacks: reasons };
}
