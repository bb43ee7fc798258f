/**
 * A walk through training: a slider over the steps that are kept, with buttons to play and to step. One
 * place of it is one model; the last are the trained weights themselves.
 */
import { signal } from '@preact/signals-core';
import { html, render, type TemplateResult } from 'lit';
import { live } from 'lit/directives/live.js';
import type { Desk, Scope } from '../desk';
import type { Models } from '../models';
import { checkpointId, checkpointOf, PYTHIA_STEPS } from '../open/catalogue';
import { atStep, parseSubject, printSubject, type Subject } from '../subject';
import { nearestStep } from '../timeline/steps';

/** A checkpoint stands this long, from when it is drawn, before the next one comes. */
const PLAY_MS = 450;

function isOfZoo(models: Models, { id }: Subject): boolean {
  return models.zoo.cards.some((card) => card.id === id && card.timeline);
}

/** Steps at which any of these is kept, rising; none where nothing of them is. */
async function stepsOf(models: Models, shown: readonly string[]): Promise<number[]> {
  const all = shown.flatMap((text) => parseSubject(text) ?? []);
  const own = all.filter((subject) => isOfZoo(models, subject));
  const timelines = own.length ? await models.timelines() : undefined;
  const kept = await Promise.all(own.map(({ id }) => timelines!.steps(id)));
  const hub = all.some(({ id }) => checkpointOf(id)) ? PYTHIA_STEPS : [];
  return [...new Set([...kept.flat(), ...hub])].sort((a, b) => a - b);
}

/** The same subjects at a step; the last one is what came of it. */
export function shownAt(
  models: Models,
  shown: readonly string[],
  step: number,
  last: number,
): string[] {
  const moved = shown.map((text) => {
    const subject = parseSubject(text);
    if (!subject) return text;
    const hub = checkpointOf(subject.id);
    if (hub) return checkpointId({ ...hub, step: nearestStep(PYTHIA_STEPS, step) });
    if (!isOfZoo(models, subject)) return text;
    return printSubject(atStep(subject, step >= last ? undefined : step));
  });
  return [...new Set(moved)];
}

/** Where they stand now; undefined: the trained weights. */
function stepOfShown(shown: readonly string[]): number | undefined {
  const all = shown.flatMap((text) => parseSubject(text) ?? []);
  const hub = all.map(({ id }) => checkpointOf(id)).find((one) => one);
  return all.find(({ step }) => step !== undefined)?.step ?? hub?.step;
}

export class Walk {
  readonly #desk: Desk;
  readonly #root: HTMLElement;
  readonly #steps = signal<readonly number[] | undefined>(undefined);
  readonly #isPlaying = signal(false);
  readonly #trust: (repository: string) => void;
  #timer = 0;

  constructor(root: HTMLElement, desk: Desk, scope: Scope) {
    this.#desk = desk;
    this.#root = root;
    this.#root.classList.add('walk');
    this.#trust = (repository) => desk.trust(repository);
    let asked = '';
    scope.effect(() => {
      const models = desk.engine.value?.models;
      const key = desk.state.value.shown.map((text) => text.replace(/@(step)?\d+/, '')).join();
      if (!models || key === asked) return;
      asked = key;
      void stepsOf(models, desk.state.peek().shown).then(
        (steps) => (this.#steps.value = steps),
        desk.fail,
      );
    });
    scope.effect(() => render(this.#parts(), this.#root));
    scope.effect(() => this.#follow());
    scope.onEnd(() => this.#stop());
  }

  /** Goes to the stored step that is nearest. */
  go(step: number): void {
    const steps = this.#steps.peek();
    const models = this.#desk.engine.peek()?.models;
    if (!steps?.length || !models) return;
    const { shown } = this.#desk.state.peek();
    for (const text of shown) {
      const hub = checkpointOf(text);
      if (hub) this.#trust(hub.repository);
    }
    const near = nearestStep(steps, step);
    this.#desk.set({ shown: shownAt(models, shown, near, steps.at(-1)!) });
  }

  #index(): number {
    const steps = this.#steps.value ?? [];
    const step = stepOfShown(this.#desk.state.value.shown);
    // What is kept may not be known yet.
    if (step === undefined || !steps.length) return steps.length - 1;
    return steps.indexOf(nearestStep(steps, step));
  }

  /** Whether everything that is shown is drawn. */
  #isThere(): boolean {
    const entries = this.#desk.engine.value?.queue.entries.value;
    return this.#desk.state.value.shown.every((text) => {
      const entry = entries?.get(text);
      return entry?.frame && !entry.isStale;
    });
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#isPlaying.value = false;
  }

  #play(): void {
    if (this.#isPlaying.peek()) return this.#stop();
    const steps = this.#steps.peek()!;
    // From the end it begins anew.
    if (this.#index() >= steps.length - 1) this.go(steps[0]!);
    this.#isPlaying.value = true;
  }

  /** While it plays: what comes next is fetched, and shown a while after this one is drawn. */
  #follow(): void {
    const steps = this.#steps.value;
    const index = this.#index();
    clearTimeout(this.#timer);
    if (!this.#isPlaying.value || !steps) return;
    const entries = this.#desk.engine.value?.queue.entries.value;
    // Going on would fail again.
    const isFailed = this.#desk.state.value.shown.some((text) => entries?.get(text)?.error);
    if (index >= steps.length - 1 || isFailed) {
      this.#isPlaying.value = false;
      return;
    }
    if (!this.#isThere()) return;
    const next = steps[index + 1]!;
    void this.#preload(next);
    this.#timer = window.setTimeout(() => this.go(next), PLAY_MS);
  }

  async #preload(step: number): Promise<void> {
    const models = this.#desk.engine.peek()!.models;
    const own = this.#desk.state.peek().shown.flatMap((text) => parseSubject(text) ?? []);
    for (const subject of own.filter((one) => isOfZoo(models, one)))
      await (await models.timelines()).preload(subject.id, step);
  }

  #parts(): TemplateResult {
    const steps = this.#steps.value;
    if (!steps) return html`<p class="hint">Looking for the steps that are kept …</p>`;
    if (!steps.length)
      return html`<p class="hint">
        No checkpoints of what is shown are kept here.
        <button type="button" @click=${() => this.#desk.set({ shown: ['softmax', 'sigmoid'] })}>
          Show the twins
        </button>
      </p>`;
    const index = this.#index();
    const last = steps.length - 1;
    const step = steps[index]!;
    const all = steps[last]!.toLocaleString('en');
    const said =
      index === last ? `trained: all ${all} steps` : `step ${step.toLocaleString('en')} of ${all}`;
    const move = (event: Event) =>
      this.go(steps[Number((event.target as HTMLInputElement).value)]!);
    const button = (name: string, to: number, sign: string) =>
      html`<button
        type="button"
        aria-label=${name}
        ?disabled=${to < 0 || to > last}
        @click=${() => this.go(steps[to]!)}
      >
        ${sign}
      </button>`;
    return html`<div class="walk-buttons">
        <button type="button" class="walk-play primary" @click=${() => this.#play()}>
          ${this.#isPlaying.value ? 'Pause' : 'Play'}
        </button>
        ${button('Checkpoint before', index - 1, '◀')} ${button('Checkpoint after', index + 1, '▶')}
      </div>
      <label class="range"
        ><span>${said}${this.#isThere() ? '' : ' …'}</span>
        <input
          type="range"
          min="0"
          max=${last}
          .value=${live(String(index))}
          aria-label="Step of training"
          aria-valuetext=${said}
          @input=${move}
      /></label>`;
  }
}
