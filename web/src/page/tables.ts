/** Tables that several rooms draw, and cells with a number over a bar. */
import { html, nothing, type TemplateResult } from 'lit';
import { SMALL_SHARE } from '../words';

/** `share` is the length of the bar behind the text, as a share of the cell. */
export const barCell = (share: number, text: unknown): TemplateResult =>
  html`<td class="bar" style=${`--share: ${share < SMALL_SHARE ? 0 : Math.min(1, share)}`}>
    ${text}
  </td>`;

/** Draws a few numbers, each on a line of its own. The last line is about the first token, so its style differs. */
export const barsTable = (
  caption: unknown,
  lines: readonly {
    readonly title: string;
    readonly share: number;
    readonly text: string;
  }[],
): TemplateResult =>
  html`<table class="bars">
    <caption>
      ${caption}
    </caption>
    ${lines.map(
      ({ title, share, text }) =>
        html`<tr>
          <th scope="row">${title}</th>
          ${barCell(share, text)}
        </tr>`,
    )}
  </table>`;

/** Draws a table in which each line has a title, which is its first cell. @param caption a text; '' for none */
export const linesTable = (
  name: string,
  caption: unknown,
  columns: readonly string[],
  lines: readonly { readonly title: unknown; readonly cells: readonly unknown[] }[],
): TemplateResult =>
  html`<table class=${name}>
    ${
      caption
        ? html`<caption>
            ${caption}
          </caption>`
        : nothing
    }
    <thead>
      <tr>
        ${columns.map((column) => html`<th scope="col">${column}</th> `)}
      </tr>
    </thead>
    <tbody>
      ${lines.map(
        ({ title, cells }) =>
          html`<tr>
            <th scope="row">${title}</th>
            ${cells.map((cell) => html`<td>${cell}</td> `)}
          </tr>`,
      )}
    </tbody>
  </table>`;
