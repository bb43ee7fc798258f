/** Writes sentences about a lab's measurements. Their wording depends on the numbers, so that it fits any training. */
import type { Operation } from 'sinkscope';
import { defaults, type State } from '../ask/state';
import { headAt, mean, type Head } from '../frame';
import { capitalize, formatPercent, formatValue, modelHeadName } from '../words';
import type { Lab } from './lab';
import { tokenTexts } from './from_scratch';
import { presetOf } from './presets';
import { isFineTune, type Settings } from './settings';

/** The number of steps over which sentences average, since a batch is noisy. */
const RECENT_STEPS = 20;
const EPS = defaults.eps;
/** The label of the token before every sequence. */
export const START = '<s>';

const weightWords = (weight: number): string =>
  weight >= 0 && weight <= 1 ? formatPercent(weight, 0) : formatValue(weight);

/** Returns the mean of a column over the recent steps that have it, before the first step of the initial weights; or NaN. */
export function recentMean({ log, current }: Pick<Lab, 'log' | 'current'>, name: string): number {
  const entries = log.length || !current ? log.slice(-RECENT_STEPS) : [current];
  return mean(entries.flatMap((entry) => entry[name] ?? []));
}

/** Returns the mean attention of the later tokens on the first one if attention is uniform. */
export function uniformShare({ length }: Settings): number {
  const T = Number(length);
  let sum = 0;
  for (let t = 1; t < T; t++) sum += 1 / (t + 1);
  return sum / (T - 1);
}

/** Whether a token of the sample is a trigger. */
export const isTrigger = ({ sample, settings }: Pick<Lab, 'sample' | 'settings'>, t: number) =>
  sample[t]! >= 1 && sample[t]! <= Number(settings.triggers);

/** Returns the sample's positions without a trigger, after the first token. */
const nonTriggersOf = ({ sample, settings }: Pick<Lab, 'sample' | 'settings'>): number[] =>
  sample.flatMap((_, t) => (t > 0 && !isTrigger({ sample, settings }, t) ? [t] : []));

interface ShownHead extends Head {
  readonly weights: Float32Array;
  /** The weights divided by their row's sum. */
  readonly shares: Float32Array;
  /** The first token's share of a row, averaged over the sample's positions without a trigger. */
  readonly share: number;
  /** The first token's weight, averaged over the same positions as `share`. */
  readonly weight: number;
  /** The extra key's weight in each row; absent without one. */
  readonly extraKey?: Float32Array;
  /** The later token that gets most, if that is over ε and more than the first token gets. */
  readonly rival?: { readonly key: number; readonly weight: number };
}

/** Returns the rival of the first token. A later token counts if half of the ordinary rows see it. */
function rivalOf(
  { weights, weight }: Pick<ShownHead, 'weights' | 'weight'>,
  rows: readonly number[],
  T: number,
): ShownHead['rival'] {
  let rival: ShownHead['rival'];
  for (let key = 1; key < T; key++) {
    const seen = rows.filter((t) => t > key);
    if (seen.length < rows.length / 2) break;
    const own = mean(seen.map((t) => weights[t * T + key]!));
    if (own > Math.max(EPS, rival?.weight ?? weight)) rival = { key, weight: own };
  }
  return rival;
}

/** The index of the head that the settings name; −1 if they name none. */
const headIndexOf = ({ settings }: Pick<Lab, 'settings'>): number => Number(settings.head ?? -1);

/** Returns the head that the settings name, or else the head that gives the first token the largest weight. */
export function shownHead(lab: Lab): ShownHead | undefined {
  const { picture } = lab;
  if (!picture) return undefined;
  const [L, H, T] = picture.shape as [number, number, number, number];
  const headIndex = headIndexOf(lab);
  const nonTriggers = nonTriggersOf(lab);
  let strongest: ShownHead | undefined;
  for (let i = 0; i < L * H; i++) {
    if (headIndex >= 0 && i !== Math.min(headIndex, L * H - 1)) continue;
    const weights = picture.data.slice(i * T * T, (i + 1) * T * T);
    const shares = new Float32Array(T * T).fill(NaN);
    for (let t = 0; t < T; t++) {
      const row = weights.subarray(t * T, t * T + t + 1);
      const sum = row.reduce((total, weight) => total + Math.abs(weight), 0);
      row.forEach((weight, s) => (shares[t * T + s] = sum > 0 ? weight / sum : 0));
      weights.fill(NaN, t * T + t + 1, (t + 1) * T);
    }
    const meanOf = (numbers: Float32Array) => mean(nonTriggers.map((t) => numbers[t * T]!));
    const extraKey = picture.extraKey?.slice(i * T, (i + 1) * T);
    const candidate = { weights, shares, share: meanOf(shares), weight: meanOf(weights), extraKey };
    // Compares weights, not shares: one token may have the whole of a row whose sum is tiny.
    if (!strongest || candidate.weight > strongest.weight)
      strongest = {
        ...headAt(i, H),
        ...candidate,
        rival: rivalOf(candidate, nonTriggers, T),
      };
  }
  return strongest;
}

export interface NamedLab {
  readonly name: string;
  readonly lab: Lab;
  readonly operation: Operation | undefined;
  readonly command: string;
}

/** Whether a lab's model has a sink: the first token's weight, and its share of the row, exceed ε. */
function hasSink({ lab, operation }: NamedLab): boolean {
  const share = operation?.normalizes ? 1 : (shownHead(lab)?.share ?? 0);
  return recentMean(lab, 'first_most') > EPS && share > EPS;
}

/** Returns the extra key's weight in the map, averaged over the same rows as the first token's; NaN without one. */
function extraKeyWeight(lab: Lab, { extraKey } = shownHead(lab) ?? {}): number {
  return extraKey ? mean(nonTriggersOf(lab).map((t) => extraKey[t]!)) : NaN;
}

/** Names the first token of a lab's texts. */
const firstOf = ({ setup }: Lab): string =>
  setup?.firstText === undefined ? 'the first token' : START;

/** The column that gathers a map's attention. */
interface Place {
  /** The token's index; -1 for the extra slot. */
  readonly key: number;
  readonly name: string;
  readonly weight: number;
}

/** Returns the column over ε, the first token's before others; that of the first token if none is. */
function placeOf(lab: Lab, headShown: ShownHead): Place {
  const { weight, rival } = headShown;
  const first = { key: 0, name: firstOf(lab), weight };
  if (weight > EPS) return first;
  const extra = extraKeyWeight(lab, headShown);
  if (extra > EPS) return { key: -1, name: 'the slot', weight: extra };
  return rival ? { ...rival, name: keyName(lab, rival.key) } : first;
}

/** Returns the column that a lab's map frames, by the token's index; -1 for the extra slot. */
export function framedKey(lab: Lab): number {
  const headShown = shownHead(lab);
  return headShown ? placeOf(lab, headShown).key : 0;
}

/** Whether the attention of a trained model without a sink at the first token gathers in another column of its map. */
const gathersElsewhere = (one: NamedLab): boolean =>
  one.lab.log.length > 0 && !hasSink(one) && framedKey(one.lab) !== 0;

/** The sum of a row's weights, that of the extra key included, averaged over the same rows as the first token's weight. */
function meanRowSum(lab: Lab, { weights, extraKey }: ShownHead): number {
  const T = lab.picture!.shape[2]!;
  const sumOf = (t: number) =>
    weights
      .subarray(t * T, t * T + t + 1)
      .reduce((sum, weight) => sum + weight, extraKey?.[t] ?? 0);
  return mean(nonTriggersOf(lab).map(sumOf));
}

/**
 * Whether the map of the strongest head is on the other side of the threshold than the curve, which decides whether there
 * is a sink: the map is of one text, and the curve of the last batches, which lag behind while the model trains.
 */
function isOdd(lab: Lab, { weight }: ShownHead): boolean {
  const recent = recentMean(lab, 'first_most');
  return headIndexOf(lab) < 0 && Number.isFinite(recent) && weight > EPS !== recent > EPS;
}

/** The operations whose rows may sum to any number from 0 on. */
const UNBOUNDED = ['sigmoid', 'sigmoid_log_n', 'relu', 'elu1'];

/** Says how much attention a token of a model has to spend. */
const spendingWords = ({ picture }: Lab, operation: Operation | undefined): string =>
  operation?.normalizes
    ? picture?.extraKey
      ? 'must spend 100%, on tokens or slot'
      : 'each token must spend 100%'
    : UNBOUNDED.includes(operation?.name ?? '')
      ? 'each token may spend 0% or over 100%'
      : 'each token need not spend 100%';

/**
 * Returns the number above a lab's map, and what it is the mean of; undefined without a map. It is of the drawn rows. Two
 * random models that copy have nothing to compare, so before training what their tokens must spend is above them instead.
 */
export function mapNumber({ lab, operation }: NamedLab): readonly [string, string] | undefined {
  const headShown = shownHead(lab);
  if (!headShown) return undefined;
  const [L, H] = lab.picture!.shape as [number, number];
  if (!lab.log.length && !isFineTune(lab.settings)) return ['', spendingWords(lab, operation)];
  const place = placeOf(lab, headShown);
  const notes = [
    `in this text; ${rowsOf(lab)} spend ${formatPercent(meanRowSum(lab, headShown), 0)} in total`,
    ...(L * H > 1
      ? [`${headIndexOf(lab) < 0 ? 'strongest ' : ''}head ${modelHeadName(headShown)}`]
      : []),
    ...(place.key === 0 && isOdd(lab, headShown) && lab.log.length && !lab.isRunning
      ? [`over the last batches: ${weightWords(recentMean(lab, 'first_most'))}`]
      : []),
  ];
  const name = place.key > 0 ? `token ${place.key + 1}` : place.name;
  return [`${weightWords(place.weight)} on ${name}`, notes.join('; ')];
}

export const captionWords = (namedLab: NamedLab, number = mapNumber(namedLab)): string =>
  number?.filter(Boolean).join(', ') ?? '';

/** Says what the first token gets in all rows of the map, which Explore averages over; '' without a map. */
export function allRowsWords({ lab }: NamedLab): string {
  const headShown = shownHead(lab);
  if (!headShown) return '';
  const { weights } = headShown;
  const T = lab.words.length;
  return `all rows, as in Explore: ${weightWords(mean(lab.words.map((_, t) => weights[t * T]!)))}`;
}

/** Names a later token by its place, counted from 1, and its text. */
const keyName = (lab: Lab, key: number) => `token ${key + 1} (${labelsOf(lab)[key]})`;

/** Whether each row of a map gives each token that it sees at least half of an even share of the row. */
function looksEverywhere({ shares }: ShownHead, T: number): boolean {
  for (let t = 0; t < T; t++)
    for (let s = 0; s <= t; s++) if (!(shares[t * T + s]! >= 0.5 / (t + 1))) return false;
  return true;
}

/** Says above both maps how to read them, and of untrained models what they show. */
export function readingWords(labs: readonly NamedLab[]): string {
  if (labs.some(({ lab }) => lab.log.length)) return 'Each row: where one token looks';
  const isEven = labs.every(({ lab }) => {
    const headShown = shownHead(lab);
    return headShown && looksEverywhere(headShown, lab.picture!.shape[2]!);
  });
  return `Each row: where one token looks${isEven ? '; untrained, everywhere' : ''}`;
}

/** The remark on a lab's map: where its attention gathers; undefined if there is nothing to say, as before training. */
export function remarkWords(
  namedLab: NamedLab,
): { readonly text: string; readonly kind: string; readonly col?: number } | undefined {
  const { lab } = namedLab;
  const headShown = shownHead(lab);
  if (!headShown) return undefined;
  const { weight, share } = headShown;
  const place = placeOf(lab, headShown);
  const hasOne = hasSink(namedLab);
  // A head that the reader chose may have none.
  const isFirst = hasOne && weight > EPS;
  // A weight over ε is no sink where rows sum to so much that its share of them is not.
  const isWeight = !hasOne && recentMean(lab, 'first_most') > EPS;
  const absence = `no sink${hasOne ? ' in this map' : ''}`;
  // The column of the place is framed.
  const column = `◀ column of ${firstOf(lab)}`;
  const [text = lab.log.length && !isOdd(lab, headShown) ? `${column}: ${absence}` : ''] = [
    ...(isFirst ? [`${column}: attention sink`] : []),
    ...(isWeight ? [`${firstOf(lab)} gets only ${weightWords(share)} of its row`] : []),
    ...(place.key < 0 ? ['◀ attention goes to the extra slot'] : []),
    ...(place.key > 0 ? [`◀ ${place.name} takes ${weightWords(place.weight)}`] : []),
  ];
  return text ? { text, kind: '', col: place.key } : undefined;
}

/** Whether the task is to repeat, at a trigger, the token before it. */
const hasCopies = ({ settings }: Lab) => settings.task !== 'conditional' && !isFineTune(settings);

/** Names a trigger by what the task asks for there. */
export const triggerName = (lab: Lab) => (hasCopies(lab) ? 'copy' : 'mean');

/** Names the tokens over which numbers average. */
export const elsewhere = (lab: Lab) =>
  hasCopies(lab) ? 'with nothing to copy' : isFineTune(lab.settings) ? 'in all rows' : 'elsewhere';

/** Names the tokens in whose rows the number above a map averages. */
const rowsOf = (lab: Lab) =>
  isFineTune(lab.settings)
    ? 'all tokens but the first'
    : `tokens ${hasCopies(lab) ? 'with nothing to copy' : `other than “${triggerName(lab)}”`}`;

/** The texts of the sample's tokens; a trigger, a blank and the token before every sequence have names. */
export const labelsOf = (lab: Lab): readonly string[] =>
  lab.words.map((text, t) =>
    text === lab.setup?.firstText
      ? START
      : t && isTrigger(lab, t)
        ? triggerName(lab)
        : text.trim()
          ? text
          : '␣',
  );

/** States the task in a sentence for each kind of token, the first with the example that is drawn. */
export function ruleWords(lab: Lab): readonly string[] {
  if (hasCopies(lab)) {
    const [trigger] = rowNotes({ lab });
    const before = trigger && labelsOf(lab)[trigger.row - 1];
    const example = before ? `: ${before} ${triggerName(lab)} → ${before}` : '';
    return [
      `“${triggerName(lab)}” repeats the token before it${example}.`,
      'After all other tokens, anything can come: nothing to copy.',
    ];
  }
  return [
    isFineTune(lab.settings)
      ? 'The task: guess the next token of the text.'
      : 'The task: at “mean”, give the mean of the past.',
  ];
}

/** Explains two rows of a lab's map: the first one of a trigger, and one with nothing to copy; none without both. */
export function rowNotes({ lab }: Pick<NamedLab, 'lab'>) {
  const labels = labelsOf(lab);
  const rows = labels.map((_, t) => t).slice(2);
  const trigger = rows.find((t) => isTrigger(lab, t) && !isTrigger(lab, t - 1));
  const ordinary = rows.find((t) => !isTrigger(lab, t) && !isTrigger(lab, t - 1));
  if (!hasCopies(lab) || trigger === undefined || ordinary === undefined) return [];
  return [
    { row: trigger, token: labels[trigger]!, what: `repeat ${labels[trigger - 1]}` },
    { row: ordinary, token: labels[ordinary]!, what: 'nothing to copy' },
  ];
}

/** The notes beside the map at two rows: what the first trigger copies, and one that has nothing to copy. */
export function rowMarks(namedLab: NamedLab): readonly (readonly [number, string])[] {
  const [trigger, ordinary] = rowNotes(namedLab);
  if (!trigger || !ordinary) return [];
  const { lab } = namedLab;
  const below = isTrigger(lab, trigger.row + 1) ? ordinary.row : trigger.row + 1;
  return [
    [trigger.row, `◀ ${trigger.token}: ${trigger.what}`],
    [below, `◀ ${labelsOf(lab)[below]}: ${ordinary.what}`],
  ];
}

/** Names a model in a sentence: "no gate gives" would say that none does. */
const subjectOf = ({ name }: NamedLab, pair: readonly NamedLab[]) =>
  pair.some((one) => /^no |[\d>]$/.test(one.name)) ? `the model with ${name}` : name;

function modelWords(namedLab: NamedLab, side: number, pair: readonly NamedLab[]): string {
  const { lab, operation } = namedLab;
  const amount = weightWords(recentMean(lab, 'first_most'));
  const quantity = operation?.normalizes ? `${amount} of its attention` : `a weight of ${amount}`;
  const where = side ? '' : ` ${elsewhere(lab)}, over the last batches`;
  const gives = `${capitalize(subjectOf(namedLab, pair))} gives ${firstOf(lab)} ${quantity}${where}`;
  if (hasSink(namedLab))
    return `${gives}; its value norm is ${formatValue(recentMean(lab, 'value_ratio'))}× that of the others`;
  return operation?.normalizes
    ? `${gives} (an even share: ${formatPercent(uniformShare(lab.settings), 0)})`
    : gives;
}

function fineTuneWords({ name, lab, operation }: NamedLab): string {
  const evenShare = operation?.normalizes
    ? ` (even share: ${formatPercent(uniformShare(lab.settings), 0)})`
    : '';
  // The command line prints both ends. A mean over the last steps would lag behind the weights, but stands above the map.
  const [start, end] = [lab.log[0], lab.current ?? lab.log.at(-1)];
  const changeWords = (column: string, print: (value: number) => string) =>
    `${print(start?.[column] ?? NaN)} → ${print(end?.[column] ?? NaN)}`;
  const formatNats = (value: number) => (Number.isFinite(value) ? value.toFixed(2) : '–');
  const plantedWords =
    Number(lab.settings.planted) > 0
      ? `; after the planted trigger: loss ${changeWords('loss_triggers', formatValue)}, attention on the first token, all heads, ` +
        changeWords('first_triggers', weightWords)
      : '';
  const oldTextWords =
    start?.loss_held === undefined
      ? ''
      : `, loss on the old kind of text ${changeWords('loss_held', formatNats)}`;
  return (
    `${capitalize(name)}: attention of the strongest head on the first token${evenShare} ${weightWords(start?.first_most ?? NaN)} → ` +
    `${weightWords(recentMean(lab, 'first_most'))}, of all heads ${changeWords('first_elsewhere', weightWords)}; its value norm relative to the others ` +
    `${changeWords('value_ratio', formatValue)}, loss ${oldTextWords && 'on the new text '}${changeWords('loss', formatNats)}${oldTextWords}${plantedWords}`
  );
}

function lossWords(pair: readonly [NamedLab, NamedLab]): string {
  const lossesAbove = (where: string) =>
    pair
      .map(({ lab }) => recentMean(lab, `loss_${where}`) - recentMean(lab, `optimum_${where}`))
      .map((nats) => (Number.isFinite(nats) ? nats.toFixed(2) : '–'))
      .join(' and ');
  return `Loss above the best possible: ${lossesAbove('elsewhere')} nats ${elsewhere(pair[0].lab)}, ${lossesAbove('triggers')} at “${triggerName(pair[0].lab)}”.`;
}

export type Runs = Pick<State, 'leftRun' | 'rightRun'>;

/** Says how the models differ, before they train. */
export const claimWords = (runs: Runs): string =>
  presetOf(runs)?.claim ??
  (isFineTune(runs.leftRun)
    ? 'Both models start from trained weights.'
    : 'Two models with the same task and seed.');

/** Which of the two models have a sink. */
export const OUTCOMES = ['left', 'right', 'both', 'neither'] as const;
export type Outcome = (typeof OUTCOMES)[number];

function outcomeOf(pair: readonly [NamedLab, NamedLab]): Outcome {
  const [left, right] = pair.map(hasSink);
  return left ? (right ? 'both' : 'left') : right ? 'right' : 'neither';
}

export const outcomeName = ([left, right]: readonly [NamedLab, NamedLab], outcome: Outcome) =>
  ({ left: left.name, right: right.name, both: 'both', neither: 'neither' })[outcome];

/** The first token that both models have. */
export const sharedFirst = (pair: readonly NamedLab[]): string =>
  pair.every(({ lab }) => lab.settings.first === 'fixed' || firstOf(lab) === START)
    ? START
    : 'the first token';

/** Says why every token could look at the start token; '' where a model has none. */
export const seenWords = (pair: readonly NamedLab[]): string =>
  sharedFirst(pair) === START ? `${START} begins every text: every token sees it. ` : '';

/** Asks which models will have a sink; only a model with a start token can look at that. */
export const questionWords = (pair: readonly [NamedLab, NamedLab]): string =>
  pair.every(({ lab }) => hasCopies(lab))
    ? `Your guess: which model will look at ${sharedFirst(pair)}?`
    : 'Your guess: which model will have a sink after the training?';

/** Whether both models have trained as many steps as they or the preset plan, or can train no further. */
function hasEnded(pair: readonly [NamedLab, NamedLab], runs?: Runs): boolean {
  const planned = Number(
    /steps:(\d+)/.exec((runs && presetOf(runs)?.leftRun) ?? '')?.[1] ?? Infinity,
  );
  return pair.every(
    ({ lab: { stage, log, settings } }) =>
      stage === 'diverged' || log.length >= Math.min(planned, Number(settings.steps)),
  );
}

/** Whether both models rest at one step after the first one, so that their numbers can be compared. */
const canCompare = ([{ lab: left }, { lab: right }]: readonly [NamedLab, NamedLab]): boolean =>
  !left.isRunning &&
  !right.isRunning &&
  left.log.length > 0 &&
  left.log.length === right.log.length;

/** The title of the room: its question, or which models have a sink once they rest. */
export function titleWords(pair: readonly [NamedLab, NamedLab] | readonly [], runs?: Runs): string {
  if (pair.length && canCompare(pair)) return sinkTitle(pair, hasEnded(pair, runs));
  return pair.every(({ lab }) => hasCopies(lab))
    ? 'Where do models look when there is nothing to copy?'
    : 'Train two models and see which one gets a sink';
}

/** @param isOver whether the planned steps are done: until then a model has a sink, or none, so far */
function sinkTitle(pair: readonly [NamedLab, NamedLab], isOver: boolean): string {
  const outcome = outcomeOf(pair);
  if (outcome === 'neither') return sinkWords(pair, isOver).slice(0, -1);
  const only = outcome !== 'both' && pair[outcome === 'left' ? 0 : 1];
  const subject = only ? `only ${subjectOf(only, pair)} has` : 'both models have';
  if (only && pair.some(gathersElsewhere)) {
    const words = `${subject} its sink at ${sharedFirst(pair)}`;
    return isOver ? capitalize(words) : `So far ${words}`;
  }
  const looks = only ? `it looks at ${sharedFirst([only])}` : `they look at ${sharedFirst(pair)}`;
  const reading = pair.every(({ lab }) => hasCopies(lab))
    ? `: ${looks} when there is nothing to copy`
    : '';
  const words = `${subject} a sink${reading}`;
  return isOver ? capitalize(words) : `So far ${words}`;
}

/**
 * Returns the heading that the question gives way to, and a sentence below it: the reader's guess, and of models that are
 * trained to their last step whether that came true. A few steps, or texts so short that an even share exceeds ε, show
 * nothing.
 */
export function guessWords(
  pair: readonly [NamedLab, NamedLab],
  guess: Outcome | undefined,
): readonly [string, string] {
  if (!hasEnded(pair) || pair.some(({ lab }) => lab.isRunning))
    return [
      guess ? `Your guess: ${outcomeName(pair, guess)}` : 'Watch the first column',
      `A sink: over ${formatPercent(EPS, 0)} on ${sharedFirst(pair)} on average.`,
    ];
  const likely = likelyWords(pair);
  if (!guess) return ['Try another experiment', likely];
  const own = `Your guess (${outcomeName(pair, guess)})`;
  const steps = Math.min(...pair.map(({ lab }) => lab.log.length));
  const share = Math.max(...pair.map(({ lab }) => uniformShare(lab.settings)));
  const doubt =
    steps < RECENT_STEPS
      ? `${steps} steps are too few to tell`
      : share > EPS
        ? `these texts are too short to tell, since an even share is ${formatPercent(share, 0)}`
        : '';
  if (doubt) return [`${own}: ${doubt}.`, likely];
  const outcome = outcomeOf(pair);
  const why = guess === outcome ? '' : missWords(pair, guess);
  const verdict = guess === outcome ? 'right' : 'wrong';
  return [`${own} is ${verdict}${outcome === 'neither' ? ' so far' : ''}.`, `${why}${likely}`];
}

/** Says of the first model about which a guess was wrong why it has a sink at the first token, or none; '' if unknown. */
function missWords(pair: readonly [NamedLab, NamedLab], guess: Outcome): string {
  const guessed = [
    guess !== 'right' && guess !== 'neither',
    guess !== 'left' && guess !== 'neither',
  ];
  const missed = pair.find((one, i) => guessed[i] !== hasSink(one))!;
  const { lab, operation } = missed;
  const subject = capitalize(subjectOf(missed, pair));
  if (gathersElsewhere(missed))
    return `${subject} looks at ${placeOf(lab, shownHead(lab)!).name} instead. `;
  if (operation?.normalizes) return hasSink(missed) ? `${subject} must spend 100%. ` : '';
  return hasSink(missed) ? '' : `${subject} need not spend 100%. `;
}

/** @param isOver whether the planned steps are done: until then a model has a sink, or none, so far */
function sinkWords(pair: readonly [NamedLab, NamedLab], isOver: boolean): string {
  const say = (words: string) => (isOver ? capitalize(words) : `So far ${words}`);
  const [leftHasSink, rightHasSink] = pair.map(hasSink);
  const there = pair.some(gathersElsewhere) ? ` at ${sharedFirst(pair)}` : '';
  if (leftHasSink && rightHasSink) return say('both models have a sink.');
  if (!leftHasSink && !rightHasSink)
    return say(
      `neither model has a sink${there}${isOver ? ` after ${pair[0].lab.log.length} steps` : ''}.`,
    );
  const [withSink, withoutSink] = leftHasSink ? pair : [pair[1], pair[0]];
  const none = there ? 'has none there' : 'has none';
  return say(
    `${subjectOf(withSink, pair)} has a sink${there}; ${subjectOf(withoutSink, pair)} ${none}.`,
  );
}

/** Answers the question of the preset, as far as its answer depends on which models have a sink; '' for other settings. */
function answerWords(pair: readonly [NamedLab, NamedLab], runs: Runs): string {
  // An extra key that gets as little as the first token replaces no sink.
  const isUnused = pair.some(({ lab }) => extraKeyWeight(lab) <= EPS);
  const { answers, isAboutSums } = presetOf(runs) ?? {};
  const answer = (!isUnused && answers?.[outcomeOf(pair)]) || '';
  return answer && isAboutSums ? [answer, ...pair.flatMap(spentWords)].join(' ') : answer;
}

/** The sum of a row below which it is as good as nothing. */
const NOTHING = 0.05;

/** Says of a model without a sink that its rows need not sum to 100%, and whether they sum to as good as nothing. */
function spentWords(one: NamedLab): readonly string[] {
  const { lab, operation } = one;
  const headShown = shownHead(lab);
  if (!headShown || operation?.normalizes || hasSink(one)) return [];
  const sum = meanRowSum(lab, headShown);
  const name = capitalize(one.name);
  return [
    sum < NOTHING
      ? `${name} may spend nothing, and does (${formatPercent(sum, 0)}).`
      : `${name} may spend less.`,
  ];
}

/** Says where attention goes in maps of models without a sink at the first token. */
const rivalSentences = (pair: readonly [NamedLab, NamedLab]): readonly string[] =>
  pair.flatMap((one, side) => {
    const headShown = gathersElsewhere(one) && shownHead(one.lab);
    const { key, name, weight } = (headShown && placeOf(one.lab, headShown)) || { key: 0 };
    if (key <= 0) return [];
    return `In the ${side ? 'right' : 'left'} map ${name} takes ${weightWords(weight!)}, more than the ${formatPercent(EPS, 0)} of a sink.`;
  });

/**
 * States which models have a sink, and why, after the planned steps of a preset. Returns '' before both have trained a
 * step, and while both are paused at different steps.
 */
export function findingWords(pair: readonly [NamedLab, NamedLab], runs: Runs): string {
  if (pair.some(({ lab }) => !lab.log.length)) return '';
  // Models that stopped at different steps are not compared.
  if (!pair.some(({ lab }) => lab.isRunning) && !canCompare(pair)) return '';
  return [sinkWords(pair, hasEnded(pair, runs)), reasonWords(pair, runs)].filter(Boolean).join(' ');
}

/** The reason for which models have a sink, below a title that says which. */
const reasonWords = (pair: readonly [NamedLab, NamedLab], runs: Runs): string =>
  [hasEnded(pair, runs) && answerWords(pair, runs), ...rivalSentences(pair)]
    .filter(Boolean)
    .join(' ');

/** The lead of the room: how the models differ, what holds so far, or the reason below a title that says what does. */
export function leadWords(pair: readonly [NamedLab, NamedLab], runs: Runs): string {
  const reason = canCompare(pair) ? reasonWords(pair, runs) : findingWords(pair, runs);
  return reason || claimWords(runs);
}

/** How many times as likely as by a blind guess the right token is to a model that has learned something of copying. */
const LEARNS = 10;
/** The probability of the right token to a model that copies. */
const LEARNED = 0.8;

/** States which models learn to copy, by the probability of the right token; '' where the task has none. */
function likelyWords(pair: readonly [NamedLab, NamedLab]): string {
  const { settings } = pair[0].lab;
  const likely = pair.map(({ lab }) => Math.exp(-recentMean(lab, 'loss_triggers')));
  if (isFineTune(settings) || settings.task === 'conditional' || !likely.every(Number.isFinite))
    return '';
  const blind = 1 / tokenTexts(settings).length;
  const [left, right] = likely.map((probability) => probability > LEARNS * blind);
  const learn =
    left && right
      ? `Both models ${likely.every((probability) => probability > LEARNED) ? 'have learned' : 'have partly learned'} to copy`
      : left || right
        ? `Only ${subjectOf(pair[left ? 0 : 1], pair)} learns to copy`
        : 'Neither model copies yet';
  const [first, second] = pair.map(({ name }, i) => `${weightWords(likely[i]!)} (${name})`);
  return `${learn}: the right token gets a probability of ${first} and ${second}; a blind guess gives it ${weightWords(blind)}.`;
}

/** The finding, and how well models that rest have learned to copy. */
export const shortVerdictWords = (pair: readonly [NamedLab, NamedLab], runs: Runs): string =>
  [findingWords(pair, runs), canCompare(pair) ? likelyWords(pair) : ''].filter(Boolean).join(' ');

/**
 * States which models have a sink, since which step, and with what loss; of fine-tuned models, how their means changed.
 * Returns '' before both have trained a step.
 */
export function verdictWords(pair: readonly [NamedLab, NamedLab]): string {
  if (pair.some(({ lab }) => !lab.log.length)) return '';
  if (isFineTune(pair[0].lab.settings)) return `${pair.map(fineTuneWords).join('. ')}.`;
  const summary = `${sinkWords(pair, hasEnded(pair))} ${pair.map(modelWords).join('. ')}. ${lossWords(pair)}`;
  const shortSettings = pair.find(({ lab }) => uniformShare(lab.settings) > EPS / 2)?.lab.settings;
  if (!shortSettings) return summary;
  return (
    `Short sequences (${shortSettings.length} tokens): an even share alone gives the first token ` +
    `${formatPercent(uniformShare(shortSettings), 0)}. ${summary}`
  );
}

/** Explains the task, the operations, the colors and the curves. */
export function explanationWords(pair: readonly [NamedLab, NamedLab]): string {
  const { settings, setup, words } = pair[0].lab;
  const operations = [...new Set(pair.map(({ operation }) => operation?.label))].join(' or ');
  return (
    `${isFineTune(settings) ? textWords(settings, setup?.text) : taskWords(settings)} Scores become weights ` +
    `by ${operations}${/ n$/.test(operations) ? ', for n visible tokens' : ''}. The maps show the first ${words.length} of ${settings.length} tokens. The color of a cell is its weight, on a ` +
    'square-root scale; pointing at it also gives its share of the row. The number above a map is of its rows; the curves are means over the batches of training, of the strongest head. ' +
    'Keyboard, while the focus is in the lab: T starts and pauses training, S trains one step, R resets.'
  );
}

function taskWords(settings: Settings): string {
  if (settings.task === 'conditional')
    return 'At a trigger (here “mean”) the model gives the mean of the past; elsewhere nothing is asked of it.';
  return (
    `The Bigram-Backcopy task (Guo et al. 2024): sequences over ${tokenTexts(settings).length} tokens that begin with a ` +
    `start token. After one of ${settings.triggers} triggers (here “copy”; a saved model has circled digits) the token before it repeats; after any other token ` +
    'the next is drawn from a bigram table, so the best possible loss is known. Attention is needed ' +
    'only at triggers: what does it do elsewhere? Both models have the same seed and read the same ' +
    'batches, unless task, length, batch or triggers differ. The maps show a sequence that is in no batch.'
  );
}

function textWords(
  { steps, batch, length }: Settings,
  text: { readonly tokens: number; readonly name: string } | undefined,
): string {
  const tokenCount = text?.tokens ?? NaN;
  const readsPerToken = (Number(steps) * Number(batch) * Number(length)) / tokenCount;
  const { name = 'the passages' } = text ?? {};
  const description =
    name === 'the passages'
      ? 'passages of children’s books in the public domain that ship with this page; no model of this page ' +
        'was trained on them'
      : `${name === 'the Apache license' ? '' : 'your text '}${name}`;
  const memorizes =
    'so the model memorizes the text: the training loss falls below what it would be on new text';
  return (
    `Fine-tuning starts from the trained weights with a new AdamW state, on ${description}: ` +
    `${tokenCount.toLocaleString('en')} tokens. ${steps} steps read each token about ` +
    `${readsPerToken.toFixed(1)} times${readsPerToken > 1 ? `, ${memorizes}` : ''}. ` +
    'Both models read the same batches. The maps show one piece of the text.'
  );
}
