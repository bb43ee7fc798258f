/** Draws the mean norm of every head's output, as bars on the grid of heads. */
import { html, render } from 'lit';
import {
  firstKey,
  firstWeights,
  layerNumber,
  mean,
  modelHead,
  type Frame,
  type Head,
} from '../frame';
import { quantity } from '../save/numbers';
import { capital, headName, headWords, percent, show } from '../words';
import { addElement, setText, type View } from '../page/view';

/** Whether a head gives the first token more than eps, compared in 32 bits as in the core. */
const isSink = (given: number, { eps }: Frame) => given > Math.fround(eps);

/** Returns the mean norm of each head's output over the queries after the first one, [L, H]. */
function normsOf(frame: Frame): Float32Array {
  const { data, shape } = frame.tensors.head_out!;
  const [T, from] = [frame.T, firstKey(frame) + 1];
  const [L, H, , K] = shape as [number, number, number, number];
  return Float32Array.from({ length: L * H }, (_, i) => {
    const norms = Array.from({ length: T - from }, (_, t) => {
      const at = (i * T + from + t) * K;
      return Math.hypot(...(data as Float32Array).subarray(at, at + K));
    });
    return mean(norms);
  });
}

export interface Written {
  readonly norms: Float32Array;
  readonly own: number;
  /** The mean over all heads except the selected one. */
  readonly others: number;
  /** The mean over the heads that give the first token more than eps; NaN if there are none. */
  readonly sinks: number;
  /** The mean over the heads without such a sink; NaN if there are none. */
  readonly rest: number;
  readonly count: number;
  /** The largest output of a head with a sink. */
  readonly most: number;
}

export function writtenOf(frame: Frame, { layer, head }: Head): Written {
  const norms = normsOf(frame);
  const all = [...norms];
  const firsts = firstWeights(frame);
  const at = layer * frame.architecture.H + head;
  const sinks = all.filter((_, i) => isSink(firsts[i]!, frame));
  return {
    norms,
    own: norms[at]!,
    others: mean(all.filter((_, i) => i !== at)),
    sinks: mean(sinks),
    rest: mean(all.filter((_, i) => !isSink(firsts[i]!, frame))),
    count: sinks.length,
    most: Math.max(...sinks),
  };
}

/** Returns the answer in words, as far as the numbers support it. */
export function littleWords({ own, others }: Written): string {
  if (own < others / 2) return 'This head writes little.';
  return own < others
    ? 'This head writes somewhat less than the others.'
    : 'This head writes no less than the others.';
}

/** Compares the outputs of heads with a sink and of the others; empty if all or none have one. */
export function groupsWords({ sinks, rest, most }: Written): string {
  if (!Number.isFinite(sinks) || !Number.isFinite(rest)) return '';
  const redWords = sinks < rest && most > rest ? '; some red heads write much, too' : '';
  return `Red heads write ${show(sinks)} on average, the others ${show(rest)}${redWords}.`;
}

function sentence(frame: Frame, at: Head): string {
  if (frame.T < 2) return '';
  const written = writtenOf(frame, at);
  const { own, others, sinks, rest, count } = written;
  const total = written.norms.length;
  const groups =
    Number.isFinite(sinks) && Number.isFinite(rest)
      ? ` The ${count} heads that give the first token more than ${percent(frame.eps, 0)} (red) write ${show(sinks)} on average, the other ${total - count} write ${show(rest)}.`
      : '';
  return `${littleWords(written)} The output of ${headWords(at, frame)} has a mean length of ${show(own)}, that of the other heads ${show(others)}.${groups}`;
}

export const outputs: View = {
  name: 'outputs',
  title: 'What each head writes',
  question: 'How much does a head write?',
  how:
    'A bar is the mean norm of the whole output of a head, the weighted sum of its values, over the tokens after the ' +
    'first one; before biases, gates and the output matrix. Red: heads that give the first token more than ε.',
  formula: 'mean over t > 1 of ‖Σⱼ A[t, j] vⱼ‖',
  source: 'Guo et al. 2024 (value drains)',
  reads: ['head_out'],
  numbers: (frame) => {
    const { L, H } = frame.architecture;
    const shape = [L, H];
    return [
      quantity('output_norm', ['layer', 'head'], { shape, data: normsOf(frame) }),
      quantity('alpha_1', ['layer', 'head'], { shape, data: firstWeights(frame) }),
    ];
  },
  says: sentence,
  draw(root, { set }) {
    const words = addElement(root, 'caption', 'p');
    const grid = addElement(root, 'outputs');
    return (frame, { at, isPlain, isAnswered }) => {
      words.hidden = Boolean(isPlain);
      grid.hidden = frame.T < 2;
      const { L, H } = frame.architecture;
      const written = writtenOf(frame, at);
      const { norms } = written;
      const firsts = firstWeights(frame);
      const maximum = Math.max(...norms);
      const caption = sentence(frame, at);
      setText(words, isAnswered ? caption.replace(`${littleWords(written)} `, '') : caption);
      grid.style.setProperty('--heads', String(H));
      const bar = (layer: number, head: number) => {
        const i = layer * H + head;
        const name = headName({ layer, head }, frame);
        const label = `${name} writes ${show(norms[i]!)} and gives the first token ${percent(firsts[i]!, 0)}`;
        return html`<button
          type="button"
          class=${isSink(firsts[i]!, frame) ? 'output sink' : 'output'}
          aria-pressed=${layer === at.layer && head === at.head}
          aria-label=${label}
          title=${capital(label)}
          style=${`--share: ${norms[i]! / maximum}`}
          @click=${() => set(modelHead(frame, { layer, head }))}
        >
          <span></span>${show(norms[i]!)}
        </button>`;
      };
      render(
        html`<span></span>${Array.from({ length: H }, (_, h) => html`<span>H${h}</span>`)}
          ${Array.from(
            { length: L },
            (_, l) =>
              html`<span>L${layerNumber(frame, l)}</span
                >${Array.from({ length: H }, (_, h) => bar(l, h))}`,
          )}`,
        grid,
      );
    };
  },
};
