/** Draws the sink map: alpha_1 of every head, without a threshold. */
import { firstKey, firstTokenWeights, usesRawWeights, type Frame } from '../frame';
import type { Cell } from '../plot/heatmap';
import { quantity } from '../save/numbers';
import {
  capitalize,
  firstTokenSubscript,
  countedOn,
  firstName,
  headsGive,
  shareCountSentence,
  verdictOf,
  formatPercent,
  tooShortNote,
  isFirstHidden,
  timesUniform,
  wholePercent,
} from '../words';
import { weightScale } from './attention';
import { createHeadMap } from './head_map';
import { cacheLast, addElement, setText, type View } from '../page/view';

const alphaName = (frame: Frame) => `α${firstTokenSubscript(frame)}`;

export const sinks: View = {
  name: 'sinks',
  title: 'Sink map',
  question: 'Which heads have a sink?',
  how:
    'Each cell is a head; its color is α₁, the mean attention on the first token. Sink₁ is the share of heads with α₁ > ε. ' +
    'Attention is the weight that the model uses. Select a head to open it.',
  formula: 'α₁ = mean over queries of A[t, 1];  Sink₁ = share of heads with α₁ > ε',
  source: 'Gu et al., ICLR 2025, section 3.2',
  reads: ['alpha', 'sink_ratio', 'sink_ratio_raw', 'alpha_uniform', 'near_eps', 'row_mass_summary'],
  numbers: (frame) => {
    const { L, H } = frame.architecture;
    const verdict = verdictOf(frame);
    const key = firstKey(frame);
    const scalar = (name: string, value: number) =>
      quantity(name, [], { shape: [], data: Float32Array.of(value) });
    return [
      scalar(`sink_${key + 1}`, verdict.sink),
      scalar(`sink_${key + 1}_raw`, verdict.sink),
      scalar(`sink_${key + 1}_by_shares`, verdict.sinkByShares),
      scalar('alpha_of_even_attention', verdict.even),
      scalar('conclusive', Number(verdict.conclusive)),
      quantity(`alpha_${key + 1}`, ['layer', 'head'], {
        shape: [L, H],
        data: firstTokenWeights(frame),
      }),
    ];
  },
  says: (frame) => {
    const { sink, even, conclusive } = verdictOf(frame);
    if (!conclusive) return tooShortNote(frame);
    const nearThresholdCount = frame.tensors.near_eps?.data[firstKey(frame)] ?? 0;
    const hasUniform = !isFirstHidden(frame) && !usesRawWeights(frame);
    const uniformNote = hasUniform ? ` (uniform attention: ${formatPercent(even, 0)})` : '';
    const nearNote =
      nearThresholdCount && !usesRawWeights(frame)
        ? `; ${frame.sequences > 1 ? formatPercent(nearThresholdCount / firstTokenWeights(frame).length, 0) : nearThresholdCount} within 0.002 of ε`
        : '';
    return (
      `${capitalize(countedOn(frame))}, ${headsGive(frame, sink)} ${firstName(frame)} more than ` +
      `${formatPercent(frame.eps, 0)}${uniformNote}${nearNote}.${shareCountSentence(frame)}`
    );
  },
  draw(root, api) {
    const drawMap = createHeadMap(root, api);
    const captionElement = addElement(root, 'caption', 'p');
    const cachedAlphas = cacheLast(firstTokenWeights);
    return (frame, options) => {
      const caption = sinks.says(frame, options.at);
      setText(captionElement, caption);
      const timesWords = ({ row, col }: Cell) =>
        timesUniform(frame, cachedAlphas(frame)[row * frame.architecture.H + col]!);
      drawMap(frame, options, {
        data: cachedAlphas(frame),
        ...(options.isPlain ? { print: wholePercent } : { more: timesWords }),
        scale: weightScale(options),
        symbol: alphaName(frame),
        label: `${alphaName(frame)} by layer and head, ${frame.title}: ${caption}`,
      });
    };
  },
};
