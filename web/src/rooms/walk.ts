/**
 * The slider through training, over the stored checkpoints, with buttons to play and to step. At each position it shows
 * another model; the last one has the trained weights.
 */
import { signal } from '@preact/signals-core';
import { html, render, type TemplateResult } from 'lit';
import { live } from 'lit/directives/live.js';
import type { Context, Scope } from '../page/context';
import { valueOf } from '../page/controls';
import type { Models } from '../run/models';
import { atStep, parseSubject, printSubject, type Subject } from '../ask/subject';
import { isRecordingId } from '../ask/recordings';
import { nearestStep, stepWords, checkpointId, checkpointOf, PYTHIA_STEPS } from '../ask/steps';

/** While the slider plays, milliseconds from the drawing of a checkpoint to the next one. */
const PLAY_MS = 450;

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

interface Slider {
  readonly steps: readonly number[] | undefined;
  readonly index: number;
  readonly isPlaying: boolean;
  readonly togglePlaying: () => void;
  readonly goToStep: (step: number) => void;
}

function sliderTemplate(
  { steps, index, isPlaying, togglePlaying, goToStep }: Slider,
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
        ${isPlaying ? 'Pause' : 'Play'}
      </button>
      ${button('Previous checkpoint', index - 1, '←')} ${button('Next checkpoint', index + 1, '→')}
    </div>
    <label class="range"
      ><span>${label}</span>
      <input
        type="range"
        min="0"
        max=${lastIndex}
        .value=${live(String(index))}
        aria-label="Training step"
        aria-valuetext=${`training ${label}`}
        @input=${(event: Event) => goToStep(steps[Number(valueOf(event))]!)}
    /></label>`;
}

/**
 * Draws the slider and its buttons.
 * @param isReady once it returns true, the slider moves to the first stored step; absent: the reader moves it first
 * @returns a function that moves to the stored step nearest to a step
 */
export function addTrainingSlider(
  root: HTMLElement,
  context: Context,
  scope: Scope,
  isReady?: () => boolean,
): (step: number) => void {
  const storedSteps = signal<readonly number[] | undefined>(undefined);
  const isPlaying = signal(false);
  let timer = 0;
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

  /** While the slider plays, fetches the next checkpoint, and shows it PLAY_MS after this one is drawn. */
  function scheduleNextStep(): void {
    const steps = storedSteps.value;
    const index = indexOfShown();
    clearTimeout(timer);
    if (!isPlaying.value || !steps) return;
    const allEntries = context.engine.value?.queue.entries.value;
    const entries = context.state.value.shown.map((text) => allEntries?.get(text));
    // After an error the next checkpoint would fail as well.
    if (index >= steps.length - 1 || entries.some((entry) => entry?.error)) {
      isPlaying.value = false;
      return;
    }
    if (!entries.every((entry) => entry?.frame && !entry.isStale)) return;
    const nextStep = steps[index + 1]!;
    void preload(context, nextStep);
    timer = window.setTimeout(() => goToStep(nextStep), PLAY_MS);
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
    const slider = { steps: storedSteps.value, index: indexOfShown(), isPlaying: isPlaying.value };
    render(sliderTemplate({ ...slider, togglePlaying, goToStep }, context), root);
  });
  let isWaiting = isReady !== undefined;
  scope.effect(() => {
    const steps = storedSteps.value;
    if (!isWaiting || !steps?.length || !isReady!()) return;
    isWaiting = false;
    queueMicrotask(() => goToStep(steps[0]!));
  });
  scope.effect(scheduleNextStep);
  scope.onEnd(() => clearTimeout(timer));
  return goToStep;
}
