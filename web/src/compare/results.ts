/** What was found, in words and numbers: the sentence, what differs, the table. */
import { html, nothing, type TemplateResult } from 'lit';
import { shown as allows } from '../controls';
import type { State } from '../state';
import { CORPORA } from '../study/corpus';
import { firstWords } from '../words';
import { differenceLine, differencesOf, placeWords, type Differences } from './differs';
import { finding } from './finding';
import type { Shown } from './multiples';
import { metricsTable, type TableParts } from './table';

type Letters = Readonly<Record<string, string>>;

export interface ResultParts extends TableParts {
  readonly state: State;
  readonly letters: Letters;
  /** How a model of the zoo was trained. */
  readonly trainingOf: (id: string) => object | undefined;
}

export function results(parts: ResultParts): TemplateResult | typeof nothing {
  const { shown, state } = parts;
  if (!shown.length) return nothing;
  const fresh = shown.filter(({ isStale }) => !isStale).map(({ column }) => column);
  const vocabularies = new Set(shown.map(({ column }) => column.architecture.V));
  return html`<p class="compare-finding" role="status" ?hidden=${!allows(state, 'finding')}>
      ${finding(fresh)}
    </p>
    ${shown.length > 1 ? differs(parts) : nothing} ${metricsTable(parts, caption(parts))}
    <p class="hint">
      ± is the standard deviation over the prompts. * marks shares of rows that need not sum to 1:
      read them beside the row mass.
      ${vocabularies.size > 1 ? 'Losses of models with other vocabularies count other tokens.' : ''}
    </p>`;
}

function caption({ shown, state }: ResultParts): string {
  const { corpus, T, eps } = state;
  const firsts = [...new Set(shown.map(({ column }) => firstWords(column)))];
  const isStale = shown.some((one) => one.isStale);
  const stale = isStale ? ' Rows in grey are of the question before.' : '';
  return `ε = ${eps} · T = ${T} · ${firsts.join(' / ')} · ${CORPORA[corpus]}.${stale}`;
}

/**
 * What differs: out of the descriptions of the architectures, how the models were trained where that
 * is known of all of them, and what was put in at inference.
 */
function differs({ shown, letters, trainingOf }: ResultParts): TemplateResult {
  const trainings = shown.map(({ column: { pick } }) => {
    const training = trainingOf(pick.id);
    return training && pick.kind === 'step' ? { ...training, steps: pick.step } : training;
  });
  const areKnown = !trainings.includes(undefined);
  const found = differencesOf(
    shown.map(({ column }, i) => ({
      ...column.architecture,
      ...(areKnown ? { training: trainings[i] } : {}),
      ...(column.edits.length ? { put_in_at_inference: column.operation.label } : {}),
    })),
  );
  // Two stand in a line; more need columns.
  const isTable = shown.length > 2 && found.differences.length > 0;
  return html`<div class="differs">
    <h3>What differs</h3>
    ${
      isTable
        ? html`${differsTable(shown, found, letters)}
            <p class="hint">Alike in the other ${found.alike} entries of the descriptions.</p>`
        : html`<p>${differenceLine(found, letters)}</p>`
    }
  </div>`;
}

function differsTable(
  shown: readonly Shown[],
  { differences }: Differences,
  letters: Letters,
): TemplateResult {
  return html`<div
    class="table-place"
    tabindex="0"
    role="region"
    aria-label="What differs, a table"
  >
    <table>
      <thead>
        <tr>
          <td></td>
          ${shown.map(({ column }) => html`<th scope="col">${column.title}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${differences.map(
          ({ path, values }) =>
            html`<tr>
              <th scope="row">${placeWords(path, letters)}</th>
              ${values.map((value) => html`<td>${value ?? '–'}</td>`)}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}
