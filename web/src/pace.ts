/**
 * When the sides run: at once, after a pause in the typing, or when a step of the training that is
 * being drawn is drawn.
 */
import type { Side } from './session';

/** Typing waits this long for the next key. */
const TYPING_MS = 120;
/** A step that is being drawn may take so long before the next one stops it. */
const STEP_MS = 600;

export interface PaceDesk {
  /** Others stand in the sides' place: they wait. */
  readonly isHeld: () => boolean;
  readonly isRunning: () => boolean;
  readonly run: (sides: readonly Side[]) => void;
}

/** What kind of change it is that the sides wait for. */
export interface Change {
  /** More of it may come at once. */
  readonly isTyping: boolean;
  readonly isStep: boolean;
}

export class Pace {
  readonly #desk: PaceDesk;
  /** Sides whose run the state has outdated. */
  readonly #waiting = new Set<Side>();
  #timer = 0;
  /** When the last runs were begun. */
  #begun = 0;
  /** A step is wanted while another one is drawn. */
  #stepWaits = false;

  constructor(desk: PaceDesk) {
    this.#desk = desk;
  }

  /** Whether a run will begin by itself. */
  get isPending(): boolean {
    return this.#timer !== 0;
  }

  get hasWaiting(): boolean {
    return this.#waiting.size > 0;
  }

  add(sides: Iterable<Side>): void {
    for (const side of sides) this.#waiting.add(side);
  }

  /**
   * Whoever drags through the steps sees those that can be drawn in time, for one that is nearly done
   * is not stopped by the next.
   */
  schedule({ isTyping, isStep }: Change = { isTyping: false, isStep: false }): void {
    this.#stepWaits = isStep && this.#desk.isRunning();
    const left = this.#begun + STEP_MS - performance.now();
    this.#after(this.#stepWaits ? Math.max(1, left) : isTyping ? TYPING_MS : 0);
  }

  /** Nothing runs any more. */
  idle(): void {
    if (this.#stepWaits) this.#after(0);
  }

  #after(pause: number): void {
    clearTimeout(this.#timer);
    this.#timer = 0;
    if (this.#desk.isHeld()) return;
    if (pause) this.#timer = window.setTimeout(() => this.#run(), pause);
    else this.#run();
  }

  #run(): void {
    this.#timer = 0;
    this.#stepWaits = false;
    this.#begun = performance.now();
    const sides = [...this.#waiting];
    this.#waiting.clear();
    this.#desk.run(sides);
  }
}
