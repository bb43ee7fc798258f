/** Describes the steps of unmasking in words and numbers, without the engine or the page. */
import type { Tokenizer, Token, UnmaskStep } from 'sinkscope';
import type { Frame } from '../frame';
import type { Quantity } from '../save/numbers';
import { formatPercent, makeReadable, formatValue } from '../words';

type Pieces = Pick<Tokenizer, 'piece'>;

/** A text with masked positions, and the steps of unmasking so far. */
export interface Course {
  readonly frame: Frame;
  readonly tokens: readonly Token[];
  /** The key that each step hides from every query while it chooses positions. */
  readonly without?: 'strongest' | 'random';
  readonly count: number;
  readonly steps: readonly UnmaskStep[];
}

export const MASK_SIGN = '▒';

/**
 * Returns a frame's text with `count` masked positions after it, but no more tokens than the context has. Special
 * tokens that end an encoder's text stay at the end.
 */
export function addMasks({ tokens, architecture, maskToken }: Frame, count: number): Token[] {
  const textEnd = tokens.findLastIndex(({ special }) => !special) + 1 || tokens.length;
  const endTokens = tokens.slice(textEnd);
  const capacity = architecture.context - endTokens.length;
  const maskCount = Math.min(count, capacity - 1);
  const maskedToken = { id: maskToken!, text: MASK_SIGN, start: 0, end: 0, special: false };
  const visibleTokens = tokens.slice(0, Math.min(textEnd, capacity - maskCount));
  return [...visibleTokens, ...Array.from({ length: maskCount }, () => maskedToken), ...endTokens];
}

type Filling = { readonly step: number; readonly probability: number };

/** Returns the step that filled each position, and the probability of the token there. */
const fillingsOf = ({ steps }: Course): ReadonlyMap<number, Filling> =>
  new Map(
    steps.flatMap(({ filled }, step) =>
      filled.map(({ place, probability }) => [place, { step, probability }]),
    ),
  );

/**
 * Returns the text of each position after step s, what that step did to it, and a title with the step that filled the
 * position and the probability of its token.
 */
export function positionStates(course: Course, s: number, tokenizer: Pieces) {
  const { tokens, sink } = course.steps[s]!;
  const fillings = fillingsOf(course);
  return tokens.map((id, t) => {
    const filling = fillings.get(t);
    const isSink = sink.place === t;
    const name = `position ${t}`;
    if (!filling) return { text: course.tokens[t]!.text, kind: 'kept', isSink, title: name };
    if (filling.step > s) return { text: MASK_SIGN, kind: 'hidden', isSink, title: name };
    const kind = filling.step === s ? 'now' : 'filled';
    const title = `${name}, filled in step ${filling.step + 1}, probability ${formatPercent(filling.probability)}`;
    return { text: tokenizer.piece(id), kind, isSink, title };
  });
}

export const countMoves = (steps: readonly UnmaskStep[]): number =>
  steps.filter(({ sink }, i) => i > 0 && sink.place !== steps[i - 1]!.sink.place).length;

/** Names a position by its token in the text that the model reads in step s. */
export function positionWords(course: Course, s: number, place: number, tokenizer: Pieces) {
  const filling = fillingsOf(course).get(place);
  if (filling && filling.step >= s) return `position ${place} (masked)`;
  const text = filling
    ? tokenizer.piece(course.steps[s - 1]!.tokens[place]!)
    : course.tokens[place]!.text;
  return `position ${place} “${makeReadable(text)}”`;
}

const HIDDEN_KEY_NOTES = {
  strongest: ' Each step hid its most attended token from every query when it filled positions in.',
  random:
    ' Each step hid another token, a random one, from every query when it filled positions in.',
} as const;

export function sentence(course: Course, tokenizer: Pieces): string {
  const { without } = course;
  return `${attentionWords(course, tokenizer)}${without ? HIDDEN_KEY_NOTES[without] : ''}`;
}

function attentionWords(course: Course, tokenizer: Pieces): string {
  const { steps } = course;
  const alphas = steps.map(({ sink }) => sink.alpha);
  const [least, most] = [Math.min(...alphas), Math.max(...alphas)].map((alpha) =>
    formatValue(alpha, 3),
  );
  const rangeText = least === most ? least : `${least} to ${most}`;
  const uniformShare = formatValue(1 / course.tokens.length, 3);
  const stepCountWords = `${steps.length} ${steps.length === 1 ? 'step' : 'steps'}`;
  const shareSentence = `It receives ${rangeText} of all attention; uniform attention would give each token ${uniformShare}.`;
  const [firstPosition, lastPosition] = [0, steps.length - 1].map((s) =>
    positionWords(course, s, steps[s]!.sink.place, tokenizer),
  );
  const moveCount = countMoves(steps);
  if (!moveCount)
    return `The most attended token is ${firstPosition} in ${stepCountWords}. ${shareSentence}`;
  const positionCount = new Set(steps.map(({ sink }) => sink.place)).size;
  return (
    `The most attended token changes ${moveCount === 1 ? 'once' : `${moveCount} times`} in ${stepCountWords}, among ${positionCount} ` +
    `positions: from ${firstPosition} in the first step to ${lastPosition} in the last. ${shareSentence}`
  );
}

/** Returns the mean attention on each token by step, [count, T]; NaN for steps that have not run yet. */
export function alphaMap({ steps, count, tokens }: Course): Float32Array {
  const T = tokens.length;
  const data = new Float32Array(count * T).fill(NaN);
  steps.forEach(({ alpha }, s) => data.set(alpha.data, s * T));
  return data;
}

export function quantities(course: Course, tokenizer: Pieces): Quantity[] {
  const { steps, tokens } = course;
  const [S, T] = [steps.length, tokens.length];
  const fillings = fillingsOf(course);
  const labels = positionStates(course, S - 1, tokenizer).map(({ text }) => text);
  const stepQuantity = (name: string, value: (step: UnmaskStep) => number) => {
    return { name, axes: ['step'], shape: [S], data: steps.map(value) };
  };
  const positionQuantity = (name: string, value: (filling: Filling | undefined) => number) => {
    const data = tokens.map((_, t) => value(fillings.get(t)));
    return { name, axes: ['place'], shape: [T], data, labels };
  };
  const data = alphaMap({ ...course, count: S });
  return [
    { name: 'alpha', axes: ['step', 'place'], shape: [S, T], data, labels },
    stepQuantity('strongest_place', ({ sink }) => sink.place),
    stepQuantity('strongest_alpha', ({ sink }) => sink.alpha),
    positionQuantity('filled_in_step', (filling) => (filling ? filling.step + 1 : NaN)),
    positionQuantity('probability', (filling) => filling?.probability ?? NaN),
  ];
}
