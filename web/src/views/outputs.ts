/** Draws the mean norm of each head's output as a grid of bars. */
import { html, render } from 'lit';
import {
  firstKey,
  firstPromptWeights,
  layerNumber,
  mean,
  modelHead,
  type Frame,
  type Head,
} from '../frame';
import { quantity } from '../save/numbers';
import {
  capitalize,
  compare,
  firstName,
  firstPromptWords,
  headName,
  headWords,
  formatPercent,
  formatValue,
} from '../words';
import { hasSink } from '../claims';
import { addElement, setText, type View } from '../page/view';

/** Returns the mean norm of each head's output over all tokens except the first, [L, H]. */
function normsOf(frame: Frame): Float32Array {
  const { data, shape } = frame.tensors.head_out!;
  const [T, start] = [frame.T, firstKey(frame) + 1];
  const [L, H, , K] = shape as [number, number, number, number];
  return Float32Array.from({ length: L * H }, (_, i) => {
    const norms = Array.from({ length: T - start }, (_, t) => {
      const offset = (i * T + start + t) * K;
      let squares = 0;
      for (let k = offset; k < offset + K; k++) squares += data[k]! ** 2;
      return Math.sqrt(squares);
    });
    return mean(norms);
  });
}

/** Compares the norm of the selected head's output with those of other heads. A mean over no heads is NaN. */
export function outputNormsOf(frame: Frame, { layer, head }: Head) {
  const norms = normsOf(frame);
  const allNorms = [...norms];
  const weights = firstPromptWeights(frame);
  const selectedIndex = layer * frame.architecture.H + head;
  const sinkNorms = allNorms.filter((_, i) => hasSink(frame, weights?.[i]));
  const noSinkNorms = allNorms.filter((_, i) => !hasSink(frame, weights?.[i]));
  return {
    norms,
    selectedNorm: norms[selectedIndex]!,
    othersMean: mean(allNorms.filter((_, i) => i !== selectedIndex)),
    sinkMean: mean(sinkNorms),
    noSinkMean: mean(noSinkNorms),
    sinkCount: sinkNorms.length,
    noSinkCount: noSinkNorms.length,
    /** How many heads with a sink write more than the others' mean, and how many others less than theirs. */
    muchCount: sinkNorms.filter((norm) => norm > mean(noSinkNorms)).length,
    littleCount: noSinkNorms.filter((norm) => norm < mean(sinkNorms)).length,
  };
}

export type OutputNorms = ReturnType<typeof outputNormsOf>;

export const writesLittle = ({ selectedNorm, othersMean }: OutputNorms): boolean =>
  selectedNorm < othersMean / 2;

export function outputWords(outputNorms: OutputNorms, frame: Pick<Frame, 'sequences'>): string {
  const { selectedNorm, othersMean } = outputNorms;
  const amount = writesLittle(outputNorms)
    ? 'less than half as much as'
    : ['less than', 'about as much as', 'more than'][1 + compare(selectedNorm, othersMean, 0)]!;
  return `This head writes ${amount} the average other head${firstPromptWords(frame)}.`;
}

const sinksWriteLess = ({ sinkMean, noSinkMean }: OutputNorms): boolean =>
  compare(sinkMean, noSinkMean, 0) < 0;

function exceptionWords(outputNorms: OutputNorms): string {
  const { muchCount, littleCount } = outputNorms;
  const headsWrite = (count: number, color: string) =>
    `${count} ${color} ${count === 1 ? 'head writes' : 'heads write'}`;
  const exceptions = [
    muchCount && `${headsWrite(muchCount, 'red')} more than the gray mean`,
    littleCount && `${headsWrite(littleCount, 'gray')} less than the red mean`,
  ].filter(Boolean);
  return sinksWriteLess(outputNorms) && exceptions.length
    ? `, but ${exceptions.join(', and ')}`
    : '';
}

/** Compares the outputs of heads with and without a sink; empty if there is only one kind. */
export function groupWords(outputNorms: OutputNorms): string {
  const { sinkMean, noSinkMean, sinkCount, noSinkCount } = outputNorms;
  if (!sinkCount || !noSinkCount) return '';
  const red =
    sinkCount === 1
      ? `The red head writes ${formatValue(sinkMean)}`
      : `Red heads write ${formatValue(sinkMean)} on average`;
  const gray = noSinkCount === 1 ? 'the gray head' : 'gray heads';
  const surprise = sinksWriteLess(outputNorms)
    ? ''
    : ` Here the ${sinkCount === 1 ? 'red head writes' : 'red heads write'} ${compare(sinkMean, noSinkMean, 0) ? 'more' : 'about as much'}: on this text a sink at the first token alone does not tell which heads are idle.`;
  return `${red}, ${gray} ${formatValue(noSinkMean)}${exceptionWords(outputNorms)}.${surprise}`;
}

function sentence(frame: Frame, at: Head): string {
  if (frame.T < 2) return '';
  const outputNorms = outputNormsOf(frame, at);
  const { selectedNorm, othersMean, sinkMean, noSinkMean, sinkCount, noSinkCount } = outputNorms;
  const sinkHeads = sinkCount > 1 ? `The ${sinkCount} heads that give` : 'The head that gives';
  const groupNote =
    sinkCount && noSinkCount
      ? ` ${sinkHeads} ${firstName(frame)} more than ${formatPercent(frame.eps, 0)} (red) ${sinkCount > 1 ? 'write' : 'writes'} ${formatValue(sinkMean)} on average, the other ${noSinkCount === 1 ? 'one (gray) writes' : `${noSinkCount} (gray) write`} ${formatValue(noSinkMean)}${exceptionWords(outputNorms)}.`
      : '';
  return `${outputWords(outputNorms, frame)} The output of ${headWords(at, frame)} has a mean length of ${formatValue(selectedNorm)}${firstPromptWords(frame)}, that of the other heads ${formatValue(othersMean)}.${groupNote}`;
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
    const weights = firstPromptWeights(frame);
    return [
      quantity('output_norm', ['layer', 'head'], { shape, data: normsOf(frame) }),
      ...(weights ? [quantity('alpha_1', ['layer', 'head'], { shape, data: weights })] : []),
    ];
  },
  says: sentence,
  draw(root, { set }) {
    const captionElement = addElement(root, 'caption', 'p');
    const grid = addElement(root, 'outputs');
    return (frame, { at, isPlain, isAnswered }) => {
      captionElement.hidden = Boolean(isPlain);
      grid.hidden = frame.T < 2;
      const { L, H } = frame.architecture;
      const outputNorms = outputNormsOf(frame, at);
      const { norms } = outputNorms;
      const weights = firstPromptWeights(frame);
      const maximum = Math.max(...norms);
      const caption = sentence(frame, at);
      setText(
        captionElement,
        isAnswered ? caption.replace(`${outputWords(outputNorms, frame)} `, '') : caption,
      );
      grid.style.setProperty('--heads', String(H));
      const drawBar = (layer: number, head: number) => {
        const i = layer * H + head;
        const name = headName({ layer, head }, frame);
        const weightNote = weights
          ? ` and gives ${firstName(frame)} ${formatPercent(weights[i]!, 0)}`
          : '';
        const label = `${name} writes ${formatValue(norms[i]!)}${weightNote}`;
        return html`<button
          type="button"
          class=${hasSink(frame, weights?.[i]) ? 'output sink' : 'output'}
          aria-pressed=${layer === at.layer && head === at.head}
          aria-label=${label}
          title=${capitalize(label)}
          style=${`--share: ${norms[i]! / maximum}`}
          @click=${() => set(modelHead(frame, { layer, head }))}
        >
          <span></span>${formatValue(norms[i]!)}
        </button>`;
      };
      render(
        html`<span></span>${Array.from({ length: H }, (_, h) => html`<span>H${h}</span>`)}
          ${Array.from(
            { length: L },
            (_, l) =>
              html`<span>L${layerNumber(frame, l)}</span
                >${Array.from({ length: H }, (_, h) => drawBar(l, h))}`,
          )}`,
        grid,
      );
    };
  },
};
