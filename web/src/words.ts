/** The page's sentences: findings, conditions and classes, so that a number never stands alone. */
import { judge, type Judgement, type Token } from 'sinkscope';
import { OTHERS, others } from './arithmetic';
import { mean, ofHead, type Frame, type Head } from './frame';
import { overPrompts } from './averages';

/** A dash for what is undefined. */
export function show(value: number, digits = 2): string {
  if (!Number.isFinite(value)) return '–';
  const size = Math.abs(value);
  if (size !== 0 && (size < 10 ** -digits || size >= 1e5)) return value.toExponential(1);
  return value.toFixed(digits);
}

export function percent(share: number, digits = 1): string {
  return Number.isFinite(share) ? `${(100 * share).toFixed(digits)} %` : '–';
}

/** A token as it reads in a line: white space and what cannot be seen made visible. */
export function readable(text: string): string {
  const stand = (code: number) => String.fromCodePoint(code === 127 ? 0x2421 : 0x2400 + code);
  return (
    text
      .replace(/\n/g, '↵')
      .replace(/\t/g, '⇥')
      .replace(/ /g, '\u00a0')
      .replace(/[\0-\x1f\x7f]/g, (c) => stand(c.charCodeAt(0)))
      .replace(
        /[\x80-\x9f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g,
        '\ufffd',
      ) || '∅'
  );
}

/** The words of a text as they stand in it, without the space before them. */
export function word(text: string): string {
  return readable(text.replace(/^ (?=\S)/, ''));
}

/** A token for readers who know no tokens yet. */
export function plainWord({ text, special }: Token): string {
  return special ? 'start' : word(text);
}

export function quote(frame: Frame, t: number, isPlain = false): string {
  const token = frame.tokens[t];
  return `“${token ? (isPlain ? plainWord(token) : word(token.text)) : ''}”`;
}

export function headWords({ layer, head }: Head): string {
  return `layer ${layer + 1}, head ${head + 1}`;
}

export const CLASS_WORDS = {
  measured: 'MEASURED',
  relaxed: 'RELAXED',
  approximate: 'APPROXIMATE',
  counterfactual: 'COUNTERFACTUAL',
} as const;

const SOURCE_WORDS = {
  zoo: 'on weights trained here',
  hub: 'on published weights',
  disk: 'on weights you opened from your disk',
} as const;

export function classSentence(frame: Frame): string {
  const size = `${(frame.architecture.parameters / 1e6).toFixed(2)} M parameters`;
  if (frame.class === 'measured') return `${SOURCE_WORDS[frame.model.source]}, ${size}`;
  const other = others.find((one) => OTHERS[one].class === frame.class);
  if (other) {
    const { does, means } = OTHERS[other];
    return `${does}, ${SOURCE_WORDS[frame.model.source]}, ${size}: ${means}`;
  }
  return (
    `A what-if, put in at inference. The weights (${size}) were trained with ` +
    `${frame.architecture.attention.operation} and without it: this does not show what a model ` +
    `that was trained so would do.`
  );
}

/** What a number depends on. */
export type Conditions = Pick<
  Frame,
  'eps' | 'T' | 'first' | 'special' | 'sequences' | 'title' | 'class' | 'model'
>;

/** Which special tokens stand first. */
export function firstWords({ first, special }: Pick<Frame, 'first' | 'special'>): string {
  if (first.length === 0) return 'nothing first';
  if (first.length === 1 && first[0] === special.bos) return 'BOS first';
  return `${first.map((text) => `“${text}”`).join(' ')} first`;
}

/** How it was measured, of whichever model. */
export function settingWords(frame: Conditions): string {
  const { eps, T, sequences } = frame;
  const n = sequences === 1 ? '1 prompt' : `mean of ${sequences} prompts`;
  return `ε = ${eps} · T = ${T} · ${firstWords(frame)} · ${n}`;
}

/** What a number is worth and what it depends on: it stands with every figure. */
export function stampWords(frame: Conditions): string {
  const { bits } = frame.model;
  const stored = bits ? ` · kept in ${bits.toFixed(1)} bits a weight` : '';
  return `${CLASS_WORDS[frame.class]} · ${settingWords(frame)} · ${frame.title}${stored}`;
}

/** What may be said of its Sink_1. */
export function judged(frame: Frame): Judgement {
  const { tensors, eps, operation } = frame;
  return judge({
    eps,
    even: tensors.alpha_uniform!.data[0]!,
    normalises: operation.normalises,
    sink: tensors.sink_ratio!.data[0]!,
    sinkRaw: tensors.sink_ratio_raw!.data[0]!,
  });
}

/** How many heads that is; with several prompts, on average. */
export function headsWords({ architecture: { L, H } }: Frame, share: number): string {
  const all = L * H;
  const count = share * all;
  const isWhole = Math.abs(count - Math.round(count)) < 1e-4;
  const shown = isWhole ? count.toFixed(0) : count.toFixed(1);
  return count < 0.05 ? `none of the ${all} heads` : `${shown} of the ${all} heads`;
}

/** Where nothing can be told of a sink. */
export function shortWords({ even, least }: Judgement, T: number, eps: number): string {
  const need = Number.isFinite(least)
    ? `at ε = ${eps} it takes ${least} tokens`
    : `at ε = ${eps} no text is long enough`;
  return (
    `Too short to tell: with ${T} ${T === 1 ? 'token' : 'tokens'}, even attention already gives the ` +
    `first one ${percent(even, 0)}; ${need}.`
  );
}

/** What stands first, in a word that needs no explanation. */
export function firstName(frame: Frame): string {
  return frame.tokens[0]?.special ? 'the start mark' : `the first word, ${quote(frame, 0)}`;
}

/** alpha of token 1 in a head, of the weights that are judged. */
export function alphaOf(frame: Frame, at: Head): number {
  return ofHead(frame.tensors.alpha!, at)[0]!;
}

/** What one subject shows: the chosen head beside even attention, and how many heads are like it. */
export function finding(frame: Frame, at: Head): string {
  const verdict = judged(frame);
  const { normalises } = frame.operation;
  const own = percent(alphaOf(frame, at), 0);
  const even = percent(verdict.even, 0);
  const share = normalises ? 'of its attention' : 'of what its rows carry';
  const chosen = `It gives token 1, ${quote(frame, 0)}, ${own} ${share}; even attention would give it ${even}.`;
  if (!verdict.tells) return `${chosen} ${shortWords(verdict, frame.T, frame.eps)}`;
  const how = normalises ? '' : ', by share and by weight';
  const mass = normalises
    ? ''
    : ` Its rows need not sum to 1: they carry ${show(massOf(frame))} on average.`;
  const all = `${capital(headsWords(frame, verdict.sink))} give it more than ${percent(frame.eps, 0)}${how}.`;
  return `${chosen} ${all}${mass}${biasNote(frame)}`;
}

/** What takes attention that is then on no token. */
function biasNote(frame: Frame): string {
  const share = frame.tensors.sink_ratio_bias?.data[0] ?? NaN;
  if (!frame.architecture.bias_key || !Number.isFinite(share)) return '';
  return ` Its bias key, which is no token, takes as much in ${headsWords(frame, share)}.`;
}

function nameOf({ title, class: kind }: Frame): string {
  return kind === 'counterfactual' ? `${title} (a what-if)` : title;
}

/** Who has most sink, who has least, and how sure that is. @param frames of one question */
export function comparison(frames: readonly Frame[]): string {
  if (frames.length < 2) return '';
  const all = frames.map((frame) => ({ frame, verdict: judged(frame) }));
  const short = all.find(({ verdict }) => !verdict.tells);
  if (short) return shortWords(short.verdict, short.frame.T, short.frame.eps);
  const order = [...all].sort((a, b) => b.verdict.sink - a.verdict.sink);
  const [most, least] = [order[0]!, order.at(-1)!];
  const counts = new Set(frames.map(({ sequences }) => sequences));
  const n = most.frame.sequences;
  const where =
    counts.size > 1 ? 'Over their prompts' : n === 1 ? 'On one prompt' : `Over ${n} prompts`;
  const { eps } = most.frame;
  const even = `even attention would give it ${percent(most.verdict.even, 0)}`;
  const raw = frames.some(({ operation }) => !operation.normalises)
    ? ' Where rows need not sum to 1, both the share and the weight itself must be that large.'
    : '';
  const notes = `${raw}${frames.map((frame) => biasNote(frame).replace('Its', `${nameOf(frame)}’s`)).join('')}`;
  // Where all have as many heads they are counted, as everywhere else.
  const isAlike = new Set(frames.map(({ architecture: { L, H } }) => L * H)).size === 1;
  const share = ({ frame, verdict }: (typeof all)[number]) =>
    isAlike ? headsWords(frame, verdict.sink) : `${percent(verdict.sink)} of its heads`;
  if (most.verdict.sink === least.verdict.sink)
    return `${where}, ${share(most)} give token 1 more than ${percent(eps, 0)} in each; ${even}.${notes}`;
  const last = all.filter(({ verdict }) => verdict.sink === least.verdict.sink);
  const who = last.length > 1 ? `${last.length} of the others have` : `${nameOf(least.frame)} has`;
  return (
    `${where}, ${nameOf(most.frame)} has most sink: ${share(most)} give token 1 more than ` +
    `${percent(eps, 0)} of their attention (${even}); ${who} least, ${share(least)}.${notes}`
  );
}

/** Mean sum of a query's weights, over queries, heads and prompts. */
export function massOf(frame: Frame): number {
  const over = overPrompts(frame, 'row_mass_summary').mean;
  if (Number.isFinite(over)) return over;
  return mean(Array.from(frame.tensors.row_mass_summary!.data).filter((_, i) => i % 3 === 0));
}

export function capital(said: string): string {
  return said.charAt(0).toUpperCase() + said.slice(1);
}
