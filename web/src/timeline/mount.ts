/**
 * The door to the training view: its code and numbers are fetched when the reader comes near it, or
 * when a link names a step.
 */
import type { Frame } from '../frame';
import { need, SIDES, type PerSide } from '../panels';
import type { State } from '../state';
import type { Panel, PanelDesk } from './panel';

export interface DoorDesk extends Omit<PanelDesk, 'models'> {
  /** Undefined until the engine runs. */
  readonly models: () => PanelDesk['models'] | undefined;
  /** The page is to be drawn again. */
  readonly changed: () => void;
}

/** How near is near, in pixels. */
const NEAR = '40px';

export class TrainingView {
  readonly #desk: DoorDesk;
  readonly #section = document.createElement('section');
  readonly #near: IntersectionObserver;
  #panel: Panel | undefined;
  #isNear = false;
  /** Asked for once: what could not be fetched would fail again with every drawing. */
  #isFetched = false;

  /** Puts its place behind the sink map, which it is about. */
  constructor(desk: DoorDesk) {
    this.#desk = desk;
    this.#section.id = 'training';
    this.#section.className = 'view waiting';
    this.#section.hidden = true;
    this.#section.innerHTML = `<h2>Training</h2><p class="how">The runs of models trained here, step
      by step. Move the slider: every view shows the model as it was then, on both sides at once.
      Watch the sink of the softmax twin emerge, and none in its sigmoid twin.</p>`;
    need('sinks').after(this.#section);
    this.#near = new IntersectionObserver(
      ([{ isIntersecting }]) => {
        this.#isNear = isIntersecting;
        if (isIntersecting) desk.changed();
      },
      { rootMargin: NEAR },
    );
  }

  /** The page's state and what its sides show, each time it is drawn. */
  update(state: State, frames: PerSide<Frame>): void {
    const models = this.#desk.models();
    // The first picture of the page is not to wait for this.
    const isDrawn = SIDES.every((side) => !state[side] || frames[side]);
    if (!models?.hasTimelines || !isDrawn) return;
    if (this.#section.hidden) {
      this.#section.hidden = false;
      this.#section.style.setProperty('--runs', String(models.timelineCount));
      this.#near.observe(this.#section);
    }
    if (this.#isNear || state.step >= 0) void this.#load(models);
    this.#panel?.update(state, frames);
  }

  /** A run failed. */
  halt(): void {
    this.#panel?.halt();
  }

  async #load(models: PanelDesk['models']): Promise<void> {
    if (this.#isFetched) return;
    this.#isFetched = true;
    this.#near.disconnect();
    try {
      const [{ Panel }, timelines] = await Promise.all([import('./panel'), models.timelines()]);
      this.#panel = new Panel(this.#section, timelines, { ...this.#desk, models });
    } catch (error) {
      this.#desk.fail(error);
    }
    this.#desk.changed();
  }
}
