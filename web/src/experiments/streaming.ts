/** The experiment Streaming: how the loss changes when token 1 leaves a cache that evicts by age. */
import { html } from 'lit';
import { choiceField } from '../page/controls';
import { attention } from '../views/attention';
import { editFields, formatLossChange } from '../views/settings';
import { queryWithoutFirst, loss } from '../views/loss';
import { mean, type Frame } from '../frame';
import { sizeWords } from '../run/progress';
import { defaults, type State } from '../ask/state';
import type { Experiment, Finding, Group } from './experiment';
import {
  checkbox,
  choicesIn,
  costOfMatch,
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

/** A change of the loss of at most so many nats per token is called little. */
const SMALL_CHANGE = 0.05;
const QUESTION = 'What happens when the first token leaves the cache?';
const SMALL_RECOVERY = 'Keeping the first token helps little here';

const hasPolicy = (policy: string) => (frame: Frame) =>
  editFields(frame, 'evict')?.policy === policy;

/** Perplexity of Llama-2-13B over 65,000 tokens of a book (Xiao et al. 2024, figure 1). */
const REPORTED = [
  ['all keys', '5641'],
  ['last 1,024', '5158'],
  ['first 4 + last 1,020', '5.40'],
  ['last 1,024, recomputed', '5.43'],
] as const;

function editOf({ firstKeys, recentKeys, positions }: State, isFirstKept: boolean): string {
  const budget = firstKeys + recentKeys;
  const positionsOption = positions === 'cache' ? ',positions=cache' : '';
  return isFirstKept && firstKeys
    ? `~evict(first,${budget},${firstKeys}${positionsOption})`
    : `~evict(window,${budget}${positionsOption})`;
}

/** States the memory of the first model's run, for a run that kept only what its cache holds. */
function memoryWords([group]: readonly Group[]): string {
  const { bytes } = group?.frames.findLast((frame) => frame.bytes) ?? {};
  return bytes
    ? ` Besides the weights, the run needs ${sizeWords(bytes.held)} of memory; keeping every key would need ${sizeWords(bytes.all)}.`
    : '';
}

/**
 * Compares the caches with and without the first tokens on a text longer than the context, where no unedited run is
 * possible.
 */
function longTextFinding(
  groups: readonly Group[],
  { firstKeys, recentKeys }: State,
): Finding | undefined {
  const results = groups.flatMap(({ title, frames }) => {
    const [window, kept] = ['window', 'first'].map((policy) => frames.find(hasPolicy(policy)));
    const baseline = uneditedOf(frames);
    return window && baseline && baseline.T < window.T
      ? [{ title, window, kept, whole: baseline }]
      : [];
  });
  const [main] = results;
  if (!main) return undefined;
  const lossOf = ({ perPrompt }: Frame) => mean(perPrompt.loss_mean!);
  const tokenWords = firstKeys === 1 ? 'the first token' : `the first ${firstKeys} tokens`;
  const sentences = results.map(
    ({ title, window, kept }) =>
      `${title}: ${lossOf(window).toFixed(3)} nats per token` +
      `${kept ? `; ${lossOf(kept).toFixed(3)} when the cache also keeps ${tokenWords}` : ''}.`,
  );
  const recovered = main.kept ? lossOf(main.window) - lossOf(main.kept) : NaN;
  const { T } = main.window;
  return {
    heading: Number.isNaN(recovered)
      ? QUESTION
      : recovered > SMALL_CHANGE
        ? 'With the first token kept, the model reads on'
        : SMALL_RECOVERY,
    text:
      `${T.toLocaleString('en')} tokens, ${Math.round(T / main.whole.T)} times the context of ${main.title}, with the ` +
      `last ${firstKeys + recentKeys} keys in the KV cache, positions counted within the cache. ${sentences.join(' ')}${memoryWords(groups)}`,
  };
}

const longColumns: readonly Column[] = [
  { name: 'tokens', valueOfFrame: ({ T }) => T.toLocaleString('en') },
  { name: 'memory of a run', valueOfFrame: ({ bytes }) => bytes && sizeWords(bytes.held) },
];

export const streaming: Experiment = {
  name: 'streaming',
  title: 'Streaming',
  hint: 'a cache of limited size',
  view: loss,
  detail: attention,
  editsOf: ({ state }) => editOf(state, true),
  plan: ({ state, question }) => {
    const edits = ['', editOf(state, false), ...(state.firstKeys ? [editOf(state, true)] : [])];
    const settings = edits.map((one) => ({ edits: one, question, measures: MEASURES }));
    const window = state.firstKeys + state.recentKeys;
    return state.recompute === 'yes'
      ? [...settings, { edits: '', question: { ...question, window }, measures: MEASURES }]
      : settings;
  },
  leadCount: 3,
  says: (groups, state) => {
    const { firstKeys, recentKeys } = state;
    const longText = longTextFinding(groups, state);
    if (longText) return longText;
    const results = groups.flatMap(({ title, frames }) => {
      const window = costOfMatch(frames, hasPolicy('window'))?.mean;
      const keptCost = costOfMatch(frames, hasPolicy('first'))?.mean;
      const firstEvicted = frames.map(queryWithoutFirst).find(Number.isFinite);
      return window === undefined ? [] : [{ title, window, kept: keptCost, end: firstEvicted }];
    });
    const [main, ...others] = results;
    if (!main) return { heading: QUESTION, text: '' };
    if (main.end === undefined)
      return {
        heading: 'The cache holds the whole text',
        text: `The text fits into the cache of ${firstKeys + recentKeys} keys: nothing is evicted.`,
      };
    const tokenWords = firstKeys === 1 ? 'the first token' : `the first ${firstKeys} tokens`;
    const keptClause = (kept: number | undefined) =>
      kept === undefined ? '' : `, with ${tokenWords} kept by ${formatLossChange(kept)}`;
    const isRecovered =
      main.kept !== undefined && main.window > SMALL_CHANGE && main.kept < main.window / 2;
    const mainSentence = isRecovered
      ? `With only the last ${firstKeys + recentKeys} keys in the KV cache, the loss of ${main.title} rises by ${main.window.toFixed(3)} nats per ` +
        `token. Keeping ${tokenWords} recovers ${main.kept! > 0 ? `all but ${main.kept!.toFixed(3)} nats` : 'all of it'}.`
      : `With only the last ${firstKeys + recentKeys} keys in the KV cache, the loss of ${main.title} changes by ${formatLossChange(main.window)} nats per token${keptClause(main.kept)}.`;
    const comparisons = others.map(
      ({ title, window, kept }) => `${title}: by ${formatLossChange(window)}${keptClause(kept)}.`,
    );
    return {
      heading:
        main.window <= SMALL_CHANGE
          ? 'Losing the first token costs little here'
          : isRecovered || main.kept === undefined
            ? 'Without the first token, the loss rises'
            : main.window - main.kept > SMALL_CHANGE
              ? 'Keeping the first token recovers part of the loss'
              : SMALL_RECOVERY,
      text: [mainSentence, ...comparisons].join(' ') + memoryWords(groups),
    };
  },
  table: (groups, file) => {
    const hasEvictedRuns = groups.some(({ frames }) => frames.some(({ bytes }) => bytes));
    return settingsTable(
      groups,
      hasEvictedRuns ? [...lossColumns, ...longColumns] : lossColumns,
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
  footer: () =>
    html`<div class="reported-note">
      <h2>In a large model ${reportedBadge}</h2>
      <p class="hint">
        Perplexity of Llama-2-13B over 65,000 tokens (Xiao et al. 2024, figure 1):
        ${REPORTED.map(([setting, value], i) => `${i ? '; ' : ''}${setting} ${value}`)}.
      </p>
    </div>`,
};
