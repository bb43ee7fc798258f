/** alpha_k of the chosen head by position, and Sink_k over all heads. */
import { ofHead } from '../frame';
import { drawChart } from '../plot/chart';
import { quantity } from '../save/numbers';
import { largest, part, type ViewKind } from './view';

/** Later keys are seen by few queries: a head that looks at itself would seem a sink at the end. */
const KEYS = 10;

export const scores: ViewKind = {
  name: 'scores',
  title: 'Sink scores by position',
  averaged: true,
  how:
    'First αₖ of the chosen head for the first ten keys; the dashed line is what even attention ' +
    'would give. Then Sinkₖ, the share of all heads with αₖ above ε. Late keys are left out: ' +
    'αₖ averages only the T − k + 1 queries that see key k.',
  numbers: (frame, layer, head) => {
    const { alpha, alpha_uniform, sink_ratio } = frame.tensors;
    const own = { shape: [frame.T], data: ofHead(alpha, layer, head) };
    return [
      quantity('alpha', ['key'], own),
      quantity('alpha_of_even_attention', ['key'], alpha_uniform),
      quantity('sink', ['key'], sink_ratio),
    ];
  },
  create(root) {
    const pair = part(root, 'charts');
    const left = part(pair, 'chart');
    const right = part(pair, 'chart');
    return {
      update(frame, { layer, head, frames }) {
        const alpha = ofHead(frame.tensors.alpha, layer, head).subarray(0, KEYS);
        const uniform = frame.tensors.alpha_uniform.data.subarray(0, KEYS);
        const sink = frame.tensors.sink_ratio.data.subarray(0, KEYS);
        const where = `layer ${layer + 1}, head ${head + 1}`;
        void drawChart(left, {
          kind: 'bars',
          from: 1,
          xLabel: 'key k',
          yLabel: `αₖ, ${where}`,
          yMax: 1,
          label: `Sink score by key position, ${where} of ${frame.model.title}`,
          series: [
            { name: 'αₖ', color: '--sink', values: alpha },
            { name: 'even attention', color: '--ink-2', values: uniform, dashed: true },
          ],
        });
        void drawChart(right, {
          kind: 'bars',
          from: 1,
          xLabel: 'key k',
          yLabel: 'Sinkₖ, all heads',
          yMax: largest(
            frames.map((one) => one.tensors.sink_ratio.data.subarray(0, KEYS)),
            0.2,
          ),
          percent: true,
          label: `Share of heads with a sink at each key, ${frame.model.title}`,
          series: [{ name: `αₖ > ${frame.eps}`, color: '--sink', values: sink }],
        });
      },
    };
  },
};
