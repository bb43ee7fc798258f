/** Answers to Explore's questions, a plain sentence each of the numbers on the stage; empty where it does not hold. */
import { claimOf, kindSentence, TOO_SHORT } from './claims';
import {
  attentionOf,
  firstKey,
  comparableKeyCount,
  isCommonToken,
  mean,
  ofHead,
  type Frame,
  type Head,
} from './frame';
import type { State } from './ask/state';
import { answerOf as contestWords, compareKeys } from './views/arrows';
import { baseOf, lossChange } from './views/change';
import { outputWords, outputNormsOf } from './views/outputs';
import { emergenceOf } from './views/training';
import type { Choice } from './views/index';
import { normProfile } from './views/norms';
import { keysBySink } from './views/scores';
import { formatLossChange, SMALL_CHANGE } from './views/settings';
import {
  axesClause,
  capitalize,
  firstName,
  firstPromptWords,
  firstTokenText,
  introduce,
  laterSinkSentence,
  startRole,
  textsWords,
  verdictOf,
  tokenWord,
} from './words';

/** Says that a sentence is about the first prompt: the sentences below it may be about means over the prompts. */
const onFirstPrompt = (frame: Frame, sentence: string): string =>
  introduce(firstPromptWords(frame), sentence);

function attentionAnswer(frame: Frame, at: Head, state: State): string {
  const { kind } = claimOf(frame, at, state);
  return kind
    ? onFirstPrompt(
        frame,
        `${kindSentence(kind, firstName(frame), frame.queries && 'decoder token')}${laterSinkSentence(frame, at)}`,
      )
    : '';
}

function countAnswer(frame: Frame): string {
  const verdict = verdictOf(frame);
  if (!verdict.conclusive)
    return `${capitalize(textsWords(frame))} ${frame.sequences > 1 ? 'are' : 'is'} ${TOO_SHORT}.`;
  const quantifier = verdict.sink > 0.5 ? 'Most' : verdict.sink > 0 ? 'Some' : 'None';
  return `${quantifier} of the heads ${quantifier === 'None' ? 'has' : 'have'} a sink at ${firstName(frame)}.`;
}

/** Answers whether another key is a sink, among keys that enough queries see. */
function otherSinksAnswer(frame: Frame): string {
  const verdict = verdictOf(frame);
  if (!verdict.conclusive || firstKey(frame) || !frame.tensors.sink_ratio) return '';
  if (comparableKeyCount(frame) < 2) return '';
  if (keysBySink(frame).some(({ key }) => key > 0))
    return 'In some heads, another token is a sink.';
  return verdict.sink > 0 ? `No token but ${firstName(frame)} is a sink.` : 'No token is a sink.';
}

const rowSumAnswer = ({ operation, architecture }: Frame): string =>
  operation.normalizes && architecture.bias_key
    ? 'Each token may spend attention on the bias key, so its weights on tokens may sum to less than 100%.'
    : operation.normalizes
      ? 'Each token must spend all of its attention somewhere.'
      : 'A token may attend to little: its row need not sum to one.';

function keyAnswer(frame: Frame, at: Head): string {
  const keyComparison = firstKey(frame) ? undefined : compareKeys(frame, at);
  return keyComparison ? onFirstPrompt(frame, contestWords(keyComparison)) : '';
}

function contributionAnswer(frame: Frame, at: Head): string {
  const { alpha, contribution_out_at } = frame.tensors;
  if (!alpha || !contribution_out_at || firstKey(frame)) return '';
  const weight = ofHead(attentionOf(frame), at)[0]!;
  const writtenShare = ofHead(contribution_out_at, at)[0]!;
  if (!Number.isFinite(weight) || !Number.isFinite(writtenShare)) return '';
  const amount = weight > 0.5 ? 'Most' : weight > frame.eps ? 'Much' : 'Little';
  const part = writtenShare > 0.5 ? 'most' : writtenShare > 0.25 ? 'some' : 'little';
  // Only at a sink do attention and contribution differ.
  const conjunction = weight > frame.eps === writtenShare > 0.25 ? 'and' : 'and yet';
  return `${amount} of the attention goes to ${firstName(frame)}, ${conjunction} ${part} of what the head writes comes from it.`;
}

const predictionWords = (frame: Frame, rise: number, verb = 'predicts'): string =>
  `the model ${verb} ${textsWords(frame)} ${
    Math.abs(rise) < SMALL_CHANGE ? 'about as well' : rise > 0 ? 'worse' : 'better'
  }.`;

const outputAnswer = (frame: Frame, at: Head): string =>
  frame.tensors.head_out ? outputWords(outputNormsOf(frame, at), frame) : '';

/** States how the edit changes the loss; without one, the `rise` with the first token hidden, once it is measured. */
function changeAnswer(frame: Frame, rise: number | undefined): string {
  const base = baseOf(frame);
  if (!frame.edits.length)
    return Number.isFinite(rise)
      ? `If no token could attend to ${firstName(frame)}, ${predictionWords(frame, rise!, 'would predict')}`
      : 'Change one thing, and see what the model does instead.';
  if (!base || !frame.tensors.loss_at) return '';
  const changes = lossChange(frame, base).filter((change) => Number.isFinite(change));
  return changes.length ? `With this change ${predictionWords(frame, mean(changes))}` : '';
}

function effectAnswer(frame: Frame, { layer, head }: Head, _: State, hiddenRise = NaN): string {
  const rise = frame.tensors.effect?.data[layer * frame.architecture.H + head] ?? NaN;
  if (!Number.isFinite(rise)) return '';
  if (hiddenRise >= SMALL_CHANGE && Math.abs(rise) < SMALL_CHANGE)
    return `The model needs ${firstName(frame)}, but hardly this one head.`;
  return `Without this one head ${predictionWords(frame, rise)}`;
}

/** States how the loss changes without each dormant head; `rise`: without all of them, once it is measured. */
export function dormantWords(
  { dormant, sinks }: { readonly dormant: number; readonly sinks: number },
  rise: number | undefined,
): string {
  const otherCount = sinks - dormant;
  const otherWords = otherCount > 0 ? `, and by more for the other ${otherCount}` : '';
  const eachSentence =
    `Without one head (ablated: its output is set to 0, the first token stays visible) the loss changes by less than ${SMALL_CHANGE} for ` +
    `${dormant} of the ${sinks} heads with a sink, which are dormant${otherWords}.`;
  if (rise === undefined) return `${eachSentence} Without all ${dormant} at once …`;
  return Number.isFinite(rise)
    ? `${eachSentence} Without all ${dormant} at once: ${formatLossChange(rise)}.`
    : '';
}

function emergenceAnswer(frame: Frame): string {
  const emergence = emergenceOf(frame);
  if (!emergence) return '';
  if (emergence.isNone) return 'At no step of the training did many heads have a sink.';
  const { from, last } = emergence;
  const firstClause = from > 0 ? 'Some heads have a sink' : 'No head has a sink';
  return last > from
    ? `${firstClause} at first; after training ${last > 50 ? 'most' : 'some'} have one.`
    : `${firstClause} at first, and training does not give more heads one.`;
}

export function emergenceWords(frame: Frame): string {
  const course = emergenceOf(frame);
  if (!course || course.isNone || course.last <= course.from) return '';
  const { step, last } = course;
  const halfWords = step ? `; half as many at step ${step.toLocaleString('en')}` : '';
  return `On held-out texts ${last.toFixed(0)}% of the heads have a sink at the end of training${halfWords}.`;
}

const ratioWords = (ratio: number, than: string, alike: string): string =>
  ratio > 1.25 ? `larger ${than}` : ratio < 0.8 ? `smaller ${than}` : alike;

/** Compares the first token's vectors with the others' mean: hidden states at the largest ratio, values over layers. */
function vectorsAnswer(frame: Frame): string {
  const { hidden_norm, value_norm } = frame.tensors;
  const key = firstKey(frame);
  if (!hidden_norm || !value_norm) return '';
  const ratiosOf = (norms: typeof hidden_norm) => {
    const { first, others: rest } = normProfile(norms, key);
    return first.map((norm, i) => norm / rest[i]!);
  };
  const stateRatio = Math.max(...ratiosOf(hidden_norm));
  const stateWords = ratioWords(stateRatio, 'than those of the others', 'about as large');
  const valueRatio = mean(ratiosOf(value_norm));
  const valueWords = ratioWords(valueRatio, 'on average', 'about as large on average');
  const owner = key ? `Token ${key}` : 'The first token';
  return `${owner}’s hidden state (its vector after each layer) is ${stateWords}, and its values are ${valueWords}.`;
}

function nextTokenAnswer(frame: Frame): string {
  const [first] = frame.next;
  return first
    ? onFirstPrompt(
        frame,
        `The model’s first guess for the next token is “${tokenWord(first.text)}”.`,
      )
    : '';
}

function halvesAnswer(frame: Frame): string {
  const losses = Array.from(frame.tensors.loss_at?.data ?? []).filter(Number.isFinite);
  if (losses.length < 8) return '';
  const halfLength = losses.length >> 1;
  const lossDrop = mean(losses.slice(0, halfLength)) - mean(losses.slice(halfLength));
  if (Math.abs(lossDrop) < 0.1) return 'The second half is predicted about as well as the first.';
  return `The second half is predicted ${lossDrop > 0 ? 'better' : 'worse'} than the first.`;
}

function biasKeyAnswer({ tensors: { sink_ratio_bias } }: Frame): string {
  const share = sink_ratio_bias?.data[0] ?? NaN;
  if (!Number.isFinite(share)) return '';
  const quantifier = share > 0.5 ? 'most' : share > 0 ? 'some' : 'no';
  return `In ${quantifier} heads, much of the attention goes to a key that belongs to no token.`;
}

/** Returns the answer for a head; `hiddenRise` is the rise of the loss with the first token hidden, in nats per token. */
type Answer = (frame: Frame, at: Head, state: State, hiddenRise?: number) => string;

const ANSWERS: Readonly<Record<string, Answer>> = {
  attention: attentionAnswer,
  ...{ sinks: countAnswer, heads: countAnswer, scores: otherSinksAnswer, mass: rowSumAnswer },
  ...{ bias: biasKeyAnswer, norms: vectorsAnswer, next: nextTokenAnswer, loss: halvesAnswer },
  ...{
    geometry: keyAnswer,
    arrows: keyAnswer,
    outputs: outputAnswer,
    contribution: contributionAnswer,
    training: emergenceAnswer,
    effects: effectAnswer,
  },
};

/** Returns a picture's plain answer for the shown head, or its question until there is one; `rise` in nats per token. */
export function answerOf(
  { question, views: [view] }: Choice,
  frame: Frame,
  at: Head,
  state: State,
  rise?: number,
): string {
  const { name } = view!;
  // Under "What if", the map's answer is about the edit, or else about hiding the first token.
  const isWhatIf = name === 'change' || (question.name === 'if' && name === 'attention');
  return (
    (isWhatIf ? changeAnswer(frame, rise) : ANSWERS[name]?.(frame, at, state, rise)) ||
    view!.question
  );
}

export function firstTokenClause(frame: Frame): string {
  if (frame.queries) return axesClause(frame);
  const name = firstTokenText(frame);
  if (frame.tokens[firstKey(frame)]?.special)
    return `${name} is ${startRole(frame)}, which begins this model’s ${frame.image ? 'inputs' : 'texts'}`;
  // The clause says “of this prompt” if other prompts have another first token, since means cover all prompts.
  const ofPrompt = isCommonToken(frame, firstKey(frame)) ? '' : ' of this prompt';
  return `the first token${ofPrompt} is ${name}`;
}
