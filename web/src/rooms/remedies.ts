/**
 * Renders the remedies of production models for their sinks, below the table of Compare; lesson 5 has the same rows.
 */
import { html, nothing, type TemplateResult } from 'lit';
import type { Context } from '../page/context';
import { tableRegion } from '../page/room_controls';
import type { Card } from '../ask/zoo';
import {
  COMPARE_LABEL,
  COLUMN_TITLES,
  hubAddress,
  RECORDER_WORDS,
  OPEN_LABEL,
  REMEDIES,
  twinWords,
} from '../remedies';

export function remediesTable(cards: readonly Card[], link: Context['link']): TemplateResult {
  return html`${tableRegion(
      'Production models, a table',
      html`<table class="remedies">
        <thead>
          <tr>
            ${COLUMN_TITLES.map((title) => html`<th scope="col">${title}</th>`)}
          </tr>
        </thead>
        ${REMEDIES.map(
          (remedy) =>
            html`<tbody>
              <tr>
                <th scope="rowgroup" colspan=${COLUMN_TITLES.length}>
                  <strong>${remedy.title}</strong>
                  <code>${remedy.formula}</code>
                  <span class="row-class"
                    ><a href=${link({ shown: ['softmax', remedy.twin] })}>${COMPARE_LABEL}</a>.
                    ${twinWords(remedy, cards)}</span
                  >
                </th>
              </tr>
              ${remedy.families.map(
                ({ name, where, checkpoint, opens, source }) =>
                  html`<tr>
                    <th scope="row">${name}<span class="row-class">${where}</span></th>
                    <td>
                      ${
                        typeof checkpoint === 'string'
                          ? html`<a href=${hubAddress(checkpoint)}>${checkpoint}</a
                              >${opens ? html` (<a href=${link({ shown: [`hub:${checkpoint}`] })}>${OPEN_LABEL}</a>)` : nothing}`
                          : html`– (${checkpoint.none})`
                      }
                    </td>
                    <td><a href=${source.url}>${source.title}</a></td>
                  </tr>`,
              )}
            </tbody>`,
        )}
      </table>`,
    )}
    <p class="hint">
      ${RECORDER_WORDS.before}<code>${RECORDER_WORDS.command}</code>${RECORDER_WORDS.after}
    </p>`;
}
