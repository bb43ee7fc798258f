/** <sink-row columns="softmax sigmoid">: one row of attention over three tokens, with sliders (rows.ts). */
import { html, nothing, render } from 'lit';
import { saysOf, start, variants, type Row } from './rows';

const percent = (share: number) => `${(100 * share).toFixed(0)}%`;
const signed = (value: number) => value.toFixed(1).replace('-', '−');

/** What a reader sets beside the scores, for the columns that have it. */
const SETTINGS = [
  { name: 'logit', of: 'sink_logit', label: 'Sink logit s', min: -4, max: 4 },
  { name: 'bias', of: 'key_bias', label: 'Score b of the bias key', min: -4, max: 4 },
  { name: 'biasValue', of: 'key_bias', label: 'Value of the bias key', min: -1, max: 1 },
  { name: 'gate', of: 'gated', label: 'Gate g', min: 0, max: 1 },
] as const satisfies readonly {
  name: keyof Row;
  of: string;
  label: string;
  min: number;
  max: number;
}[];

class SinkRow extends HTMLElement {
  #row: Row = start;

  connectedCallback(): void {
    this.replaceChildren();
    this.#draw();
  }

  #draw(): void {
    const names = (this.getAttribute('columns') ?? '').split(/\s+/);
    const shown = variants.filter(({ name }) => names.includes(name));
    const all = shown.map(({ of }) => of(this.#row));
    const slider = (
      label: string,
      value: number,
      [min, max]: readonly [number, number],
      set: (value: number) => Partial<Row>,
    ) =>
      html`<input
          type="range"
          min=${min}
          max=${max}
          step="0.1"
          aria-label=${label}
          .value=${String(value)}
          @input=${(event: Event) => {
            const given = Number((event.target as HTMLInputElement).value);
            this.#row = { ...this.#row, ...set(given) };
            this.#draw();
          }}
        /><span class="slid">${signed(value)}</span>`;
    const bar = (share: number, isToken = true) =>
      html`<td>
        <span class=${isToken ? 'bar' : 'bar nowhere'} style="--share: ${Math.min(1, share)}"></span
        ><span>${percent(share)}</span>
      </td>`;
    const scoreOf = (i: number) => (value: number) => ({
      scores: this.#row.scores.map((old, at) => (at === i ? value : old)),
    });
    render(
      html`<div
          class="wide-table"
          tabindex="0"
          role="region"
          aria-label=${`One row of attention: ${shown.map(({ title }) => title).join(', ')}`}
        >
          <table>
            <thead>
              <tr>
                <th scope="col">Token</th>
                <th scope="col">Score x</th>
                ${shown.map(
                  ({ title, formula }) =>
                    html`<th scope="col">${title}<small>${formula}</small></th>`,
                )}
              </tr>
            </thead>
            <tbody>
              ${this.#row.scores.map(
                (score, i) =>
                  html`<tr>
                    <th scope="row">token ${i + 1}<small>value ${this.#row.values[i]}</small></th>
                    <td class="slides">
                      ${slider(`Score of token ${i + 1}`, score, [-6, 6], scoreOf(i))}
                    </td>
                    ${all.map(({ weights }) => bar(weights[i]!))}
                  </tr>`,
              )}
              <tr>
                <th scope="row">no token</th>
                <td></td>
                ${all.map(({ nowhere }) => (nowhere ? bar(nowhere, false) : html`<td>–</td>`))}
              </tr>
              <tr>
                <th scope="row">The head writes</th>
                <td></td>
                ${all.map(({ output }) => html`<td>${output.toFixed(2).replace('-', '−')}</td>`)}
              </tr>
            </tbody>
          </table>
        </div>
        <p class="settings">
          ${SETTINGS.filter(({ of }) => names.includes(of)).map(
            ({ name, label, min, max }) =>
              html`<span class="setting"
                >${label}
                ${slider(label, this.#row[name], [min, max], (value) => ({ [name]: value }))}</span
              >`,
          )}
          <button
            type="button"
            @click=${() => {
              this.#row = start;
              this.#draw();
            }}
          >
            Reset
          </button>
        </p>
        <p role="status">${saysOf(this.#row, names)}</p>
        ${nothing}`,
      this,
    );
  }
}

customElements.define('sink-row', SinkRow);
