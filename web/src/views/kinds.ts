/** Draws the share of attention on each kind of token by layer: patches of an image, text and special tokens. */
import { KIND_SHARES } from 'sinkscope/internal';
import { isBidirectional, layerNumber, mean, type Frame } from '../frame';
import { quantity } from '../save/numbers';
import { formatPercent, modelName } from '../words';
import type { View } from '../page/view';
import { createChartDraw } from './chart_draw';

const KINDS = [
  { letter: 'i', tensor: KIND_SHARES.i, name: 'patches', color: '--run-1' },
  { letter: 't', tensor: KIND_SHARES.t, name: 'text', color: '--run-2' },
  { letter: 's', tensor: KIND_SHARES.s, name: 'special tokens', color: '--run-3' },
] as const;

const kindsOf = ({ tensors }: Frame) => KINDS.filter(({ tensor }) => tensors[tensor]);

/** Returns the first of the queries whose rows are counted: those after the image, or all where there are none. */
function firstCounted({ image, T }: Frame): number {
  const end = image!.kinds.lastIndexOf('i') + 1;
  return end < T ? end : 0;
}

/** Returns the share that uniform attention over the keys that each query sees would give a kind in the first prompt. */
function uniformShare(frame: Frame, letter: string): number {
  const { image, T } = frame;
  const first = firstCounted(frame);
  const shares = Array.from({ length: T - first }, (_, i) => {
    const seen = isBidirectional(frame) ? T : first + i + 1;
    return (image!.kinds.slice(0, seen).split(letter).length - 1) / seen;
  });
  return mean(shares);
}

function says(frame: Frame): string {
  const shares = kindsOf(frame).map(
    ({ letter, tensor, name }) =>
      `${formatPercent(mean(frame.tensors[tensor]!.data))} is on ${name} (uniform attention: ${formatPercent(uniformShare(frame, letter))})`,
  );
  const prompts = frame.sequences > 1 ? ` and ${frame.sequences} prompts` : '';
  const queries = firstCounted(frame) ? 'the queries after the image' : 'all queries';
  return `Of the attention of ${queries} of ${modelName(frame)}, as the mean over all heads${prompts}, ${shares.join(', ')}.`;
}

export const kinds: View = {
  name: 'kinds',
  title: 'Attention by kind of token',
  question: 'How much attention do the image, the text and the special tokens receive?',
  how:
    'Each line is a kind of token: patches of the image, text, and special tokens (class token, registers, start token). Its height is the share ' +
    'of attention on all tokens of the kind, as the mean over the heads of a layer. Counted are the queries after the image, which see all of ' +
    'it; in a vision model all queries.',
  formula: 'mean over queries and heads of Σ A[q, k] over the keys k of a kind',
  reads: [],
  fits: (frame) => kindsOf(frame).length > 0 && Boolean(frame.image),
  conditions: ({ sequences }) => ({ sequences }),
  numbers: (frame) =>
    kindsOf(frame).map(({ tensor }) => quantity(tensor, ['layer', 'head'], frame.tensors[tensor]!)),
  says,
  draw: createChartDraw(says, (frame, _, caption) => ({
    kind: 'lines',
    xLabel: 'layer',
    yLabel: 'share of attention',
    domain: [0, 1],
    label: `Share of attention by kind of token and layer. ${caption}`,
    series: kindsOf(frame).map(({ tensor, name, color }) => {
      const { data } = frame.tensors[tensor]!;
      const { L, H } = frame.architecture;
      const values = Array.from({ length: L }, (__, l) => mean(data.subarray(l * H, (l + 1) * H)));
      return { name, color, values, places: values.map((__, l) => layerNumber(frame, l)) };
    }),
  })),
};
