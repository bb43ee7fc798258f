/**
 * The slider through training, over the stored checkpoints, with buttons to play and to step. At each position it shows
 * another model; the last one has the trained weights.
 */
import { signal, untracked, type Signal } from '@preact/signals-core';
import { html, render, type TemplateResult } from 'lit';
import { live } from 'lit/directives/live.js';
import type { Context, Scope } from '../page/context';
import { valueOf } from '../page/controls';
import type { Models } from '../run/models';
import { isInputMissing } from '../ask/question';
import { atStep, parseSubject, printSubject, type Subject } from '../ask/subject';
import { isRecordingId } from '../ask/recordings';
import { nearestStep, stepWords, checkpointId, checkpointOf, PYTHIA_STEPS } from '../ask/steps';

/** While the slider plays, each checkpoint is shown for at least this many milliseconds, unless a room decides it. */
const PLAY_MS = 370;
/** While the slider plays, the files of this many further checkpoints are fetched. */
const FETCHED_AHEAD = 3;

/** A room's part in the play: it measures each checkpoint before the slider shows it, so that no picture waits. */
export interface Play {
  readonly isPlaying: Signal<boolean>;
  /** The subjects of the next checkpoint, which the room measures. */
  readonly next: Signal<readonly string[]>;
  /** For how many milliseconds the shown checkpoint stays. */
  readonly stay: () => number;
}

function hasTimeline(models: Models, { id }: Subject): boolean {
  if (isRecordingId(id)) return models.recordings.steps(id).length > 0;
  return models.zoo.cards.some((card) => card.id === id && card.timeline);
}

/** Returns the steps at which any subject has a checkpoint, in rising order. */
export async function stepsOf(models: Models, shown: readonly string[]): Promise<number[]> {
  const subjects = shown.flatMap((text) => parseSubject(text) ?? []);
  const walkedSubjects = subjects.filter((subject) => hasTimeline(models, subject));
  const timelines = walkedSubjects.length ? await models.timelines() : undefined;
  const storedSteps = await Promise.all(walkedSubjects.map(({ id }) => timelines!.steps(id)));
  const hubSteps = subjects.some(({ id }) => checkpointOf(id)) ? PYTHIA_STEPS : [];
  return [...new Set([...storedSteps.flat(), ...hubSteps])].sort((a, b) => a - b);
}

/** Returns the subjects at a step of their training; for the last step, with the trained weights. */
export function subjectsAtStep(
  models: Models,
  shown: readonly string[],
  step: number,
  lastStep: number,
): string[] {
  const subjects = shown.map((text) => {
    const subject = parseSubject(text);
    if (!subject) return text;
    const checkpoint = checkpointOf(subject.id);
    if (checkpoint) return checkpointId({ ...checkpoint, step: nearestStep(PYTHIA_STEPS, step) });
    if (!hasTimeline(models, subject)) return text;
    return printSubject(atStep(subject, step >= lastStep ? undefined : step));
  });
  return [...new Set(subjects)];
}

/** Returns the subjects at the end of their training; checkpoints of a hub are unchanged. */
export function trainedSubjects(shown: readonly string[]): string[] {
  return shown.map((text) => {
    const subject = parseSubject(text);
    return subject ? printSubject(atStep(subject, undefined)) : text;
  });
}

/** Returns the step of the first subject that has one; undefined if all show their trained weights. */
function stepOfShown(shown: readonly string[]): number | undefined {
  const subjects = shown.flatMap((text) => parseSubject(text) ?? []);
  const checkpoint = subjects.map(({ id }) => checkpointOf(id)).find(Boolean);
  return subjects.find(({ step }) => step !== undefined)?.step ?? checkpoint?.step;
}

/** Whether all shown recordings are read: whether a file is a series is known only then. */
function areRead({ engine }: Context, shown: readonly string[]): boolean {
  return shown.filter(isRecordingId).every((text) => {
    const { frame, error } = engine.value?.queue.entries.value.get(text) ?? {};
    return frame ?? error;
  });
}

function trustCheckpoints(context: Context, shown: readonly string[]): void {
  for (const text of shown) {
    const checkpoint = checkpointOf(text);
    if (checkpoint) context.trust(checkpoint.repository);
  }
}

/** Fetches the shown models’ checkpoints of a step before they are shown. */
async function preload(context: Context, step: number): Promise<void> {
  const { models } = context.engine.peek()!;
  const subjects = context.state.peek().shown.flatMap((text) => parseSubject(text) ?? []);
  for (const subject of subjects.filter((candidate) => hasTimeline(models, candidate)))
    await (await models.timelines()).preload(subject.id, step);
}

/** The keys that move the slider, by how many checkpoints. */
const KEYS: Readonly<Record<string, number>> = {
  ...{ ArrowLeft: -1, ArrowDown: -1, PageDown: -1 },
  ...{ ArrowRight: 1, ArrowUp: 1, PageUp: 1 },
};

interface Slider {
  readonly steps: readonly number[] | undefined;
  /** The places of the steps on the slider, which are those of a chart above it. */
  readonly places: readonly number[];
  readonly index: number;
  readonly isPlaying: boolean;
  readonly hasPlayed: boolean;
  readonly togglePlaying: () => void;
  readonly goToStep: (step: number) => void;
}

function sliderTemplate(
  { steps, places, index, isPlaying, hasPlayed, togglePlaying, goToStep }: Slider,
  context: Context,
): TemplateResult {
  if (!steps) return html`<p class="hint">Loading the list of checkpoints …</p>`;
  if (!steps.length)
    return html`<p class="hint">
      These models have no stored checkpoints.
      <button type="button" @click=${() => context.set({ shown: ['softmax', 'sigmoid'] })}>
        Show the softmax and sigmoid models
      </button>
    </p>`;
  const lastIndex = steps.length - 1;
  const lastStep = steps[lastIndex]!;
  const label = stepWords(steps[index]!, lastStep);
  const goToPlace = (event: Event) => {
    const value = Number(valueOf(event));
    const distances = places.map((place) => Math.abs(place - value));
    goToStep(steps[distances.indexOf(Math.min(...distances))]!);
  };
  const goByKey = (event: KeyboardEvent) => {
    const target = index + (KEYS[event.key] ?? NaN);
    if (Number.isNaN(target)) return;
    event.preventDefault();
    if (target >= 0 && target <= lastIndex) goToStep(steps[target]!);
  };
  const button = (name: string, target: number, sign: string) =>
    html`<button
      type="button"
      aria-label=${name}
      ?disabled=${target < 0 || target > lastIndex}
      @click=${() => goToStep(steps[target]!)}
    >
      ${sign}
    </button>`;
  return html`<div class="walk-buttons">
      <button type="button" class="walk-play primary" @click=${togglePlaying}>
        <span aria-hidden="true">${isPlaying ? '❚❚' : '▶'}</span>
        ${isPlaying ? 'Pause' : hasPlayed && index === lastIndex ? 'Play again' : 'Play'}
      </button>
      ${button('Previous checkpoint', index - 1, '←')} ${button('Next checkpoint', index + 1, '→')}
    </div>
    <label class="range"
      ><span>${label}</span>
      <input
        type="range"
        min="0"
        max=${places[lastIndex]!}
        .value=${live(String(places[index]!))}
        aria-label="Training step"
        aria-valuetext=${`training ${label}`}
        @keydown=${goByKey}
        @input=${goToPlace}
    /></label>`;
}

/**
 * While the slider plays, fetches the next checkpoints, and shows the next one when this one was shown long enough.
 * @param isAhead whether the next checkpoint is measured before it is shown
 */
function playOn(
  {
    context,
    scope,
    placeOfShown,
    goToStep,
  }: {
    readonly context: Context;
    readonly scope: Scope;
    readonly placeOfShown: () => Pick<Slider, 'steps' | 'index'>;
    readonly goToStep: (step: number) => void;
  },
  { isPlaying, next, stay }: Play,
  isAhead: boolean,
): void {
  /** The checkpoint that is shown in the play, and whether it was shown long enough. */
  let shownIndex = -1;
  const isDue = signal(false);
  let timer = 0;
  scope.onEnd(() => clearTimeout(timer));
  scope.effect(() => {
    const { steps, index } = placeOfShown();
    const { shown } = context.state.value;
    const entries = context.engine.value?.queue.entries.value;
    const isDrawn = (text: string) => {
      const entry = entries?.get(text);
      return entry?.frame && !entry.isStale;
    };
    // A text that is emptied to type another one ends no play.
    const hasFailed = (text: string) => {
      const { error } = entries?.get(text) ?? {};
      return error !== undefined && !isInputMissing(error);
    };
    // After an error the next checkpoint would fail as well.
    const isOver = index >= (steps?.length ?? Infinity) - 1 || shown.some(hasFailed);
    if (isOver && isPlaying.value) isPlaying.value = false;
    const isShown = isPlaying.value && steps !== undefined && shown.every(isDrawn);
    if (!isShown || index !== shownIndex) {
      clearTimeout(timer);
      isDue.value = false;
      shownIndex = -1;
    }
    if (!isPlaying.value && next.peek().length) next.value = [];
    if (!isShown) return;
    const nextStep = steps[index + 1]!;
    if (index !== shownIndex) {
      shownIndex = index;
      timer = window.setTimeout(() => (isDue.value = true), untracked(stay));
      void preload(context, steps[Math.min(index + FETCHED_AHEAD, steps.length - 1)]!);
      const { models } = context.engine.peek()!;
      if (isAhead) next.value = subjectsAtStep(models, shown, nextStep, steps.at(-1)!);
    }
    if (isDue.value && next.value.every((text) => isDrawn(text) ?? hasFailed(text)))
      queueMicrotask(() => isPlaying.peek() && goToStep(nextStep));
  });
}

/**
 * Draws the slider and its buttons.
 * @param isReady once it returns true, the slider moves to the first stored step; absent: the reader moves it first
 * @param play absent: a checkpoint is measured when the slider shows it
 * @param isScaled whether the slider is an axis of steps; otherwise its checkpoints are evenly spaced
 * @returns a function that moves to the stored step nearest to a step
 */
export function addTrainingSlider(
  root: HTMLElement,
  context: Context,
  scope: Scope,
  isReady?: () => boolean,
  play?: Play,
  isScaled = () => false,
): (step: number) => void {
  const storedSteps = signal<readonly number[] | undefined>(undefined);
  const parts: Play = play ?? {
    ...{ isPlaying: signal(false), next: signal<readonly string[]>([]), stay: () => PLAY_MS },
  };
  const { isPlaying } = parts;
  let hasPlayed = false;
  root.classList.add('walk');

  function goToStep(step: number): void {
    const steps = storedSteps.peek();
    const models = context.engine.peek()?.models;
    if (!steps?.length || !models) return;
    const { shown } = context.state.peek();
    trustCheckpoints(context, shown);
    const nearestStoredStep = nearestStep(steps, step);
    context.set({ shown: subjectsAtStep(models, shown, nearestStoredStep, steps.at(-1)!) });
  }

  function indexOfShown(): number {
    const steps = storedSteps.value ?? [];
    const step = stepOfShown(context.state.value.shown);
    // The last index stands for trained weights; -1: the stored steps are unknown.
    if (step === undefined || !steps.length) return steps.length - 1;
    return steps.indexOf(nearestStep(steps, step));
  }

  function togglePlaying(): void {
    const steps = storedSteps.peek()!;
    // At its end the slider begins again at the first step.
    if (!isPlaying.peek() && indexOfShown() >= steps.length - 1) goToStep(steps[0]!);
    isPlaying.value = !isPlaying.peek();
  }

  let requestedKey = '';
  scope.effect(() => {
    const { shown } = context.state.value;
    const models = context.engine.value?.models;
    if (!areRead(context, shown)) return;
    const key = shown.map((text) => text.replace(/@(step)?\d+/, '')).join();
    if (!models || key === requestedKey) return;
    requestedKey = key;
    void stepsOf(models, shown).then((steps) => (storedSteps.value = steps), context.fail);
  });
  scope.effect(() => {
    const steps = storedSteps.value;
    const places = isScaled() ? (steps ?? []) : [...(steps ?? []).keys()];
    const slider = { steps, places, index: indexOfShown(), isPlaying: isPlaying.value };
    hasPlayed ||= slider.isPlaying;
    render(sliderTemplate({ ...slider, hasPlayed, togglePlaying, goToStep }, context), root);
  });
  let isWaiting = isReady !== undefined;
  scope.effect(() => {
    const steps = storedSteps.value;
    if (!isWaiting || !steps?.length || !isReady!()) return;
    isWaiting = false;
    queueMicrotask(() => goToStep(steps[0]!));
  });
  const placeOfShown = () => ({ steps: storedSteps.value, index: indexOfShown() });
  playOn({ context, scope, placeOfShown, goToStep }, parts, play !== undefined);
  return goToStep;
}
