/** Writes sentences about a lab's measurements. Their wording depends on the numbers, so that it fits any training. */
import type { LogEntry, Operation } from 'sinkscope';
import { defaults, type State } from '../ask/state';
import { headAt, mean, type Head } from '../frame';
import { capitalize, formatPercent, formatValue, modelHeadName, wholePercent } from '../words';
import type { Lab } from './lab';
import { tokenTexts } from './from_scratch';
import { presetOf } from './presets';
import { isFineTune, type Settings } from './settings';

/** The number of steps over which sentences average, since a batch is noisy. */
const RECENT_STEPS = 20;
const EPS = defaults.eps;
/** The label of the extra key, which belongs to no token. */
export const EXTRA_KEY = '∗';
/** The label of the token before every sequence. */
export const START = '<s>';

const weightWords = (weight: number): string =>
  weight >= 0 && weight <= 1 ? formatPercent(weight, 0) : formatValue(weight);

/** Returns the mean of a column over the recent steps that have it; NaN if none has. */
export function recentMean({ log }: Pick<Lab, 'log'>, name: string): number {
  return mean(log.slice(-RECENT_STEPS).flatMap((entry) => entry[name] ?? []));
}

/** Returns the step since which the mean of `first_most` over recent steps has exceeded ε; undefined without a sink. */
function sinkStep(log: readonly LogEntry[]): number | undefined {
  let sinkStart: number | undefined;
  let sum = 0;
  log.forEach((entry, i) => {
    sum += (entry.first_most ?? 0) - (log[i - RECENT_STEPS]?.first_most ?? 0);
    const isAbove = sum / Math.min(RECENT_STEPS, i + 1) > EPS;
    sinkStart = isAbove ? (sinkStart ?? entry.step) : undefined;
  });
  return sinkStart;
}

/** Returns the mean attention of the later tokens on the first one if attention is uniform. */
export function uniformShare({ length }: Settings): number {
  const T = Number(length);
  let sum = 0;
  for (let t = 1; t < T; t++) sum += 1 / (t + 1);
  return sum / (T - 1);
}

/** Whether a token of the sample is a circled digit. */
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
  /** The key whose column is framed: the first token; the strongest one, if that has more, and over ε. −1: the extra key. */
  readonly framed: { readonly key: number; readonly weight: number };
}

/** Returns the framed column. A later token counts if half of the ordinary rows see it. */
function framedColumn(
  { weights, weight, extraKey }: Omit<ShownHead, 'framed' | keyof Head>,
  rows: readonly number[],
  T: number,
): ShownHead['framed'] {
  let framed = { key: 0, weight };
  for (let key = extraKey ? -1 : 1; key < T; key++) {
    const seen = rows.filter((t) => t > key);
    if (seen.length < rows.length / 2) break;
    const own = mean(seen.map((t) => (key < 0 ? extraKey![t]! : weights[t * T + key]!)));
    if (key !== 0 && own > Math.max(EPS, framed.weight)) framed = { key, weight: own };
  }
  return framed;
}

/** Returns the head that the settings name, or else the head that gives the first token the largest weight. */
export function shownHead(lab: Lab): ShownHead | undefined {
  const { picture, settings } = lab;
  if (!picture) return undefined;
  const [L, H, T] = picture.shape as [number, number, number, number];
  const headIndex = Number(settings.head ?? -1);
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
        framed: framedColumn(candidate, nonTriggers, T),
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

/**
 * Formats the attention on a token: a share, or, if rows need not sum to 1, a weight with its share if that is given.
 */
function amountWords({ operation }: NamedLab, weight: number, share?: number): string {
  if (operation?.normalizes) return `${formatPercent(weight, 0)} of its attention`;
  const amount = weight >= 0 && weight <= 1 ? wholePercent(weight) : formatValue(weight);
  return `a weight of ${amount}${share === undefined ? '' : ` (${formatPercent(share, 0)} of its row)`}`;
}

function firstTokenAmountWords(namedLab: NamedLab): string {
  const share = shownHead(namedLab.lab)?.share ?? NaN;
  return amountWords(namedLab, recentMean(namedLab.lab, 'first_most'), share);
}

/** Returns the extra key's weight in the map, averaged over the same rows as the first token's; NaN without one. */
function extraKeyWeight(lab: Lab, { extraKey } = shownHead(lab) ?? {}): number {
  return extraKey ? mean(nonTriggersOf(lab).map((t) => extraKey[t]!)) : NaN;
}

/** Names the framed column of a map by its token and position, with its mean weight in ordinary rows. */
const framedWords = (lab: Lab, { framed: { key, weight } }: ShownHead): string =>
  `${lab.words[key]} (position ${key}) ${weightWords(weight)}`;

/**
 * Returns the number above a lab's map, and what it is the mean of; undefined without a map. Once the lab trains it is
 * the end of the curve; that of a head that the reader chose, and of an untrained model, is of the map.
 */
export function mapNumber({ lab }: NamedLab): readonly [string, string] | undefined {
  const headShown = shownHead(lab);
  if (!headShown) return undefined;
  const [L, H] = lab.picture!.shape as [number, number];
  const recent = Number(lab.settings.head ?? -1) < 0 ? recentMean(lab, 'first_most') : NaN;
  const isRecent = Number.isFinite(recent);
  const rows = isFineTune(lab.settings) ? 'in all rows' : 'at ordinary letters';
  const extraKey = extraKeyWeight(lab, headShown);
  const notes = [
    `${rows}${isRecent ? ', last batches' : ' of this text'}`,
    ...(L * H > 1 ? [`map: head ${modelHeadName(headShown)}`] : []),
    ...(Number.isFinite(extraKey) ? [`extra key (∗) ${weightWords(extraKey)}`] : []),
    ...(headShown.framed.key > 0 ? [`framed: ${framedWords(lab, headShown)}`] : []),
  ];
  const weight = isRecent ? recent : headShown.weight;
  return [`${weightWords(weight)} on the first token`, notes.join('; ')];
}

export const captionWords = (namedLab: NamedLab, number = mapNumber(namedLab)): string =>
  number?.join(', ') ?? '';

/** The texts of the sample's tokens; the token before every sequence has its label, whatever its text. */
export const labelsOf = ({ words, setup }: Lab): readonly string[] =>
  words.map((text) => (text === setup?.firstText ? START : text));

export function taskTitle({ settings }: Lab): string {
  if (settings.task === 'conditional') return 'The task: at a circled digit, the mean of the past';
  return `The task: guess the next token${isFineTune(settings) ? ' of the text' : ''}`;
}

/** Explains two rows of a lab's map: the first one of a circled digit, and an ordinary one; none without both. */
export function rowNotes({ lab }: NamedLab) {
  const rows = lab.words.map((_, t) => t).slice(2);
  const trigger = rows.find((t) => isTrigger(lab, t) && !isTrigger(lab, t - 1));
  const ordinary = rows.find((t) => !isTrigger(lab, t) && !isTrigger(lab, t - 1));
  if (lab.settings.task === 'conditional' || trigger === undefined || ordinary === undefined)
    return [];
  return [
    { row: trigger, token: lab.words[trigger]!, what: 'repeat the token before' },
    { row: ordinary, token: lab.words[ordinary]!, what: 'nothing to look up' },
  ];
}

/**
 * Returns the weights of a row of a lab's map: the first token's, then the two largest others in their order, and the sum
 * of all with the number of those that are left out, in words.
 */
export function rowWeights(lab: Lab, row: number) {
  const { weights, extraKey } = shownHead(lab)!;
  const labels = labelsOf(lab);
  const [first, ...others] = labels.slice(0, row + 1).map((token, s) => {
    return { token, weight: weights[row * labels.length + s]! };
  });
  if (extraKey) others.unshift({ token: EXTRA_KEY, weight: extraKey[row]! });
  const bySize = others.toSorted((a, b) => Math.abs(b.weight) - Math.abs(a.weight));
  const shown = others.filter((other) => bySize.indexOf(other) < 2);
  const sum = [first!, ...others].reduce((total, { weight }) => total + weight, 0);
  const bars = [first!, ...shown].map((bar) => ({ ...bar, words: formatPercent(bar.weight, 0) }));
  const hidden = others.length - shown.length;
  return { bars, sum: `${hidden ? `with ${hidden} more: ` : 'sums to '}${formatPercent(sum, 0)}` };
}

function modelWords(namedLab: NamedLab, side: number): string {
  const { lab, name, operation } = namedLab;
  const positionWords = side ? '' : ' at ordinary letters';
  if (!hasSink(namedLab)) {
    const uniformNote = operation?.normalizes
      ? ` (an even share: ${formatPercent(uniformShare(lab.settings), 0)})`
      : '';
    return `${capitalize(name)} gives the first token ${firstTokenAmountWords(namedLab)}${positionWords}${uniformNote}`;
  }
  const sinkStart = sinkStep(lab.log);
  return (
    `${capitalize(name)} gives the first token ${firstTokenAmountWords(namedLab)}${positionWords}` +
    `${sinkStart === undefined ? '' : ` (above ${formatPercent(EPS, 0)} since step ${sinkStart})`}; the first token’s value norm is ` +
    `${formatValue(recentMean(lab, 'value_ratio'))}× that of the others`
  );
}

function fineTuneWords({ name, lab, operation }: NamedLab): string {
  const format = operation?.normalizes ? (value: number) => formatPercent(value, 0) : formatValue;
  const quantity = operation?.normalizes
    ? `attention on the first token (even share: ${formatPercent(uniformShare(lab.settings), 0)})`
    : 'weight on the first token';
  // The command line prints both ends. A mean over the last steps would lag behind the weights.
  const [start, end] = [lab.log[0], lab.current ?? lab.log.at(-1)];
  const changeWords = (column: string, print: (value: number) => string) =>
    `${print(start?.[column] ?? NaN)} → ${print(end?.[column] ?? NaN)}`;
  const formatNats = (value: number) => (Number.isFinite(value) ? value.toFixed(2) : '–');
  const plantedWords =
    Number(lab.settings.planted) > 0
      ? `; after the planted trigger: loss ${changeWords('loss_triggers', formatValue)}, attention on the first token ` +
        changeWords('first_triggers', format)
      : '';
  const oldTextWords =
    start?.loss_held === undefined
      ? ''
      : `, loss on the old kind of text ${changeWords('loss_held', formatNats)}`;
  return (
    `${capitalize(name)}: ${quantity} ${changeWords('first_elsewhere', format)}, its value norm relative to the others ` +
    `${changeWords('value_ratio', formatValue)}, loss ${oldTextWords && 'on the new text '}${changeWords('loss', formatNats)}${oldTextWords}${plantedWords}`
  );
}

function lossWords(pair: readonly [NamedLab, NamedLab]): string {
  const lossesAbove = (where: string) =>
    pair
      .map(({ lab }) => recentMean(lab, `loss_${where}`) - recentMean(lab, `optimum_${where}`))
      .map((nats) => (Number.isFinite(nats) ? nats.toFixed(2) : '–'))
      .join(' and ');
  return `Loss above the best possible: ${lossesAbove('elsewhere')} nats at ordinary letters, ${lossesAbove('triggers')} after circled digits.`;
}

export const SINK_WORDS = `A model has a sink if it gives the first token over ${formatPercent(EPS, 0)} of its attention.`;
type Runs = Pick<State, 'leftRun' | 'rightRun'>;

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

/** Asks which models will have a sink; only a model with a start token can look at that. */
export function questionWords(pair: readonly [NamedLab, NamedLab]): string {
  if (pair.some(({ lab }) => isFineTune(lab.settings)))
    return 'Which model will have a sink after the training?';
  const isFixed = pair.every(({ lab }) => lab.settings.first === 'fixed');
  return `When there is nothing to look up, which model will look at ${isFixed ? START : 'the first token'}?`;
}

/**
 * Says what the reader guessed, and of models that are trained to their last step whether that came true; '' without a
 * guess. A few steps, or texts so short that an even share exceeds ε, show nothing.
 */
export function guessWords(
  pair: readonly [NamedLab, NamedLab],
  guess: Outcome | undefined,
  isOver: boolean,
): string {
  if (!guess) return '';
  const own = `Your guess (${outcomeName(pair, guess)})`;
  const steps = Math.min(...pair.map(({ lab }) => lab.log.length));
  const share = Math.max(...pair.map(({ lab }) => uniformShare(lab.settings)));
  if (!isOver) return `${own}: still training.`;
  if (steps < RECENT_STEPS) return `${own}: ${steps} steps are too few to tell.`;
  if (share > EPS)
    return `${own}: these texts are too short to tell, since an even share is ${formatPercent(share, 0)}.`;
  const outcome = outcomeOf(pair);
  return `${own} is ${guess === outcome ? 'right' : 'wrong'}${outcome === 'neither' ? ' so far' : ''}.`;
}

function sinkWords(pair: readonly [NamedLab, NamedLab]): string {
  const [leftHasSink, rightHasSink] = pair.map(hasSink);
  if (leftHasSink && rightHasSink) return 'Both models have a sink.';
  if (!leftHasSink && !rightHasSink) return 'Neither model has a sink so far.';
  const [withSink, withoutSink] = leftHasSink ? pair : [pair[1], pair[0]];
  // "No extra key has a sink" would deny it.
  const isWith = pair.some(({ name }) => name.startsWith('no '));
  const subject = ({ name }: NamedLab) => (isWith ? `the model with ${name}` : name);
  return `${capitalize(subject(withSink))} has a sink; ${subject(withoutSink)} has none.`;
}

/** Answers the question of the preset, as far as its answer depends on which models have a sink; '' for other settings. */
function answerWords(pair: readonly [NamedLab, NamedLab], runs: Runs): string {
  // An extra key that gets as little as the first token replaces no sink.
  const isUnused = pair.some(({ lab }) => extraKeyWeight(lab) <= EPS);
  return (!isUnused && presetOf(runs)?.answers?.[outcomeOf(pair)]) || '';
}

/** Names the column that gathers the attention of a model without a sink, if a later token does so in its map. */
function columnWords({ lab }: NamedLab, side: number): string[] {
  const { framed } = shownHead(lab) ?? {};
  if (!framed || framed.key < 1) return [];
  const token = `${lab.words[framed.key]} (position ${framed.key})`;
  return [
    `In the text shown, ${token} takes ${weightWords(framed.weight)} of the ${side ? 'right' : 'left'} model’s attention instead.`,
  ];
}

/**
 * Answers the question of the preset, or states which models have a sink, whose numbers stand above the maps, and what
 * probability they give the right token where there is one to look up. Returns '' before both have trained a step, and
 * while both are paused at different steps.
 */
export function shortVerdictWords(pair: readonly [NamedLab, NamedLab], runs: Runs): string {
  if (pair.some(({ lab }) => !lab.log.length)) return '';
  // The numbers change with every step, and a screen reader reads each new sentence.
  if (pair.some(({ lab }) => lab.isRunning)) {
    // A pair that trains on has its answer, which depends on its sinks alone.
    const planned = Number(/steps:(\d+)/.exec(presetOf(runs)?.leftRun ?? '')?.[1] ?? NaN);
    const hasEnded = pair.every(({ lab }) => lab.log.length >= planned);
    return (hasEnded && answerWords(pair, runs)) || sinkWords(pair);
  }
  if (pair[0].lab.log.length !== pair[1].lab.log.length) return '';
  const { settings } = pair[0].lab;
  const likely = pair.map(({ lab }) => Math.exp(-recentMean(lab, 'loss_triggers')));
  const hasAnswer = !isFineTune(settings) && settings.task !== 'conditional';
  const likelyWords = pair.map(({ name }, i) => `${weightWords(likely[i]!)} (${name})`).join(', ');
  return [
    answerWords(pair, runs) || sinkWords(pair),
    ...pair.flatMap((namedLab, side) => (hasSink(namedLab) ? [] : columnWords(namedLab, side))),
    ...(hasAnswer && likely.every(Number.isFinite)
      ? [
          `Probability of the right token after a circled digit: ${likelyWords}; by a blind guess ${weightWords(1 / tokenTexts(settings).length)}.`,
        ]
      : []),
  ].join(' ');
}

/**
 * States which models have a sink, since which step, and with what loss; of fine-tuned models, how their means changed.
 * Returns '' before both have trained a step.
 */
export function verdictWords(pair: readonly [NamedLab, NamedLab]): string {
  if (pair.some(({ lab }) => !lab.log.length)) return '';
  if (isFineTune(pair[0].lab.settings)) return `${pair.map(fineTuneWords).join('. ')}.`;
  const summary = `${sinkWords(pair)} ${pair.map(modelWords).join('. ')}. ${lossWords(pair)}`;
  const shortSettings = pair.find(({ lab }) => uniformShare(lab.settings) > EPS / 2)?.lab.settings;
  if (!shortSettings) return summary;
  return (
    `Short sequences (${shortSettings.length} tokens): an even share alone gives the first token ` +
    `${formatPercent(uniformShare(shortSettings), 0)}. ${summary}`
  );
}

/** Explains the task, the colors and the curves. */
export function explanationWords({ settings, setup }: Lab): string {
  return (
    `${isFineTune(settings) ? textWords(settings, setup?.text) : taskWords(settings)} The color of a cell is its weight, on a ` +
    'square-root scale; pointing at it also gives its share of the row. The curves are means over the batches of training, of the strongest head. ' +
    'Keyboard, while the focus is in the lab: T starts and pauses training, S trains one step, R resets.'
  );
}

function taskWords(settings: Settings): string {
  return (
    `The Bigram-Backcopy task (Guo et al. 2024): sequences over ${tokenTexts(settings).length} tokens that begin with a ` +
    'start token. After a trigger (a ringed number) the token before it repeats; after any other token ' +
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
  const description =
    text?.name === undefined || text.name === 'the passages'
      ? 'passages of children’s books in the public domain that ship with this page; no model of this page ' +
        'was trained on them'
      : `your text ${text.name}`;
  return (
    `Fine-tuning starts from the trained weights with a new AdamW state, on ${description}: ` +
    `${tokenCount.toLocaleString('en')} tokens. ${steps} steps read each token about ` +
    `${readsPerToken.toFixed(1)} times, so the model memorizes the text: the training loss falls below what it ` +
    'would be on new text. Both models read the same batches. The maps show one piece of the text.'
  );
}
