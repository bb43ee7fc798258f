/** Draws Sink_1 by threshold, and Sink_1 by length of the text. */
import { uniformAlphas } from 'sinkscope/internal';
import {
  firstTokenWeights,
  usesRawWeights,
  firstKey,
  isBidirectional,
  sharesOf,
  visibleKeyEnd,
  type Frame,
} from '../frame';
import { quantity } from '../save/numbers';
import {
  averageWords,
  firstTokenSubscript,
  isFirstHidden,
  formatPercent,
  formatValue,
} from '../words';
import type { View } from '../page/view';
import { createChartDraw } from './chart_draw';

const THRESHOLDS = Array.from({ length: 101 }, (_, i) => i / 100);
/** The largest number of attention weights, of all heads together, that the page reads at once. */
const MAX_WEIGHTS = 2 ** 24;

/**
 * Returns α₁ of every head of every prompt; their share above ε is then Sink₁(ε), the mean over the prompts. Of a
 * recording of several prompts only the mean α₁ of each head is known.
 */
const firstAlphas = (frame: Frame): number[] => [
  ...(frame.tensors[usesRawWeights(frame) ? 'first_raw_alphas' : 'first_alphas']?.data ??
    firstTokenWeights(frame)),
];

const areMeans = ({ sequences, tensors }: Frame): boolean => sequences > 1 && !tensors.first_alphas;

/** Names what is compared with the thresholds. */
const alphaName = (frame: Frame): string =>
  `${areMeans(frame) ? 'mean ' : ''}α${firstTokenSubscript(frame)}`;

const shareAbove = (eps: number, alphas: readonly number[]) =>
  alphas.filter((alpha) => alpha > Math.fround(eps)).length / alphas.length;

/** Returns the share of heads whose α₁ exceeds a threshold, for each of the thresholds. */
function sinkByThreshold(frame: Frame): Float32Array {
  const alphas = firstAlphas(frame);
  return Float32Array.from(THRESHOLDS, (eps) => shareAbove(eps, alphas));
}

export const threshold: View = {
  name: 'threshold',
  title: 'Sink₁ by threshold',
  question: 'How much does Sink₁ depend on ε?',
  how:
    'The share of heads whose α₁ exceeds each threshold ε, in each prompt and then averaged over the prompts. A steep ' +
    'curve at the line means that another ε would count other heads; the paper uses 0.3.',
  formula: 'Sink₁(ε) = share of heads with α₁ > ε',
  source: 'Gu et al., ICLR 2025, section 3.2',
  reads: ['alpha', 'alpha_uniform'],
  numbers: (frame) => [
    quantity('sink_1_by_eps', ['eps_in_percent'], {
      shape: [THRESHOLDS.length],
      data: sinkByThreshold(frame),
    }),
  ],
  says: (frame) => {
    const alphas = firstAlphas(frame);
    if (!alphas.every(Number.isFinite)) return 'The attention of the first token is not recorded.';
    const symbol = `α${firstTokenSubscript(frame)}`;
    const uniform = formatValue(frame.tensors.alpha_uniform!.data[firstKey(frame)]!, 2);
    const { L, H } = frame.architecture;
    const promptWords = areMeans(frame) ? '' : averageWords(frame);
    return `Of ${L * H} heads,${promptWords} ${[0.1, 0.2, 0.3, 0.5].map((eps) => `${formatPercent(shareAbove(eps, alphas), 0)} have ${alphaName(frame)} > ${eps}`).join(', ')}${isFirstHidden(frame) ? '' : `; uniform attention has ${symbol} = ${uniform}`}.`;
  },
  draw: createChartDraw(
    (frame, { at }) => threshold.says(frame, at),
    (frame, _, caption) => ({
      kind: 'lines',
      xLabel: 'threshold ε',
      yLabel: areMeans(frame) ? 'share of heads' : `Sink${firstTokenSubscript(frame)}`,
      domain: [0, 1],
      percent: true,
      dots: false,
      cursor: frame.eps,
      cursorWords: `ε = ${frame.eps}`,
      label: `Share of heads by threshold, ${frame.title}. ${caption}`,
      series: [
        {
          name: `heads with ${alphaName(frame)} > ε`,
          color: '--sink',
          values: sinkByThreshold(frame),
          places: THRESHOLDS,
        },
      ],
    }),
  ),
};

/** Numbers of the first 1, 2, ..., T tokens: the share of heads with a sink, the mean α₁ and the uniform α₁. */
interface SinkByLength {
  readonly sink: Float32Array;
  readonly mean: Float32Array;
  readonly uniform: Float32Array;
}

const cachedNumbers = new WeakMap<Frame, SinkByLength>();

/** Returns the least length whose map is a corner of the whole one: shorter texts hide a part of the prefix. */
const shortestLength = (frame: Frame): number =>
  Math.max(firstKey(frame) + 1, visibleKeyEnd(frame, 0));

/** Returns the numbers by length, of one map: a causal map of the first n tokens is its upper left corner. */
function sinkByLength(frame: Frame): SinkByLength {
  const cached = cachedNumbers.get(frame);
  if (cached) return cached;
  const { T, eps, architecture } = frame;
  const key = firstKey(frame);
  const headCount = architecture.L * architecture.H;
  const result = {
    sink: new Float32Array(T),
    mean: new Float32Array(T),
    uniform: new Float32Array(T),
  };
  for (let i = 0; i < headCount; i++) {
    const weights = frame.tensors.att!.data.subarray(i * T * T, (i + 1) * T * T) as Float32Array;
    const shares = frame.operation.normalizes ? weights : sharesOf(weights, T);
    let sum = 0;
    for (let t = key; t < T; t++) {
      sum += shares[t * T + key] || 0;
      const alpha = sum / (t + 1 - key);
      result.mean[t]! += alpha;
      if (alpha > eps) result.sink[t]!++;
    }
  }
  for (let t = 0; t < T; t++) {
    result.mean[t]! /= headCount;
    result.sink[t]! /= headCount;
    result.uniform[t] = uniformAlphas(t + 1, architecture)[key] ?? NaN;
    if (t + 1 < shortestLength(frame)) result.sink[t] = result.mean[t] = result.uniform[t] = NaN;
  }
  cachedNumbers.set(frame, result);
  return result;
}

export const length: View = {
  name: 'length',
  title: 'Sink₁ by length',
  question: 'How much does Sink₁ depend on T?',
  how:
    'Sink₁ and the mean α₁ over all heads for the first 1, 2, …, T tokens of the first prompt. In a short text ' +
    'uniform attention alone gives the first token a large share: compare with the dashed line.',
  formula: 'α₁(T) = mean over t ≤ T of A[t, 1]',
  source: 'Gu et al., ICLR 2025, section 3.2',
  reads: ['att'],
  fits: (frame) => {
    const { L, H } = frame.architecture;
    return !frame.pooled && !isBidirectional(frame) && L * H * frame.T ** 2 <= MAX_WEIGHTS;
  },
  numbers: (frame) => {
    const { sink, mean, uniform } = sinkByLength(frame);
    const numberOf = (name: string, data: Float32Array) =>
      quantity(name, ['last_position'], { shape: [frame.T], data });
    return [
      numberOf('sink_1', sink),
      numberOf('mean_alpha_1', mean),
      numberOf('uniform_alpha_1', uniform),
    ];
  },
  says: (frame) => {
    const { sink, mean, uniform } = sinkByLength(frame);
    const lengths = [8, 16, 32, 64, 128, 256, 512].filter(
      (n) => n < frame.T && n >= shortestLength(frame),
    );
    const subscript = firstTokenSubscript(frame);
    return [...lengths, frame.T]
      .slice(-4)
      .map(
        (n) =>
          `T = ${n}: Sink${subscript} ${formatPercent(sink[n - 1]!, 0)}, mean α${subscript} ${formatValue(mean[n - 1]!, 2)} (uniform ${formatValue(uniform[n - 1]!, 2)})`,
      )
      .join('; ')
      .concat('.');
  },
  draw: createChartDraw(
    (frame, { at }) => length.says(frame, at),
    (frame, _, caption) => {
      const { sink, mean, uniform } = sinkByLength(frame);
      return {
        kind: 'lines',
        from: 1,
        xLabel: 'T, tokens',
        yLabel: 'share',
        domain: [0, 1],
        percent: true,
        dots: false,
        label: `Sink₁ by length of the text, ${frame.title}. ${caption}`,
        series: [
          { name: `Sink${firstTokenSubscript(frame)}`, color: '--sink', values: sink },
          { name: `mean α${firstTokenSubscript(frame)}`, color: '--query', values: mean },
          { name: 'uniform attention', color: '--ink-2', values: uniform, dash: '3,3' },
        ],
      };
    },
  ),
};
