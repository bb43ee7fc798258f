/** Draws alpha_k of the chosen head, and Sink_k over all heads, by key position: a sink may be at any position. */
import { comparableKeyCount, ofHead, type Frame, type Head } from '../frame';
import { drawChart } from '../plot/chart';
import { quantity } from '../save/numbers';
import { headWords, formatPercent, quote } from '../words';
import { addElement, setText, type View } from '../page/view';

/** Returns up to four keys with a sink, the one with a sink in the most heads first. */
function keysBySink(frame: Frame): { key: number; sink: number }[] {
  const { data } = frame.tensors.sink_ratio!;
  return Array.from(data.subarray(0, comparableKeyCount(frame)), (sink, key) => ({ key, sink }))
    .filter(({ sink }) => sink > 0)
    .sort((a, b) => b.sink - a.sink)
    .slice(0, 4);
}

const alphasOf = (frame: Frame, at: Head) =>
  ofHead(frame.tensors.alpha!, at).subarray(0, comparableKeyCount(frame));

export const scores: View = {
  name: 'scores',
  title: 'Positions',
  question: 'Is the sink only at the first token?',
  how:
    'Bars: αₖ of the selected head for every key that at least eight queries can see; dashed: uniform ' +
    'attention. Below: Sinkₖ, the share of all heads with αₖ > ε, for the same keys (k = position + 1).',
  formula: 'αₖ = mean of A[t, k] over the queries t that see key k',
  source: 'Gu et al., ICLR 2025, section 3.2',
  reads: ['alpha', 'sink_ratio', 'alpha_uniform'],
  numbers: ({ tensors, T }, at) => [
    quantity('alpha', ['key'], { shape: [T], data: ofHead(tensors.alpha!, at) }),
    quantity('alpha_of_even_attention', ['key'], tensors.alpha_uniform!),
    quantity('sink', ['key'], tensors.sink_ratio!),
  ],
  says: (frame) => {
    if (!frame.tensors.sink_ratio!.data.some(Number.isFinite))
      return 'Which keys have a sink is not recorded.';
    const sinkKeys = keysBySink(frame);
    if (!sinkKeys.length) return `No key has a sink in any head of ${frame.title}.`;
    const sinkWords = ({ key, sink }: (typeof sinkKeys)[number]) => {
      const name = frame.sequences === 1 || key === 0 ? ` ${quote(frame, key)}` : '';
      return `k = ${key + 1}${name} in ${formatPercent(sink, 0)}`;
    };
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
        label: `Sink score by key position, ${headTitle} of ${frame.title}`,
        series: [
          { name: headTitle, color: '--sink', values: alphasOf(frame, at) },
          { name: 'uniform attention', color: '--ink-2', values: uniform, dash: '3,3' },
        ],
      });
      const sinkShares = (shownFrame: Frame) =>
        shownFrame.tensors.sink_ratio!.data.subarray(0, comparableKeyCount(shownFrame));
      drawChart(sinkChart, {
        kind: 'bars',
        from: 1,
        xLabel: 'position k, from 1',
        yLabel: 'Sinkₖ, all heads',
        domain: [0, Math.max(0.2, ...frames.flatMap((shownFrame) => [...sinkShares(shownFrame)]))],
        percent: true,
        label: `Share of heads with a sink at each key, ${frame.title}`,
        series: [{ name: `αₖ > ${frame.eps}`, color: '--sink', values: sinkShares(frame) }],
      });
    };
  },
};
