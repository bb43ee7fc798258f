/** <sink-row switches="bias" bias="key" beside="softmax1">: one row of attention with switches and sliders (rows.ts). */
import { html, render } from 'lit';
import { formatFixed, formatPercent } from './format';
import {
  attend,
  defaultRow,
  forms,
  formulaOf,
  rowWords,
  SWITCHES,
  type MathNode,
  type Row,
  type Switch,
} from './rows';

const formatNumber = (value: number) => value.toFixed(1).replace('-', '−');

const SETTINGS = [
  { name: 's', neededBy: ['bias', 'logit'], label: 'Sink logit s', min: -4, max: 4 },
  { name: 'k', neededBy: ['bias', 'key'], label: 'Key k of the bias, with q = 1', min: -4, max: 4 },
  { name: 'v', neededBy: ['bias', 'key'], label: 'Value v of the bias', min: -1, max: 1 },
  { name: 'g', neededBy: ['gate', 'on'], label: 'Gate g', min: 0, max: 1 },
] as const;

const MATHML = 'http://www.w3.org/1998/Math/MathML';

function mathElement([tag, ...children]: MathNode): Element {
  const element = document.createElementNS(MATHML, tag);
  element.append(
    ...children.map((child) => (typeof child === 'string' ? child : mathElement(child))),
  );
  return element;
}

class SinkRow extends HTMLElement {
  #initialRow: Row = defaultRow;
  #row: Row = defaultRow;

  connectedCallback(): void {
    const names = Object.keys(SWITCHES) as Switch[];
    const settings = names.flatMap((name) => {
      const value = this.getAttribute(name);
      return value && value in SWITCHES[name].values ? [[name, value]] : [];
    });
    this.#initialRow = { ...defaultRow, ...(Object.fromEntries(settings) as Partial<Row>) };
    this.replaceChildren();
    this.#set(this.#initialRow);
  }

  #set(row: Partial<Row>): void {
    this.#row = { ...this.#row, ...row };
    this.#draw();
  }

  #attributeWords(name: string): string[] {
    return (this.getAttribute(name) ?? '').split(/\s+/).filter(Boolean);
  }

  #slider(label: string, value: number, low: number, high: number, set: (value: number) => void) {
    return html`<input
        type="range"
        min=${low}
        max=${high}
        step="0.1"
        aria-label=${label}
        .value=${String(value)}
        @input=${(event: Event) => set(Number((event.target as HTMLInputElement).value))}
      /><span class="slid">${formatNumber(value)}</span>`;
  }

  #switch(name: Switch) {
    const { label, values } = SWITCHES[name];
    return html`<div class="switch" role="group" aria-label=${label}>
      <span>${label}</span>
      ${Object.entries(values).map(
        ([value, words]) =>
          html`<button
            type="button"
            aria-pressed=${String(this.#row[name] === value)}
            @click=${() => this.#set({ [name]: value })}
          >
            ${words}
          </button>`,
      )}
    </div>`;
  }

  #draw(): void {
    const row = this.#row;
    const shownForms = this.#attributeWords('beside').filter((name) => name in forms);
    const switches = this.#attributeWords('switches').join(', ');
    const description = `One row of attention${switches && `, with a choice of ${switches}`}`;
    const results = [row, ...shownForms.map((name) => ({ ...row, ...forms[name]!.settings }))].map(
      attend,
    );
    const bar = (share: number, isToken = true) =>
      html`<td>
        <span
          class=${isToken ? 'bar' : 'bar nowhere'}
          style="--share: ${Math.max(0, Math.min(1, share))}"
        ></span
        ><span>${formatPercent(share)}</span>
      </td>`;
    const setScore = (i: number) => (value: number) =>
      this.#set({ scores: row.scores.map((old, at) => (at === i ? value : old)) });
    render(
      html`${this.#attributeWords('switches').map((name) => this.#switch(name as Switch))}
        <p class="row-formula" aria-live="off">
          ${formulaOf(row).map((formula) => mathElement(['math', formula]))}
        </p>
        <div class="wide-table" tabindex="0" role="region" aria-label=${description}>
          <table>
            <thead>
              <tr>
                <th scope="col">Token</th>
                <th scope="col">Score x</th>
                <th scope="col">This formula</th>
                ${shownForms.map((name) => html`<th scope="col">${forms[name]!.title}</th>`)}
              </tr>
            </thead>
            <tbody>
              ${row.scores.map(
                (score, i) =>
                  html`<tr>
                    <th scope="row">token ${i + 1}<small>value ${row.values[i]}</small></th>
                    <td class="slides">
                      ${this.#slider(`Score of token ${i + 1}`, score, -6, 6, setScore(i))}
                    </td>
                    ${results.map(({ weights }) => bar(weights[i]!))}
                  </tr>`,
              )}
              <tr>
                <th scope="row">no token</th>
                <td></td>
                ${results.map(({ extraWeight }) => (extraWeight ? bar(extraWeight, false) : html`<td>–</td>`))}
              </tr>
              <tr>
                <th scope="row">The head writes</th>
                <td></td>
                ${results.map(({ output }) => html`<td>${formatFixed(output)}</td>`)}
              </tr>
            </tbody>
          </table>
        </div>
        <p class="settings">
          ${SETTINGS.filter(({ neededBy: [name, value] }) => row[name] === value).map(
            ({ name, label, min, max }) =>
              html`<span class="setting"
                >${label}
                ${this.#slider(label, row[name], min, max, (value) => this.#set({ [name]: value }))}</span
              >`,
          )}
          <button type="button" @click=${() => this.#set(this.#initialRow)}>Reset</button>
        </p>
        <p role="status">${rowWords(row, shownForms)}</p>`,
      this,
    );
  }
}

customElements.define('sink-row', SinkRow);
