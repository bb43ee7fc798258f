/**
 * Draws the matrix entropy of the hidden states by layer, with and without the first token, a line for each model. A
 * compression valley is a range of inner layers with low entropy.
 */
import type { Frame } from '../frame';
import type { View } from '../page/view';
import { createChartDraw } from './chart_draw';
import { quantity } from '../save/numbers';
import { colorsOf } from '../timeline/course';
import { formatValue } from '../words';

const dataOf = (frame: Frame, name: string) => frame.tensors[name]!.data as Float32Array;

/** Returns the valley's depth, from the lower end to the lowest inner layer, and that layer; NaN without one. */
export function valleyOf(entropy: Float32Array): { depth: number; layer: number } {
  const innerLayers = entropy.subarray(1, -1);
  const minimum = Math.min(...innerLayers);
  const depth = Math.min(entropy[0]!, entropy.at(-1)!) - minimum;
  return innerLayers.length
    ? { depth, layer: innerLayers.indexOf(minimum) }
    : { depth: NaN, layer: -1 };
}

export const compression: View = {
  name: 'compression',
  title: 'Compression valley',
  question: 'In which layers do all hidden states point in few directions?',
  how:
    'Matrix entropy of the hidden states after each layer: 0 where all tokens point in one direction, 1 where they fill ' +
    'every direction alike. Dashed: without the first token. A valley that is gone there is the first token’s norm. ' +
    'Add models to compare their lines.',
  formula: '−Σ p ln p / ln min(T, D),  p = σ² / Σσ², σ the singular values of h [T][D]',
  source: 'arXiv 2510.06477',
  reads: ['matrix_entropy', 'matrix_entropy_others'],
  drawsAllSubjects: true,
  fits: ({ T }) => T > 2,
  numbers: ({ tensors }) =>
    ['matrix_entropy', 'matrix_entropy_others'].map((name) => ({
      ...quantity(name, ['layer'], tensors[name]!),
      from: [-1],
    })),
  says: (frame) => {
    const entropy = dataOf(frame, 'matrix_entropy');
    const { depth, layer } = valleyOf(entropy);
    const endWords = `${formatValue(entropy[0]!)} at the embedding and ${formatValue(entropy.at(-1)!)} after the last layer`;
    if (!(depth > 0)) return `${frame.title}: no valley; matrix entropy is ${endWords}.`;
    const { depth: depthWithoutFirst } = valleyOf(dataOf(frame, 'matrix_entropy_others'));
    return (
      `${frame.title}: matrix entropy is ${endWords}, and ${formatValue(entropy[layer + 1]!)} after layer ${layer}, ` +
      `${formatValue(depth)} below both; without the first token ` +
      `${depthWithoutFirst > 0 ? `the valley is ${formatValue(depthWithoutFirst)} deep` : 'there is no valley'}.`
    );
  },
  draw: createChartDraw(
    (_, { frames, at }) => frames.map((frame) => compression.says(frame, at)).join('\n'),
    (_, { frames }, caption) => {
      const colors = colorsOf(frames);
      return {
        kind: 'lines',
        from: -1,
        xLabel: 'layer',
        yLabel: 'matrix entropy; dashed without the first token',
        domain: [0, 1],
        label: `Matrix entropy by layer. ${caption}`,
        series: frames.flatMap((frame, i) => {
          const line = { name: frame.title, color: colors[i]! };
          return [
            { ...line, values: dataOf(frame, 'matrix_entropy') },
            { ...line, values: dataOf(frame, 'matrix_entropy_others'), dash: '4,3' },
          ];
        }),
      };
    },
  ),
};
