/** The experiment Quantization: the loss with few bits, and how much exact first tokens help. */
import { html, nothing } from 'lit';
import { choicesOf } from '../ask/subject';
import { choiceField } from '../page/controls';
import type { State } from '../ask/state';
import { mean, type Frame } from '../frame';
import { costOf, editFields, choiceLabels, SMALL_CHANGE, worseWords } from '../views/settings';
import { roundingErrorOf, sweep } from '../views/sweep';
import { capitalize, formatPercent } from '../words';
import type { Experiment } from './experiment';
import {
  baselineOf,
  checkbox,
  choicesIn,
  bridgeWords,
  scaleWords,
  HOW_MUCH_WORSE,
  settingLine,
  firstTokensWords,
  SINK_COLUMN,
  slider,
} from './parts';

const BITS = [8, 6, 4, 3, 2];

/** Labels of a scale's choices for weights, which are matrices whose rows are channels. */
const WEIGHT_SCALES: Readonly<Record<string, string>> = {
  tensor: 'one scale per matrix',
  channel: 'one scale per output row',
};

/** Returns the ways to share a scale that apply to what is quantized: weights have no scale per token. */
const granularitiesOf = (choices: readonly (readonly [string, string])[], { quantized }: State) =>
  choices
    .filter(([name]) => quantized !== 'weights' || name !== 'token')
    .map(
      ([name, label]) => [name, (quantized === 'weights' && WEIGHT_SCALES[name]) || label] as const,
    );
const granularityOf = ({ quantized, granularity }: State) =>
  quantized === 'weights' && granularity === 'token' ? 'tensor' : granularity;
const exactCountOf = ({ quantized, exactTokens }: State) =>
  quantized === 'weights' ? 0 : exactTokens;

function editOf(state: State, first = 0, by = granularityOf(state)): string {
  return `~quantize(${state.quantized},${state.bits},${by}${first ? `,first=${first}` : ''})`;
}

/** Returns whether a frame has the state's rounding, with this many first tokens exact. */
function isRounded(state: State, first: number) {
  const by = granularityOf(state);
  return (frame: Frame) => {
    const fields = editFields(frame, 'quantize');
    return fields?.bits === state.bits && fields.by === by && (fields.first ?? 0) === first;
  };
}

export const quantization: Experiment = {
  name: 'quantization',
  title: 'Round the numbers?',
  chartQuestion: HOW_MUCH_WORSE,
  view: sweep,
  pairOf: ({ state }) => [editOf(state), editOf(state, exactCountOf(state))],
  plan: ({ state, question, describe }) => {
    const error = state.quantized === 'weights' ? 'weight_error' : 'quantize_error';
    const measures = [
      'loss_mean',
      'sink_ratio',
      'sink_ratio_raw',
      error,
      'hidden_change',
      'kl_mean',
    ];
    const choices = state.sweep === 'all' ? choicesOf(describe, 'quantize', 'by') : [];
    const sweptGranularities = granularitiesOf(choices, state).map(([by]) => by);
    const granularities = new Set([granularityOf(state), ...sweptGranularities]);
    const bits = [...new Set([state.bits, ...BITS])];
    const exactCounts = new Set([0, exactCountOf(state)]);
    const edits = [...granularities].flatMap((by) =>
      bits.flatMap((n) =>
        [...exactCounts].map((first) => editOf({ ...state, bits: n }, first, by)),
      ),
    );
    return ['', ...edits].map((edit) => ({ edits: edit, question, measures }));
  },
  leadCount: 3,
  says: (groups, state) => {
    const { bits, quantized } = state;
    const [granularity, exactTokens] = [granularityOf(state), exactCountOf(state)];
    const results = groups.flatMap(({ title, frames }) => {
      const baseline = baselineOf(frames);
      const resultWith = (first: number) => {
        const match = frames.find(isRounded(state, first));
        return (
          baseline && match && { cost: costOf(match, baseline).mean, error: roundingErrorOf(match) }
        );
      };
      const [roundedResult, exactResult] = [resultWith(0), resultWith(exactTokens)];
      const labels = frames
        .map((frame) => choiceLabels(frame, 'quantize'))
        .find(({ what }) => what);
      return roundedResult && exactResult
        ? [{ title, baseline: baseline!, roundedResult, exactResult, labels: labels! }]
        : [];
    });
    const [mainResult] = results;
    if (!mainResult) return { heading: 'How much do rounded numbers cost?', text: '' };
    const { title, baseline, roundedResult, exactResult } = mainResult;
    const first = firstTokensWords(exactTokens, baseline);
    const isRecovered =
      roundedResult.cost > 2 * SMALL_CHANGE && exactResult.cost < roundedResult.cost / 2;
    const scaleLabel =
      (quantized === 'weights' && WEIGHT_SCALES[granularity]) || mainResult.labels.by;
    const cause =
      isRecovered &&
      exactTokens === 1 &&
      granularity === 'tensor' &&
      exactResult.error < roundedResult.error / 2
        ? `: ${first} holds the largest numbers, and steps that reach them are too coarse for others`
        : '';
    return {
      heading: `Rounded to ${bits} bits: ${worseWords(roundedResult.cost)}${exactTokens ? `; with ${first} exact, ${worseWords(exactResult.cost)}` : ''}`,
      bridge: bridgeWords(baseline, title, isRecovered),
      text:
        `${capitalize(mainResult.labels.what!)}: ${2 ** (bits - 1) - 1} steps above 0 and as many below, ${scaleLabel}${cause}. ` +
        scaleWords(baseline),
      lines: [0, ...(exactTokens ? [exactTokens] : [])].map((first) =>
        settingLine(
          `${bits} bits${first ? `, ${firstTokensWords(first)} exact` : ''}`,
          isRounded(state, first),
        ),
      ),
    };
  },
  caption: 'Loss and sink after quantization',
  columnsOf: () => [
    { name: 'rounding error', valueOfFrame: (frame) => formatPercent(roundingErrorOf(frame)) },
    {
      name: 'change of h',
      valueOfFrame: ({ tensors }) =>
        tensors.hidden_change && formatPercent(mean(tensors.hidden_change.data)),
    },
    SINK_COLUMN,
  ],
  controls: (context) => {
    const { state, set } = context;
    const { quantized, sweep: sweepSize } = state.value;
    const granularity = granularityOf(state.value);
    const granularities = granularitiesOf(
      choicesIn(context, 'quantize', 'by', granularity),
      state.value,
    );
    const sliders = html`${slider('bits', 'bits', [2, 8], context)}
    ${quantized === 'weights' ? nothing : slider('first tokens exact', 'exactTokens', [1, 8], context)}`;
    const more = html`${choiceField(
      'quantize',
      quantized,
      choicesIn(context, 'quantize', 'what', quantized),
      (value) => set({ quantized: value }),
    )}
    ${choiceField('with', granularity, granularities, (value) => set({ granularity: value }))}
    ${checkbox('all ways to share a scale', sweepSize === 'all', (isOn) =>
      set({ sweep: isOn ? 'all' : 'some' }),
    )}`;
    return [sliders, more];
  },
  reported: () =>
    'Large models are as good in 8 bits, if the outliers, under 0.1% of the numbers, keep 16 (up to 175 billion ' +
    'parameters; LLM.int8(), Dettmers et al. 2022)',
};
