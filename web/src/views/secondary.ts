/**
 * Draws the attention by layer on secondary sinks, which are keys after the first that receive far more than uniform
 * attention.
 */
import {
  attentionOf,
  firstKey,
  firstTokenWeights,
  isBidirectional,
  isCommonToken,
  layerNumber,
  mean,
  type Frame,
} from '../frame';
import type { View } from '../page/view';
import { createChartDraw } from './chart_draw';
import { capitalize, commonQuote, firstName, formatPercent, quote, formatValue } from '../words';

/** A secondary sink receives more than this multiple of uniform attention. */
const SINK_MULTIPLE = 5;
const LINE_COUNT = 4;
const DASHES = [undefined, '5,3', '2,3', '6,2,2,2'];

/**
 * Returns the keys after the first with their attention, the strongest first. With a causal mask, leaves out keys beyond
 * T / 2, which few queries see.
 */
export function keysByAttention(frame: Frame) {
  const { tensors, architecture, T } = frame;
  const { L, H } = architecture;
  const [alpha, uniform] = [attentionOf(frame).data, tensors.alpha_uniform!.data];
  const norms = tensors.hidden_norm!.data as Float32Array;
  const keyEnd = isBidirectional(frame) ? T : Math.floor(T / 2);
  const firstIndex = firstKey(frame);
  const keys = Array.from(
    { length: Math.max(0, keyEnd - 1 - firstIndex) },
    (_, i) => firstIndex + 1 + i,
  ).map((key) => {
    /** The mean of alpha_k over the heads of each layer, as a multiple of uniform attention. */
    const multiples = Array.from({ length: L }, (_, l) => {
      const heads = Array.from({ length: H }, (_, h) => alpha[(l * H + h) * T + key]!);
      return mean(heads) / uniform[key]!;
    });
    const sinkLayers = multiples.flatMap((x, l) => (x > SINK_MULTIPLE ? [l] : []));
    /** The first layer where the key is a secondary sink; -1 if there is none. */
    const birth = sinkLayers[0] ?? -1;
    const firstLayer = birth < 0 ? 0 : layerNumber(frame, birth);
    const layerNorms = norms.subarray(firstLayer * T, (firstLayer + 1) * T);
    /** The key's hidden norm before the layer `birth`, relative to the mean of all tokens except the first. */
    const norm = layerNorms[key]! / mean(layerNorms.filter((_, t) => t !== firstIndex));
    return { key, multiples, birth, lifetime: sinkLayers.length, norm };
  });
  return keys.sort((a, b) => Math.max(...b.multiples) - Math.max(...a.multiples));
}

function sentence(frame: Frame): string {
  const keys = keysByAttention(frame);
  const [strongest] = keys;
  if (!strongest) return '';
  const nameOf = ({ key }: (typeof keys)[number]) =>
    isCommonToken(frame, key) ? `token ${key} ${quote(frame, key)}` : `position ${key}`;
  const sinks = keys.filter(({ lifetime }) => lifetime > 0);
  const firstMean = mean(firstTokenWeights(frame));
  if (!Number.isFinite(firstMean)) return 'What each key receives is not recorded.';
  const comparison = `${capitalize(firstName(frame))} receives ${formatPercent(firstMean)} on average over all heads.`;
  if (!sinks.length)
    return (
      `No secondary sink: after the first, ${nameOf(strongest)} receives most, at most ${formatValue(Math.max(...strongest.multiples), 1)} times ` +
      `uniform attention in a layer. ${comparison}`
    );
  const descriptions = sinks
    .slice(0, LINE_COUNT)
    .map(
      (sink) =>
        `${nameOf(sink)} from layer ${layerNumber(frame, sink.birth)} on in ${sink.lifetime} layer${sink.lifetime > 1 ? 's' : ''} (up to ` +
        `${formatValue(Math.max(...sink.multiples), 1)} times, its norm ${formatValue(sink.norm)} of the mean)`,
    );
  return `${sinks.length} secondary sink${sinks.length > 1 ? 's' : ''}: ${descriptions.join('; ')}. ${comparison}`;
}

export const secondary: View = {
  name: 'secondary',
  title: 'Secondary sinks',
  question: 'Do tokens after the first become sinks, and from which layer on?',
  how:
    `A secondary sink is a key after the first that receives more than ${SINK_MULTIPLE} times uniform attention, averaged over the ` +
    'heads of a layer. Lines: the keys that receive most, by layer. Where queries see only keys before them, only keys of ' +
    'the first half are counted: few queries see later ones.',
  formula: 'mean over heads of α_k / α_k under uniform attention',
  source: 'after arXiv 2512.22213; threshold of this project',
  reads: ['alpha', 'alpha_uniform', 'hidden_norm'],
  fits: ({ T }) => T >= 4,
  numbers: (frame) => {
    const keys = keysByAttention(frame).sort((a, b) => a.key - b.key);
    const { L } = frame.architecture;
    return [
      {
        name: 'times_uniform',
        axes: ['key', 'layer'],
        shape: [keys.length, L],
        data: keys.flatMap(({ multiples }) => multiples),
        from: [1 + firstKey(frame), 0],
      },
      ...(['birth', 'lifetime', 'norm'] as const).map((name) => ({
        name,
        axes: ['key'],
        shape: [keys.length],
        data: keys.map((key) => key[name]),
        from: [1 + firstKey(frame)],
      })),
    ];
  },
  says: sentence,
  draw: createChartDraw(sentence, (frame, _, caption) => ({
    kind: 'lines',
    xLabel: 'layer',
    yLabel: 'times uniform attention',
    domain: [0, SINK_MULTIPLE],
    label: `Attention on keys after the first, by layer. ${caption}`,
    series: keysByAttention(frame)
      .slice(0, LINE_COUNT)
      .map(({ key, multiples }, i) => ({
        name: `${key}${commonQuote(frame, key)}`,
        color: `--run-${i + 1}`,
        values: multiples,
        places: multiples.map((_, l) => layerNumber(frame, l)),
        dash: DASHES[i],
      })),
  })),
};
