/** The gate of every head: how much of what it returns, or of its values, it lets through. */
import { mean, ofHead, type Frame } from '../frame';
import { drawChart } from '../plot/chart';
import { quantity } from '../save/numbers';
import { show } from '../words';
import { createHeadMap } from './head_map';
import { part, type ViewKind } from './view';

function sentence(frame: Frame, layer: number, head: number): string {
  const gate = ofHead(frame.tensors.gate, layer, head);
  const others = frame.T > 1 ? `, ${show(mean(gate, 1))} at the others` : '';
  const { data } = frame.tensors.gate_mean;
  return (
    `All heads: ${show(mean(data))} on average, from ${show(Math.min(...data))} to ` +
    `${show(Math.max(...data))}. Layer ${layer + 1}, head ${head + 1}: ${show(gate[0])} at ` +
    `token 1${others}.`
  );
}

export const gate: ViewKind = {
  name: 'gate',
  title: 'Gate',
  averaged: true,
  how:
    'A gate is a sigmoid of a token’s hidden state that multiplies what a head returns to it, or ' +
    'its value. A cell is a head, its colour the mean of the gate: near 0 the head is silent, and ' +
    'need not park its attention to be so. Below, the chosen head’s gate at every token.',
  fits: ({ architecture }) => architecture.gate !== null,
  lacks: 'This model has no gate: what its heads return is added as it is.',
  numbers: ({ tensors }) => [
    quantity('gate_mean', ['layer', 'head'], tensors.gate_mean),
    quantity('gate', ['layer', 'head', 'token'], tensors.gate),
  ],
  create(root, reach) {
    const words = part(root, 'conditions', 'p');
    const map = createHeadMap(root, reach);
    const chart = part(root, 'chart');
    return {
      update(frame, context) {
        const { layer, head } = context;
        words.textContent = sentence(frame, layer, head);
        const label = `Mean of the gate in every head of ${frame.model.title}.`;
        map.draw(frame, context, { data: frame.tensors.gate_mean.data, symbol: 'gate', label });
        void drawChart(chart, {
          kind: 'lines',
          from: 1,
          xLabel: 'token t',
          yLabel: 'gate',
          yMax: 1,
          label: `Gate by token, layer ${layer + 1}, head ${head + 1} of ${frame.model.title}`,
          series: [
            { name: 'gate', color: '--query', values: ofHead(frame.tensors.gate, layer, head) },
          ],
        });
      },
    };
  },
};
