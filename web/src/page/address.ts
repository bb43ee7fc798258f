/** The state of the page, and the browser's address of this state. */
import { effect, signal } from '@preact/signals-core';
import { isOnDisk, isHubId } from '../ask/ids';
import type { PromptFile } from '../ask/question';
import { isRecordingId } from '../ask/recordings';
import { defaults, linkableState, linkTo, parseHash, printHash, type State } from '../ask/state';
import { parseSubject } from '../ask/subject';
import type { Models } from '../run/models';
import { failure, notices } from './messages';

/** The delay of address changes, since browsers refuse frequent ones. */
const ADDRESS_MS = 150;

const initialLink = parseHash(location.hash);
export const state = signal<State>(initialLink.state);
/** The reader's file of prompts, which no link can carry. */
export const file = signal<PromptFile | undefined>(undefined);
notices.value = initialLink.problems;

export function set(change: Partial<State>): void {
  const current = state.peek();
  const names = Object.keys(change) as (keyof State)[];
  if (names.some((name) => !Object.is(current[name], change[name])))
    state.value = { ...current, ...change };
}

/** Returns the page's address with another hash, or the address of another page of the site. */
const absoluteAddress = (hash: string, page = '') =>
  new URL(`./${page}${hash}`, location.href.split('#')[0]).href;

/** Returns a link to send, which leads to the room's own page, since that has a title and a picture for previews. */
export function sharedLink(hash: string): string {
  const { room } = state.peek();
  return absoluteAddress(hash, room === defaults.room ? '' : `${room}/index.html`);
}

/** Returns the address of the page in this state. */
export function address(): string {
  return absoluteAddress(linkTo(state.peek()));
}

/** The hash that the page last wrote or read; if the browser's hash differs, a `hashchange` event is about to come. */
let lastHash = location.hash;
let writeTimer = 0;
/** Keys of the state whose change adds a step to the browser's history. */
const HISTORY_KEYS = ['view', 'experiment', 'curve'] as const;
const historyKeyOf = (of: State): string => HISTORY_KEYS.map((name) => of[name]).join();
let lastHistoryKey = historyKeyOf(state.peek());

function writeAddress(): void {
  const hash = linkTo(state.peek());
  if (location.hash !== lastHash || hash === lastHash || (!lastHash && hash === '#')) return;
  const isNewStep = historyKeyOf(state.peek()) !== lastHistoryKey;
  lastHistoryKey = historyKeyOf(state.peek());
  history[isNewStep ? 'pushState' : 'replaceState'](null, '', hash);
  lastHash = location.hash;
}

effect(() => {
  void state.value;
  clearTimeout(writeTimer);
  writeTimer = window.setTimeout(writeAddress, ADDRESS_MS);
});
// Writes the address before a click on a link, so that Back returns to the state before the click.
addEventListener('click', writeAddress, { capture: true });

// Reads the state when a link of this page was followed or an address was pasted.
addEventListener('hashchange', () => {
  lastHash = location.hash;
  const next = parseHash(lastHash);
  // Shows the problems of the new link instead of those of the last one.
  notices.value = next.problems;
  // A link cannot carry the reader's own models and files, so the page keeps them.
  const current = state.peek();
  const linkedState = {
    ...linkableState(current),
    ...(file.peek() ? {} : { input: current.input }),
  };
  if (printHash(next.state) === printHash(linkedState)) return;
  const { shown, input } = linkedState;
  const localState = {
    ...(next.state.shown.join() === shown.join() ? { shown: current.shown } : {}),
    ...(next.state.input === input ? { input: current.input } : {}),
  };
  failure.value = '';
  state.value = { ...next.state, ...localState };
  lastHistoryKey = historyKeyOf(state.peek());
});

/** Replaces names of rooms and models that this page does not have by the defaults, and shows a notice about each. */
export function replaceUnknownNames(
  models: Models,
  rooms: readonly { readonly name: string }[],
): void {
  const current = state.peek();
  if (!rooms.some(({ name }) => name === current.room)) {
    notices.value = [
      ...notices.peek(),
      `The link names the room “${current.room}”, which this page does not have.`,
    ];
    set({ room: defaults.room });
  }
  const isAvailable = (text: string) => {
    const id = parseSubject(text)?.id ?? '';
    return isHubId(id) || isOnDisk(id) || isRecordingId(id) || models.canOpen(id);
  };
  const missing = current.shown.filter((text) => !isAvailable(text));
  const remaining = current.shown.filter(isAvailable);
  if (!missing.length) return;
  const problems = missing.map(
    (text) => `The link names the model “${text}”, which this page does not have.`,
  );
  notices.value = [...notices.peek(), ...problems];
  set({ shown: remaining.length ? remaining : defaults.shown, at: 0 });
}
