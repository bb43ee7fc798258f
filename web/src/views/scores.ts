/** Draws alpha_k of the chosen head, and Sink_k over all heads, by key position: a sink may be at any position. */
import { attentionOf, comparableKeyCount, ofHead, type Frame, type Head } from '../frame';
import { drawChart } from '../plot/chart';
import { quantity } from '../save/numbers';
import {
  commonQuote,
  headWords,
  formatPercent,
  modelName,
  tooShortNote,
  verdictOf,
} from '../words';
import { addElement, setText, type View } from '../page/view';

const sinksOf = (frame: Frame, keyCount: number): Float32Array =>
  Float32Array.from({ length: keyCount }, (_, key) => verdictOf(frame, key).sink);

/**
 * Returns the keys with a sink that enough queries see, the one with a sink in the most heads first. In a short text
 * uniform attention alone may exceed the threshold, and the first keys do not count.
 */
export function keysBySink(frame: Frame): { key: number; sink: number }[] {
  return Array.from(sinksOf(frame, comparableKeyCount(frame)), (sink, key) => ({ key, sink }))
    .filter(({ key, sink }) => sink > 0 && verdictOf(frame, key).conclusive)
    .sort((a, b) => b.sink - a.sink);
}

const alphasOf = (frame: Frame, at: Head) =>
  ofHead(attentionOf(frame), at).subarray(0, comparableKeyCount(frame));

export const scores: View = {
  name: 'scores',
  title: 'Positions',
  question: 'Is the sink only at the first token?',
  how:
    'Bars: αₖ of the selected head for every key that at least eight queries can see; dashed: uniform ' +
    'attention. Below: Sinkₖ, the share of all heads with αₖ > ε, for the same keys (k = position + 1).',
  formula: 'αₖ = mean of A[t, k] over the queries t that see key k',
  source: 'Gu et al., ICLR 2025, section 3.2',
  reads: ['alpha', 'sink_ratio', 'sink_ratio_raw', 'alpha_uniform'],
  numbers: (frame, at) => {
    const { tensors, T } = frame;
    return [
      quantity('alpha', ['key'], { shape: [T], data: ofHead(attentionOf(frame), at) }),
      quantity('alpha_of_even_attention', ['key'], tensors.alpha_uniform!),
      quantity('sink', ['key'], { shape: [T], data: sinksOf(frame, T) }),
    ];
  },
  says: (frame) => {
    if (!frame.tensors.sink_ratio!.data.some(Number.isFinite))
      return 'Which keys have a sink is not recorded.';
    const shortNote = tooShortNote(frame);
    if (shortNote) return shortNote;
    const sinkKeys = keysBySink(frame).slice(0, 4);
    if (!sinkKeys.length) return `No key has a sink in any head of ${modelName(frame)}.`;
    const sinkWords = ({ key, sink }: (typeof sinkKeys)[number]) =>
      `k = ${key + 1}${commonQuote(frame, key)} in ${formatPercent(sink, 0)}`;
    return `Sinks: ${sinkKeys.map(sinkWords).join(', ')} of the heads.`;
  },
  draw(root) {
    const captionElement = addElement(root, 'caption', 'p');
    const [alphaChart, sinkChart] = [addElement(root, 'chart'), addElement(root, 'chart')];
    return (frame, { at, frames }) => {
      const headTitle = headWords(at, frame);
      const uniform = frame.tensors.alpha_uniform!.data.subarray(0, comparableKeyCount(frame));
      setText(captionElement, scores.says(frame, at));
      drawChart(alphaChart, {
        kind: 'bars',
        from: 1,
        xLabel: 'position k, from 1',
        yLabel: 'αₖ',
        domain: [0, 1],
        label: `Sink score by key position, ${headTitle} of ${modelName(frame)}`,
        series: [
          { name: headTitle, color: '--sink', values: alphasOf(frame, at) },
          { name: 'uniform attention', color: '--ink-2', values: uniform, dash: '3,3' },
        ],
      });
      const sinkShares = (shownFrame: Frame) => sinksOf(shownFrame, comparableKeyCount(shownFrame));
      drawChart(sinkChart, {
        kind: 'bars',
        from: 1,
        xLabel: 'position k, from 1',
        yLabel: 'Sinkₖ, all heads',
        domain: [0, Math.max(0.2, ...frames.flatMap((shownFrame) => [...sinkShares(shownFrame)]))],
        percent: true,
        label: `Share of heads with a sink at each key, ${frame.title}`,
        series: [
          {
            name: `αₖ > ${frame.eps}`,
            color: '--sink',
            values: sinkShares(frame),
          },
        ],
      });
    };
  },
};
