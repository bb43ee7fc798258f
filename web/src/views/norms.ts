/** Norm profiles: the first token's hidden state, key and value against the others', by layer. */
import type { Tensor } from 'sinkscope';
import { mean, type Frame } from '../frame';
import { drawChart } from '../plot/chart';
import { quantity } from '../save/numbers';
import { show } from '../words';
import { part, type ViewKind } from './view';

const KINDS = [
  { name: 'hidden_norm', title: 'hidden ‖h‖', from: 0 },
  { name: 'key_norm', title: 'keys ‖k‖', from: 1 },
  { name: 'value_norm', title: 'values ‖v‖', from: 1 },
] as const;

/** [rows][.., T] -> for each layer the first token's norm and the others' mean, over heads too. */
export function profile(tensor: Tensor): { first: number[]; others: number[] } {
  const T = tensor.shape[tensor.shape.length - 1];
  const rows = tensor.shape[0];
  const heads = tensor.shape.length === 3 ? tensor.shape[1] : 1;
  const first: number[] = [];
  const others: number[] = [];
  for (let r = 0; r < rows; r++) {
    const each = Array.from({ length: heads }, (_, h) =>
      (tensor.data as Float32Array).subarray((r * heads + h) * T, (r * heads + h + 1) * T),
    );
    first.push(mean(each.map((values) => values[0])));
    others.push(mean(each.map((values) => mean(values, 1))));
  }
  return { first, others };
}

function sayMassive(frame: Frame): string {
  const { data, shape } = frame.tensors.massive;
  const places = frame.tensors.massive_at.data;
  let best = 0;
  for (let l = 0; l < shape[0]; l++) if (data[4 * l] > data[4 * best]) best = l;
  const ratio = data[4 * best] / data[4 * best + 3];
  const [channel, token] = [places[6 * best], places[6 * best + 1]];
  return (
    `Largest activation: ${show(data[4 * best], 1)}, ${show(ratio, 0)} × the median, after layer ` +
    `${best}, channel ${channel + 1}, token ${token + 1}.`
  );
}

export const norms: ViewKind = {
  name: 'norms',
  title: 'Norms by layer',
  how:
    'In trained softmax models the first token often has a huge hidden state and a tiny value: ' +
    'attention parked there moves nothing (value drain). Hidden states before the final norm.',
  numbers: ({ tensors }) => [
    { ...quantity('hidden_norm', ['layer', 'token'], tensors.hidden_norm), from: [0, 1] },
    quantity('key_norm', ['layer', 'group', 'token'], tensors.key_norm),
    quantity('value_norm', ['layer', 'group', 'token'], tensors.value_norm),
  ],
  create(root) {
    const row = part(root, 'charts');
    const charts = KINDS.map((kind) => ({ kind, place: part(row, 'chart') }));
    const small = part(root, 'conditions', 'p');
    return {
      update(frame) {
        const ratio = Math.max(...frame.tensors.hidden_ratio.data);
        const drain = Math.min(...frame.tensors.value_ratio.data);
        small.textContent =
          `First token against the others: hidden norm up to ${show(ratio, 1)} ×, value norm down ` +
          `to ${show(drain)} ×. ${sayMassive(frame)}`;
        for (const { kind, place } of charts) {
          const { first, others } = profile(frame.tensors[kind.name]);
          void drawChart(place, {
            kind: 'lines',
            from: kind.from,
            xLabel: 'layer',
            yLabel: kind.title,
            log: true,
            label: `${kind.title} by layer, ${frame.model.title}`,
            series: [
              { name: 'token 1', color: '--sink', values: first },
              { name: 'mean of the others', color: '--ink-3', values: others },
            ],
          });
        }
      },
    };
  },
};
