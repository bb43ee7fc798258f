/** Draws the residual stream as a map of tokens by channels, to show massive activations. */
import type { Tensor } from 'sinkscope';
import {
  hiddenLayer,
  indexOfMax,
  layerIndex,
  largestMagnitude,
  layerNumber,
  superWeightOf,
  type Frame,
} from '../frame';
import { sequential } from '../plot/color';
import { createHeatmap } from '../plot/heatmap';
import { drawLegend } from '../plot/legend';
import { quantity } from '../save/numbers';
import { capitalize, formatPercent, quote, formatValue, stateWords, modelName } from '../words';
import type { State } from '../ask/state';
import { addElement, cacheLast, setText, type View } from '../page/view';

function layerValues({ shape, data }: Tensor, layer: number): Float32Array {
  const layerSize = shape[1]! * shape[2]!;
  return (data as Float32Array).subarray(layer * layerSize, (layer + 1) * layerSize);
}

function medianOf(values: Float32Array): number {
  const sortedValues = values.map(Math.abs).sort();
  const middle = Math.floor(sortedValues.length / 2);
  return sortedValues.length % 2
    ? sortedValues[middle]!
    : (sortedValues[middle - 1]! + sortedValues[middle]!) / 2;
}

/**
 * Returns the largest activation after a layer.
 * @param selectedLayer the layer; absent: the one with the most extreme activation
 */
export function peakOf(frame: Frame, selectedLayer?: number) {
  const { hidden, massive } = frame.tensors;
  /** The number of layers before the hidden state. */
  const layer = hiddenLayer(frame, selectedLayer);
  const values = layerValues(hidden!, layer);
  // For several prompts `massive` has the mean of their medians, but the picture shows the first prompt.
  const median = frame.sequences > 1 ? medianOf(values) : massive!.data[4 * layer + 3]!;
  const peakIndex = indexOfMax(values.map(Math.abs));
  const D = hidden!.shape[2]!;
  const [token, channel] = [Math.floor(peakIndex / D), peakIndex % D];
  const value = values[peakIndex]!;
  return { layer, channel, token, value, size: Math.abs(value), median };
}

function superWeightWords(frame: Frame): string {
  const candidate = superWeightOf(frame);
  if (!candidate) return frame.lacks?.super_weight ? ' Its super weight is not recorded.' : '';
  const { layer, row, column, token, share } = candidate;
  return (
    ` Of the outputs of all down projections, the largest is that of layer ${layerNumber(frame, layer)} in channel ${row} of token ${token}; a single weight ` +
    `(row ${row}, column ${column} of this projection) contributes ${formatPercent(share, 0)} of it.`
  );
}

function peakWords(
  frame: Frame,
  { layer, channel, token, size, median }: ReturnType<typeof peakOf>,
) {
  const kurtosis = frame.tensors.kurtosis!.data[layer]!;
  return (
    `${capitalize(stateWords(layer))}, the largest activation of the residual stream is ${formatValue(size, 1)}, ${formatValue(size / median, 0)}× the median: ` +
    `channel ${channel} of token ${token}, ${quote(frame, token)}. Kurtosis ${formatValue(kurtosis, 0)} ` +
    `(${frame.sequences > 1 ? `mean over ${frame.sequences} prompts; ` : ''}a normal distribution has 3).${superWeightWords(frame)}`
  );
}

const SUPER_WEIGHT_LABELS = [
  'row, from 0',
  'column, from 0',
  'token, from 0',
  'weight',
  'input',
  'output',
];

export const channels: View = {
  name: 'channels',
  title: 'Activations',
  question: 'Are there massive activations?',
  how:
    'Absolute activations of the residual stream on the first prompt; rows are tokens, columns channels, after ' +
    'the selected layer, or the one with the most extreme activation. A quantization scale must cover the largest ' +
    'value, which leaves few steps for all others. Kurtosis measures how extreme the largest are. A super weight ' +
    'is a single weight that causes such an activation. Select a cell to intervene on it.',
  formula: 'kurtosis = mean (h − mean h)⁴ / (mean (h − mean h)²)²',
  source: 'Sun et al. 2024 (massive activations); Yu et al. 2024 (super weights)',
  reads: ['hidden', 'massive', 'kurtosis'],
  optional: ['super_weight'],
  numbers: (frame, head) => {
    const layer = hiddenLayer(frame, head.layer);
    const [, T, D] = frame.tensors.hidden!.shape as [number, number, number];
    return [
      quantity('hidden', ['token', 'channel'], {
        shape: [T, D],
        data: layerValues(frame.tensors.hidden!, layer),
      }),
      { ...quantity('kurtosis', ['layer'], frame.tensors.kurtosis!), from: [-1] },
      ...(frame.tensors.super_weight
        ? [
            {
              ...quantity('super_weight', ['layer', 'place'], frame.tensors.super_weight),
              labels: SUPER_WEIGHT_LABELS,
            },
          ]
        : []),
    ];
  },
  says: (frame) => peakWords(frame, peakOf(frame)),
  draw(root, { set }) {
    const captionElement = addElement(root, 'caption', 'p');
    const legend = addElement(root, 'legend-place');
    let selection: Pick<State, 'layer' | 'head'> | undefined;
    const map = createHeatmap(addElement(root, 'plot'), {
      onChoose: ({ row, col }) => set({ channel: col, query: row, key: -1, ...selection }),
    });
    const magnitudesIn = cacheLast((hidden: Tensor) =>
      cacheLast((layer: number) => layerValues(hidden, layer).map(Math.abs)),
    );
    return (frame, { theme, state, frames, at: { head } }) => {
      const peakIn = (member: Frame) =>
        peakOf(member, state.layer < 0 ? -1 : layerIndex(member, state.layer));
      const peak = peakIn(frame);
      const { hidden } = frame.tensors;
      const data = magnitudesIn(hidden!)(peak.layer);
      // Selects the layer before this hidden state, for interventions; the embedding is before all layers.
      selection = peak.layer ? { layer: peak.layer - 1, head } : undefined;
      const [, T, D] = hidden!.shape as [number, number, number];
      const maximum = largestMagnitude(frames.map((member) => [peakIn(member).size]));
      const scale = sequential(theme, maximum, true);
      setText(captionElement, peakWords(frame, peak));
      drawLegend(legend, scale, ['|h| 0', formatValue(maximum, 1)]);
      map.draw({
        rows: T,
        cols: D,
        data,
        scale,
        rowTitle: 'token',
        colTitle: 'channel',
        cellShape: (1.3 * T) / D,
        label: `Residual stream of ${modelName(frame)}. ${peakWords(frame, peak)}`,
        chosen:
          state.channel < 0
            ? { row: peak.token, col: peak.channel }
            : { row: state.query, col: state.channel },
        describe: ({ row, col }) =>
          row < 0 || col < 0
            ? ''
            : `token ${row} ${quote(frame, row)}, channel ${col}: |h| = ${formatValue(data[row * D + col]!)}`,
      });
    };
  },
};
