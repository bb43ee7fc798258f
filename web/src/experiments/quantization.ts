/** The experiment Quantization: the loss with few bits, and how much exact first tokens help. */
import { html, nothing } from 'lit';
import { choicesOf } from '../ask/subject';
import { choiceField } from '../page/controls';
import { mean } from '../frame';
import type { State } from '../ask/state';
import { channels } from '../views/channels';
import { costOf, editFields, choiceLabels, formatLossChange } from '../views/settings';
import { roundingErrorOf, sweep } from '../views/sweep';
import { capitalize, formatPercent } from '../words';
import type { Experiment } from './experiment';
import { checkbox, choicesIn, firstTokensWords, slider, baselineOf, SINK_COLUMN } from './parts';

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

export const quantization: Experiment = {
  name: 'quantization',
  title: 'Can numbers be rounded?',
  view: sweep,
  detail: channels,
  editsOf: () => '',
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
    const firstOptions = new Set(['', exactCountOf(state) ? `,first=${exactCountOf(state)}` : '']);
    const edits = [...granularities].flatMap((by) =>
      bits.flatMap((n) =>
        [...firstOptions].map((first) => `~quantize(${state.quantized},${n},${by}${first})`),
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
        const match = frames.find((frame) => {
          const parameters = editFields(frame, 'quantize');
          return (
            parameters?.bits === bits &&
            parameters.by === granularity &&
            (parameters.first ?? 0) === first
          );
        });
        return (
          baseline && match && { cost: costOf(match, baseline).mean, error: roundingErrorOf(match) }
        );
      };
      const [roundedResult, exactResult] = [resultWith(0), resultWith(exactTokens)];
      const labels = frames
        .map((frame) => choiceLabels(frame, 'quantize'))
        .find(({ what }) => what);
      return roundedResult && exactResult
        ? [{ title, roundedResult, exactResult, labels: labels! }]
        : [];
    });
    const [mainResult] = results;
    if (!mainResult) return { heading: 'Which token sets the scale?', text: '' };
    const isRecovered =
      mainResult.roundedResult.cost > 0.02 &&
      mainResult.exactResult.cost < mainResult.roundedResult.cost / 2;
    const scaleLabel =
      (quantized === 'weights' && WEIGHT_SCALES[granularity]) || mainResult.labels.by;
    const sentences = results.map(
      ({ title, roundedResult, exactResult }) =>
        `${title}: the loss changes by ${formatLossChange(roundedResult.cost)} nats (relative rounding error ${formatPercent(roundedResult.error, 0)})` +
        `${exactTokens ? `; with ${firstTokensWords(exactTokens)} kept exact, by ${formatLossChange(exactResult.cost)} (${formatPercent(exactResult.error, 0)})` : ''}.`,
    );
    return {
      heading:
        quantized === 'weights'
          ? 'How few bits do the weights need?'
          : isRecovered
            ? 'The first token sets the scale'
            : 'Which token sets the scale?',
      text: capitalize(
        `${mainResult.labels.what} in ${bits} bits, ${scaleLabel}. ${sentences.join(' ')}`,
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
    return html`${choiceField(
      'quantize',
      quantized,
      choicesIn(context, 'quantize', 'what', quantized),
      (value) => set({ quantized: value }),
    )}
    ${choiceField('with', granularity, granularities, (value) => set({ granularity: value }))}
    ${slider('bits', 'bits', [2, 8], context)}
    ${quantized === 'weights' ? nothing : slider('first tokens exact', 'exactTokens', [1, 8], context)}
    ${checkbox('all ways to share a scale', sweepSize === 'all', (isOn) =>
      set({ sweep: isOn ? 'all' : 'some' }),
    )}`;
  },
};
