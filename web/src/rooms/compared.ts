/** The sentences of Compare: what the models have in common, what differs, and which of them have heads with a sink. */
import { firstTokenWeights, usesRawWeights, type Frame } from '../frame';
import {
  capitalize,
  firstName,
  formatPercent,
  listWords,
  headsWords,
  modelName,
  meanRowSum,
  slotShare,
  sumWords,
  startsSpecial,
  haveOtherTexts,
  textsWords,
  tooShortNote,
  verdictOf,
  wholePercent,
} from '../words';
import { hasSink } from '../claims';
import { MAX_SHARES } from '../views/attention';
import type { Chapter, Side } from './chapters';
import { pathWords, type differencesOf } from './differs';

/** What keys of the descriptions are about, by their beginnings; the first one that matches counts. */
const TOPICS: readonly (readonly [prefix: RegExp, topic: string])[] = [
  [/^part$/, 'the part of the model that was recorded'],
  [/^attention\./, 'the attention rule'],
  [/^(bias_key|value_bias)/, 'an extra key or value'],
  [/^gate$/, 'a gate on what heads write'],
  [/^(positions|rotary|training\.positions)/, 'how positions are told apart'],
  [/^training\.(front|random_first|extra)/, 'what begins the text'],
  [/^(mask|windows)/, 'which tokens a row may see'],
  [/^training\.learning_rate/, 'the learning rate'],
  [/^training\.\w*decay/, 'weight decay'],
  [/^training\.tokens/, 'the amount of text'],
  [/^training\.steps/, 'the number of training steps'],
  [/^([HGKU]|score_scale)$/, 'the number of heads'],
  [/^norm_place/, 'the place of the norms'],
  [
    /^(feed_forward|gated|activation|[FE]|chosen|dense|training\.balance)$/,
    'the feed-forward part',
  ],
  [/^put_in_at_inference/, 'an edit that no training has seen'],
];
/** Keys that follow from the others: the number of parameters, the name of the family, the size of the vocabulary, the width of a head. */
const DERIVED = /^(parameters|family|V|rotary_width)$/;

/** More differences than these are counted, not listed, in the lead. */
const MAX_TOPICS = 3;

/**
 * Returns in words what differs between models.
 * @param letters the meanings of the letters, from describe
 */
export function topicsOf(
  differences: ReturnType<typeof differencesOf>['differences'],
  letters: Readonly<Record<string, string>>,
): string[] {
  const topicOf = (path: readonly string[]) => {
    const key = path.join('.');
    return TOPICS.find(([prefix]) => prefix.test(key))?.[1] ?? pathWords(path, letters);
  };
  const causes = differences.filter(({ path }) => !DERIVED.test(path[0]!));
  return [...new Set(causes.map(({ path }) => topicOf(path)))];
}

export function differsSentence(topics: readonly string[]): string {
  if (!topics.length) return 'These models are built alike.';
  const list =
    topics.length > MAX_TOPICS
      ? `${topics[0]}, ${topics[1]} and ${topics.length - 2} more`
      : listWords(topics);
  return topics.length === 1 ? `Only ${list} differs.` : `The models differ in ${list}.`;
}

/** Returns a share of a model's heads as "15 of 24"; as a mean over prompts "60% of 24". */
function figuresOf(frame: Frame, share: number): string {
  const { L, H } = frame.architecture;
  const words = headsWords(frame, share)
    .replace(' of the ', ' of ')
    .replace(/ heads$/, '');
  return /^none/.test(words) ? `0 of ${L * H}` : words;
}

/** Returns how many of a model's heads have a sink: "15 of 24", "0 of 24". */
export const countFigures = (frame: Frame): string => figuresOf(frame, verdictOf(frame).sink);

/** Returns `countFigures`, or "none". */
export const countWords = (frame: Frame): string => countFigures(frame).replace(/^0 of .*/, 'none');

/** Why the models' heads are not counted, or not compared; empty if they are. */
export function obstacleOf(frames: readonly Frame[]): string {
  const short = frames.find((frame) => !verdictOf(frame).conclusive);
  if (short) return tooShortNote(short);
  if (haveOtherTexts(frames))
    return 'These models read different texts, so their sinks are not ranked.';
  const unrecorded = frames.filter((frame) => !Number.isFinite(verdictOf(frame).sink));
  return unrecorded.length
    ? `Which heads have a sink is not recorded for ${listWords(unrecorded.map(modelName))}.`
    : '';
}

const strongestOf = (frame: Frame): number => Math.max(...firstTokenWeights(frame));

/** Strongest heads whose attention differs by less than this are nearly equal. */
const NEAR = 0.05;

/** Whether one of two models has a sink and the other none, though their strongest heads give nearly the same. */
function areNear(frames: readonly Frame[]): boolean {
  const [a = NaN, b = NaN, ...others] = frames.map(strongestOf);
  const [over, other] = frames.map((frame, i) => hasSink(frame, [a, b][i]));
  return !others.length && over !== other && Math.abs(a - b) < NEAR;
}

/** Says how many heads of two nearly equal models are over the threshold; empty for others. */
export const nearWords = (frames: readonly Frame[]): string =>
  areNear(frames)
    ? `Over ${formatPercent(frames[0]!.eps, 0)} a head counts as a sink: ${listWords(frames.map(countWords))}. `
    : '';

/** Whether a model's heads are counted by weights that sum to far more than 100% a row. */
const isUnbounded = (frame: Frame): boolean =>
  usesRawWeights(frame) && meanRowSum(frame) > MAX_SHARES;

/** A threshold that is less than this part of a row is little of it. */
const LITTLE = 0.1;

/** Says that rows sum to more than 100%, where those of all heads do by far, and what a sink's threshold then is; empty elsewhere. */
export const unboundedWords = (frame: Frame): string =>
  isUnbounded(frame)
    ? `rows exceed 100%${frame.eps < LITTLE * meanRowSum(frame) ? `, so ${formatPercent(frame.eps, 0)} is little` : ''}`
    : '';

/** Returns how many of a model's heads give an extra slot over ε, as words like `countFigures`; empty without one. */
export function slotFigures(frame: Frame): string {
  const share = slotShare(frame);
  return Number.isFinite(share) ? figuresOf(frame, share) : '';
}

/** Counts the heads of a model in the heading: those that give an extra slot as much, where no other does. */
function clauseOf(frame: Frame): string {
  const [count, share] = [countWords(frame), slotShare(frame)];
  if (count === 'none' && share > 0) return `the extra slot ∗ has it: ${slotFigures(frame)} heads`;
  return isUnbounded(frame) ? `${count} by raw weight` : count;
}

/** Says how many heads have a sink by shares; empty if rows sum to at most 100%. */
export function rawWords(frames: readonly Frame[]): string {
  const frame = frames.find(isUnbounded);
  if (!frame) return '';
  return ` By shares of each row, ${headsWords(frame, verdictOf(frame).sinkByShares)} have a sink.`;
}

export const QUESTION = 'What makes a sink?';

/** More models than these are counted, not listed. */
const MAX_LISTED = 3;

/**
 * Says how many heads of each model have a sink; a question if that is not known.
 * @param phrases what each model has: "softmax"; absent for a model that is named by its title
 */
export function headingOf(
  frames: readonly Frame[],
  phrases: readonly (string | undefined)[],
): string {
  if (frames.length < 2 || obstacleOf(frames)) return QUESTION;
  const sinks = frames.map((frame) => verdictOf(frame).sink);
  if (sinks.every((sink) => sink === 0))
    return `None of these models has a sink on ${textsWords(frames[0]!)}.`;
  if (frames.length > MAX_LISTED) {
    const count = sinks.filter((sink) => sink > 0).length;
    return `${count === frames.length ? 'All' : `${count} of`} ${frames.length} models have heads with a sink.`;
  }
  const places = frames.map((frame, i) =>
    phrases[i] ? `with ${phrases[i]}` : `in ${modelName(frame)}`,
  );
  if (areNear(frames))
    return `${capitalize(listWords(places))} the strongest heads are nearly equal: ${listWords(frames.map((frame) => wholePercent(strongestOf(frame))))} on ${firstName(frames[0]!)}.`;
  const clauses = frames.map((frame, i) => {
    return `${places[i]} ${i ? clauseOf(frame) : `${countWords(frame)} heads have a sink on ${textsWords(frame)}`}`;
  });
  const text = clauses.join(', ').replace('none heads have', 'no head has');
  return `${capitalize(text)}.`;
}

/** Counts heads of some models: "12 to 15 of 24"; with the totals where they differ: "1 of 4 to 4 of 16". */
export function rangeWords(
  frames: readonly Frame[],
  shareOf: (frame: Frame) => number = (frame) => verdictOf(frame).sink,
): string {
  const sorted = frames.toSorted((a, b) => shareOf(a) - shareOf(b));
  const counts = [sorted[0]!, sorted.at(-1)!].map((frame) =>
    figuresOf(frame, shareOf(frame)).split(' of '),
  );
  const [[, heads], [, others]] = counts as [string[], string[]];
  const numbers = counts.map(([count, total]) =>
    heads === others ? count! : `${count} of ${total}`,
  );
  const words = [...new Set(numbers)].join(' to ');
  return heads === others ? `${words} of ${heads}` : words;
}

const sinksOf = ({ items }: Side<Frame>) => items.map((frame) => verdictOf(frame).sink);

/** The models of the second side with an extra slot, if each has at least twice as many heads at the slot as with a sink. */
function movedTo({ items }: Side<Frame>): readonly Frame[] {
  const slots = items.filter((frame) => Number.isFinite(slotShare(frame)));
  const isMoved = (frame: Frame) =>
    slotShare(frame) > 0 && slotShare(frame) >= 2 * verdictOf(frame).sink;
  return slots.every(isMoved) ? slots : [];
}

/**
 * Answers where sinks form: only on one side of a chapter, if all of its models have some and no other has; mostly, if each
 * of its models has at least twice the share of any other; or on both. Where they are at an extra slot instead, they have moved. Empty where heads are
 * not counted.
 */
export function chapterHeading(
  [first, second]: readonly Side<Frame>[],
  [here, there]: Chapter['places'],
): string {
  const frames = [...first!.items, ...second!.items];
  if (obstacleOf(frames)) return '';
  const [own, others] = [sinksOf(first!), sinksOf(second!)];
  if (!(Math.max(...own, ...others) > 0))
    return `No head of these models has a sink on ${textsWords(frames[0]!)}`;
  if (Math.min(...own) > 0 && movedTo(second!).length)
    return 'Give heads an extra slot and the sink moves there';
  const formsMostly = (sinks: readonly number[], rest: readonly number[]) =>
    Math.min(...sinks) >= 2 * Math.max(...rest);
  if (Math.max(...own) === 0 || Math.max(...others) === 0) {
    if (Math.min(...own) > 0) return `Sinks form only ${here}`;
    if (Math.min(...others) > 0) return `Sinks form only ${there}`;
    return `On ${textsWords(frames[0]!)}, only some models form sinks`;
  }
  if (formsMostly(own, others)) return `Sinks form mostly ${here}`;
  if (formsMostly(others, own)) return `Sinks form mostly ${there}`;
  return `Sinks form ${here} and ${there}`;
}

/** Counts the heads with a sink on both sides of a chapter, or those that give an extra slot as much. */
export function chapterCounts(
  [first, second]: readonly Side<Frame>[],
  [here, there]: Chapter['places'],
): string {
  const own = rangeWords(first!.items);
  const [, heads = ''] = /( of \d+)$/.exec(own) ?? [];
  const figures = (...counted: Parameters<typeof rangeWords>) =>
    rangeWords(...counted).replace(heads, '');
  const orNone = (counted: readonly Frame[]) => figures(counted).replace(/^0$/, 'none');
  const slots = movedTo(second!);
  const verb = /^1 of \d+$/.test(own) ? 'has' : 'have';
  const others = slots.length
    ? `with an extra slot ∗, ${orNone(slots)}: ${figures(slots, slotShare)} give over ${formatPercent(slots[0]!.eps, 0)} to ∗ instead`
    : `${there}, ${orNone(second!.items)}`;
  const frames = [...first!.items, ...second!.items];
  const threshold = `over ${formatPercent(frames[0]!.eps, 0)} on ${firstNameOfAll(frames, true)}`;
  return `${capitalize(here)}, ${own} heads ${verb} a sink (${threshold}); ${others}.`;
}

/** Names the first token of all models, if it is one; with `isIntroduced` also what it is. */
export function firstNameOfAll(frames: readonly Frame[], isIntroduced = false): string {
  const [name, ...others] = new Set(frames.map(firstName));
  if (others.length || !frames.every(startsSpecial)) return 'the first token';
  return isIntroduced ? `${name}, the start token` : name!;
}

/** Says which heads are counted, as the title of the counts. */
export function countTitle(frames: readonly Frame[]): string {
  if (!frames.length) return 'heads with a sink';
  const slot = frames.some((frame) => slotShare(frame) > 0) ? ' or ∗' : '';
  return `heads over ${formatPercent(frames[0]!.eps, 0)} on ${firstNameOfAll(frames)}${slot}`;
}

/** Says what may make sinks in a chapter, of the texts that these models have read. */
export const premiseWords = (premise: string, frames: readonly Frame[]): string =>
  premise.replace('{first}', frames.length ? firstNameOfAll(frames) : 'the first token');

/** Which difference of two models, the first with softmax alone, is in the heads of their cards; '' if none is. */
export function wayOf([first, second, ...others]: readonly Frame[]): 'sum' | 'slot' | '' {
  if (!second || others.length || first!.operation.name !== 'softmax') return '';
  if (slotFigures(second)) return 'slot';
  return second.operation.name === 'softmax' ? '' : 'sum';
}

/** Says what the rows of a map sum to on average, where they need not sum to 100%. */
export const cardSumWords = ({ operation }: Frame, rowSum: number): string =>
  !operation.normalizes && Number.isFinite(rowSum) ? `mean row sum: ${sumWords(rowSum)}` : '';
