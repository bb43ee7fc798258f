/** A cache that forgets by age: what happens when token 1 leaves it. */
import { html } from 'lit';
import { choices } from '../controls';
import { attention } from '../views/attention';
import { givenOf, signed } from '../views/settings';
import { leaves, loss } from '../views/loss';
import type { Frame } from '../frame';
import type { State } from '../state';
import type { Bench } from './bench';
import { check, cost, lossColumns, reportedBadge, settingsTable, slider } from './parts';

const MEASURES = ['loss_at', 'loss_mean'];

const isOf = (policy: string) => (frame: Frame) => givenOf(frame, 'evict')?.policy === policy;

/** Perplexity of Llama-2-13B over 65,000 tokens of a book (Xiao et al. 2024, figure 1). */
const REPORTED = [
  ['all keys', '5641'],
  ['last 1,024', '5158'],
  ['first 4 + last 1,020', '5.40'],
  ['last 1,024, read anew', '5.43'],
] as const;

function editOf({ firstKeys, recentKeys, positions }: State, isFirstKept: boolean): string {
  const budget = firstKeys + recentKeys;
  const placed = positions === 'cache' ? ',positions=cache' : '';
  return isFirstKept && firstKeys
    ? `~evict(first,${budget},${firstKeys}${placed})`
    : `~evict(window,${budget}${placed})`;
}

export const streaming: Bench = {
  name: 'streaming',
  title: 'Streaming',
  hint: 'a cache that forgets',
  view: loss,
  detail: attention,
  look: ({ state }) => editOf(state, true),
  plan: ({ state, question }) => {
    const edits = ['', editOf(state, false), ...(state.firstKeys ? [editOf(state, true)] : [])];
    const settings = edits.map((one) => ({ edits: one, question, measures: MEASURES }));
    const window = state.firstKeys + state.recentKeys;
    return state.reread === 'yes'
      ? [...settings, { edits: '', question: { ...question, window }, measures: MEASURES }]
      : settings;
  },
  lead: 3,
  says: (groups, { firstKeys, recentKeys }) => {
    const all = groups.flatMap(({ title, frames }) => {
      const window = cost(frames, isOf('window'))?.mean;
      const kept = cost(frames, isOf('first'))?.mean;
      const end = frames.map(leaves).find(Number.isFinite);
      return window === undefined ? [] : [{ title, window, kept, end }];
    });
    const [main, ...others] = all;
    if (!main) return { heading: 'A cache that forgets', text: '' };
    if (main.end === undefined)
      return {
        heading: 'Nothing is forgotten',
        text: `The text is no longer than the cache of ${firstKeys + recentKeys} keys.`,
      };
    const rest = (kept: number | undefined) =>
      kept === undefined ? '' : `, ${signed(kept)} with the first kept`;
    const isRescued = main.kept !== undefined && main.window > 0.05 && main.kept < main.window / 2;
    const words = firstKeys === 1 ? 'the first' : `the first ${firstKeys}`;
    const told = isRescued
      ? `With only the last ${firstKeys + recentKeys} keys ${main.title} loses ${main.window.toFixed(3)} nats a ` +
        `token. Keep ${words} among them, and ${main.kept! > 0 ? `all but ${main.kept!.toFixed(3)} come back` : 'all of it comes back'}.`
      : `With only the last ${firstKeys + recentKeys} keys ${main.title} changes by ${signed(main.window)} nats a token${rest(main.kept)}.`;
    const beside = others.map(
      ({ title, window, kept }) => `${title}: ${signed(window)}${rest(kept)}.`,
    );
    return {
      heading: isRescued
        ? 'Forget the first token, and the model stumbles'
        : 'Forgetting the first token costs little here',
      text: [told, ...beside].join(' '),
    };
  },
  table: (groups) =>
    settingsTable(groups, lossColumns, 'Loss with what the cache keeps; prompts in brackets'),
  controls: (desk) => {
    const { state, set } = desk;
    const { positions, reread, length } = state.value;
    return html`${slider('first keys', 'firstKeys', [0, 8], desk)}
    ${slider('recent keys', 'recentKeys', [1, Math.max(8, Math.min(length, 512))], desk)}
    ${choices(
      'positions',
      positions,
      [
        ['text', 'as in the text'],
        ['cache', 'by place in the cache'],
      ],
      (value) => set({ positions: value as State['positions'] }),
    )}
    ${check('recomputed, too (slow)', reread === 'yes', (isOn) => set({ reread: isOn ? 'yes' : 'no' }))}`;
  },
  foot: () =>
    html`<div class="reported-note">
      <h2>Elsewhere ${reportedBadge}</h2>
      <p class="hint">
        Perplexity of Llama-2-13B over 65,000 tokens (Xiao et al. 2024, figure 1):
        ${REPORTED.map(([what, value], i) => `${i ? '; ' : ''}${what} ${value}`)}.
      </p>
    </div>`,
};
