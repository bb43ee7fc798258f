/** The state of the page, and the browser's address of this state. */
import { effect, signal } from '@preact/signals-core';
import { isOnDisk, isOutsideZoo } from '../ask/ids';
import type { PromptFile } from '../ask/question';
import {
  defaults,
  linkableState,
  linkTo,
  parseHash,
  printHash,
  unreadableValue,
  type State,
} from '../ask/state';
import { MAX_SUBJECTS, parseSubject } from '../ask/subject';
import type { Models } from '../run/models';
import { failure, notices } from './messages';

/** The address is written after this delay, since browsers refuse frequent changes. */
const ADDRESS_MS = 150;

/** What a step of the browser's history restores although no link carries it: models on the disk and their edits. */
type HistoryEntry = Pick<State, 'shown' | 'at'>;

/** Returns the models on the disk of this step of the history: after a reload, the page asks for their files. */
function modelsOfEntry(): Partial<HistoryEntry> {
  const { shown, at } = (history.state ?? {}) as { shown?: unknown; at?: unknown };
  const subjects = Array.isArray(shown) ? shown.slice(0, MAX_SUBJECTS).map(String) : [];
  if (!subjects.some(isOnDisk) || !subjects.every(parseSubject)) return {};
  return { shown: subjects, at: Number.isInteger(at) ? Number(at) : 0 };
}

const initialLink = parseHash(location.hash);
export const state = signal<State>({ ...initialLink.state, ...modelsOfEntry() });
/** No link can carry the reader's file. */
export const file = signal<PromptFile | undefined>(undefined);
notices.value = initialLink.problems;

const historyEntry = (): HistoryEntry => ({ shown: state.peek().shown, at: state.peek().at });

/** @param isStep whether Back undoes the change, although no link may carry it */
export function set(change: Partial<State>, isStep = false): void {
  if (isStep) {
    writeAddress();
    history.replaceState(historyEntry(), '');
  }
  const current = state.peek();
  const names = Object.keys(change) as (keyof State)[];
  if (names.some((name) => !Object.is(current[name], change[name])))
    state.value = { ...current, ...change };
  if (isStep) history.pushState(historyEntry(), '');
}

const absoluteAddress = (hash: string, page = '') =>
  new URL(`./${page}${hash}`, location.href.split('#')[0]).href;

/** Returns a link to send. It leads to the room's own page, which has a title and a picture for previews. */
export function sharedLink(hash: string): string {
  const { room } = state.peek();
  return absoluteAddress(hash, room === defaults.room ? '' : `${room}/index.html`);
}

export const address = (): string => absoluteAddress(linkTo(state.peek()));

/** The hash that the page wrote or read last; while the browser's differs, a `hashchange` event is about to arrive. */
let lastHash = location.hash;
let writeTimer = 0;
/** A change of one of these keys adds a step to the browser's history. */
const HISTORY_KEYS = ['room', 'view', 'experiment', 'curve'] as const;
const historyKeyOf = (pageState: State): string =>
  HISTORY_KEYS.map((name) => pageState[name]).join();
let lastHistoryKey = historyKeyOf(state.peek());

function writeAddress(): void {
  const hash = linkTo(state.peek());
  if (location.hash !== lastHash) return;
  const entry = state.peek().shown.some(isOnDisk) ? historyEntry() : null;
  if (hash === lastHash || (!lastHash && hash === '#')) {
    if (JSON.stringify(entry) !== JSON.stringify(history.state)) history.replaceState(entry, '');
    return;
  }
  const isNewStep = historyKeyOf(state.peek()) !== lastHistoryKey;
  lastHistoryKey = historyKeyOf(state.peek());
  if (isNewStep) history.pushState(entry, '', hash);
  else history.replaceState(entry, '', hash);
  lastHash = location.hash;
}

effect(() => {
  void state.value;
  clearTimeout(writeTimer);
  writeTimer = window.setTimeout(writeAddress, ADDRESS_MS);
});
// Writes the address before a click follows a link, so that Back returns to the state before the click.
addEventListener('click', writeAddress, { capture: true });

const modelsOf = (subjects: readonly string[]) =>
  subjects.map((subject) => parseSubject(subject)?.id).join();

addEventListener('popstate', ({ state: entry }) => {
  const { shown, at } = (entry ?? {}) as Partial<HistoryEntry>;
  if (shown && modelsOf(shown) === modelsOf(state.peek().shown)) set({ shown, at: at! });
});

// The reader has followed a link to this page or pasted an address.
addEventListener('hashchange', () => {
  lastHash = location.hash;
  const link = parseHash(lastHash);
  notices.value = link.problems;
  // The page keeps the reader's own models, files and long texts, which a link cannot carry.
  const current = state.peek();
  const linkedState = {
    ...linkableState(current),
    ...(file.peek() ? {} : { input: current.input }),
  };
  if (printHash(link.state) === printHash(linkedState)) return;
  const { shown, input, prompt } = linkedState;
  const localState = {
    ...(link.state.shown.join() === shown.join() ? { shown: current.shown } : {}),
    ...(link.state.input === input ? { input: current.input } : {}),
    ...(link.state.prompt === prompt ? { prompt: current.prompt } : {}),
  };
  failure.value = '';
  state.value = { ...link.state, ...localState };
  lastHistoryKey = historyKeyOf(state.peek());
});

/** Replaces the values of keys that the page cannot show by the defaults, and shows a notice for each. */
export function replaceUnknownValues(
  values: readonly (readonly [key: keyof State, value: string])[],
): void {
  if (!values.length) return;
  notices.value = [...notices.peek(), ...values.map((value) => unreadableValue(...value))];
  set(Object.fromEntries(values.map(([key]) => [key, defaults[key]])));
  // A correction is no step of the reader's.
  lastHistoryKey = historyKeyOf(state.peek());
}

/** If this page lacks a room or model that the link names, uses the default and shows a notice. */
export function replaceUnknownNames(
  models: Models,
  rooms: readonly { readonly name: string }[],
): void {
  const { room, shown } = state.peek();
  const report = (what: string) => {
    notices.value = [
      ...notices.peek(),
      `The link names the ${what}, which this page does not have.`,
    ];
  };
  if (!rooms.some(({ name }) => name === room)) {
    report(`room “${room}”`);
    set({ room: defaults.room });
    // Back must not lead to the unknown room, which would be replaced again.
    lastHistoryKey = historyKeyOf(state.peek());
  }
  const isAvailable = (text: string) => {
    const id = parseSubject(text)?.id ?? '';
    return isOutsideZoo(id) || models.canOpen(id);
  };
  const remaining = shown.filter(isAvailable);
  if (remaining.length === shown.length) return;
  for (const text of shown) if (!isAvailable(text)) report(`model “${text}”`);
  set({ shown: remaining.length ? remaining : defaults.shown, at: 0 });
}
