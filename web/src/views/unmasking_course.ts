/** The steps of unmasking as words and numbers, independent of the engine and the page. */
import type { Tokenizer, Token, UnmaskStep } from 'sinkscope';
import type { Frame } from '../frame';
import type { Quantity } from '../save/numbers';
import { percent, readable, show } from '../words';

/** A text with masked positions, and the steps of unmasking so far. */
export interface Course {
  readonly frame: Frame;
  /** The tokens before the first step. */
  readonly tokens: readonly Token[];
  /** The key that each step hides from every query while it chooses positions. */
  readonly without?: 'strongest' | 'random';
  /** The number of requested steps. */
  readonly count: number;
  readonly steps: readonly UnmaskStep[];
}

/** The sign of a masked position. */
export const HIDDEN = '▒';

/**
 * Returns the text of a frame with `count` masked positions after it, cut so that both fit into the context. Special
 * tokens that end an encoder's text come after the masked positions.
 */
export function withMasks({ tokens, architecture, maskToken }: Frame, count: number): Token[] {
  const end = tokens.findLastIndex(({ special }) => !special) + 1 || tokens.length;
  const ends = tokens.slice(end);
  const room = architecture.context - ends.length;
  const places = Math.min(count, room - 1);
  const hidden = { id: maskToken!, text: HIDDEN, start: 0, end: 0, special: false };
  const visibleTokens = tokens.slice(0, Math.min(end, room - places));
  return [...visibleTokens, ...Array.from({ length: places }, () => hidden), ...ends];
}

/** What is at a position after a step. */
export interface Place {
  readonly text: string;
  readonly kind: 'kept' | 'hidden' | 'filled' | 'now';
  readonly isSink: boolean;
  /** States the step at which the position was filled, and the probability of its token. */
  readonly title: string;
}

/** Returns for each position the step at which it was filled, and the probability of its token. */
function fillings({ steps }: Course) {
  return new Map(
    steps.flatMap(({ filled }, step) =>
      filled.map(({ place, probability }) => [place, { step, probability }] as const),
    ),
  );
}

/** Returns what is at each position after step s. */
export function placesAt(course: Course, s: number, tokenizer: Pick<Tokenizer, 'piece'>): Place[] {
  const { tokens, sink } = course.steps[s]!;
  const filled = fillings(course);
  return tokens.map((id, t) => {
    const at = filled.get(t);
    const isSink = sink.place === t;
    const place = `position ${t}`;
    if (at && at.step > s) return { text: HIDDEN, kind: 'hidden', isSink, title: place };
    if (!at) return { text: course.tokens[t]!.text, kind: 'kept', isSink, title: place };
    const kind = at.step === s ? 'now' : 'filled';
    const title = `${place}, filled in step ${at.step + 1}, probability ${percent(at.probability)}`;
    return { text: tokenizer.piece(id), kind, isSink, title };
  });
}

/** Counts the steps whose strongest column differs from the step before. */
export function movesOf(steps: readonly UnmaskStep[]): number {
  return steps.filter(({ sink }, i) => i > 0 && sink.place !== steps[i - 1]!.sink.place).length;
}

/** Whether a position is still masked in the run that step s reads. */
function isHidden(course: Course, s: number, place: number): boolean {
  const at = fillings(course).get(place);
  return at !== undefined && at.step >= s;
}

/** Names a position by its token in a step. */
export function positionWords(
  course: Course,
  s: number,
  place: number,
  tokenizer: Pick<Tokenizer, 'piece'>,
) {
  if (isHidden(course, s, place)) return `position ${place} (masked)`;
  const original = course.tokens[place]!.text;
  const previous = course.steps[s - 1]?.tokens[place];
  const isKept = !fillings(course).has(place);
  return `position ${place} “${readable(isKept ? original : tokenizer.piece(previous!))}”`;
}

const WITHOUT = {
  strongest: ' Each step hid its most attended token from every query when it filled positions in.',
  random:
    ' Each step hid another token, a random one, from every query when it filled positions in.',
} as const;

/** States in a sentence what moved, and which key was hidden. */
export function sentence(course: Course, tokenizer: Pick<Tokenizer, 'piece'>): string {
  const { without } = course;
  return `${attended(course, tokenizer)}${without ? WITHOUT[without] : ''}`;
}

function attended(course: Course, tokenizer: Pick<Tokenizer, 'piece'>): string {
  const { steps } = course;
  const alphas = steps.map(({ sink }) => sink.alpha);
  const [least, most] = [Math.min(...alphas), Math.max(...alphas)].map((alpha) => show(alpha, 3));
  const range = least === most ? least : `${least} to ${most}`;
  const uniformShare = show(1 / course.tokens.length, 3);
  const stepCount = `${steps.length} ${steps.length === 1 ? 'step' : 'steps'}`;
  const share = `It receives ${range} of all attention; uniform attention would give each token ${uniformShare}.`;
  const [first, last] = [0, steps.length - 1].map((s) =>
    positionWords(course, s, steps[s]!.sink.place, tokenizer),
  );
  const moves = movesOf(steps);
  if (!moves) return `The most attended token is ${first} in ${stepCount}. ${share}`;
  const places = new Set(steps.map(({ sink }) => sink.place)).size;
  return (
    `The most attended token changes ${moves === 1 ? 'once' : `${moves} times`} in ${stepCount}, among ${places} ` +
    `positions: from ${first} in the first step to ${last} in the last. ${share}`
  );
}

/** [count, T], NaN for steps that have not run yet. */
export function alphas({ steps, count, tokens }: Course): Float32Array {
  const T = tokens.length;
  const data = new Float32Array(count * T).fill(NaN);
  steps.forEach(({ alpha }, s) => data.set(alpha.data, s * T));
  return data;
}

/** Returns all numbers that the view shows. */
export function quantities(course: Course, tokenizer: Pick<Tokenizer, 'piece'>): Quantity[] {
  const { steps, tokens } = course;
  const [S, T] = [steps.length, tokens.length];
  const at = fillings(course);
  const labels = placesAt(course, S - 1, tokenizer).map(({ text }) => text);
  const places = Array.from({ length: T }, (_, t) => at.get(t));
  const perStep = (name: string, value: (step: UnmaskStep) => number): Quantity => {
    return { name, axes: ['step'], shape: [S], data: steps.map(value) };
  };
  const perPlace = (name: string, data: number[]): Quantity => {
    return { name, axes: ['place'], shape: [T], data, labels };
  };
  const data = alphas({ ...course, count: S });
  return [
    { name: 'alpha', axes: ['step', 'place'], shape: [S, T], data, labels },
    perStep('strongest_place', ({ sink }) => sink.place),
    perStep('strongest_alpha', ({ sink }) => sink.alpha),
    perPlace(
      'filled_in_step',
      places.map((one) => (one ? one.step + 1 : NaN)),
    ),
    perPlace(
      'probability',
      places.map((one) => one?.probability ?? NaN),
    ),
  ];
}
