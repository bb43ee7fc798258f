/** The sentences of Compare: what the models have in common, what differs, and which of them have heads with a sink. */
import { firstTokenWeights, usesRawWeights, type Frame } from '../frame';
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
  startsSpecial,
  haveOtherTexts,
  textsWords,
  tooShortNote,
  verdictOf,
  wholePercent,
} from '../words';
import { hasSink } from '../claims';
import { MAX_SHARES } from '../views/attention';
import type { Side } from './chapters';
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

/** Counts the heads with a sink of some models: "15 and 12 of 24"; of more than two models the range: "0 to 5 of 24". */
export function rangeWords(frames: readonly Frame[]): string {
  const sinkOf = (frame: Frame) => verdictOf(frame).sink;
  const sorted = frames.toSorted((a, b) => sinkOf(a) - sinkOf(b));
  const isRange = frames.length > 2;
  const counts = (isRange ? [sorted[0]!, sorted.at(-1)!] : frames).map((frame) =>
    countFigures(frame).split(' of '),
  );
  const [[, heads] = [], ...others] = counts;
  const isOneTotal = others.every(([, total]) => total === heads);
  const numbers = counts.map(([count, total]) => (isOneTotal ? count! : `${count} of ${total}`));
  const words = [...new Set(numbers)].join(isRange ? ' to ' : ' and ');
  return isOneTotal ? `${words} of ${heads}` : words;
}

/**
 * Answers whether sinks need what the models of the first side share: here yes if the others have none, mostly if each has at
 * least twice the share of any other. Empty where heads are not counted.
 * @param otherwise introduces the counts of the second side
 */
export function chapterAnswer([first, second]: readonly Side<Frame>[], otherwise: string): string {
  const all = [...first!.items, ...second!.items];
  if (obstacleOf(all)) return '';
  const sinksOf = ({ items }: Side<Frame>) => items.map((frame) => verdictOf(frame).sink);
  const [least, most] = [Math.min(...sinksOf(first!)), Math.max(...sinksOf(second!))];
  if (!(Math.max(...sinksOf(first!), most) > 0))
    return `No head of these models has a sink on ${textsWords(all[0]!)}.`;
  const answer = most === 0 ? 'yes' : least >= 2 * most ? 'mostly' : 'no';
  const counts = rangeWords(first!.items);
  const others = most === 0 ? 'none' : rangeWords(second!.items);
  const [, heads = ''] = /( of \d+)$/.exec(counts) ?? [];
  return `Here, ${answer}: ${counts} heads ${/^1 of \d+$/.test(counts) ? 'has' : 'have'} a sink; ${otherwise} ${others.replace(heads, '')}.`;
}

/** Says in how many heads an extra key takes the sink's place; empty without such a key. */
export function extraKeyWords(frames: readonly Frame[]): string {
  const frame = frames.find(({ architecture }) => architecture.bias_key);
  const heads = frame && extraKeyHeads(frame);
  return heads
    ? `The extra key ∗, no token, gets over ${formatPercent(frame!.eps, 0)} in ${heads}.`
    : '';
}

/** Says why softmax makes a sink; empty unless the first alone is a softmax model, with a sink. */
export function spendWords([first, ...others]: readonly Frame[]): string {
  const isOnly = others.every(({ operation }) => operation.name !== 'softmax');
  return first?.operation.name === 'softmax' && isOnly && verdictOf(first).sink > 0
    ? mustSpendWords(first, '')
    : '';
}

/** Says what counts as a sink. */
export function sinkWords(frames: readonly Frame[]): string {
  const [name, ...others] = new Set(frames.map(firstName));
  const isStart = !others.length && frames.every(startsSpecial);
  const first = isStart ? `${name}, the start token,` : 'the first token';
  return `Sink: mean attention on ${first} over ${formatPercent(frames[0]!.eps, 0)}.`;
}
