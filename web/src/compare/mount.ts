/** The door to the comparison: its code is fetched when a reader first wants it. */
import type { Theme } from '../plot/color';
import type { State } from '../state';
import type { Compare, CompareDesk } from './compare';

export interface DoorDesk extends Omit<CompareDesk, 'session' | 'zoo'> {
  /** Undefined until the engine runs. */
  readonly parts: () => Pick<CompareDesk, 'session' | 'zoo'> | undefined;
  readonly fail: (error: unknown) => void;
  /** The page is to be drawn again. */
  readonly changed: () => void;
}

export class Comparing {
  readonly #desk: DoorDesk;
  #compare: Compare | undefined;
  /** Asked for once: what could not be fetched would fail again with every drawing. */
  #isFetched = false;

  constructor(desk: DoorDesk) {
    this.#desk = desk;
  }

  /** The page's state, each time the page is drawn. */
  update(state: State, theme: Theme): void {
    const isOn = state.compare.length > 0;
    document.body.classList.toggle('comparing', isOn);
    if (isOn && !this.#compare) void this.#load();
    this.#compare?.update(state, theme);
  }

  /** A model was opened while the comparison stands: it is one of it. */
  add(state: State, id: string): Partial<State> {
    const { compare } = state;
    this.#compare?.retry();
    return { compare: compare.includes(id) ? compare : [...compare, id] };
  }

  async #load(): Promise<void> {
    const parts = this.#desk.parts();
    if (this.#isFetched || !parts) return;
    this.#isFetched = true;
    try {
      const { Compare } = await import('./compare');
      this.#compare = new Compare(document.querySelector('.desk')!, { ...this.#desk, ...parts });
    } catch (error) {
      this.#desk.fail(error);
    }
    this.#desk.changed();
  }
}
