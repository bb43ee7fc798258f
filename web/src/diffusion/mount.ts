/**
 * The door to the unmasking view: it stands on the page where a side shows a model of masked
 * diffusion, and its code is fetched then.
 */
import type { Frame } from '../frame';
import { need, SIDES, type PerSide } from '../panels';
import type { Theme } from '../plot/color';
import type { State } from '../state';
import type { Panel, PanelDesk } from './panel';

export interface DoorDesk extends Omit<PanelDesk, 'models'> {
  /** Undefined until the engine runs. */
  readonly models: () => PanelDesk['models'] | undefined;
  /** The page is to be drawn again. */
  readonly changed: () => void;
}

export class UnmaskingView {
  readonly #desk: DoorDesk;
  readonly #section = document.createElement('section');
  #panel: Panel | undefined;
  /** Asked for once: what could not be fetched would fail again with every drawing. */
  #isFetched = false;

  /** Puts its place where other models show their next token. */
  constructor(desk: DoorDesk) {
    this.#desk = desk;
    this.#section.id = 'unmasking';
    this.#section.className = 'view';
    this.#section.hidden = true;
    this.#section.innerHTML = `<h2>Unmasking</h2><p class="how">Places after the text are hidden, and
      the model fills them in, a few in each step, those it is surest of first. Row: a step, column:
      a token, colour: the mean attention that it receives, outlined where it is largest. Of large
      models it is reported that this place moves from step to step
      (<a href="https://arxiv.org/abs/2510.15731">arXiv 2510.15731</a>).</p>`;
    need('views').insertBefore(this.#section, document.getElementById('next'));
  }

  /** The page's state and what its sides show, each time it is drawn. */
  update(state: State, theme: Theme, frames: PerSide<Frame>): void {
    const models = this.#desk.models();
    const frame = SIDES.flatMap((side) => frames[side] ?? []).find(isMasked);
    this.#section.hidden = !frame;
    if (!models || !frame) return this.#panel?.stop();
    void this.#load(models);
    this.#panel?.update(state, theme, frame);
  }

  async #load(models: PanelDesk['models']): Promise<void> {
    if (this.#isFetched) return;
    this.#isFetched = true;
    try {
      const { Panel } = await import('./panel');
      this.#panel = new Panel(this.#section, { ...this.#desk, models });
    } catch (error) {
      this.#desk.fail(error);
    }
    this.#desk.changed();
  }
}

function isMasked({ architecture: { mask, mask_token } }: Frame): boolean {
  return mask.kind === 'bidirectional' && mask_token !== null;
}
