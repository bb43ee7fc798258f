/** Numbers over bars, in cells of tables. */
import { html, type TemplateResult } from 'lit';

/** @param share the length of the bar behind the text, as a share of the cell */
export const barCell = (share: number, text: string): TemplateResult =>
  html`<td class="bar" style=${`--share: ${Math.max(0, Math.min(1, share))}`}>${text}</td>`;

/** Draws a few numbers, each on a line of its own. The last line is that of the first token. */
export const barsTable = (
  caption: unknown,
  lines: readonly { readonly title: string; readonly share: number; readonly text: string }[],
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
