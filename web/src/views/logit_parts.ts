/** Splits a head's logit of the first key into parts of the residual stream: embedding, attention, feed-forward. */
import { headAt, layerNumber, ofHead, type Frame, type Head } from '../frame';
import type { View } from '../page/view';
import { createChartDraw } from './chart_draw';
import { quantity } from '../save/numbers';
import { headName, formatReal } from '../words';

const sumOf = (list: readonly number[]) => list.reduce((a, b) => a + b, 0);
const indexOfLargest = (list: readonly number[]) =>
  list.reduce((best, x, i) => (Math.abs(x) > Math.abs(list[best]!) ? i : best), 0);

/** Returns the parts of a head's mean logit with the first key. Arrays have a part for each layer below the head's. */
export function partsOf(frame: Frame, at: Head) {
  const { H } = frame.architecture;
  const parts = [...ofHead(frame.tensors.logit_parts!, at)];
  const lowerLayers = Array.from({ length: at.layer }, (_, l) => l);
  const { shape, data } = frame.tensors.logit_parts_heads!;
  const partCount = shape[2]! * H;
  const headParts = [
    ...data.subarray((at.layer * H + at.head) * partCount).subarray(0, at.layer * H),
  ];
  const strongestIndex = indexOfLargest(headParts);
  const isSplitByHead = headParts.length > 0 && headParts.every(Number.isFinite);
  return {
    embedding: parts[0]!,
    attention: lowerLayers.map((l) => parts[1 + 2 * l]!),
    ffn: lowerLayers.map((l) => parts[2 + 2 * l]!),
    biases: parts.at(-1)!,
    /** The head of a lower layer with the largest part in size; undefined if the parts are not split by head. */
    head: isSplitByHead
      ? { ...headAt(strongestIndex, H), part: headParts[strongestIndex]! }
      : undefined,
  };
}

function sentence(
  frame: Frame,
  at: Head,
  { embedding, attention, ffn, biases, head }: ReturnType<typeof partsOf>,
) {
  const name = headName(at, frame);
  if (!Number.isFinite(embedding))
    return `${name}: the stream is no sum of components here: norms after the blocks, or edits, scale what was added, or a layer adds more than attention and feed-forward.`;
  const total = embedding + sumOf(attention) + sumOf(ffn) + biases;
  const opening = `${name}: the first key’s logit is ${formatReal(total)} on average over the queries`;
  if (!ffn.length)
    return `${opening}: the embedding makes ${formatReal(embedding)} of it, biases ${formatReal(biases)}.`;
  const topLayer = indexOfLargest(ffn);
  return (
    `${opening}: feed-forward layers make ${formatReal(sumOf(ffn))} of it (layer ${layerNumber(frame, topLayer)}: ${formatReal(ffn[topLayer]!)}), attention ` +
    `${formatReal(sumOf(attention))}, the embedding ${formatReal(embedding)}, biases ${formatReal(biases)}.` +
    (head
      ? ` Of the heads below, ${headName(head, frame)} adds the most in size: ${formatReal(head.part)}.`
      : '')
  );
}

export const logitParts: View = {
  name: 'logit-parts',
  title: 'Parts of the logit',
  question: 'Which layers make the first key attractive?',
  how:
    'The first token’s hidden state is a sum: the embedding, and what attention and feed-forward of each layer added. With ' +
    'the scale of the norm held, each of them has a part in the logit of the first key; the parts add up to its mean over ' +
    'queries. This is bookkeeping: without a component the norm’s scale would be another.',
  formula: 'part of r = s q̄ · W_K (g ∘ r) / ρ',
  source: 'after arXiv 2605.06611; definitions of this project',
  reads: ['logit_parts', 'logit_parts_heads'],
  numbers: (frame) => [
    quantity('logit_parts', ['layer', 'head', 'component'], frame.tensors.logit_parts!),
    quantity(
      'logit_parts_heads',
      ['layer', 'head', 'layer_below', 'head_below'],
      frame.tensors.logit_parts_heads!,
    ),
  ],
  says: (frame, at) => sentence(frame, at, partsOf(frame, at)),
  draw: createChartDraw(
    (frame, { at }) => logitParts.says(frame, at),
    (frame, { at }, caption) => {
      const { attention, embedding, ffn } = partsOf(frame, at);
      return {
        kind: 'lines',
        from: -1,
        xLabel: 'layer (−1: the embedding)',
        yLabel: 'part of the first key’s logit',
        label: `Parts of the first key’s logit by layer. ${caption}`,
        series: [
          { name: 'feed-forward', color: '--sink', values: [NaN, ...ffn] },
          { name: 'attention', color: '--query', values: [NaN, ...attention], dash: '5,3' },
          { name: 'embedding', color: '--ink', values: [embedding], dash: '2,3' },
        ],
      };
    },
  ),
};
