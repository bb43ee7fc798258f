/** The bias key: a key of no token, which may take what a sink would otherwise take. */
import { ofHead, type Frame } from '../frame';
import { drawChart } from '../plot/chart';
import { quantity } from '../save/numbers';
import { biasSinkOf, percent, show, stampWords } from '../words';
import { createHeadMap } from './head_map';
import { numberPlace, part, type ViewKind } from './view';

function drawWeights(place: HTMLElement, frame: Frame, layer: number, head: number): void {
  void drawChart(place, {
    kind: 'lines',
    from: 1,
    xLabel: 'query t',
    yLabel: 'weight',
    yMax: 1.1,
    label:
      `Weight of the bias key and of all tokens by query, layer ${layer + 1}, ` +
      `head ${head + 1} of ${frame.model.title}`,
    series: [
      { name: 'bias key', color: '--sink', values: ofHead(frame.tensors.att_bias, layer, head) },
      { name: 'all tokens', color: '--query', values: ofHead(frame.tensors.row_mass, layer, head) },
    ],
  });
}

export const bias: ViewKind = {
  name: 'bias',
  title: 'Bias key',
  stamped: true,
  averaged: true,
  how:
    'A bias key belongs to no token: it is trained, in every layer. A cell is a head, its colour ' +
    'α∗: the mean attention that the bias key receives. Sink∗ is the share of heads with α∗ > ε. ' +
    'Below, the chosen head’s rows: what the bias key takes, the tokens lack.',
  fits: ({ architecture }) => architecture.bias_key !== null,
  lacks: 'This model has no bias key: all attention goes to tokens.',
  numbers: ({ tensors }) => [
    quantity('sink_bias', [], { ...tensors.sink_ratio_bias, shape: [] }),
    quantity('alpha_bias', ['layer', 'head'], tensors.alpha_bias),
    quantity('weight_of_bias', ['layer', 'head', 'query'], tensors.att_bias),
  ],
  create(root, reach) {
    const { figure, small } = numberPlace(root, 'Sink∗');
    const map = createHeadMap(root, reach);
    const chart = part(root, 'chart');
    return {
      update(frame, context) {
        const { data } = frame.tensors.alpha_bias;
        figure.textContent = percent(biasSinkOf(frame));
        small.textContent = `${stampWords(frame)} · largest α∗ ${show(Math.max(...data))}`;
        const label =
          `Attention on the bias key in every head of ${frame.model.title}; ` +
          `${percent(biasSinkOf(frame))} exceed ${frame.eps}.`;
        map.draw(frame, context, { data, symbol: 'α∗', label });
        drawWeights(chart, frame, context.layer, context.head);
      },
    };
  },
};
