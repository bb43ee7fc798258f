/** The sentences of Compare: what the models have in common, what differs, and which of them have heads with a sink. */
import { eps, heads, model, sinks } from '../../lessons/pictures/forgotten.json';
import { firstTokenWeights, mean, ofHead, usesRawWeights, type Frame, type Head } from '../frame';
import {
  capitalize,
  extraKeyHeads,
  firstName,
  formatPercent,
  listWords,
  headsWords,
  modelName,
  meanRowSum,
  mustSpendWords,
  haveOtherTexts,
  sumWords,
  textsWords,
  tooShortNote,
  verdictOf,
  wholePercent,
} from '../words';
import type { State } from '../ask/state';
import { trainingOf, type Card } from '../ask/zoo';
import { claimOf, hasSink } from '../claims';
import type { DrawOptions } from '../page/view';
import { MAX_SHARES, timesWords } from '../views/attention';
import type { Chapter } from './chapters';
import { differencesOf, pathWords } from './differs';

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

/** Says what differs between a model and the first one of its chapter besides what the chapter changes; empty if nothing. */
export function besidesWords(
  { members }: Chapter,
  subject: string,
  cards: readonly Card[],
  letters: Readonly<Record<string, string>>,
): string {
  const cardOf = (id: string | null | undefined) => cards.find((card) => card.id === id);
  const [first, card] = [members[0]![0], subject].map(cardOf);
  const own = cardOf(card?.baseline);
  if (!first || !card || !own || card === first) return '';
  const topics = (...pair: readonly Card[]) =>
    topicsOf(
      differencesOf(pair.map((one) => ({ training: trainingOf(one, cards) }))).differences,
      letters,
    );
  const changed = topics(own, card);
  const besides = topics(first, own).filter((topic) => !changed.includes(topic));
  return besides.length ? `also differs: ${listWords(besides)}` : '';
}

/** Returns how many of a model's heads have a sink: "15 of 24"; "none"; as a mean over prompts "60% of 24". */
export function countWords(frame: Frame): string {
  const words = headsWords(frame, verdictOf(frame).sink);
  return /^none/.test(words) ? 'none' : words.replace(' of the ', ' of ').replace(/ heads$/, '');
}

/** Returns `countWords` in figures where no head has a sink: "0 of 24". */
export function countFigures(frame: Frame): string {
  const { L, H } = frame.architecture;
  return countWords(frame).replace('none', `0 of ${L * H}`);
}

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

/** Counts the heads of a model in the heading: those that give an extra key as much, where no other does. */
function clauseOf(frame: Frame): string {
  const [count, extra] = [countWords(frame), extraKeyHeads(frame)];
  if (count === 'none' && extra && !/^none/.test(extra))
    return `the extra key has it: ${extra.replace(' of the ', ' of ')}`;
  return isUnbounded(frame) ? `${count} by raw weight` : count;
}

/** Says what rows of raw weights sum to, and how many heads have a sink by shares; empty if rows sum to at most 100%. */
export function rawWords(frames: readonly Frame[]): string {
  const frame = frames.find(isUnbounded);
  if (!frame) return '';
  const sum = meanRowSum(frame);
  return ` Raw weights sum to ${timesWords(sum)} a row on average; by shares of the row, ${headsWords(frame, verdictOf(frame).sinkByShares)} have a sink.`;
}

/** More models than these are counted, not listed, in the heading. */
const MAX_LISTED = 3;

/**
 * Returns the room's heading: how many heads of each model have a sink; a question if that is not known.
 * @param phrases what each model has: "softmax"; absent for a model that is named by its title
 */
export function headingOf(
  frames: readonly Frame[],
  phrases: readonly (string | undefined)[],
): string {
  if (frames.length < 2 || obstacleOf(frames)) return 'What makes a sink?';
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

/**
 * Splits models by the share of their heads with a sink where the gap is widest: those above have at least twice the share
 * of those below; undefined without such a gap.
 */
function splitBySinks(frames: readonly Frame[]) {
  const sinkOf = (frame: Frame) => verdictOf(frame).sink;
  const sorted = [...frames].sort((a, b) => sinkOf(b) - sinkOf(a));
  const gaps = sorted.slice(1).map((frame, i) => {
    const [above, below] = [sinkOf(sorted[i]!), sinkOf(frame)];
    return above >= 2 * below ? above - below : 0;
  });
  const widest = Math.max(...gaps);
  const at = gaps.indexOf(widest) + 1;
  return widest > 0 ? { above: sorted.slice(0, at), below: sorted.slice(at) } : undefined;
}

/** Returns a function that states the heads with a sink of sorted models: "11 to 19"; in percent where models differ in heads. */
function countRanges(frames: readonly Frame[]) {
  const [heads, ...others] = new Set(frames.map(({ architecture: { L, H } }) => L * H));
  const isCount = !others.length && frames[0]!.sequences === 1;
  const rangeOf = (sorted: readonly Frame[]): string => {
    const ends = [sorted.at(-1)!, sorted[0]!].map((frame) => {
      const { sink } = verdictOf(frame);
      return isCount ? (sink * heads!).toFixed(0) : formatPercent(sink, 0);
    });
    return [...new Set(ends)].join(' to ');
  };
  return { rangeOf, unit: `of ${isCount ? `${heads} heads` : 'the heads'}` };
}

/**
 * Returns the heading of a row of models: where the sinks are. If the models differ in the attention rule, and rows must
 * sum to 100% exactly in those with many sinks, it says that; otherwise it names the models.
 * @param phrases what each model has: "softmax"
 */
export function rowHeading(frames: readonly Frame[], phrases: readonly string[]): string {
  const split = obstacleOf(frames) ? undefined : splitBySinks(frames);
  if (!split) return headingOf(frames, phrases);
  const { above, below } = split;
  const list = (some: readonly Frame[]) =>
    listWords(some.map((frame) => phrases[frames.indexOf(frame)]!));
  const { rangeOf, unit } = countRanges(frames);
  const most = `${rangeOf(above)} ${unit}`;
  const atMost = verdictOf(below[0]!).sink > 0 ? `at most ${rangeOf(below.slice(0, 1))}` : 'none';
  const rules = new Set(frames.map(({ operation }) => operation.name));
  const isRule =
    rules.size === frames.length &&
    frames.every((frame) => frame.operation.normalizes === above.includes(frame));
  if (above.length > MAX_LISTED && !isRule)
    return `Fewest sinks come with ${list(below)}: ${atMost}, others ${most}.`;
  const where =
    isRule && above.length > 1
      ? `${atMost === 'none' ? 'Heads have a sink only' : 'More heads have a sink'} where rows must sum to 100%`
      : `Sinks come with ${list(above)}`;
  const [extra] = frames.map(extraKeyHeads).filter((heads) => heads && !/^none/.test(heads));
  const elsewhere = extra ? `; an extra key has it in ${extra.replace(' of the ', ' of ')}` : '';
  return `${where}: ${most}, others ${atMost}${elsewhere}.`;
}

/** Says in how many heads an extra key takes the sink's place; empty without such a key. */
export function extraKeyWords(frames: readonly Frame[]): string {
  const frame = frames.find(({ architecture }) => architecture.bias_key);
  const heads = frame && extraKeyHeads(frame);
  return heads
    ? `The extra key ∗ is no token: it gets over ${formatPercent(frame!.eps, 0)} in ${heads}.`
    : '';
}

/** Says why softmax makes a sink; empty unless the first alone is a softmax model, with a sink. */
export function spendWords([first, ...others]: readonly Frame[]): string {
  const isOnly = others.every(({ operation }) => operation.name !== 'softmax');
  return first?.operation.name === 'softmax' && isOnly && verdictOf(first).sink > 0
    ? mustSpendWords(first, '')
    : '';
}

/** Says what the models of a chapter are, and what differs. @param topics what differs, in words */
export function modelsWords(frames: readonly Frame[], topics: readonly string[]): string {
  const range = (...values: readonly number[]) =>
    [...new Set([Math.min(...values), Math.max(...values)])].join(' to ');
  const layers = range(...frames.map(({ architecture: { L } }) => L));
  const heads = range(...frames.map(({ architecture: { H } }) => H));
  const differs = differsSentence(topics);
  return `Small models, ${layers} layers of ${heads} heads, trained on children’s books: ${differs.charAt(0).toLowerCase()}${differs.slice(1)}`;
}

/** Says what counts as a sink and, where there is room, how many heads of a published model have one. */
export function sinkWords([frame]: readonly Frame[], hasRoom: boolean): string {
  const name = firstName(frame!);
  const also =
    hasRoom && frame!.eps === eps ? ` ${model}, a real model, has ${sinks} in ${heads} heads.` : '';
  return `A sink: over ${formatPercent(frame!.eps, 0)} of a head’s attention on the first token${/ /.test(name) ? '' : `, ${name}`}.${also}`;
}

/** Returns the label inside the map of a card: how much the first column or an extra key gets; where rows are far beyond 100%, also that. */
export function cardLabel(frame: Frame, at: Head, state: State): DrawOptions['remark'] {
  const { attention, rowSum } = claimOf(frame, at, state);
  const extra = frame.architecture.bias_key && frame.tensors.att_bias;
  if (extra && !(attention > frame.eps))
    return { kind: 'none', text: `${wholePercent(mean(ofHead(extra, at)))} on an extra key` };
  if (rowSum > MAX_SHARES) {
    const first = `${wholePercent(attention)} on ${firstName(frame)}`;
    return { kind: 'filled', text: `${first}; rows sum to ${sumWords(rowSum)}` };
  }
  return {
    kind: attention > frame.eps ? 'sink' : 'weak',
    text: `◀ ${wholePercent(attention)} on ${firstName(frame)}`,
  };
}
