/** The experiment Streaming: how the loss changes when the first token leaves a cache that evicts by age. */
import { html } from 'lit';
import { choiceField } from '../page/controls';
import {
  editFields,
  firstAndLastWords,
  lastWords,
  SMALL_CHANGE,
  worseWords,
} from '../views/settings';
import { queryWithoutFirst, loss } from '../views/loss';
import { mean, type Frame } from '../frame';
import { sizeWords } from '../run/progress';
import { modelName } from '../words';
import { defaults, type State } from '../ask/state';
import type { Column, Experiment, Finding, Group } from './experiment';
import {
  changeWords,
  checkbox,
  choicesIn,
  settingLine,
  costOfMatch,
  bridgeWords,
  scaleWords,
  firstTokensWords,
  HOW_MUCH_WORSE,
  SINK_MEASURES,
  slider,
  baselineOf,
} from './parts';

const MEASURES = ['loss_at', 'loss_mean'];

/** The state for a text many times as long as the training texts of the zoo. */
const LONG_TEXT_STATE = { length: 4000, runs: 1, positions: 'cache' } as const;

const DEFAULT_HEADING = 'What happens when the first token leaves the cache?';

const hasPolicy = (policy: string) => (frame: Frame) =>
  editFields(frame, 'evict')?.policy === policy;

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
    ? ` Besides the weights, the run needs ${sizeWords(bytes.held)} of memory; keeping every token would need ${sizeWords(bytes.all)}.`
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
    const [windowFrame, firstKeptFrame] = ['window', 'first'].map((policy) =>
      frames.find(hasPolicy(policy)),
    );
    const baseline = baselineOf(frames);
    return windowFrame && baseline && baseline.T < windowFrame.T
      ? [{ title, windowFrame, firstKeptFrame, baseline }]
      : [];
  });
  const [mainResult] = results;
  if (!mainResult) return undefined;
  const lossOf = ({ perPrompt }: Frame) => mean(perPrompt.loss_mean!);
  const tokenWords = firstTokensWords(firstKeys);
  const sentences = results.map(
    ({ title, windowFrame, firstKeptFrame }) =>
      `${title}: ${lossOf(windowFrame).toFixed(3)} nats per token` +
      `${firstKeptFrame ? `; ${lossOf(firstKeptFrame).toFixed(3)} when the cache also keeps ${tokenWords}` : ''}.`,
  );
  const recovery = mainResult.firstKeptFrame
    ? lossOf(mainResult.windowFrame) - lossOf(mainResult.firstKeptFrame)
    : NaN;
  const { T } = mainResult.windowFrame;
  return {
    heading: Number.isNaN(recovery)
      ? DEFAULT_HEADING
      : `A long text without the first token: ${worseWords(recovery)} than with it`,
    text:
      `${T.toLocaleString('en')} tokens, ${Math.round(T / mainResult.baseline.T)} times the context of ${modelName(mainResult)}, with the ` +
      `last ${firstKeys + recentKeys} tokens in the cache, positions counted within it. ${sentences.join(' ')}${memoryWords(groups)}`,
  };
}

const LONG_COLUMNS: readonly Column[] = [
  { name: 'tokens', valueOfFrame: ({ T }) => T.toLocaleString('en') },
  { name: 'memory of a run', valueOfFrame: ({ bytes }) => bytes && sizeWords(bytes.held) },
];

export const streaming: Experiment = {
  name: 'streaming',
  title: 'Forget old words?',
  chartQuestion: HOW_MUCH_WORSE,
  view: loss,
  // Without a first token to keep, the repaired case is the one that forgets nothing.
  pairOf: ({ state }) => [editOf(state, false), state.firstKeys ? editOf(state, true) : ''],
  plan: ({ state, question }) => {
    const edits = new Set(['', editOf(state, false), editOf(state, true)]);
    const settings = [...edits].map((edit) => {
      const measures = edit ? MEASURES : [...MEASURES, ...SINK_MEASURES];
      return { edits: edit, question, measures };
    });
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
      const [window, kept] = ['window', 'first'].map((policy) =>
        costOfMatch(frames, hasPolicy(policy)),
      );
      const [windowCost, keptCost] = [window?.mean, kept?.mean];
      const firstEvictedAt = frames.map(queryWithoutFirst).find(Number.isFinite);
      return windowCost === undefined
        ? []
        : [{ title, frames, windowCost, keptCost, firstEvictedAt }];
    });
    const [mainResult] = results;
    if (!mainResult) return { heading: DEFAULT_HEADING, text: '' };
    if (mainResult.firstEvictedAt === undefined)
      return {
        heading: 'The cache holds the whole text',
        text: `The text fits into the cache of ${firstKeys + recentKeys} tokens: nothing is forgotten.`,
      };
    const { frames, windowCost, keptCost } = mainResult;
    const baseline = baselineOf(frames)!;
    const first = firstTokensWords(Math.max(1, firstKeys), baseline);
    const count = firstKeys + recentKeys;
    return {
      heading:
        keptCost === undefined
          ? `Forget all but the last ${count} tokens: ${worseWords(windowCost)}`
          : keptCost < windowCost
            ? `Forget old words, but keep ${first}: ${changeWords(keptCost, windowCost)}`
            : `Forget old words: ${worseWords(windowCost)}; ${worseWords(keptCost)} if ${first} takes a word’s place`,
      bridge: bridgeWords(
        baseline,
        mainResult.title,
        windowCost > 2 * SMALL_CHANGE && keptCost! < windowCost / 2,
      ),
      text: `It keeps ${count} tokens. ${scaleWords(baseline)}${memoryWords(groups)}`,
      lines: [
        settingLine(lastWords(firstKeys + recentKeys), hasPolicy('window')),
        ...(firstKeys
          ? [settingLine(firstAndLastWords(firstKeys, recentKeys), hasPolicy('first'))]
          : []),
      ],
    };
  },
  caption: 'Loss by what the cache keeps',
  columnsOf: (groups) =>
    groups.some(({ frames }) => frames.some(({ bytes }) => bytes)) ? LONG_COLUMNS : [],
  controls: (context) => {
    const { state, set } = context;
    const { positions, recompute, length } = state.value;
    const recentMax = Math.max(8, Math.min(length, 2048));
    const sliders = html`${slider('keep first', 'firstKeys', [0, 8], context)}
    ${slider('keep last', 'recentKeys', [1, recentMax], context)}`;
    const more = html`<p class="hint">
        How many first tokens? Llama-2-7B chooses as if among 11.9 tokens with one, 10.5 with two,
        9.6 with four, 9.5 with eight; Llama-2-13B among 5,158 with none, 5 with four (Xiao et al.
        2024).
      </p>
      ${choiceField(
        'positions',
        positions,
        choicesIn(context, 'evict', 'positions', positions),
        (value) => set({ positions: value }),
      )}
      ${checkbox('also without a cache: recompute each window (slow)', recompute === 'yes', (isOn) => set({ recompute: isOn ? 'yes' : 'no' }))}
      ${checkbox(
        `a text of ${LONG_TEXT_STATE.length.toLocaleString('en')} tokens`,
        length >= LONG_TEXT_STATE.length,
        (isOn) =>
          set(
            isOn
              ? LONG_TEXT_STATE
              : { length: defaults.length, runs: defaults.runs, positions: defaults.positions },
          ),
      )}`;
    return [sliders, more];
  },
  reported: () => '',
};
