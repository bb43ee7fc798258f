/** The experiment Streaming: how the loss changes when the first token leaves a cache that evicts by age. */
import { html } from 'lit';
import { choiceField } from '../page/controls';
import { attention } from '../views/attention';
import { editFields, formatLossChange } from '../views/settings';
import { queryWithoutFirst, loss } from '../views/loss';
import { mean, type Frame } from '../frame';
import { sizeWords } from '../run/progress';
import { defaults, type State } from '../ask/state';
import type { Column, Experiment, Finding, Group } from './experiment';
import { checkbox, choicesIn, costOfMatch, firstTokensWords, slider, baselineOf } from './parts';

const MEASURES = ['loss_at', 'loss_mean'];

/** The state for a text many times as long as the training texts of the zoo. */
const LONG_TEXT = { length: 4000, runs: 1, positions: 'cache' } as const;

/** The largest change of the loss that the sentences call small, in nats per token. */
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

/** States the memory of the first model's run, if the run kept only the keys in its cache. */
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
    const [window, withFirst] = ['window', 'first'].map((policy) => frames.find(hasPolicy(policy)));
    const baseline = baselineOf(frames);
    return window && baseline && baseline.T < window.T
      ? [{ title, window, withFirst, baseline }]
      : [];
  });
  const [main] = results;
  if (!main) return undefined;
  const lossOf = ({ perPrompt }: Frame) => mean(perPrompt.loss_mean!);
  const tokenWords = firstTokensWords(firstKeys);
  const sentences = results.map(
    ({ title, window, withFirst }) =>
      `${title}: ${lossOf(window).toFixed(3)} nats per token` +
      `${withFirst ? `; ${lossOf(withFirst).toFixed(3)} when the cache also keeps ${tokenWords}` : ''}.`,
  );
  const recovered = main.withFirst ? lossOf(main.window) - lossOf(main.withFirst) : NaN;
  const { T } = main.window;
  return {
    heading: Number.isNaN(recovered)
      ? QUESTION
      : recovered > SMALL_CHANGE
        ? 'With the first token kept, the model reads on'
        : SMALL_RECOVERY,
    text:
      `${T.toLocaleString('en')} tokens, ${Math.round(T / main.baseline.T)} times the context of ${main.title}, with the ` +
      `last ${firstKeys + recentKeys} keys in the KV cache, positions counted within the cache. ${sentences.join(' ')}${memoryWords(groups)}`,
  };
}

const LONG_COLUMNS: readonly Column[] = [
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
    const edits = new Set(['', editOf(state, false), editOf(state, true)]);
    const settings = [...edits].map((one) => ({ edits: one, question, measures: MEASURES }));
    const window = state.firstKeys + state.recentKeys;
    return state.recompute === 'yes'
      ? [...settings, { edits: '', question: { ...question, window }, measures: MEASURES }]
      : settings;
  },
  leadCount: 3,
  says: (groups, state) => {
    const { firstKeys, recentKeys } = state;
    const finding = longTextFinding(groups, state);
    if (finding) return finding;
    const results = groups.flatMap(({ title, frames }) => {
      const windowCost = costOfMatch(frames, hasPolicy('window'))?.mean;
      const keptCost = costOfMatch(frames, hasPolicy('first'))?.mean;
      const firstEvictedAt = frames.map(queryWithoutFirst).find(Number.isFinite);
      return windowCost === undefined ? [] : [{ title, windowCost, keptCost, firstEvictedAt }];
    });
    const [main, ...others] = results;
    if (!main) return { heading: QUESTION, text: '' };
    if (main.firstEvictedAt === undefined)
      return {
        heading: 'The cache holds the whole text',
        text: `The text fits into the cache of ${firstKeys + recentKeys} keys: nothing is evicted.`,
      };
    const tokenWords = firstTokensWords(firstKeys);
    const keptClause = (cost: number | undefined) =>
      cost === undefined ? '' : `, with ${tokenWords} kept by ${formatLossChange(cost)}`;
    const isRecovered =
      main.keptCost !== undefined &&
      main.windowCost > SMALL_CHANGE &&
      main.keptCost < main.windowCost / 2;
    const mainSentence = isRecovered
      ? `With only the last ${firstKeys + recentKeys} keys in the KV cache, the loss of ${main.title} rises by ${main.windowCost.toFixed(3)} nats per ` +
        `token. Keeping ${tokenWords} recovers ${main.keptCost! > 0 ? `all but ${main.keptCost!.toFixed(3)} nats` : 'all of it'}.`
      : `With only the last ${firstKeys + recentKeys} keys in the KV cache, the loss of ${main.title} changes by ${formatLossChange(main.windowCost)} nats per token${keptClause(main.keptCost)}.`;
    const comparisons = others.map(
      ({ title, windowCost, keptCost }) =>
        `${title}: by ${formatLossChange(windowCost)}${keptClause(keptCost)}.`,
    );
    return {
      heading:
        main.windowCost <= SMALL_CHANGE
          ? 'Losing the first token costs little here'
          : isRecovered || main.keptCost === undefined
            ? 'Without the first token, the loss rises'
            : main.windowCost - main.keptCost > SMALL_CHANGE
              ? 'Keeping the first token recovers part of the loss'
              : SMALL_RECOVERY,
      text: [mainSentence, ...comparisons].join(' ') + memoryWords(groups),
    };
  },
  caption: 'Loss by what the cache keeps',
  columnsOf: (groups) =>
    groups.some(({ frames }) => frames.some(({ bytes }) => bytes)) ? LONG_COLUMNS : [],
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
      <h2>In a large model <span class="badge">REPORTED</span></h2>
      <p class="hint">
        Perplexity of Llama-2-13B over 65,000 tokens (Xiao et al. 2024, figure 1):
        ${REPORTED.map(([setting, value], i) => `${i ? '; ' : ''}${setting} ${value}`)}.
      </p>
    </div>`,
};
