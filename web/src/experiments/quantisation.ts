/** Few bits: which tokens stretch the scale, and how much exact first tokens help. */
import { html, nothing } from 'lit';
import { choicesOf } from '../ask/subject';
import { choices } from '../page/controls';
import { mean } from '../frame';
import type { State } from '../ask/state';
import { channels } from '../views/channels';
import { costOf, givenOf, labelsIn, signed } from '../views/settings';
import { errorOf, sweep } from '../views/sweep';
import { capital, percent } from '../words';
import type { Experiment } from './experiment';
import { check, choicesIn, lossColumns, settingsTable, slider, wholeOf } from './parts';

const BITS = [8, 6, 4, 3, 2];

/** For weights, a tensor is a matrix and a channel is one of its outputs. */
const OF_WEIGHTS: Readonly<Record<string, string>> = {
  tensor: 'one scale per matrix',
  channel: 'one scale per output row',
};

/** Weights belong to no token: they have no scale per token, and no first tokens stay exact. */
const grainsOf = (all: readonly (readonly [string, string])[], { what }: State) =>
  all
    .filter(([by]) => what !== 'weights' || by !== 'token')
    .map(([by, label]) => [by, (what === 'weights' && OF_WEIGHTS[by]) || label] as const);
const grainOf = ({ what, by }: State) => (what === 'weights' && by === 'token' ? 'tensor' : by);
const exactOf = ({ what, exact }: State) => (what === 'weights' ? 0 : exact);

export const quantisation: Experiment = {
  name: 'quantisation',
  title: 'Quantization',
  hint: 'which token sets the scale',
  view: sweep,
  detail: channels,
  look: () => '',
  plan: ({ state, question, describe }) => {
    const error = state.what === 'weights' ? 'weight_error' : 'quantise_error';
    const measures = ['loss_mean', 'sink_ratio', error, 'hidden_change', 'kl_mean'];
    // The settings that the sentence needs come first.
    const grains = [
      ...new Set([
        grainOf(state),
        ...(state.sweep === 'all'
          ? grainsOf(choicesOf(describe, 'quantise', 'by'), state).map(([by]) => by)
          : []),
      ]),
    ];
    const bits = [...new Set([state.bits, ...BITS])];
    const edits = grains.flatMap((by) =>
      bits.flatMap((n) =>
        [...new Set([0, exactOf(state)])].map(
          (first) => `~quantise(${state.what},${n},${by}${first ? `,first=${first}` : ''})`,
        ),
      ),
    );
    return [
      { edits: '', question, measures },
      ...edits.map((one) => ({ edits: one, question, measures })),
    ];
  },
  lead: 3,
  says: (groups, state) => {
    const { bits, what } = state;
    const [by, exact] = [grainOf(state), exactOf(state)];
    const all = groups.flatMap(({ title, frames }) => {
      const baseline = wholeOf(frames);
      const at = (first: number) => {
        const match = frames.find((frame) => {
          const parameters = givenOf(frame, 'quantise');
          return (
            parameters?.bits === bits && parameters.by === by && (parameters.first ?? 0) === first
          );
        });
        return baseline && match && { cost: costOf(match, baseline).mean, error: errorOf(match) };
      };
      const [plain, kept] = [at(0), at(exact)];
      const labels = frames.map((frame) => labelsIn(frame, 'quantise')).find(({ what }) => what);
      return plain && kept ? [{ title, plain, kept, labels: labels! }] : [];
    });
    const [main] = all;
    if (!main) return { heading: 'Which token sets the scale?', text: '' };
    const isHelped = main.plain.cost > 0.02 && main.kept.cost < main.plain.cost / 2;
    const scale = (what === 'weights' && OF_WEIGHTS[by]) || main.labels.by;
    const first = exact === 1 ? 'the first token' : `the first ${exact} tokens`;
    const sentences = all.map(
      ({ title, plain, kept }) =>
        `${title}: the loss changes by ${signed(plain.cost)} nats (relative rounding error ${percent(plain.error, 0)})` +
        `${exact ? `; with ${first} kept exact, by ${signed(kept.cost)} (${percent(kept.error, 0)})` : ''}.`,
    );
    return {
      heading:
        what === 'weights'
          ? 'How few bits do the weights need?'
          : isHelped
            ? 'The first token sets the scale'
            : 'Which token sets the scale?',
      text: capital(`${main.labels.what} in ${bits} bits, ${scale}. ${sentences.join(' ')}`),
    };
  },
  table: (groups, file) =>
    settingsTable(
      groups,
      [
        ...lossColumns,
        { name: 'rounding error', of: (frame) => percent(errorOf(frame)) },
        {
          name: 'change of h',
          of: ({ tensors }) => tensors.hidden_change && percent(mean(tensors.hidden_change.data)),
        },
        { name: 'Sink₁', of: ({ tensors }) => percent(tensors.sink_ratio?.data[0] ?? NaN) },
      ],
      'Loss and sink after quantization (number of prompts in brackets)',
      file,
    ),
  controls: (context) => {
    const { state, set } = context;
    const { what, sweep: how } = state.value;
    const by = grainOf(state.value);
    const grains = grainsOf(choicesIn(context, 'quantise', 'by', by), state.value);
    return html`${choices('quantize', what, choicesIn(context, 'quantise', 'what', what), (value) =>
      set({ what: value }),
    )}
    ${choices('with', by, grains, (value) => set({ by: value }))}
    ${slider('bits', 'bits', [2, 8], context)}
    ${what === 'weights' ? nothing : slider('first tokens exact', 'exact', [1, 8], context)}
    ${check('all ways to share a scale', how === 'all', (isOn) =>
      set({ sweep: isOn ? 'all' : 'some' }),
    )}`;
  },
};
