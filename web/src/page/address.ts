/** The state of the page, and the address that names it. */
import { effect, signal } from '@preact/signals-core';
import { isOfDisk, isOfHub } from '../ask/ids';
import type { PromptFile } from '../ask/question';
import { isOfRecording } from '../ask/recordings';
import { defaults, linkable, linkTo, parseHash, printHash, type State } from '../ask/state';
import { parseSubject } from '../ask/subject';
import type { Models } from '../run/models';
import { failure, notices } from './messages';

/** Browsers refuse addresses that change too often. */
const ADDRESS_MS = 150;

const parsed = parseHash(location.hash);
export const state = signal<State>(parsed.state);
/** The reader's file of prompts, which no link can carry. */
export const file = signal<PromptFile | undefined>(undefined);
notices.value = parsed.problems;

export function set(change: Partial<State>): void {
  const now = state.peek();
  const names = Object.keys(change) as (keyof State)[];
  if (names.some((name) => !Object.is(now[name], change[name])))
    state.value = { ...now, ...change };
}

/** Returns the page's address with another hash, or that of another page of the site. */
const absolute = (hash: string, page = '') =>
  new URL(`./${page}${hash}`, location.href.split('#')[0]).href;

/** Returns a link to send: the page of the state's room has the title and picture of a preview. */
export function shared(hash: string): string {
  const { room } = state.peek();
  return absolute(hash, room === defaults.room ? '' : `${room}/index.html`);
}

/** Returns the address of the page in this state. */
export function address(): string {
  return absolute(linkTo(state.peek()));
}

/** The address that was last written or read; another one is a link whose event is still to come. */
let known = location.hash;
let writing = 0;
/** Keys whose change is a step of the browser's history. */
const PLACES = ['view', 'experiment', 'curve'] as const;
const placeOf = (of: State): string => PLACES.map((name) => of[name]).join();
let place = placeOf(state.peek());

function writeAddress(): void {
  const hash = linkTo(state.peek());
  if (location.hash !== known || hash === known || (!known && hash === '#')) return;
  const isElsewhere = placeOf(state.peek()) !== place;
  place = placeOf(state.peek());
  history[isElsewhere ? 'pushState' : 'replaceState'](null, '', hash);
  known = location.hash;
}

effect(() => {
  void state.value;
  clearTimeout(writing);
  writing = window.setTimeout(writeAddress, ADDRESS_MS);
});
// Going back from a link leads to the state in which it was followed.
addEventListener('click', writeAddress, { capture: true });

/** A link of this page was followed, or another pasted over it. */
addEventListener('hashchange', () => {
  known = location.hash;
  const next = parseHash(known);
  // The new link's problems replace those of the last one.
  notices.value = next.problems;
  // A link cannot carry the reader's own models and files, so the page keeps them.
  const own = state.peek();
  const carried = { ...linkable(own), ...(file.peek() ? {} : { input: own.input }) };
  if (printHash(next.state) === printHash(carried)) return;
  const { shown, input } = carried;
  const kept = {
    ...(next.state.shown.join() === shown.join() ? { shown: own.shown } : {}),
    ...(next.state.input === input ? { input: own.input } : {}),
  };
  failure.value = '';
  state.value = { ...next.state, ...kept };
  place = placeOf(state.peek());
});

/** Replaces names in a link that this page does not have. */
export function checkNames(models: Models, rooms: readonly { readonly name: string }[]): void {
  const now = state.peek();
  if (!rooms.some(({ name }) => name === now.room)) {
    notices.value = [
      ...notices.peek(),
      `The link names the room “${now.room}”, which this page does not have.`,
    ];
    set({ room: defaults.room });
  }
  const isHere = (text: string) => {
    const id = parseSubject(text)?.id ?? '';
    return isOfHub(id) || isOfDisk(id) || isOfRecording(id) || models.knows(id);
  };
  const gone = now.shown.filter((text) => !isHere(text));
  const left = now.shown.filter(isHere);
  if (!gone.length) return;
  const said = gone.map(
    (text) => `The link names the model “${text}”, which this page does not have.`,
  );
  notices.value = [...notices.peek(), ...said];
  set({ shown: left.length ? left : defaults.shown, at: 0 });
}
