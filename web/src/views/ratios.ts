/** Draws the ratio of the first token's hidden norm to the others' mean by layer, a line for each model. */
import type { Frame } from '../frame';
import type { View } from '../page/view';
import { createChartDraw } from './chart_draw';
import { quantity } from '../save/numbers';
import { colorsOf } from '../timeline/course';
import { formatValue, stateWords } from '../words';

const ratiosOf = ({ tensors }: Frame) => tensors.hidden_ratio!.data as Float32Array;

export const ratios: View = {
  name: 'ratios',
  title: 'Norm ratios',
  question: 'At which layer does the first token’s hidden state grow, and in which models?',
  how:
    'The norm of the first token’s hidden state over the mean norm of the others, after each layer and before the ' +
    'final norm. At 1 all are equally long. Add models to compare their lines.',
  formula: '‖h₁‖ / mean over t > 1 of ‖hₜ‖',
  source: 'Gu et al., ICLR 2025, figures 7 and 8',
  reads: ['hidden_ratio'],
  drawsAllSubjects: true,
  numbers: ({ tensors }) => [
    { ...quantity('hidden_ratio', ['layer'], tensors.hidden_ratio!), from: [-1] },
  ],
  says: (frame) => {
    const layerRatios = ratiosOf(frame);
    const maximum = Math.max(...layerRatios);
    return `${frame.title}: at most ${formatValue(maximum, 1)}×, ${stateWords(layerRatios.indexOf(maximum))}.`;
  },
  draw: createChartDraw(
    (_, { frames, at }) => frames.map((frame) => ratios.says(frame, at)).join('\n'),
    (_, { frames }, caption) => {
      const colors = colorsOf(frames);
      return {
        kind: 'lines',
        from: -1,
        xLabel: 'layer',
        yLabel: '‖h₁‖ / ‖h‖',
        log: true,
        label: `Norm of the first token’s hidden state over that of the others, by layer. ${caption}`,
        series: frames.map((frame, i) => ({
          name: frame.title,
          color: colors[i]!,
          values: ratiosOf(frame),
        })),
      };
    },
  ),
};
