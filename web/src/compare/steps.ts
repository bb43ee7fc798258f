/** Steps of a training, offered as picks: the models that have checkpoints, and the steps of one. */
import { html, nothing, type TemplateResult } from 'lit';
import type { Models } from '../models';
import { MOST, printPick, toggled, type Pick } from './picks';

interface Offer {
  readonly models: readonly { readonly id: string; readonly title: string }[];
  readonly chosen: string;
  /** By rising steps. */
  readonly steps: readonly number[];
}

const valueOf = (event: Event) => (event.target as HTMLSelectElement).value;

export class StepOffer {
  readonly #models: Models;
  readonly #changed: () => void;
  readonly #fail: (error: unknown) => void;
  #offer: Offer | undefined;
  #isAsked = false;

  constructor(models: Models, changed: () => void, fail: (error: unknown) => void) {
    this.#models = models;
    this.#changed = changed;
    this.#fail = fail;
  }

  /** Adds a model at a step of its training; what there is to offer is fetched with the first drawing. */
  form(
    picks: ReadonlyMap<string, Pick>,
    pick: (texts: readonly string[]) => void,
  ): TemplateResult | typeof nothing {
    if (!this.#models.hasTimelines) return nothing;
    if (!this.#isAsked) void this.#load();
    if (!this.#offer) return nothing;
    const { models, chosen, steps } = this.#offer;
    const submit = (event: Event) => {
      event.preventDefault();
      const step = Number(new FormData(event.target as HTMLFormElement).get('step'));
      const text = printPick({ kind: 'step', id: chosen, step });
      if (!picks.has(text)) pick(toggled([...picks.keys()], text));
    };
    return html`<form class="pick-step" @submit=${submit}>
      <label class="field"
        ><span>Checkpoint of</span>
        <select name="model" @change=${(event: Event) => void this.#load(valueOf(event))}>
          ${models.map(
            ({ id, title }) =>
              html`<option value=${id} ?selected=${id === chosen}>${title}</option>`,
          )}
        </select></label
      >
      <label class="field"
        ><span>at step</span>
        <select name="step">
          ${steps.map((step) => html`<option value=${step}>${step.toLocaleString('en')}</option>`)}
        </select></label
      >
      <button type="submit" ?disabled=${picks.size >= MOST}>Add step</button>
    </form>`;
  }

  async #load(wanted?: string): Promise<void> {
    this.#isAsked = true;
    try {
      const timelines = await this.#models.timelines();
      const models = timelines.cards;
      const chosen = wanted ?? models[0].id;
      this.#offer = { models, chosen, steps: await timelines.steps(chosen) };
    } catch (error) {
      this.#fail(error);
    }
    this.#changed();
  }
}
