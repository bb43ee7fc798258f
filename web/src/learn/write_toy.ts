/**
 * <sink-write model="softmax" prompt="...">: the same model generates text with three KV caches. All of them draw from
 * the same random numbers, so the texts differ only because of the caches.
 */
import { html, render } from 'lit';
import {
  distinctShare,
  promptOf,
  continuePrompt,
  type Condition,
  type Continuation,
} from '../run/writing';
import { linesTable } from '../page/tables';
import { formatPercent } from './format';

const CONTEXT_LENGTH = 128;

const CACHES: readonly (Condition & { readonly name: string })[] = [
  { name: 'full', title: 'All keys', edits: () => [] },
  {
    name: 'last',
    title: 'The last 24 keys',
    edits: () => [{ kind: 'evict', policy: 'window', budget: 24 }],
  },
  {
    name: 'first',
    title: 'The first key and the last 23',
    edits: () => [{ kind: 'evict', policy: 'first', budget: 24, first: 1 }],
  },
];

const MAX_SEED = 999;

class SinkWrite extends HTMLElement {
  #prompt = '';
  /** The seed as the reader typed it. */
  #seed = '3';
  #isBusy = false;
  #problem = '';
  /** In the order of CACHES; empty before the first run. */
  #texts: readonly Continuation[] = [];
  /** The element draws into a child of its own, since the recorded texts inside it may not be parsed yet. */
  readonly #place = document.createElement('div');

  connectedCallback(): void {
    this.#prompt = this.getAttribute('prompt') ?? '';
    this.append(this.#place);
    this.#draw();
  }

  async write(seed: number): Promise<readonly Continuation[]> {
    const { borrowModels } = await import('../embed/live');
    const id = this.getAttribute('model') ?? '';
    const models = await borrowModels(this, [id]);
    const writer = await models.get(id, {
      signal: new AbortController().signal,
      onProgress: () => {},
    });
    const prompt = await promptOf(writer, this.#prompt, CONTEXT_LENGTH - 1);
    const count = CONTEXT_LENGTH - prompt.length;
    const texts: Continuation[] = [];
    for (const cache of CACHES)
      texts.push(await continuePrompt(writer, cache, { prompt, count, seed }));
    return texts;
  }

  async #start(): Promise<void> {
    const seed = this.#seed.trim() === '' ? NaN : Number(this.#seed);
    if (!(Number.isInteger(seed) && seed >= 0 && seed <= MAX_SEED)) {
      this.#problem = `Seed: expected a whole number from 0 to ${MAX_SEED}, found “${this.#seed}”.`;
      return this.#draw();
    }
    this.#isBusy = true;
    this.#problem = '';
    this.#draw();
    try {
      this.#texts = await this.write(seed);
      // Removes the recorded texts, which belong to the first prompt and seed.
      this.querySelector('.recorded')?.remove();
      this.dataset.seed = String(seed);
    } catch (error) {
      this.#problem = error instanceof Error ? error.message : String(error);
    }
    this.#isBusy = false;
    this.#draw();
  }

  #draw(): void {
    render(
      html`${
          this.#texts.length
            ? html`<div class="wide-table" tabindex="0" role="region" aria-label="Three texts">
                ${linesTable(
                  '',
                  '',
                  ['Cache', 'The model writes', 'Distinct tokens'],
                  this.#texts.map((continuation, i) => ({
                    title: CACHES[i]!.title,
                    cells: [continuation.text, formatPercent(distinctShare(continuation))],
                  })),
                )}
              </div>`
            : ''
        }
        <label class="write-prompt"
          >Begin with
          <textarea
            rows="2"
            .value=${this.#prompt}
            @input=${(event: Event) => (this.#prompt = (event.target as HTMLTextAreaElement).value)}
          ></textarea>
        </label>
        <p class="settings">
          <button type="button" ?disabled=${this.#isBusy} @click=${() => void this.#start()}>
            ${this.#isBusy ? 'Generating …' : 'Generate'}
          </button>
          <label
            >Seed
            <input
              type="number"
              min="0"
              max=${MAX_SEED}
              .value=${this.#seed}
              @input=${(event: Event) => (this.#seed = (event.target as HTMLInputElement).value)}
          /></label>
          <span role="status">${this.#problem}</span>
        </p>`,
      this.#place,
    );
  }

  disconnectedCallback(): void {
    void import('../embed/live').then(({ returnModels }) => returnModels(this));
  }
}

customElements.define('sink-write', SinkWrite);
