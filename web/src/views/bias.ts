/** Draws the attention on the bias key, a learned key without a token that may receive what a sink would. */
import { ofHead, promptCountOf, type Frame, type Head } from '../frame';
import { quantity } from '../save/numbers';
import {
  averageWords,
  firstPromptWords,
  headsWords,
  headWords,
  formatPercent,
  formatValue,
  modelName,
} from '../words';
import { weightScale } from './attention';
import { createHeadsDraw } from './head_map';
import type { View } from '../page/view';

/** Returns the row sums of the prompt whose bias weights are drawn; undefined if only their means are known. */
function rowSumsOf(frame: Frame, at: Head): Float32Array | undefined {
  const { tensors, operation } = frame;
  if (promptCountOf(frame, 'row_mass') === 1) return ofHead(tensors.row_mass!, at);
  return operation.normalizes ? ofHead(tensors.att_bias!, at).map((x) => 1 - x) : undefined;
}

export const bias: View = {
  name: 'bias',
  title: 'Bias key',
  question: 'Does a bias key replace the sink?',
  how:
    'A bias key is a learned key that belongs to no token, in every layer. Each cell is a head; its color is ' +
    'α∗, the mean attention that the bias key receives. Sink∗ is the share of heads with α∗ > ε. ' +
    'Below: how each query of the selected head divides its attention between bias key and tokens (first prompt).',
  source: 'Gu et al., ICLR 2025, table 4',
  reads: ['alpha_bias', 'sink_ratio_bias', 'att_bias', 'row_mass'],
  fits: ({ architecture }) => architecture.bias_key !== null,
  numbers: ({ tensors }) => [
    quantity('sink_bias', [], { ...tensors.sink_ratio_bias!, shape: [] }),
    quantity('alpha_bias', ['layer', 'head'], tensors.alpha_bias!),
    quantity('weight_of_bias', ['layer', 'head', 'query'], tensors.att_bias!),
  ],
  says: (frame) =>
    `The bias key receives more than ${formatPercent(frame.eps, 0)} of the attention in ` +
    `${headsWords(frame, frame.tensors.sink_ratio_bias!.data[0]!)}${averageWords(frame)}; largest α∗ ` +
    `${formatValue(Math.max(...frame.tensors.alpha_bias!.data))}.`,
  draw: createHeadsDraw(
    (frame, at) => bias.says(frame, at),
    (frame, options) => {
      const { at } = options;
      const rowSums = rowSumsOf(frame, at);
      return {
        heads: {
          data: frame.tensors.alpha_bias!.data,
          scale: weightScale(options),
          symbol: 'α∗',
          label: `Attention on the bias key in every head of ${modelName(frame)}. ${bias.says(frame, at)}`,
        },
        tokenChart: {
          kind: 'lines',
          xLabel: `query t${firstPromptWords(frame)}`,
          yLabel: 'weight',
          domain: [0, 1],
          label: `Weight of the bias key and of all tokens by query${firstPromptWords(frame)}, ${headWords(at, frame)} of ${modelName(frame)}`,
          series: [
            { name: 'bias key', color: '--sink', values: ofHead(frame.tensors.att_bias!, at) },
            ...(rowSums ? [{ name: 'all tokens', color: '--query', values: rowSums }] : []),
          ],
        },
      };
    },
  ),
};
