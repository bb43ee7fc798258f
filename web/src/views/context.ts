/** Draws Sink_1 of the first 16, 23, 32, ... tokens of the prompts, up to all of their tokens. */
import { isBidirectional, mean, type Frame } from '../frame';
import { quantity } from '../save/numbers';
import { formatPercent, formatValue } from '../words';
import type { View } from '../page/view';
import { createChartDraw } from './chart_draw';

function sinkByLength({ tensors }: Frame) {
  const { data, shape } = tensors.alpha_by_length!;
  const [n, heads] = shape as [number, number];
  return {
    /** The number of tokens of each beginning of the prompts. The other arrays have an entry for each. */
    lengths: Array.from(tensors.lengths!.data),
    /** The share of heads whose alpha_1 exceeds eps, averaged over the prompts. */
    sink: Array.from(tensors.sink_by_length!.data),
    /** The mean of alpha_1 over the heads. */
    alpha: Array.from({ length: n }, (_, i) => mean(data.subarray(i * heads, (i + 1) * heads))),
    uniform: Array.from(tensors.uniform_by_length!.data),
  };
}

export const context: View = {
  name: 'context',
  title: 'Sink₁ up to the context',
  question: 'Does the sink depend on how long the text is?',
  how:
    'Sink₁ and the mean α₁ of the first 16, 23, 32, … tokens of each prompt, averaged over prompts, up to T: a T as large ' +
    'as the model’s context shows all of it. Uniform attention gives the first token ever less.',
  formula: 'α₁(T) = mean over t ≤ T of A[t, 1]',
  source: 'Gu et al., ICLR 2025, figure 3',
  reads: ['alpha_by_length', 'sink_by_length', 'uniform_by_length', 'lengths'],
  fits: (frame) => !isBidirectional(frame) && frame.T > 16,
  numbers: (frame) => {
    const { lengths, sink, alpha } = sinkByLength(frame);
    const numberOf = (name: string, data: readonly number[]) =>
      quantity(name, ['text'], { shape: [lengths.length], data: Float32Array.from(data) });
    return [numberOf('tokens', lengths), numberOf('sink_1', sink), numberOf('mean_alpha_1', alpha)];
  },
  says: (frame) => {
    const { lengths, sink, alpha, uniform } = sinkByLength(frame);
    const lastIndex = lengths.length - 1;
    const indices = [...new Set([0, Math.floor(lastIndex / 2), lastIndex])];
    const phrases = indices.map(
      (i) =>
        `${formatPercent(sink[i]!, 0)} with ${lengths[i]!.toLocaleString('en')} tokens (mean α₁ ${formatValue(alpha[i]!, 2)}, uniform ${formatValue(uniform[i]!, 2)})`,
    );
    return `Sink₁ is ${phrases.join(', ')}.`;
  },
  draw: createChartDraw(
    (frame, { at }) => context.says(frame, at),
    (frame, _, caption) => {
      const { lengths: places, sink, alpha, uniform } = sinkByLength(frame);
      return {
        kind: 'lines',
        doubling: true,
        xLabel: 'T, tokens',
        yLabel: 'share',
        domain: [0, 1],
        percent: true,
        label: `Sink₁ by length of the text, ${frame.title}. ${caption}`,
        series: [
          { name: 'Sink₁', color: '--sink', places, values: sink },
          { name: 'mean α₁', color: '--query', places, values: alpha },
          { name: 'uniform attention', color: '--ink-2', places, values: uniform, dash: '3,3' },
        ],
      };
    },
  ),
};
