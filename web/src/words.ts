/** The page's sentences: findings, conditions and classes of numbers. Each is computed from a frame. */
import { judge, type Conditions, type Judgment } from 'sinkscope';
import { isolate } from './ask/ids';
import { joinTokens } from './parts';
import { shorten } from './ask/state';
import { claimOf, disagrees, laterSink, type Claim, type LaterSink, type Span } from './claims';
import {
  firstTokenWeights,
  firstKey,
  type Frame,
  groupOf,
  type Head,
  headAt,
  isBidirectional,
  isCommonToken,
  mean,
  modelHead,
  slotShares,
  usesRawWeights,
  statisticsOverPrompts,
} from './frame';

/** Bars and sentences show no difference of less than one point of 100%, and of less than a twentieth of the larger number. */
export const SMALL_SHARE = 0.01;
const SMALL_PART = 0.05;
/** The same for losses: in nats per token, a twentieth of the perplexity, and a hundredth of the larger loss. */
const [SMALL_RISE, SMALL_LOSS_PART] = [0.05, 0.01];

const signBeyond = (a: number, b: number, least: number, part: number): number =>
  // Differences of rounded numbers are not exact.
  Math.abs(a - b) <= Math.max(least, part * Math.max(Math.abs(a), Math.abs(b))) + 1e-9
    ? 0
    : Math.sign(a - b);

/** Returns 1 or -1 if a reader would call `a` more or less than `b`, else 0. @param least 0 for lengths */
export const compare = (a: number, b: number, least = SMALL_SHARE): number =>
  signBeyond(a, b, least, SMALL_PART);
export const compareLosses = (a: number, b: number): number =>
  signBeyond(a, b, SMALL_RISE, SMALL_LOSS_PART);

/** Formats a number; a dash if it is undefined. */
export function formatValue(value: number, digits = 2): string {
  if (!Number.isFinite(value)) return '–';
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size < 10 ** -digits || size >= 1e5) return value.toExponential(1);
  return value.toFixed(digits);
}

/** `formatValue` with a minus sign instead of a hyphen. */
export const formatReal = (value: number, digits = 2): string =>
  formatValue(value, digits).replace(/^-/, '−');
export const formatSigned = (value: number, digits = 2): string =>
  `${value > 0 ? '+' : ''}${formatReal(value, digits)}`;

/** Formats a share; `<0.1%` if it rounds to nothing. */
export function formatPercent(share: number, digits = 1): string {
  if (!Number.isFinite(share)) return '–';
  const digitsText = (100 * share).toFixed(digits);
  const smallest = 10 ** -digits;
  const isZero = Number(digitsText) === 0;
  if (share > 0 && isZero) return `<${smallest.toFixed(digits)}%`;
  return `${digitsText.replace('-', isZero ? '' : '−')}%`;
}

/** Row sums below this are printed with a decimal, as are the weights of such rows. */
const SMALL_SUM = 0.0995;

/** Formats a row sum in whole percents, below 10% with one decimal. */
export const sumWords = (sum: number): string =>
  formatPercent(sum, Math.abs(sum) < SMALL_SUM ? 1 : 0);

export function rowsWords({ sums, rowSum }: Claim): string {
  // The range has the digits of the mean, which is beside it.
  const digits = Math.abs(rowSum) < SMALL_SUM ? 1 : 0;
  const [least] = sums;
  const [low, high] = sums.map((sum) => formatPercent(sum, digits)) as [string, string];
  if (low === '–') return '';
  return low === high
    ? `each row sums to ${low}`
    : `rows sum to ${least < 0 ? `${low} to ` : `${low.replace('%', '')}-`}${high}`;
}

/** A recording's tokens may have any length, and the page shows them in many places. Those of models are shorter. */
const MAX_TOKEN_LENGTH = 160;
const MAX_SOURCE_LENGTH = 400;

/** Returns a token's text, shortened, on one line. White space and control characters become visible signs. */
export function makeReadable(text: string): string {
  const signOf = (code: number) => String.fromCodePoint(code === 127 ? 0x2421 : 0x2400 + code);
  return (
    shortToken(text)
      .replace(/\n/g, '↵')
      .replace(/\t/g, '⇥')
      // A token of spaces alone would be invisible.
      .replace(/^ +$/, (spaces) => '␣'.repeat(spaces.length))
      .replace(/ /g, '\u00a0')
      .replace(/[\0-\x1f\x7f]/g, (c) => signOf(c.charCodeAt(0)))
      .replace(
        /[\x80-\x9f\u202a-\u202e\u2066-\u2069\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g,
        '\ufffd',
      ) || '∅'
  );
}

const shortToken = (text: string): string => shorten(text, MAX_TOKEN_LENGTH);

/** Says how long a token is that the page shortens. */
export const lengthWords = ({ length }: string): string =>
  length > MAX_TOKEN_LENGTH ? `, ${length.toLocaleString('en')} characters` : '';

export const tokenWord = (text: string): string => makeReadable(text.replace(/^ (?=\S)/, ''));

export function quote(frame: Frame, t: number): string {
  return `“${isolate(tokenWord(frame.tokens[t]?.text ?? ''))}”`;
}

/** Returns what a key is: a token; in cross-attention an encoder token, an encoder frame or an image patch. */
export const keyUnit = ({ recording }: Pick<Frame, 'recording'>): string => {
  const keys = recording?.cross?.keys;
  return keys === 'patch' ? 'image patch' : keys ? `encoder ${keys}` : 'token';
};

/** Whether keys have no text: they are the frames or patches of another sequence. */
const areKeysNumbered = ({ recording }: Pick<Frame, 'recording'>): boolean =>
  Boolean(recording?.cross && recording.cross.keys !== 'token');

/** Returns the text of a key, or its number among the frames or patches. */
export const keyText = (frame: Frame, key: number): string =>
  areKeysNumbered(frame) ? `${keyUnit(frame)} ${key}` : quote(frame, key);

export const keyName = (frame: Frame, key: number): string =>
  areKeysNumbered(frame) ? keyText(frame, key) : `key ${key} ${quote(frame, key)}`;

/** Returns the text of a recording's first prompt; of cross-attention what the encoder read, and what the decoder did. */
export function recordedText(frame: Frame): string {
  const join = (tokens: Frame['tokens']) => joinTokens(tokens.map(({ text }) => shortToken(text)));
  const keysText = areKeysNumbered(frame) ? `${frame.T} ${keyUnit(frame)}s` : join(frame.tokens);
  return frame.queries ? `${keysText} → ${join(frame.queries).trim()}` : keysText;
}

export const axesClause = (frame: Pick<Frame, 'recording' | 'T'>): string =>
  `rows are the decoder’s ${frame.recording!.cross!.T} tokens, columns ${frame.T} ${keyUnit(frame)}s, and each row sees all of them`;

/** Returns the text of a query, which in cross-attention is a token of the decoder. */
export const quoteQuery = (frame: Frame, query: number): string =>
  quote({ ...frame, tokens: frame.queries ?? frame.tokens }, query);

export const queryName = (frame: Frame, query: number): string =>
  `query ${query} ${quoteQuery(frame, query)}`;

/** Says how much of a long text is left out. */
export const cutWords = ({ dropped, T }: Pick<Frame, 'dropped' | 'T'>): string =>
  `${dropped.toLocaleString('en')} more ${dropped === 1 ? 'token' : 'tokens'} of this text not read (T = ${T})`;

/** Returns a token after a space, for a number of all prompts; empty if they differ in it. */
export const commonQuote = (frame: Frame, t: number): string =>
  isCommonToken(frame, t) && !areKeysNumbered(frame) ? ` ${quote(frame, t)}` : '';

/** Names the prompt of numbers that are not means over the prompts; empty if there is only one. */
export const firstPromptWords = ({ sequences }: Pick<Frame, 'sequences'>): string =>
  sequences > 1 ? ' on the first prompt' : '';

/** Says what several keys receive together; empty without a span. */
export function spanSentence(span: Span | undefined, frame: Frame): string {
  if (!span) return '';
  const { from, to, queries, attention, uniform, isShare } = span;
  const words = frame.tokens.slice(from, to + 1).map(({ text }) => makeReadable(text));
  const tokens = areKeysNumbered(frame)
    ? `${capitalize(keyUnit(frame))}s ${from}–${to}`
    : `Tokens ${from}–${to}, “${shorten(
        joinTokens(words)
          .replace(/\u00a0/g, ' ')
          .trim(),
        60,
      )}”,`;
  const by = queries === 1 ? 'the one query' : `the ${queries} queries`;
  const amount = isShare
    ? `${formatPercent(attention)} of the attention of ${by} that ${queries === 1 ? 'sees' : 'see'} all of them${firstPromptWords(frame)}`
    : `a weight of ${formatValue(attention, 3)}, the mean over ${by} that ${queries === 1 ? 'sees' : 'see'} all of them${firstPromptWords(frame)}`;
  const uniformNote = isShare
    ? `; uniform attention would give them ${formatPercent(uniform)}`
    : '';
  return `${tokens} together receive ${amount}${uniformNote}.`;
}

/** Puts an opening before a sentence: its words, in small letters, begin the new sentence. */
export const introduce = (opening: string, sentence: string): string =>
  opening && sentence ? `${capitalize(opening.trim())}, ${decapitalize(sentence)}` : sentence;

/** Says that a number is a mean over the prompts; empty if there is only one. */
export const averageWords = ({ sequences }: Pick<Frame, 'sequences'>): string =>
  sequences > 1 ? ` on average over ${sequences} prompts` : '';

/** Says that a number is a mean, over the prompts if there are several. */
export const meanWords = (frame: Pick<Frame, 'sequences'>): string =>
  averageWords(frame) || ' on average';

export const textsWords = ({ sequences }: Pick<Frame, 'sequences'>): string =>
  sequences > 1 ? 'these texts' : 'this text';

export const tokenText = (frame: Frame, t: number): string =>
  frame.tokens[t]?.special ? quote(frame, t).replace(/[“”]/g, '') : quote(frame, t);

export const firstTokenText = (frame: Frame): string => tokenText(frame, firstKey(frame));

/** Says where a hidden state is: 0 is before all layers, which count from 0. */
export const stateWords = (hidden: number): string =>
  hidden ? `after layer ${hidden - 1}` : 'at the embedding';

/** Names a head by the model's number of its layer, as TransformerLens and the papers do: both count from 0. */
export const modelHeadName = ({ layer, head }: Head): string => `L${layer}H${head}`;

/** Returns the name of a head whose layer is an index among the layers with attention. */
export const headName = (at: Head, frame: Pick<Frame, 'architecture'>): string =>
  modelHeadName(modelHead(frame, at));

export function headWords(at: Head, frame: Pick<Frame, 'architecture'>): string {
  return `head ${headName(at, frame)}`;
}

export const CLASS_WORDS = {
  measured: 'MEASURED',
  counterfactual: 'COUNTERFACTUAL',
  edited: 'EDITED',
} as const;

const SOURCE_WORDS = {
  zoo: 'on weights trained for this page',
  hub: 'on published weights',
  disk: 'on weights from your disk',
  recording: 'in a recording, which somebody made',
} as const;

export function classWords(frame: Frame): string {
  if (frame.recording) return recordingWords(frame.recording);
  const parameterWords = `${(frame.architecture.parameters! / 1e6).toFixed(2)} M parameters`;
  if (frame.class === 'measured') return `${SOURCE_WORDS[frame.model.source]}, ${parameterWords}`;
  return (
    `replaced at inference. The weights (${parameterWords}) were trained with ` +
    `${frame.architecture.attention.operation} and without this edit; a model trained with it may ` +
    'behave differently.'
  );
}

function recordingWords({ model, prompts, license, versions, command }: Conditions): string {
  const precision = [model.dtype, model.attention].filter(Boolean).join(', ');
  const programs = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  const parts = [
    `read from a recording of ${model.id}${model.revision ? `@${model.revision}` : ''}`,
    precision && `computed in ${precision}`,
    prompts.source && `prompts: ${prompts.source}`,
    programs.length && `made by ${programs.join(', ')}`,
    license && `license ${license}`,
    command,
  ];
  return parts.flatMap((part) => (part ? [shorten(part, MAX_SOURCE_LENGTH)] : [])).join('; ');
}

/** Names the special tokens at the start of the text, and the first token's position if that is not 0. */
export function startTokenWords(
  frame: Pick<Frame, 'first' | 'firstAt' | 'special' | 'image'>,
): string {
  const { first, special } = frame;
  const key = firstKey(frame);
  const positionNote = key ? `, first token: position ${key}` : '';
  if (first.length === 0) return `no start token${positionNote}`;
  const isStart = first.length === 1 && first[0] === special.bos;
  return `starts with ${first.map(makeReadable).join(' ')}${isStart ? ` (${startRole(frame).slice(4)})` : ''}${positionNote}`;
}

/** Returns the class of a frame's numbers and all their conditions, as printed under every figure. */
export function stampWords(frame: Frame): string {
  const { eps, T, sequences, model, title } = frame;
  const promptWords = sequences === 1 ? '1 prompt' : `mean of ${sequences} prompts`;
  const { cross } = frame.recording ?? {};
  const sizeWords = cross
    ? `${cross.T} decoder tokens × ${T} ${keyUnit(frame)}s`
    : `T = ${T} · ${startTokenWords(frame)}`;
  const settingWords = frame.setting ?? `ε = ${eps} · ${sizeWords} · ${promptWords}`;
  const recordedNote = model.source === 'recording' ? ' · recorded' : '';
  const storageNote = model.bits ? ` · stored at ${model.bits.toFixed(1)} bits per weight` : '';
  return `${CLASS_WORDS[frame.class]} · ${settingWords} · ${title}${recordedNote}${storageNote}`;
}

/** Judges Sink_k of one key, by default of the first token. */
export function verdictOf(frame: Frame, key = firstKey(frame)): Judgment {
  const { tensors, eps, operation, architecture } = frame;
  return judge({
    ...{ eps, mask: architecture.mask, bias_key: architecture.bias_key, first: key },
    even: tensors.alpha_uniform!.data[key]!,
    normalizes: operation.normalizes,
    signed: operation.proxy === 'share_abs',
    sink: tensors.sink_ratio!.data[key]!,
    sinkRaw: tensors.sink_ratio_raw!.data[key]!,
  });
}

/** States a share of all heads: on one text as a number of heads, as a mean over several in percent. */
export function headsWords(
  { architecture: { L, H }, sequences }: Pick<Frame, 'architecture' | 'sequences'>,
  share: number,
): string {
  const headCount = L * H;
  if (!Number.isFinite(share)) return `an unrecorded number of the ${headCount} heads`;
  if (headCount === 1) return share < 0.5 ? 'none of its heads' : 'all of its heads';
  const amount =
    sequences > 1 && share > 0 ? formatPercent(share, 0) : (share * headCount).toFixed(0);
  return `${amount === '0' ? 'none' : amount} of the ${headCount} heads`;
}

/** Whether an edit hides the first token in all heads: a share under uniform attention would then mislead. */
export const isFirstHidden = (frame: Pick<Frame, 'edits' | 'firstAt'>): boolean =>
  frame.edits.some(
    (edit) =>
      edit.kind === 'hide_key' &&
      edit.key === firstKey(frame) &&
      edit.layer === undefined &&
      edit.query === undefined,
  );

const HIDING_EDITS = ['mask', 'hide_key', 'self_only', 'evict'];

/** Whether windows or edits hide keys from queries that the mask would let see them. */
function hidesKeys({
  architecture: { windows = [] },
  edits,
  T,
}: Pick<Frame, 'architecture' | 'edits' | 'T'>): boolean {
  return (
    windows.some((size) => size !== null && size < T) ||
    edits.some(({ kind }) => HIDING_EDITS.includes(kind))
  );
}

/** Says over which tokens uniform attention is spread. Its definition ignores windows and edits that hide keys. */
export function spreadWords(
  frame: Pick<Frame, 'architecture' | 'edits' | 'T' | 'recording'>,
): string {
  if (frame.recording?.cross) return `over the ${frame.T} ${keyUnit(frame)}s`;
  const { bias_key } = frame.architecture;
  const tokens = hidesKeys(frame)
    ? `all ${isBidirectional(frame) ? '' : 'earlier '}tokens, seen or not`
    : 'the tokens that each row sees';
  return `over ${tokens}${bias_key ? ', and the bias key' : ''}`;
}

/** Says why the heads of a short text are not counted; empty for a text that is long enough. */
export function tooShortNote(frame: Frame): string {
  const { T, eps } = frame;
  const { even, least, conclusive } = verdictOf(frame);
  if (conclusive) return '';
  const minimumWords = Number.isFinite(least) ? `; ${least} tokens suffice` : '';
  return (
    `Heads are not counted: ${frame.recording?.cross ? `over ${T} ${keyUnit(frame)}s` : `in a text of ${T} ${T === 1 ? 'token' : 'tokens'}`}, uniform attention alone gives ` +
    `${firstName(frame)} ${formatPercent(even, 0)}, above ε = ${eps}${minimumWords}.`
  );
}

export const startsSpecial = (frame: Frame): boolean =>
  !frame.recording?.cross &&
  Boolean(frame.tokens[firstKey(frame)]?.special) &&
  isCommonToken(frame, firstKey(frame));

/** Introduces the first token: role, text if common to all prompts, position if not 0. Later: `firstName`. */
export function firstTokenName(frame: Frame): string {
  const key = firstKey(frame);
  const positionNote = key ? ` (position ${key})` : '';
  return startsSpecial(frame)
    ? `${startRole(frame)} ${firstTokenText(frame)}${positionNote}`
    : `${firstOf(frame)}${commonQuote(frame, key)}${positionNote}`;
}

const firstOf = (frame: Frame): string => `the first ${keyUnit(frame)}`;

/** What a special first token is: in a model of images, whose tokens are no text, the class token. */
export const startRole = ({ image }: Pick<Frame, 'image'>): string =>
  image && !image.kinds.includes('t') ? 'the class token' : 'the start token';

/** Returns the one name that sentences have for the first token: the text of a start token. */
export const firstName = (frame: Frame): string =>
  startsSpecial(frame) ? firstTokenText(frame) : firstOf(frame);

/** Says what the first token is, if it only marks the start of a text, and what a sink is. */
export function sinkDefinition(frame: Frame): string {
  const name = firstName(frame);
  const isStart = startsSpecial(frame) && !isBidirectional(frame);
  const role = isStart ? `${name} marks the start of a text and means nothing. ` : '';
  return `${role}A head with over ${formatPercent(frame.eps, 0)} attention on ${isStart ? 'it' : name} has a sink.`;
}

/** Names a model within a sentence: “the softmax model”, “the model “No BOS””; a title without spaces is a name. */
export function modelName({ title }: Pick<Frame, 'title'>): string {
  const [, name = '', rest = ''] = /^(.*?)( at step .*)?$/s.exec(title) ?? [];
  if (/^The /.test(name) || !/^\S+ \S/.test(name)) return title;
  return /^[A-Z][a-z]+ model\b/.test(name)
    ? `the ${decapitalize(name)}${rest}`
    : `the model “${name}”${rest}`;
}

const SUBSCRIPTS = '₀₁₂₃₄₅₆₇₈₉';

/** Returns the first token's position in subscripts; papers count from 1. */
export const firstTokenSubscript = (frame: Pick<Frame, 'firstAt'>): string =>
  String(firstKey(frame) + 1).replace(/\d/g, (digit) => SUBSCRIPTS[Number(digit)]!);

/** Says how many times uniform attention a head gives the first token; empty where weights are not shares of 1. */
export function timesUniform(frame: Frame, share: number): string {
  const ratio = share / verdictOf(frame).even;
  if (usesRawWeights(frame) || isFirstHidden(frame) || !Number.isFinite(ratio)) return '';
  return `, ${formatValue(ratio, 1)} times uniform`;
}

/** Returns the mean over all heads of the attention on the first token: of shares of the row, or of weights. */
export const meanAttention = (frame: Frame, isShare = false): number => {
  const { L, H } = frame.architecture;
  return isShare
    ? mean(Array.from({ length: L * H }, (_, i) => claimOf(frame, headAt(i, H)).share))
    : mean(firstTokenWeights(frame));
};

/**
 * Formats the parts of a row so that the written numbers sum to what the row sums to: in whole percents, and with a decimal
 * where a part is small or whole percents do not sum up. What is left is then added where rounding took most.
 */
export function formatParts(shares: readonly number[]): string[] {
  const isSmall = shares.some((share) => share > 0 && share < 0.0095);
  const [whole, decimal] = [0, 1].map((digits) => {
    const exact = shares.map((share) => 100 * share * 10 ** digits);
    const total = Math.round(exact.reduce((a, b) => a + b, 0));
    const units = exact.map(Math.round);
    return { digits, exact, units, left: total - units.reduce((a, b) => a + b, 0), total };
  });
  const { digits, exact, units, left, total } = isSmall || whole!.left ? decimal! : whole!;
  const shift = Math.sign(left);
  const rounded = exact.map((x, i) => shift * (x - units[i]!));
  const shifted = exact
    .map((_, i) => i)
    .sort((a, b) => rounded[b]! - rounded[a]!)
    .slice(0, Math.abs(left));
  const unit = 10 ** (-2 - digits);
  return shares.map((share, i) => {
    const written = units[i]! + (shifted.includes(i) ? shift : 0);
    if (share > 0 && !written) return formatPercent(1e-9, digits);
    // Beside a part that is too small to be written, 99.97% is not 100%.
    const isAlmostAll = written === total && shares.some((other, n) => n !== i && other > 0);
    return isAlmostAll
      ? `>${formatPercent((written - 1) * unit, digits)}`
      : formatPercent(written * unit, digits);
  });
}

/** Formats a share in whole percents, below 1% with one decimal. */
export const wholePercent = (share: number): string => formatPercent(share, share < 0.0095 ? 1 : 0);

/** `wholePercent` with a decimal where rounding would hide on which side of a bound the share is. */
export const percentBeside = (share: number, bound: number): string =>
  wholePercent(share) === wholePercent(bound) ? formatPercent(share, 1) : wholePercent(share);

/** Whether rows need not sum to 1 and no head gives the first token as much as uniform attention would. */
export const isBelowUniform = ({ isShare, isStrongest, attention, uniform }: Claim): boolean =>
  !isShare && isStrongest && attention < uniform;

/** Formats a weight of a row: where the row sums to little it has a decimal, as the sum has. */
export const weightBeside = (weight: number, sum: number): string =>
  Math.abs(sum) < SMALL_SUM ? formatPercent(weight) : wholePercent(weight);

/** Formats the number of a claim. */
export const amountOf = ({ attention, isShare, rowSum }: Claim): string =>
  isShare ? wholePercent(attention) : weightBeside(attention, rowSum);

/** Formats the number of a claim, or a bound. A picture, its caption and its card state no other number about the head. */
export function attentionWords(claim: Claim): string {
  // A bound is rounded up so that it holds.
  return isBelowUniform(claim)
    ? formatPercent(Math.ceil(100 * claim.attention - 1e-4) / 100, 0)
    : amountOf(claim);
}

/** Says what the head's number is a share of. */
export const shareWords = (frame: Frame): string =>
  frame.operation.normalizes
    ? 'of its attention'
    : usesRawWeights(frame)
      ? 'of its row sums'
      : 'of the sizes of its weights';

/** Compares a share with `even`, the share that the first token would get under uniform attention. */
export function evenShareWords(share: number, even: number): string {
  const multiple = share / even;
  if (multiple < 0.8) return 'less than an even share';
  if (multiple < 1.25) return 'about an even share';
  const number = multiple.toFixed(multiple < 2.95 ? 1 : 0).replace('.0', '');
  return `${number === '2' ? 'twice' : `${number} times`} an even share`;
}

export const MUST_SPEND_SENTENCE =
  'Softmax must hand out 100% in every row, even where a head has no use for it.';

export const SPENDS_ALL = 'Softmax makes each token spend exactly 100% of its attention.';

/**
 * Says why softmax gives the first token attention that is of no use elsewhere; empty where rows need not sum to 100%, or an
 * extra key takes a part.
 */
export function spendSentences(frame: Frame): string {
  const { operation, architecture, recording } = frame;
  const isSoftmax = operation.name === 'softmax' && operation.normalizes;
  if (!isSoftmax || architecture.bias_key || recording?.cross) return '';
  const why = hidesKeys(frame) ? '' : ', which every token sees';
  return (
    `${SPENDS_ALL} A head that needs no other token must still spend it: ` +
    `it can go to ${firstName(frame)}${why}.`
  );
}

/** Says how to read the attention maps of these models. */
export const mapWords = (frames: readonly Frame[]): string =>
  `each row: where one token looks${frames.every(isBidirectional) ? '' : '; gray: later tokens'}`;

/** What can be a sink. */
export const ALWAYS_THERE =
  'A token that is always there and visible to all, such as a start token,';

export const SOFTMAX_AND_SIGMOID =
  `${MUST_SPEND_SENTENCE} ${ALWAYS_THERE} can become the place where such ` +
  'attention goes. Sigmoid weighs each token by its own score: its rows may sum to little, so it needs no such place.';

/** Explains what attention on a small value is for; empty unless a head has a sink with a small value. */
export function purposeWords(frame: Frame, at: Head): string {
  const { G } = frame.architecture;
  const ratio = frame.tensors.value_ratio?.data[at.layer * G + groupOf(frame, at)];
  const claim = claimOf(frame, at);
  if (frame.operation.name !== 'softmax' || !(ratio! < 0.5) || claim.attention < 2 * claim.uniform)
    return '';
  return (
    `The sink lets the head say almost nothing: the value of ${firstTokenName(frame)} is ${formatValue(ratio!)}× as long as those of ` +
    'other tokens, so attention on it adds little.'
  );
}

export function claimSentence(claim: Claim, frame: Frame): string {
  const [first, number] = [firstTokenName(frame), attentionWords(claim)];
  const headText = headWords(claim.at, frame);
  // The map beside this sentence shows only the first prompt.
  const averageNote = averageWords(frame);
  if (isBelowUniform(claim)) {
    return `No head gives ${first} more than ${number}${averageNote}; ${headText} gives it the most.`;
  }
  const amountWords = claim.isShare
    ? `${number} ${shareWords(frame)}`
    : `a mean weight of ${number}`;
  return `${capitalize(headText)} gives ${first} ${amountWords}${averageNote}.`;
}

/** States the finding about one subject: the chosen head, the mean over all heads, uniform attention, Sink_1. */
export function findingWords(frame: Frame, at: Head): string {
  const verdict = verdictOf(frame);
  const { L, H } = frame.architecture;
  const claim = claimOf(frame, at);
  const evenClause = isFirstHidden(frame)
    ? ''
    : `; uniform attention, spread evenly ${spreadWords(frame)}, would give ${formatPercent(verdict.even, 0)}`;
  const portionWords =
    L * H > 1
      ? `The mean over all ${L * H} heads is ${formatPercent(meanAttention(frame), 0)}`
      : 'It is the only head';
  const meanSentence = claim.isShare
    ? `${portionWords}${evenClause}.`
    : rowSumSentence(claim, frame);
  const sentence = `${claimSentence(claim, frame)} ${meanSentence}`.trim();
  return verdict.conclusive
    ? `${sentence} ${sinkCountSentence(frame, verdict.sink)}${shareCountSentence(frame)}${biasNote(frame)}`
    : `${sentence} ${tooShortNote(frame)}`;
}

/** States the row sums of a head whose rows need not sum to 1, and the first token's share where it disagrees. */
export function rowSumSentence(claim: Claim, frame: Frame): string {
  if (claim.isShare || !Number.isFinite(claim.rowSum)) return '';
  // The mean of the rows' shares is not the share of the means.
  const shareClause = disagrees(claim, frame)
    ? `; as a share of each row, ${firstName(frame)} gets ${formatPercent(claim.share, 0)} on average`
    : '';
  return `Rows need not sum to 100%: those of this head sum to ${sumWords(claim.rowSum)} on average${shareClause}.`;
}

/** Says how many heads would have a sink by shares of the row, if that is another number than by weight. */
export function shareCountSentence(frame: Frame): string {
  const { sink, sinkByShares, conclusive } = verdictOf(frame);
  if (!conclusive || !Number.isFinite(sink) || sink === sinkByShares || !usesRawWeights(frame))
    return '';
  const { L, H } = frame.architecture;
  const heads = Array.from({ length: L * H }, (_, i) => claimOf(frame, headAt(i, H))).filter(
    (claim) => disagrees(claim, frame) && claim.share > claim.attention,
  );
  const rowSum = mean(heads.map((claim) => claim.rowSum));
  const [subject, their] =
    heads.length > 1 ? [`${heads.length} of them give`, 'their'] : ['one of them gives', 'its'];
  const reason = Number.isFinite(rowSum)
    ? `; ${subject} little (${their} rows sum to ${sumWords(rowSum)} on average), but as a share of each row ${firstName(frame)} gets ${formatPercent(mean(heads.map(({ share }) => share)), 0)}`
    : '';
  return ` By the paper’s measure, which looks at shares of the row, ${headsWords(frame, sinkByShares)} would count${reason}.`;
}

/** Names what a count is of, in a few words: this text, or so many passages or prompts. */
export function countedOn({ sequences, question, recording, generated }: Frame): string {
  if (sequences > 1)
    return `over ${sequences} ${question.input === 'heldout' && !recording ? 'passages' : 'prompts'}`;
  return (question.input === 'text' || recording || generated) && !recording?.cross
    ? 'on this text'
    : 'on one prompt';
}

/** Names the later token that is a sink, and how much it gets. */
export const laterSinkText = (frame: Frame, { key, attention }: LaterSink): string =>
  `${formatPercent(attention, 0)} on ${quote(frame, key)} at position ${key}`;

/** Says where the sink of a head is that has none at the first token; '' if it has none at a later one. */
export function laterSinkSentence(frame: Frame, at: Head): string {
  const later = laterSink(frame, at);
  if (!later) return '';
  return ` Its ${later.isOnly ? '' : 'strongest '}sink is at a later token: ${laterSinkText(frame, later)}.`;
}

/** Says how many heads give something, with a verb that agrees. */
export const headsGive = (frame: Frame, share: number): string =>
  headsDo(frame, share, 'give', 'gives');

export const headsHave = (frame: Frame, share: number): string =>
  headsDo(frame, share, 'have', 'has');

function headsDo(frame: Frame, share: number, verb: string, verbOfOne: string): string {
  const words = headsWords(frame, share);
  return `${words} ${words.startsWith('1 of') ? verbOfOne : verb}`;
}

/**
 * Says how many heads have a sink.
 * @param sink the share of the heads; of a model with one head it is a share of the prompts
 */
export function sinkCountSentence(frame: Frame, sink: number, note = ''): string {
  const { architecture, eps, sequences } = frame;
  const amountWords = `${firstName(frame)} more than ${formatPercent(eps, 0)}${note}`;
  const hasSink = sink > 0;
  const sinkClause = ': such a head has an attention sink.';
  const scope = capitalize(countedOn(frame));
  if (architecture.L * architecture.H === 1) {
    if (!hasSink) return `${scope}, it does not give ${amountWords}, so it has no attention sink.`;
    const subject = sequences > 1 ? `in ${formatPercent(sink, 0)} of them it gives` : 'it gives';
    return `${scope}, ${subject} ${amountWords}${sinkClause}`;
  }
  const mean = sequences > 1 && hasSink ? 'an average of ' : '';
  return `${scope}, ${mean}${headsGive(frame, sink)} ${amountWords}${hasSink ? sinkClause : ', so none has an attention sink there.'}`;
}

/** Says to how many heads an extra key is a sink; '' without such a key, and before that is measured. */
function extraKeyHeads(frame: Frame): string {
  const share = frame.tensors.sink_ratio_bias?.data[0] ?? NaN;
  return frame.architecture.bias_key && Number.isFinite(share) ? headsWords(frame, share) : '';
}

/** Returns the share of heads that give an extra slot over ε: a key bias, or a term of softmax's denominator; NaN without one. */
export function slotShare(frame: Frame): number {
  if (frame.architecture.bias_key) return frame.tensors.sink_ratio_bias?.data[0] ?? NaN;
  const shares = slotShares(frame) ?? [];
  return mean(Array.from(shares, (share) => (share > frame.eps ? 1 : 0)));
}

function biasNote(frame: Frame): string {
  const heads = extraKeyHeads(frame);
  return heads && ` Its bias key, which is not a token, receives as much in ${heads}.`;
}

/**
 * A key for the text that a frame read. Frames of one question may differ in it, since each model generates its own
 * text, and a recording has its own texts and may keep only their hash. An unknown text equals no other.
 */
const textKey = ({ subject, tokens, sequences, recording }: Frame): string =>
  `${sequences} ${tokens.map(({ text, special }) => (special ? '' : text)).join('') || (recording?.prompts.sha256 ?? subject)}`;

/** Whether the frames, which answer one question, read different texts; their start tokens and lengths may differ. */
export const haveOtherTexts = (frames: readonly Frame[]): boolean =>
  frames.some(({ recording, generated }) => recording || generated) &&
  new Set(frames.map(textKey)).size > 1;

export const OTHER_TEXTS = 'These models read different texts, so their losses cannot be compared.';
export const OTHER_VOCABULARIES =
  'Losses are per token, and these models split the text into different tokens: a smaller loss is not a better model.';

/** Whether the models have one vocabulary and split the text alike, up to where the shorter run ends. */
function areTokenizedAlike([first, ...others]: readonly Frame[]): boolean {
  const wordsOf = ({ tokens }: Frame) =>
    tokens.filter(({ special }) => !special).map(({ text }) => text);
  return others.every((frame) => {
    const [words, otherWords] = [first!, frame].map(wordsOf) as [string[], string[]];
    const isOneVocabulary = first!.architecture.V === frame.architecture.V;
    const end = Math.min(words.length, otherWords.length);
    return (
      isOneVocabulary && words.slice(0, end).join('\0') === otherWords.slice(0, end).join('\0')
    );
  });
}

/** Says why the losses of these models are not means over the same tokens; empty if they are. */
export function lossNote(frames: readonly Frame[]): string {
  const framesWithLoss = frames.filter(({ tensors }) =>
    Number.isFinite(tensors.loss_mean?.data[0]),
  );
  if (haveOtherTexts(framesWithLoss)) return OTHER_TEXTS;
  if (!areTokenizedAlike(framesWithLoss)) return OTHER_VOCABULARIES;
  const countOf = (keyOf: (frame: Frame) => unknown) => new Set(framesWithLoss.map(keyOf)).size;
  const haveOtherStarts = countOf(({ first }) => first.join('\0')) > 1;
  if (!haveOtherStarts && countOf(({ T }) => T) < 2) return '';
  const cause = haveOtherStarts ? 'with different start tokens' : 'up to different lengths';
  return `These models read the text ${cause}, so their losses are means over different tokens: a small difference may come from that alone.`;
}

export function meanRowSum(frame: Frame): number {
  const rowSum = statisticsOverPrompts(frame, 'row_mass_summary').mean;
  if (Number.isFinite(rowSum)) return rowSum;
  return mean(Array.from(frame.tensors.row_mass_summary!.data).filter((_, i) => i % 3 === 0));
}

export function listWords(items: readonly string[], joiner = 'and'): string {
  const last = items.at(-1) ?? '';
  return items.length < 2 ? last : `${items.slice(0, -1).join(', ')} ${joiner} ${last}`;
}

export const capitalize = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
export const decapitalize = (text: string): string => text.charAt(0).toLowerCase() + text.slice(1);
