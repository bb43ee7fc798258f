/**
 * <sink-write model="softmax" prompt="...">: the same model writes on with three KV caches. All of them draw
 * from the same random numbers, so the texts differ by what the caches hold.
 */
import { html, render } from 'lit';

/** The model's context ends the text. */
const LENGTH = 128;
const SAMPLING = { temperature: 0.6, topK: 40 };

const CACHES = [
  { name: 'full', title: 'All keys', edits: [] },
  {
    name: 'last',
    title: 'The last 24 keys',
    edits: [{ kind: 'evict', policy: 'window', budget: 24 }],
  },
  {
    name: 'first',
    title: 'The first key and the last 23',
    edits: [{ kind: 'evict', policy: 'first', budget: 24, first: 1 }],
  },
] as const;

interface Written {
  readonly text: string;
  readonly tokens: readonly number[];
}

/** Distinct tokens as a share of all: a text that repeats itself has few. */
const distinct = ({ tokens }: Written) => new Set(tokens).size / tokens.length;
const percent = (share: number) => `${(100 * share).toFixed(0)}%`;

export class SinkWrite extends HTMLElement {
  #prompt = '';
  #seed = 3;
  #isBusy = false;
  #problem = '';
  readonly #written = new Map<string, Written>();

  connectedCallback(): void {
    this.#prompt = this.getAttribute('prompt') ?? '';
    // What the build wrote stays until the reader lets the model write.
    const place = document.createElement('div');
    this.append(place);
    this.#draw();
  }

  /** Lets the model write with every cache. @param seed of the draws */
  async write(seed: number): Promise<readonly Written[]> {
    const { borrowModels } = await import('../embed/live');
    const id = this.getAttribute('model') ?? '';
    const models = await borrowModels(this, [id]);
    const { model, tokenizer } = await models.get(id, {
      signal: new AbortController().signal,
      onProgress: () => {},
    });
    const ids = (await tokenizer.encode(this.#prompt, { special: 'auto' })).map((one) => one.id);
    const all: Written[] = [];
    for (const { edits } of CACHES) {
      const run = await model.run(ids.slice(0, LENGTH - 1), {
        edits: [...edits],
        capacity: LENGTH,
        fields: [],
      });
      const tokens: number[] = [];
      const count = Math.max(1, LENGTH - ids.length);
      for await (const { token } of run.generate({ count, ...SAMPLING, seed })) tokens.push(token);
      await run.close();
      all.push({ text: tokens.map((token) => tokenizer.piece(token)).join(''), tokens });
    }
    return all;
  }

  async #start(): Promise<void> {
    this.#isBusy = true;
    this.#problem = '';
    this.#draw();
    try {
      const all = await this.write(this.#seed);
      CACHES.forEach(({ name }, i) => this.#written.set(name, all[i]!));
      // The recorded texts are of the first prompt and seed.
      this.querySelector('.recorded')?.remove();
      this.dataset.seed = String(this.#seed);
    } catch (error) {
      this.#problem = error instanceof Error ? error.message : String(error);
    }
    this.#isBusy = false;
    this.#draw();
  }

  #draw(): void {
    render(
      html`${
          this.#written.size
            ? html`<div class="wide-table" tabindex="0" role="region" aria-label="Three texts">
                <table>
                  <thead>
                    <tr>
                      <th scope="col">Cache</th>
                      <th scope="col">The model writes</th>
                      <th scope="col">Distinct tokens</th>
                    </tr>
                  </thead>
                  <tbody>
                    ${CACHES.map(({ name, title }) => {
                      const written = this.#written.get(name)!;
                      return html`<tr>
                        <th scope="row">${title}</th>
                        <td>${written.text}</td>
                        <td>${percent(distinct(written))}</td>
                      </tr>`;
                    })}
                  </tbody>
                </table>
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
              max="999"
              .value=${String(this.#seed)}
              @input=${(event: Event) =>
                (this.#seed = Number((event.target as HTMLInputElement).value) || 0)}
          /></label>
          <span role="status">${this.#problem}</span>
        </p>`,
      this.lastElementChild as HTMLElement,
    );
  }

  disconnectedCallback(): void {
    void import('../embed/live').then(({ returnModels }) => returnModels(this));
  }
}

customElements.define('sink-write', SinkWrite);
