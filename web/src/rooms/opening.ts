/** The play that opens Training. */
import { computed, signal } from '@preact/signals-core';
import { checkpointOf } from '../ask/steps';
import { parseSubject } from '../ask/subject';
import { savesData } from '../base';
import type { Context, Scope } from '../page/context';
import { subjectsAtStep, type Play } from './walk';

/** Whether the training has played by itself since the page was loaded. */
let hasOpened = false;

/**
 * Plays the training once when a reader comes to the room: from step 0, unless the link names a step or the reader wants
 * little motion or data. The play is no act of the reader, so the page's state, and its address, do not take part; a
 * press stops it, and then the step is the reader's. Another text goes into the play.
 * @param stay for how many milliseconds the shown checkpoint stays
 */
export function openByPlaying(page: Context, scope: Scope, stay: Play['stay']) {
  const play: Play = { isPlaying: signal(false), next: signal<readonly string[]>([]), stay };
  const opening = signal<
    { readonly from: readonly string[]; readonly shown: readonly string[] } | undefined
  >(undefined);
  const stop = () => {
    const shown = opening.peek()?.shown;
    opening.value = undefined;
    if (shown) page.set({ shown });
  };
  const context: Context = {
    ...page,
    state: computed(() => {
      const state = page.state.value;
      return opening.value?.from === state.shown ? { ...state, shown: opening.value.shown } : state;
    }),
    set: (change, isStep) => {
      const { from } = opening.peek() ?? {};
      const isPlayed = from && play.isPlaying.peek();
      if (isPlayed && change.shown) opening.value = { from, shown: change.shown };
      else {
        if (!isPlayed || change.prompt === undefined) stop();
        page.set(change, isStep);
      }
    },
  };
  const isMotionReduced = matchMedia('(prefers-reduced-motion: reduce)').matches;
  let isDecided = hasOpened || isMotionReduced || savesData();
  scope.effect(() => {
    const models = page.engine.value?.models;
    if (isDecided || !models) return;
    isDecided = true;
    const from = page.state.peek().shown;
    const shown = subjectsAtStep(models, from, 0, Infinity);
    if (from.some((text) => checkpointOf(text) ?? parseSubject(text)?.step !== undefined)) return;
    if (shown.some((text) => parseSubject(text)?.step !== 0)) return;
    hasOpened = play.isPlaying.value = true;
    opening.value = { from, shown };
  });
  scope.effect(() => {
    if (!play.isPlaying.value) stop();
  });
  const onPress = ({ target }: Event) => {
    // A link leaves the room, the button of the play says itself what it does, and the text may be another one.
    if (opening.peek() && !(target as Element).closest?.('a, .walk-play, .text'))
      play.isPlaying.value = false;
  };
  for (const kind of ['pointerdown', 'keydown']) {
    addEventListener(kind, onPress, { capture: true });
    scope.onEnd(() => removeEventListener(kind, onPress, { capture: true }));
  }
  return { context, play };
}
