/** Draws the sink map: alpha_1 of every head, without a threshold. */
import { alphaOfKey, firstKey, firstTokenWeights, type Frame } from '../frame';
import { sequential } from '../plot/color';
import { quantity } from '../save/numbers';
import {
  capitalize,
  firstTokenSubscript,
  headsWords,
  verdictOf,
  meanRowSum,
  formatPercent,
  tooShortNote,
  formatValue,
  isFirstHidden,
  wholePercent,
} from '../words';
import { createHeadMap } from './head_map';
import { cacheLast, addElement, setText, type View } from '../page/view';

const alphaName = (frame: Frame) => `α${firstTokenSubscript(frame)}`;

export const sinks: View = {
  name: 'sinks',
  title: 'Sink map',
  question: 'Which heads have a sink?',
  how:
    'Each cell is a head; its color is α₁, the mean attention on the first token (where rows need not ' +
    'sum to 1, the mean share). Sink₁ is the share of heads with α₁ > ε. Select a head to open it.',
  formula: 'α₁ = mean over queries of A[t, 1];  Sink₁ = share of heads with α₁ > ε',
  source: 'Gu et al., ICLR 2025, section 3.2',
  reads: ['alpha', 'sink_ratio', 'sink_ratio_raw', 'alpha_uniform', 'near_eps', 'row_mass_summary'],
  numbers: (frame) => {
    const { L, H } = frame.architecture;
    const { sink_ratio, sink_ratio_raw } = frame.tensors;
    const key = firstKey(frame);
    const scalar = (name: string, value: number) =>
      quantity(name, [], { shape: [], data: Float32Array.of(value) });
    return [
      scalar(`sink_${key + 1}`, sink_ratio!.data[key]!),
      scalar(`sink_${key + 1}_raw`, sink_ratio_raw!.data[key]!),
      scalar('alpha_of_even_attention', verdictOf(frame).even),
      scalar('conclusive', Number(verdictOf(frame).conclusive)),
      quantity(`alpha_${key + 1}`, ['layer', 'head'], {
        shape: [L, H],
        data: alphaOfKey(frame, key),
      }),
    ];
  },
  says: (frame) => {
    const verdict = verdictOf(frame);
    if (!verdict.conclusive) return tooShortNote(verdict, frame.T, frame.eps);
    const hasRawWeights = verdict.of !== 'weights';
    const nearThresholdCount = frame.tensors.near_eps?.data[firstKey(frame)] ?? 0;
    return (
      `${capitalize(headsWords(frame, verdict.sink))} give the first token more than ${formatPercent(frame.eps, 0)}` +
      `${hasRawWeights ? ` both as a share and as a raw weight; rows sum to ${formatValue(meanRowSum(frame))} on average` : ''}` +
      `${isFirstHidden(frame) ? '' : ` (uniform attention: ${formatPercent(verdict.even, 0)})`}${nearThresholdCount ? `; ${formatValue(nearThresholdCount, Number.isInteger(nearThresholdCount) ? 0 : 1)} within 0.002 of ε` : ''}.`
    );
  },
  draw(root, api) {
    const drawMap = createHeadMap(root, api);
    const captionElement = addElement(root, 'caption', 'p');
    const cachedAlphas = cacheLast((frame: Frame) => alphaOfKey(frame, firstKey(frame)));
    const cachedWeights = cacheLast(firstTokenWeights);
    return (frame, options) => {
      const caption = sinks.says(frame, options.at);
      setText(captionElement, caption);
      drawMap(frame, options, {
        data: options.isPlain ? cachedWeights(frame) : cachedAlphas(frame),
        ...(options.isPlain ? { print: wholePercent } : {}),
        scale: sequential(options.theme),
        symbol: alphaName(frame),
        label: `${alphaName(frame)} by layer and head, ${frame.title}: ${caption}`,
      });
    };
  },
};
