/** The sentences of Compare: what the models have in common, what differs, and which of them have heads with a sink. */
import type { Frame } from '../frame';
import {
  capitalize,
  extraKeyHeads,
  formatPercent,
  listWords,
  headsWords,
  modelName,
  mustSpendWords,
  haveOtherTexts,
  textsWords,
  tooShortNote,
  verdictOf,
} from '../words';
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

/**
 * Says in words what differs between models.
 * @param letters the meanings of the letters, from describe
 */
export function differsSentence(
  { differences }: ReturnType<typeof differencesOf>,
  letters: Readonly<Record<string, string>>,
): string {
  const topicOf = (path: readonly string[]) => {
    const key = path.join('.');
    return TOPICS.find(([prefix]) => prefix.test(key))?.[1] ?? pathWords(path, letters);
  };
  const causes = differences.filter(({ path }) => !DERIVED.test(path[0]!));
  const topics = [...new Set(causes.map(({ path }) => topicOf(path)))];
  if (!topics.length) return 'These models are built alike.';
  const [first, ...others] = topics;
  const list =
    others.length > 2 ? `${first}, ${others[0]} and ${others.length - 1} more` : listWords(topics);
  return topics.length === 1 ? `Only ${first} differs.` : `These differ: ${list}.`;
}

/** Returns how many of a model's heads have a sink: "15 of 24"; "none"; as a mean over prompts "60% of 24". */
export function countWords(frame: Frame): string {
  const words = headsWords(frame, verdictOf(frame).sink);
  return /^none/.test(words) ? 'none' : words.replace(' of the ', ' of ').replace(/ heads$/, '');
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
  const clauses = frames.map((frame, i) => {
    const place = phrases[i] ? `with ${phrases[i]}` : `in ${modelName(frame)}`;
    return `${place} ${i ? countWords(frame) : `${countWords(frame)} heads have a sink on ${textsWords(frame)}`}`;
  });
  const text = clauses.join(', ').replace('none heads have', 'no head has');
  return `${capitalize(text)}.`;
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
