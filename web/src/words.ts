/** The page's sentences: findings, conditions and classes, so that a number never stands alone. */
import { alphaOfKey, mean, type Frame } from './frame';

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

/** A token as it reads in a line: white space made visible. */
export function readable(text: string): string {
  return text.replace(/\n/g, '↵').replace(/\t/g, '⇥').replace(/ /g, '\u00a0') || '∅';
}

export const CLASS_WORDS = {
  measured: 'MEASURED',
  counterfactual: 'COUNTERFACTUAL',
} as const;

const SOURCE_WORDS = {
  zoo: 'on weights trained here',
  hub: 'on published weights',
  disk: 'on weights you opened from your disk',
} as const;

export function classSentence(frame: Frame): string {
  const size = `${(frame.architecture.parameters / 1e6).toFixed(2)} M parameters`;
  if (frame.class === 'counterfactual')
    return (
      `“${frame.operation.label}” was put in at inference. The weights (${size}) were trained with ` +
      `${frame.architecture.attention.operation}: this does not show what a model trained with ` +
      `the other operation would do.`
    );
  return `${SOURCE_WORDS[frame.model.source]}, ${size}`;
}

/** What a number depends on. */
export type Conditions = Pick<
  Frame,
  'eps' | 'T' | 'first' | 'special' | 'sequences' | 'model' | 'class' | 'operation'
>;

/** Which special tokens stand first. */
export function firstWords({ first, special }: Conditions): string {
  if (first.length === 0) return 'no BOS';
  if (first.length === 1 && first[0] === special.bos) return 'BOS first';
  return `${first.map((text) => `“${text}”`).join(' ')} first`;
}

/** How it was measured, of whichever model. */
export function settingWords(frame: Conditions): string {
  const { eps, T, sequences } = frame;
  const n = sequences === 1 ? '1 sequence' : `mean of ${sequences} sequences`;
  return `ε = ${eps} · T = ${T} · ${firstWords(frame)} · ${n}`;
}

/** What is needed to get the same number again. */
export function conditions(frame: Conditions): string {
  const parts = [settingWords(frame), frame.model.title];
  if (frame.class === 'counterfactual') parts.push(`edit: ${frame.operation.label}`);
  return parts.join(' · ');
}

/** What a number is worth and what it depends on: it stands with every figure. */
export function stampWords(frame: Conditions): string {
  return `${CLASS_WORDS[frame.class]} · ${conditions(frame)}`;
}

export function sinkOf(frame: Frame): number {
  return frame.tensors.sink_ratio.data[0];
}

/** Sink_* of a model with a bias key. */
export function biasSinkOf(frame: Frame): number {
  return frame.tensors.sink_ratio_bias.data[0];
}

function name(frame: Frame): string {
  const { title: given, source } = frame.model;
  // Titles of the zoo name what was changed, but the twins' are phrases.
  const isPhrase = / twin\b/.test(given);
  const phrase = isPhrase ? `the ${given.charAt(0).toLowerCase()}${given.slice(1)}` : `“${given}”`;
  const title = source === 'zoo' ? phrase : given;
  return frame.class === 'counterfactual' ? `${title} with ${frame.operation.label}` : title;
}

function strongest(frame: Frame): string {
  return percent(Math.max(...alphaOfKey(frame, 0)), 0);
}

/** How many heads have a sink, on token 1 if nothing is said; with several sequences, on average. */
function heads(frame: Frame, share = sinkOf(frame)): string {
  const all = frame.architecture.L * frame.architecture.H;
  const count = share * all;
  const shown = Number.isInteger(Math.round(count * 1e4) / 1e4)
    ? count.toFixed(0)
    : count.toFixed(1);
  return count < 0.05 ? `none of the ${all} heads` : `${shown} of the ${all} heads`;
}

/** What the first side shows, in full. */
function verdict(frame: Frame): string {
  const what = `the first token, “${readable(frame.tokens[0]?.text ?? '')}”,`;
  return (
    `${heads(frame)} of ${name(frame)} give ${what} more than ${percent(frame.eps, 0)} of ` +
    `their attention (the strongest: ${strongest(frame)})`
  );
}

/** What takes attention from the tokens, or lets them take little. */
function note(frame: Frame): string {
  if (frame.architecture.bias_key)
    return (
      ` A bias key, which is no token, takes more than ${percent(frame.eps, 0)} in ` +
      `${heads(frame, biasSinkOf(frame))} of ${name(frame)}.`
    );
  if (frame.operation.normalises) return '';
  return ` Rows of ${name(frame)} need not sum to 1: they carry ${show(massOf(frame))} on average.`;
}

/** The sentence over the figures: what one sees, with its numbers. */
export function finding(a: Frame, b: Frame | undefined): string {
  const notes = [a, ...(b ? [b] : [])].map(note).join('');
  if (!b) return `${capital(verdict(a))}.${notes}`;
  const other = `of ${name(b)}, ${heads(b)} (the strongest: ${strongest(b)})`;
  return `${capital(verdict(a))}; ${other}.${notes}`;
}

export function massOf(frame: Frame): number {
  return mean(frame.tensors.row_mass.data as Float32Array);
}

function capital(sentence: string): string {
  return sentence.charAt(0).toUpperCase() + sentence.slice(1);
}
