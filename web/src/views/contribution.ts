/** Compares the attention on a key with what the key contributes: attention on a small value changes the output little. */
import {
  attentionOf,
  firstKey,
  numbersOfKey,
  ofHead,
  usesRawWeights,
  type Frame,
  type Head,
} from '../frame';
import { sequential } from '../plot/color';
import { quantity } from '../save/numbers';
import {
  capitalize,
  firstName,
  firstTokenName,
  headWords,
  formatPercent,
  modelName,
} from '../words';
import { createHeadsDraw } from './head_map';
import { outputNormsOf, writesLittle } from './outputs';
import type { View } from '../page/view';

/** The metrics of a key beside its attention: its share of the head's output before W_O, and of the output after W_O. */
const METRICS = ['contribution_at', 'contribution_out_at'] as const;

const hasOutputShares = ({ tensors }: Frame) => tensors.contribution_out_at !== undefined;

/** Returns the metric of the map: the share after W_O, or before W_O where a recording has no weights. */
const metricOf = (frame: Frame) =>
  hasOutputShares(frame) ? 'contribution_out_at' : 'contribution_at';

const sharesOf = (frame: Frame, at: Head) =>
  [attentionOf(frame), ...METRICS.map((name) => frame.tensors[name])].map(
    (tensor) => tensor && ofHead(tensor, at),
  );

function sentence(frame: Frame, at: Head): string {
  const shares = sharesOf(frame, at).map((byKey) => byKey?.[firstKey(frame)] ?? NaN);
  const [attentionWords, mixtureWords, outputWords] = shares.map((share) =>
    formatPercent(share, 0),
  );
  const verb = shares[1]! < shares[0]! / 2 ? 'but contributes only' : 'and contributes';
  // The outputs are those of the first prompt, with which means over several prompts must not be combined.
  const isSmall =
    frame.sequences === 1 && frame.tensors.head_out && writesLittle(outputNormsOf(frame, at));
  const outputName = isSmall ? 'the little that the head writes' : 'what the head writes';
  const outputNote = hasOutputShares(frame)
    ? ` and ${outputWords} after it.`
    : '; what it contributes after it is not recorded.';
  return (
    `${capitalize(headWords(at, frame))}: ${firstTokenName(frame)} receives ${usesRawWeights(frame) ? `a mean weight of ${attentionWords}` : `${attentionWords} of the attention`}, ${verb} ${mixtureWords} of ` +
    `${outputName} before the output matrix${outputNote}`
  );
}

export const contribution: View = {
  name: 'contribution',
  title: 'What a key contributes',
  question: 'Does attention on the first token write anything?',
  how:
    'The contribution of a key is its attention times the norm of its value, as a share of the sum over all ' +
    'keys, before and after the output matrix W_O. Each cell is ' +
    'a head; its color is the contribution of the first token to the residual stream. Below, the selected head key by key: if the first token ' +
    'receives much attention and contributes little, the head writes almost nothing.',
  formula: 'mean over the queries t that see key k of A[t, k] ‖W_O v_k‖ / Σⱼ A[t, j] ‖W_O v_j‖',
  source: 'Kobayashi et al. 2020 (norms of what attention moves); Guo et al. 2024 (value drains)',
  reads: ['contribution_at', 'alpha'],
  optional: ['contribution_out_at'],
  numbers: ({ tensors, ...frame }) => [
    quantity('alpha', ['layer', 'head', 'key'], attentionOf({ ...frame, tensors })),
    ...METRICS.filter((name) => tensors[name]).map((name) =>
      quantity(name, ['layer', 'head', 'key'], tensors[name]!),
    ),
  ],
  says: sentence,
  draw: createHeadsDraw(sentence, (frame, { at, theme }) => {
    const [attention, mixture, output] = sharesOf(frame, at);
    const caption = sentence(frame, at);
    return {
      heads: {
        data: numbersOfKey(frame.tensors[metricOf(frame)]!, firstKey(frame)),
        scale: sequential(theme),
        symbol: `contribution of ${firstName(frame)}`,
        label: `Contribution of ${firstName(frame)} in every head of ${modelName(frame)}. ${caption}`,
      },
      tokenChart: {
        kind: 'lines',
        xLabel: 'token that is attended to (key)',
        yLabel: 'share',
        domain: [0, 1],
        label: `Attention and contribution of each key, ${headWords(at, frame)} of ${modelName(frame)}. ${caption}`,
        series: [
          { name: 'attention', color: '--sink', values: attention! },
          {
            name: 'share of the output before W_O',
            color: '--ink-3',
            values: mixture!,
            dash: '3,3',
          },
          ...(output
            ? [{ name: 'share of the output after W_O', color: '--query', values: output }]
            : []),
        ],
      },
    };
  }),
};
