/** Generation of tokens on both sides at once; the views follow each token. */
import type { Frame } from './frame';
import { SIDES, type PerSide } from './panels';
import type { Session, Side } from './session';
import type { State } from './state';

/** Tokens that one press of the button adds. */
const COUNT = 16;

export interface Surroundings {
  readonly session: () => Session | undefined;
  readonly frames: PerSide<Frame>;
  readonly changed: () => void;
  readonly failed: (side: Side, error: unknown) => void;
}

export class Generation {
  readonly #around: Surroundings;
  #job: AbortController | undefined;

  constructor(around: Surroundings) {
    this.#around = around;
  }

  get isRunning(): boolean {
    return this.#job !== undefined;
  }

  stop(): void {
    this.#job?.abort();
  }

  /** Begins, or stops what has begun; done when both sides are. */
  async toggle(state: State): Promise<void> {
    if (this.#job) return this.stop();
    const job = new AbortController();
    this.#job = job;
    this.#around.changed();
    await Promise.all(SIDES.map((side) => this.#side(side, state, job.signal)));
    this.#job = undefined;
    this.#around.changed();
  }

  async #side(side: Side, state: State, signal: AbortSignal): Promise<void> {
    const { session, frames, changed, failed } = this.#around;
    const frame = frames[side];
    const source = session();
    if (!frame || !source) return;
    try {
      for await (const next of source.generate(side, frame, state, COUNT, signal)) {
        if (signal.aborted) return;
        frames[side] = next;
        changed();
      }
    } catch (error) {
      if (!signal.aborted) failed(side, error);
    }
  }
}
