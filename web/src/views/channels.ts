/** The residual stream, token by channel: the few numbers that dwarf all others. */
import type { Tensor } from 'sinkscope';
import { largest, type Frame, type Head } from '../frame';
import { sequential } from '../plot/color';
import { createHeatmap } from '../plot/heatmap';
import { drawLegend } from '../plot/legend';
import { quantity } from '../save/numbers';
import { quote, show, word } from '../words';
import { lastOf, part, say, type View } from './view';

export interface Peak {
  /** Behind so many layers. */
  readonly layer: number;
  readonly channel: number;
  readonly token: number;
  readonly size: number;
  readonly median: number;
}

function at({ shape, data }: Tensor, layer: number): Float32Array {
  const size = shape[1]! * shape[2]!;
  return (data as Float32Array).subarray(layer * size, (layer + 1) * size);
}

/** The layer whose largest number stands furthest above its median, and where that number is. */
export function peakOf({ tensors, architecture }: Frame): Peak {
  const sizes = tensors.massive!.data;
  let layer = 0;
  const ratio = (l: number) => sizes[4 * l]! / sizes[4 * l + 3]!;
  for (let l = 1; l <= architecture.L; l++) if (ratio(l) > ratio(layer)) layer = l;
  return peakAt(tensors.hidden!, layer, sizes[4 * layer + 3]!);
}

function peakAt(hidden: Tensor, layer: number, median: number): Peak {
  const [, , D] = hidden.shape as [number, number, number];
  const values = at(hidden, layer);
  let best = 0;
  values.forEach((x, i) => {
    if (Math.abs(x) > Math.abs(values[best]!)) best = i;
  });
  const [token, channel] = [Math.floor(best / D), best % D];
  return { layer, channel, token, size: Math.abs(values[best]!), median };
}

/** Behind the chosen layer, else where the peak stands out most. */
function shownPeak(frame: Frame, { layer }: { readonly layer: number }): Peak {
  if (layer < 0) return peakOf(frame);
  const l = Math.min(layer, frame.architecture.L - 1) + 1;
  return peakAt(frame.tensors.hidden!, l, frame.tensors.massive!.data[4 * l + 3]!);
}

function sayPeak(frame: Frame, { layer, channel, token, size, median }: Peak): string {
  return (
    `Behind layer ${layer} one number reaches ${show(size, 1)}, ${show(size / median, 0)} × the median: ` +
    `channel ${channel + 1} of token ${token + 1}, ${quote(frame, token)}.`
  );
}

export const channels: View = {
  name: 'channels',
  title: 'Token by channel',
  question: 'Which number stretches the scale?',
  how:
    'Sizes of the residual stream’s numbers on the first prompt, token down and channel across, behind ' +
    'the chosen layer or the one where the largest stands out most. A scale that must reach the largest ' +
    'leaves few steps for all others.',
  source: 'Sun et al. 2024 (massive activations)',
  reads: ['hidden', 'massive'],
  numbers: (frame, head: Head) => {
    const { layer } = shownPeak(frame, head);
    const [, T, D] = frame.tensors.hidden!.shape as [number, number, number];
    return [
      quantity('hidden', ['token', 'channel'], {
        shape: [T, D],
        data: at(frame.tensors.hidden!, layer),
      }),
    ];
  },
  says: (frame) => sayPeak(frame, peakOf(frame)),
  draw(root) {
    const words = part(root, 'caption', 'p');
    const legend = part(root, 'legend-place');
    const map = createHeatmap(part(root, 'plot'));
    const sizes = lastOf((values: Float32Array) => values.map(Math.abs));
    let last: { of: Tensor; layer: number; data: Float32Array } | undefined;
    return (frame, { theme, state, frames }) => {
      const peak = shownPeak(frame, state);
      const { hidden } = frame.tensors;
      if (last?.of !== hidden || last?.layer !== peak.layer)
        last = { of: hidden!, layer: peak.layer, data: sizes(at(hidden!, peak.layer)) };
      const { data } = last!;
      const [, T, D] = hidden!.shape as [number, number, number];
      const most = largest(frames.map((one) => [shownPeak(one, state).size]));
      const scale = sequential(theme, most, true);
      say(words, sayPeak(frame, peak));
      drawLegend(legend, scale, ['|h| 0', show(most, 1)]);
      map.draw({
        rows: T,
        cols: D,
        data,
        scale,
        rowTitle: 'token',
        colTitle: 'channel',
        cellShape: (1.3 * T) / D,
        label: `Residual stream of ${frame.title}. ${sayPeak(frame, peak)}`,
        chosen: { row: peak.token, col: peak.channel },
        describe: ({ row, col }) =>
          row < 0 || col < 0
            ? ''
            : `token ${row + 1} “${word(frame.tokens[row]?.text ?? '')}”, channel ${col + 1}: |h| = ${show(data[row * D + col]!)}`,
      });
    };
  },
};
