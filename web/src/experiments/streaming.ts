/** The experiment Streaming: how the loss changes when token 1 leaves a cache that evicts by age. */
import { html } from 'lit';
import { choiceField } from '../page/controls';
import { attention } from '../views/attention';
import { givenOf, signed } from '../views/settings';
import { leaves, loss } from '../views/loss';
import { mean, type Frame } from '../frame';
import { sizeWords } from '../run/progress';
import { defaults, type State } from '../ask/state';
import type { Experiment, Finding, Group } from './experiment';
import {
  checkbox,
  choicesIn,
  cost,
  lossColumns,
  reportedBadge,
  settingsTable,
  slider,
  uneditedOf,
  type Column,
} from './parts';

const MEASURES = ['loss_at', 'loss_mean'];

/** The state for a text many times as long as the training texts of the zoo. */
const LONG_TEXT = { length: 4000, runs: 1, positions: 'cache' } as const;

/** The change of the loss, in nats per token, below which it counts as little. */
const LITTLE = 0.05;
const QUESTION = 'What happens when the first token leaves the cache?';
const HELPS_LITTLE = 'Keeping the first token helps little here';

const hasPolicy = (policy: string) => (frame: Frame) => givenOf(frame, 'evict')?.policy === policy;

/** Perplexity of Llama-2-13B over 65,000 tokens of a book (Xiao et al. 2024, figure 1). */
const REPORTED = [
  ['all keys', '5641'],
  ['last 1,024', '5158'],
  ['first 4 + last 1,020', '5.40'],
  ['last 1,024, recomputed', '5.43'],
] as const;

function editOf({ firstKeys, recentKeys, positions }: State, isFirstKept: boolean): string {
  const budget = firstKeys + recentKeys;
  const placed = positions === 'cache' ? ',positions=cache' : '';
  return isFirstKept && firstKeys
    ? `~evict(first,${budget},${firstKeys}${placed})`
    : `~evict(window,${budget}${placed})`;
}

/** States the memory of the first model's run, for a run that kept only what its cache holds. */
function memoryWords([group]: readonly Group[]): string {
  const { bytes } = group?.frames.findLast((frame) => frame.bytes) ?? {};
  return bytes
    ? ` Besides the weights, the run needs ${sizeWords(bytes.held)} of memory; keeping every key would need ${sizeWords(bytes.all)}.`
    : '';
}

/** Compares the two caches on a text beyond the context, for which there is no unedited run. */
function longTextFinding(
  groups: readonly Group[],
  { firstKeys, recentKeys }: State,
): Finding | undefined {
  const all = groups.flatMap(({ title, frames }) => {
    const [window, kept] = ['window', 'first'].map((policy) => frames.find(hasPolicy(policy)));
    const baseline = uneditedOf(frames);
    return window && baseline && baseline.T < window.T
      ? [{ title, window, kept, whole: baseline }]
      : [];
  });
  const [main] = all;
  if (!main) return undefined;
  const loss = ({ perPrompt }: Frame) => mean(perPrompt.loss_mean!);
  const first = firstKeys === 1 ? 'the first token' : `the first ${firstKeys} tokens`;
  const sentences = all.map(
    ({ title, window, kept }) =>
      `${title}: ${loss(window).toFixed(3)} nats per token` +
      `${kept ? `; ${loss(kept).toFixed(3)} when the cache also keeps ${first}` : ''}.`,
  );
  const rescued = main.kept ? loss(main.window) - loss(main.kept) : NaN;
  const { T } = main.window;
  return {
    heading: Number.isNaN(rescued)
      ? QUESTION
      : rescued > LITTLE
        ? 'With the first token kept, the model reads on'
        : HELPS_LITTLE,
    text:
      `${T.toLocaleString('en')} tokens, ${Math.round(T / main.whole.T)} times the context of ${main.title}, with the ` +
      `last ${firstKeys + recentKeys} keys in the KV cache, positions counted within the cache. ${sentences.join(' ')}${memoryWords(groups)}`,
  };
}

const longColumns: readonly Column[] = [
  { name: 'tokens', of: ({ T }) => T.toLocaleString('en') },
  { name: 'memory of a run', of: ({ bytes }) => bytes && sizeWords(bytes.held) },
];

export const streaming: Experiment = {
  name: 'streaming',
  title: 'Streaming',
  hint: 'a cache of limited size',
  view: loss,
  detail: attention,
  look: ({ state }) => editOf(state, true),
  plan: ({ state, question }) => {
    const edits = ['', editOf(state, false), ...(state.firstKeys ? [editOf(state, true)] : [])];
    const settings = edits.map((one) => ({ edits: one, question, measures: MEASURES }));
    const window = state.firstKeys + state.recentKeys;
    return state.recompute === 'yes'
      ? [...settings, { edits: '', question: { ...question, window }, measures: MEASURES }]
      : settings;
  },
  lead: 3,
  says: (groups, state) => {
    const { firstKeys, recentKeys } = state;
    const beyondContext = longTextFinding(groups, state);
    if (beyondContext) return beyondContext;
    const all = groups.flatMap(({ title, frames }) => {
      const window = cost(frames, hasPolicy('window'))?.mean;
      const keptCost = cost(frames, hasPolicy('first'))?.mean;
      const end = frames.map(leaves).find(Number.isFinite);
      return window === undefined ? [] : [{ title, window, kept: keptCost, end }];
    });
    const [main, ...others] = all;
    if (!main) return { heading: QUESTION, text: '' };
    if (main.end === undefined)
      return {
        heading: 'The cache holds the whole text',
        text: `The text fits into the cache of ${firstKeys + recentKeys} keys: nothing is evicted.`,
      };
    const words = firstKeys === 1 ? 'the first token' : `the first ${firstKeys} tokens`;
    const rest = (kept: number | undefined) =>
      kept === undefined ? '' : `, with ${words} kept by ${signed(kept)}`;
    const isRescued =
      main.kept !== undefined && main.window > LITTLE && main.kept < main.window / 2;
    const first = isRescued
      ? `With only the last ${firstKeys + recentKeys} keys in the KV cache, the loss of ${main.title} rises by ${main.window.toFixed(3)} nats per ` +
        `token. Keeping ${words} recovers ${main.kept! > 0 ? `all but ${main.kept!.toFixed(3)} nats` : 'all of it'}.`
      : `With only the last ${firstKeys + recentKeys} keys in the KV cache, the loss of ${main.title} changes by ${signed(main.window)} nats per token${rest(main.kept)}.`;
    const comparisons = others.map(
      ({ title, window, kept }) => `${title}: by ${signed(window)}${rest(kept)}.`,
    );
    return {
      heading:
        main.window <= LITTLE
          ? 'Losing the first token costs little here'
          : isRescued || main.kept === undefined
            ? 'Without the first token, the loss rises'
            : main.window - main.kept > LITTLE
              ? 'Keeping the first token recovers part of the loss'
              : HELPS_LITTLE,
      text: [first, ...comparisons].join(' ') + memoryWords(groups),
    };
  },
  table: (groups, file) => {
    const isForgotten = groups.some(({ frames }) => frames.some(({ bytes }) => bytes));
    return settingsTable(
      groups,
      isForgotten ? [...lossColumns, ...longColumns] : lossColumns,
      'Loss by what the cache keeps (number of prompts in brackets)',
      file,
    );
  },
  controls: (context) => {
    const { state, set } = context;
    const { positions, recompute, length } = state.value;
    return html`${slider('first keys', 'firstKeys', [0, 8], context)}
    ${slider('recent keys', 'recentKeys', [1, Math.max(8, Math.min(length, 2048))], context)}
    ${choiceField(
      'positions',
      positions,
      choicesIn(context, 'evict', 'positions', positions),
      (value) => set({ positions: value }),
    )}
    ${checkbox('also recompute (slow)', recompute === 'yes', (isOn) => set({ recompute: isOn ? 'yes' : 'no' }))}
    ${checkbox(
      `a text of ${LONG_TEXT.length.toLocaleString('en')} tokens`,
      length >= LONG_TEXT.length,
      (isOn) =>
        set(
          isOn
            ? LONG_TEXT
            : { length: defaults.length, runs: defaults.runs, positions: defaults.positions },
        ),
    )}`;
  },
  foot: () =>
    html`<div class="reported-note">
      <h2>In a large model ${reportedBadge}</h2>
      <p class="hint">
        Perplexity of Llama-2-13B over 65,000 tokens (Xiao et al. 2024, figure 1):
        ${REPORTED.map(([what, value], i) => `${i ? '; ' : ''}${what} ${value}`)}.
      </p>
    </div>`,
};
