/**
 * The slider through training, over the stored checkpoints, with buttons to play and to step. At each position it shows
 * another model; the last one has the trained weights.
 */
import { signal } from '@preact/signals-core';
import { html, render, type TemplateResult } from 'lit';
import { live } from 'lit/directives/live.js';
import type { Context, Scope } from '../page/context';
import type { Models } from '../run/models';
import { atStep, parseSubject, printSubject, type Subject } from '../ask/subject';
import { nearestStep, stepWords, checkpointId, checkpointOf, PYTHIA_STEPS } from '../ask/steps';

/** While the walk plays, milliseconds from the drawing of a checkpoint to the next one. */
const PLAY_MS = 450;

function hasTimeline(models: Models, { id }: Subject): boolean {
  return models.zoo.cards.some((card) => card.id === id && card.timeline);
}

/** Returns the steps at which any subject has a checkpoint, in rising order. */
async function stepsOf(models: Models, shown: readonly string[]): Promise<number[]> {
  const subjects = shown.flatMap((text) => parseSubject(text) ?? []);
  const zooSubjects = subjects.filter((subject) => hasTimeline(models, subject));
  const timelines = zooSubjects.length ? await models.timelines() : undefined;
  const zooSteps = await Promise.all(zooSubjects.map(({ id }) => timelines!.steps(id)));
  const hubSteps = subjects.some(({ id }) => checkpointOf(id)) ? PYTHIA_STEPS : [];
  return [...new Set([...zooSteps.flat(), ...hubSteps])].sort((a, b) => a - b);
}

/** Returns the subjects at a step of their training; for the last step, with the trained weights. */
export function shownAt(
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

/** Returns the subjects of the zoo with their trained weights; checkpoints of a hub are unchanged. */
export function trainedSubjects(shown: readonly string[]): string[] {
  return shown.map((text) => {
    const subject = parseSubject(text);
    return subject ? printSubject(atStep(subject, undefined)) : text;
  });
}

/** Returns the step of the first subject that has one; undefined if all show their trained weights. */
function stepOfShown(shown: readonly string[]): number | undefined {
  const subjects = shown.flatMap((text) => parseSubject(text) ?? []);
  const checkpoint = subjects.map(({ id }) => checkpointOf(id)).find((one) => one);
  return subjects.find(({ step }) => step !== undefined)?.step ?? checkpoint?.step;
}

export class Walk {
  readonly #context: Context;
  readonly #root: HTMLElement;
  readonly #steps = signal<readonly number[] | undefined>(undefined);
  readonly #isPlaying = signal(false);
  readonly #trust: (repository: string) => void;
  #timer = 0;

  /**
   * @param isReady returns whether the walk may begin by itself, at the first stored step; absent: the reader begins
   */
  constructor(root: HTMLElement, context: Context, scope: Scope, isReady?: () => boolean) {
    this.#context = context;
    this.#root = root;
    this.#root.classList.add('walk');
    this.#trust = (repository) => context.trust(repository);
    let requestedKey = '';
    scope.effect(() => {
      const models = context.engine.value?.models;
      const key = context.state.value.shown.map((text) => text.replace(/@(step)?\d+/, '')).join();
      if (!models || key === requestedKey) return;
      requestedKey = key;
      void stepsOf(models, context.state.peek().shown).then(
        (steps) => (this.#steps.value = steps),
        context.fail,
      );
    });
    scope.effect(() => render(this.#template(), this.#root));
    let isWaiting = isReady !== undefined;
    scope.effect(() => {
      const steps = this.#steps.value;
      if (!isWaiting || !steps?.length || !isReady!()) return;
      isWaiting = false;
      queueMicrotask(() => this.go(steps[0]!));
    });
    scope.effect(() => this.#follow());
    scope.onEnd(() => this.#stop());
  }

  go(step: number): void {
    const steps = this.#steps.peek();
    const models = this.#context.engine.peek()?.models;
    if (!steps?.length || !models) return;
    const { shown } = this.#context.state.peek();
    for (const text of shown) {
      const checkpoint = checkpointOf(text);
      if (checkpoint) this.#trust(checkpoint.repository);
    }
    const nearestStored = nearestStep(steps, step);
    this.#context.set({ shown: shownAt(models, shown, nearestStored, steps.at(-1)!) });
  }

  #index(): number {
    const steps = this.#steps.value ?? [];
    const step = stepOfShown(this.#context.state.value.shown);
    // The last index stands for trained weights; -1: the stored steps are unknown.
    if (step === undefined || !steps.length) return steps.length - 1;
    return steps.indexOf(nearestStep(steps, step));
  }

  #isDrawn(): boolean {
    const entries = this.#context.engine.value?.queue.entries.value;
    return this.#context.state.value.shown.every((text) => {
      const entry = entries?.get(text);
      return entry?.frame && !entry.isStale;
    });
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#isPlaying.value = false;
  }

  #togglePlaying(): void {
    if (this.#isPlaying.peek()) return this.#stop();
    const steps = this.#steps.peek()!;
    // At the slider's end the walk begins again at the first step.
    if (this.#index() >= steps.length - 1) this.go(steps[0]!);
    this.#isPlaying.value = true;
  }

  /** While the walk plays, fetches the next checkpoint, and shows it PLAY_MS after this one is drawn. */
  #follow(): void {
    const steps = this.#steps.value;
    const index = this.#index();
    clearTimeout(this.#timer);
    if (!this.#isPlaying.value || !steps) return;
    const entries = this.#context.engine.value?.queue.entries.value;
    // After an error the next checkpoint would fail as well.
    const isFailed = this.#context.state.value.shown.some((text) => entries?.get(text)?.error);
    if (index >= steps.length - 1 || isFailed) {
      this.#isPlaying.value = false;
      return;
    }
    if (!this.#isDrawn()) return;
    const nextStep = steps[index + 1]!;
    void this.#preload(nextStep);
    this.#timer = window.setTimeout(() => this.go(nextStep), PLAY_MS);
  }

  async #preload(step: number): Promise<void> {
    const models = this.#context.engine.peek()!.models;
    const subjects = this.#context.state.peek().shown.flatMap((text) => parseSubject(text) ?? []);
    for (const subject of subjects.filter((one) => hasTimeline(models, one)))
      await (await models.timelines()).preload(subject.id, step);
  }

  #template(): TemplateResult {
    const steps = this.#steps.value;
    if (!steps) return html`<p class="hint">Loading the list of checkpoints …</p>`;
    if (!steps.length)
      return html`<p class="hint">
        These models have no stored checkpoints.
        <button type="button" @click=${() => this.#context.set({ shown: ['softmax', 'sigmoid'] })}>
          Show the softmax and sigmoid models
        </button>
      </p>`;
    const index = this.#index();
    const lastIndex = steps.length - 1;
    const step = steps[index]!;
    const lastStepText = steps[lastIndex]!.toLocaleString('en');
    const label =
      index === lastIndex
        ? `trained: all ${lastStepText} steps`
        : stepWords(step, steps[lastIndex]!);
    const move = (event: Event) =>
      this.go(steps[Number((event.target as HTMLInputElement).value)]!);
    const button = (name: string, to: number, sign: string) =>
      html`<button
        type="button"
        aria-label=${name}
        ?disabled=${to < 0 || to > lastIndex}
        @click=${() => this.go(steps[to]!)}
      >
        ${sign}
      </button>`;
    return html`<div class="walk-buttons">
        <button type="button" class="walk-play primary" @click=${() => this.#togglePlaying()}>
          ${this.#isPlaying.value ? 'Pause' : 'Play'}
        </button>
        ${button('Previous checkpoint', index - 1, '◀')}
        ${button('Next checkpoint', index + 1, '▶')}
      </div>
      <label class="range"
        ><span>${label}</span>
        <input
          type="range"
          min="0"
          max=${lastIndex}
          .value=${live(String(index))}
          aria-label="Training step"
          aria-valuetext=${label}
          @input=${move}
      /></label>`;
  }
}
