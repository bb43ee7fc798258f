/** Chooses the row that views of a single query show: the selected one, or the one in the middle. */
import { html, type TemplateResult } from 'lit';
import { live } from 'lit/directives/live.js';
import type { State } from '../ask/state';
import { firstKey, type Frame } from '../frame';
import { quote, word } from '../words';

/**
 * Returns a query that sees the first token and another one.
 * @param selected the selected query; -1: none
 */
export function shownQuery(frame: Frame, selected: number): number {
  const last = frame.T - 1;
  const query = selected < 0 ? Math.floor(last / 2) : selected;
  return Math.max(firstKey(frame) + 1, Math.min(query, last));
}

/** Returns the slider that selects the row. */
export function queryRange(
  frame: Frame,
  { query: selected }: Pick<State, 'query'>,
  set: (change: Partial<State>) => void,
  name = 'Query',
): TemplateResult {
  const query = shownQuery(frame, selected);
  return html`<label class="range query-range"
    ><span>${name} of token ${query}: ${quote(frame, query)}</span>
    <input
      type="range"
      min=${firstKey(frame) + 1}
      max=${frame.T - 1}
      .value=${live(String(query))}
      aria-valuetext=${`${name.toLowerCase()} of token ${query}, ${word(frame.tokens[query]!.text)}`}
      @input=${(event: Event) => set({ query: Number((event.target as HTMLInputElement).value) })}
  /></label>`;
}
