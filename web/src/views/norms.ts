/** Draws norms by layer: those of the first token's hidden state, key and value, and the mean of the others'. */
import type { Tensor } from 'sinkscope';
import { firstKey, layerNumber, massiveOf, mean, withoutNaN, type Frame } from '../frame';
import { drawChart } from '../plot/chart';
import { quantity } from '../save/numbers';
import { averageWords, formatValue, stateWords } from '../words';
import { cacheLast, addElement, setText, type View } from '../page/view';

const KINDS = [
  { name: 'hidden_norm', title: 'hidden ‖h‖', isStream: true },
  { name: 'key_norm', title: 'keys ‖k‖', isStream: false },
  { name: 'value_norm', title: 'values ‖v‖', isStream: false },
] as const;

/**
 * Returns for each layer the first token's norm and the others' mean, both averaged over heads.
 * @param tensor norms, [layers, T] or [layers, heads, T]
 */
export function normProfile(tensor: Tensor, key = 0): { first: number[]; others: number[] } {
  const T = tensor.shape.at(-1)!;
  const headCount = tensor.shape.length === 3 ? tensor.shape[1]! : 1;
  const layers = Array.from({ length: tensor.shape[0]! }, (_, r) =>
    Array.from({ length: headCount }, (_, h) =>
      (tensor.data as Float32Array).subarray((r * headCount + h) * T, (r * headCount + h + 1) * T),
    ),
  );
  return {
    first: layers.map((heads) => mean(withoutNaN(heads.map((values) => values[key]!)))),
    others: layers.map((heads) =>
      mean(withoutNaN(heads.map((values) => mean(values.filter((_, t) => t !== key))))),
    ),
  };
}

function massiveWords(frame: Frame): string {
  const activation = massiveOf(frame);
  if (!activation) return '';
  const { layer, channel, token, size, median } = activation;
  const isMean = frame.sequences > 1;
  return (
    ` Largest activation: ${formatValue(size, 1)}, ${formatValue(size / median, 0)}× the median${averageWords(frame)}, ` +
    `${stateWords(layer)}, ${isMean ? 'in the first prompt in ' : ''}channel ${channel}, token ${token}.`
  );
}

export const norms: View = {
  name: 'norms',
  title: 'Norms',
  question: 'How large are the vectors of the first token?',
  how:
    'In trained softmax models the first token often has a large hidden norm and a small value norm: ' +
    'attention on it then writes almost nothing (value drain). Hidden states before the final norm.',
  source: 'Sun et al., 2024 (massive activations); Gu et al., ICLR 2025, section 3.3',
  reads: ['hidden_norm', 'key_norm', 'value_norm', 'hidden_ratio', 'value_ratio'],
  optional: ['massive', 'massive_at'],
  numbers: ({ tensors }) => [
    { ...quantity('hidden_norm', ['layer', 'token'], tensors.hidden_norm!), from: [-1, 0] },
    quantity('key_norm', ['layer', 'group', 'token'], tensors.key_norm!),
    quantity('value_norm', ['layer', 'group', 'token'], tensors.value_norm!),
  ],
  says: (frame) => {
    const hiddenRatio = Math.max(...frame.tensors.hidden_ratio!.data);
    const valueRatio = Math.min(...withoutNaN(frame.tensors.value_ratio!.data));
    return (
      `First token relative to the others: hidden norm up to ${formatValue(hiddenRatio, 1)}×, value norm down to ` +
      `${formatValue(valueRatio)}×.${massiveWords(frame)}`
    );
  },
  draw(root) {
    const captionElement = addElement(root, 'caption', 'p');
    const charts = KINDS.map((kind) => ({ ...kind, chart: addElement(root, 'chart') }));
    const profilesOf = (frame: Frame) =>
      KINDS.map(({ name }) => normProfile(frame.tensors[name]!, firstKey(frame)));
    const cachedProfiles = cacheLast(profilesOf);
    return (frame, { frames, at }) => {
      setText(captionElement, norms.says(frame, at));
      const allProfiles = frames.map((shownFrame) =>
        shownFrame === frame ? cachedProfiles(frame) : profilesOf(shownFrame),
      );
      charts.forEach(({ title, isStream, chart }, i) => {
        const { first, others } = cachedProfiles(frame)[i]!;
        const places = first.map((_, l) => (isStream ? l - 1 : layerNumber(frame, l)));
        const values = allProfiles
          .flatMap((profiles) => [...profiles[i]!.first, ...profiles[i]!.others])
          .filter((x) => x > 0 && Number.isFinite(x));
        drawChart(chart, {
          kind: 'lines',
          height: 112,
          xLabel: 'layer',
          yLabel: title,
          log: true,
          domain: [Math.min(...values), Math.max(...values)],
          label: `${title} by layer, ${frame.title}`,
          series: [
            { name: 'first token', color: '--sink', values: first, places },
            { name: 'mean of the others', color: '--ink-3', values: others, places },
          ],
        });
      });
    };
  },
};
