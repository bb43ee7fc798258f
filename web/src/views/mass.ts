/** Row mass: how much each query attends in all. */
import { ofHead } from '../frame';
import { drawChart } from '../plot/chart';
import { quantity } from '../save/numbers';
import { show } from '../words';
import { largest, part, type ViewKind } from './view';

export const mass: ViewKind = {
  name: 'mass',
  title: 'Row mass',
  averaged: true,
  how:
    'The sum of a query’s weights. Softmax rows always carry 1; where a row may carry almost ' +
    'nothing, a large share on token 1 can move nothing at all.',
  numbers: (frame, layer, head) => {
    const data = ofHead(frame.tensors.row_mass, layer, head);
    return [quantity('row_mass', ['query'], { shape: [frame.T], data })];
  },
  create(root) {
    const place = part(root, 'chart');
    const small = part(root, 'conditions', 'p');
    return {
      update(frame, { layer, head, frames }) {
        const values = ofHead(frame.tensors.row_mass, layer, head);
        const [average, least, most] = ofHead(frame.tensors.row_mass_summary, layer, head);
        const raw = ofHead(frame.tensors.alpha_raw, layer, head)[0];
        small.textContent =
          `layer ${layer + 1}, head ${head + 1}: mean ${show(average)}, least ${show(least)}, ` +
          `most ${show(most)}; unnormalised α₁ ${show(raw, 3)}`;
        void drawChart(place, {
          kind: 'lines',
          from: 1,
          xLabel: 'query t',
          yLabel: 'row mass',
          yMax:
            1.1 *
            largest(
              frames.map((f) => ofHead(f.tensors.row_mass, layer, head)),
              1,
            ),
          label: `Row mass by query, layer ${layer + 1}, head ${head + 1} of ${frame.model.title}`,
          series: [{ name: frame.operation.label, color: '--query', values }],
        });
      },
    };
  },
};
