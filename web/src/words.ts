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
  opened: 'MEASURED',
  counterfactual: 'COUNTERFACTUAL',
} as const;

export function classSentence(frame: Frame): string {
  const size = `${(frame.architecture.parameters / 1e6).toFixed(2)} M parameters`;
  if (frame.class === 'counterfactual')
    return (
      `“${frame.operation.label}” was put in at inference. The weights (${size}) were trained with ` +
      `${frame.architecture.attention.operation}: this does not show what a model trained with ` +
      `the other operation would do.`
    );
  const source = frame.class === 'opened' ? 'weights you opened' : 'weights trained for this page';
  return `Measured on ${source}, ${size}.`;
}

/** What is needed to get the same number again. */
export function conditions(frame: Frame): string {
  const parts = [
    `ε = ${frame.eps}`,
    `T = ${frame.T}`,
    frame.bos ? 'BOS first' : 'no BOS',
    frame.sequences === 1 ? '1 sequence' : `mean of ${frame.sequences} sequences`,
    frame.model.title,
  ];
  if (frame.class === 'counterfactual') parts.push(`edit: ${frame.operation.label}`);
  return parts.join(' · ');
}

export function sinkOf(frame: Frame): number {
  return frame.tensors.sink_ratio.data[0];
}

function name(frame: Frame): string {
  return frame.class === 'counterfactual'
    ? `${frame.model.title} with ${frame.operation.label}`
    : frame.model.title;
}

function verdict(frame: Frame): string {
  const share = sinkOf(frame);
  const heads = frame.architecture.L * frame.architecture.H;
  const best = Math.max(...alphaOfKey(frame, 0));
  const first = frame.tokens[0];
  const what = first ? `“${readable(first.text)}”` : 'the first token';
  if (share > 0)
    return (
      `${percent(share, 0)} of the ${heads} heads of ${name(frame)} give ${what} more than ` +
      `${percent(frame.eps, 0)} of their attention (strongest head: ${percent(best, 0)})`
    );
  return `no head of ${name(frame)} does (strongest: ${percent(best, 0)})`;
}

/** The sentence over the figures: what one sees, with its numbers. */
export function finding(a: Frame, b: Frame | undefined): string {
  const mass = [a, b].find((frame) => frame && !frame.operation.normalises);
  const note = mass
    ? ` Rows of ${name(mass)} do not have to sum to 1: they carry ${show(massOf(mass))} on average.`
    : '';
  if (!b) return `${capital(verdict(a))}.${note}`;
  return `${capital(verdict(a))}; ${verdict(b)}.${note}`;
}

export function massOf(frame: Frame): number {
  return mean(frame.tensors.row_mass.data as Float32Array);
}

function capital(sentence: string): string {
  return sentence.charAt(0).toUpperCase() + sentence.slice(1);
}
