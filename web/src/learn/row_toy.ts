/**
 * <sink-row switches="bias" bias="key" beside="softmax1">: one row of attention over three tokens (rows.ts), with the
 * named switches, sliders, and the resulting formula.
 */
import { html, render } from 'lit';
import {
  attend,
  fixed,
  forms,
  formulaOf,
  percent,
  rowWords,
  start,
  SWITCHES,
  type MathNode,
  type Row,
  type Switch,
} from './rows';

const signed = (value: number) => value.toFixed(1).replace('-', '−');

/** Values of the row that the reader sets with sliders, each with the switch that it belongs to. */
const SETTINGS = [
  { name: 's', of: ['bias', 'logit'], label: 'Sink logit s', min: -4, max: 4 },
  { name: 'k', of: ['bias', 'key'], label: 'Key k of the bias, with q = 1', min: -4, max: 4 },
  { name: 'v', of: ['bias', 'key'], label: 'Value v of the bias', min: -1, max: 1 },
  { name: 'g', of: ['gate', 'on'], label: 'Gate g', min: 0, max: 1 },
] as const;

const MATHML = 'http://www.w3.org/1998/Math/MathML';

function mathOf([tag, ...children]: MathNode): Element {
  const element = document.createElementNS(MATHML, tag);
  element.append(...children.map((one) => (typeof one === 'string' ? one : mathOf(one))));
  return element;
}

class SinkRow extends HTMLElement {
  #first: Row = start;
  #row: Row = start;

  connectedCallback(): void {
    const names = Object.keys(SWITCHES) as Switch[];
    const settings = names.flatMap((name) => {
      const value = this.getAttribute(name);
      return value && value in SWITCHES[name].values ? [[name, value]] : [];
    });
    this.#first = { ...start, ...(Object.fromEntries(settings) as Partial<Row>) };
    this.replaceChildren();
    this.#set(this.#first);
  }

  #set(row: Partial<Row>): void {
    this.#row = { ...this.#row, ...row };
    this.#draw();
  }

  #words(name: string): string[] {
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
      /><span class="slid">${signed(value)}</span>`;
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
    const shownForms = this.#words('beside').filter((name) => name in forms);
    const switches = this.#words('switches').join(', ');
    const description = `One row of attention${switches && `, with a choice of ${switches}`}`;
    const all = [row, ...shownForms.map((name) => ({ ...row, ...forms[name]!.set }))].map(attend);
    const bar = (share: number, isToken = true) =>
      html`<td>
        <span
          class=${isToken ? 'bar' : 'bar nowhere'}
          style="--share: ${Math.max(0, Math.min(1, share))}"
        ></span
        ><span>${percent(share)}</span>
      </td>`;
    const set = (i: number) => (value: number) =>
      this.#set({ scores: row.scores.map((old, at) => (at === i ? value : old)) });
    render(
      html`${this.#words('switches').map((name) => this.#switch(name as Switch))}
        <p class="row-formula" aria-live="off">
          ${formulaOf(row).map((one) => mathOf(['math', one]))}
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
                      ${this.#slider(`Score of token ${i + 1}`, score, -6, 6, set(i))}
                    </td>
                    ${all.map(({ weights }) => bar(weights[i]!))}
                  </tr>`,
              )}
              <tr>
                <th scope="row">no token</th>
                <td></td>
                ${all.map(({ extraWeight }) => (extraWeight ? bar(extraWeight, false) : html`<td>–</td>`))}
              </tr>
              <tr>
                <th scope="row">The head writes</th>
                <td></td>
                ${all.map(({ output }) => html`<td>${fixed(output)}</td>`)}
              </tr>
            </tbody>
          </table>
        </div>
        <p class="settings">
          ${SETTINGS.filter(({ of: [name, value] }) => row[name] === value).map(
            ({ name, label, min, max }) =>
              html`<span class="setting"
                >${label}
                ${this.#slider(label, row[name], min, max, (value) => this.#set({ [name]: value }))}</span
              >`,
          )}
          <button type="button" @click=${() => this.#set(this.#first)}>Reset</button>
        </p>
        <p role="status">${rowWords(row, shownForms)}</p>`,
      this,
    );
  }
}

customElements.define('sink-row', SinkRow);
