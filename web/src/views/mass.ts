/** Draws the sum of each query's attention weights. */
import { firstKey, largestMagnitude, ofHead, selectedHead, type Frame, type Head } from '../frame';
import { quantity } from '../save/numbers';
import {
  averageWords,
  capitalize,
  firstTokenSubscript,
  formatReal,
  headWords,
  modelName,
} from '../words';
import type { View } from '../page/view';
import { createChartDraw } from './chart_draw';

const massesOf = (frame: Frame, at: Head) => ofHead(frame.tensors.row_mass!, at);

export const mass: View = {
  name: 'mass',
  title: 'Attention row sum',
  question: 'Do rows sum to 1?',
  how:
    'The sum of a query’s attention weights. Softmax rows always sum to 1. Where a row may sum to almost 0, ' +
    'a large share on the first token can write almost nothing. Over several prompts the curve is their mean.',
  formula: 'mass(t) = Σₖ A[t, k]',
  reads: ['row_mass', 'row_mass_summary', 'alpha_raw'],
  numbers: (frame, at) => [
    quantity('row_mass', ['query'], { shape: [frame.T], data: massesOf(frame, at) }),
  ],
  says: (frame, at) => {
    const { tensors } = frame;
    const [average, minimum, maximum] = ofHead(tensors.row_mass_summary!, at);
    const rawAlpha = ofHead(tensors.alpha_raw!, at)[firstKey(frame)]!;
    return (
      `${capitalize(headWords(at, frame))}${averageWords(frame)}: mean ${formatReal(average!)}, min ${formatReal(minimum!)}, max ${formatReal(maximum!)}; ` +
      `unnormalized α${firstTokenSubscript(frame)} ${formatReal(rawAlpha, 3)}.`
    );
  },
  draw: createChartDraw(
    (frame, { at }) => mass.says(frame, at),
    (frame, { at, frames, state }) => {
      const masses = frames.map((shownFrame) =>
        massesOf(shownFrame, selectedHead(shownFrame, state)),
      );
      return {
        kind: 'lines',
        xLabel: 'query t',
        yLabel: 'row sum',
        domain: [0, 1.1 * largestMagnitude(masses, 1)],
        label: `Row sum by query, ${headWords(at, frame)} of ${modelName(frame)}`,
        series: [{ name: frame.operation.label, color: '--query', values: massesOf(frame, at) }],
      };
    },
  ),
};
