/** Selects the query of views that show a single query: the reader's, or one in the middle. */
import { html, type TemplateResult } from 'lit';
import { live } from 'lit/directives/live.js';
import type { State } from '../ask/state';
import { firstKey, type Frame } from '../frame';
import { quote, tokenWord } from '../words';

/** Returns the selected query, moved to one that sees the first token and another key. */
export function shownQuery(frame: Frame, selected: number): number {
  const lastQuery = frame.T - 1;
  const query = selected < 0 ? Math.floor(lastQuery / 2) : selected;
  return Math.max(firstKey(frame) + 1, Math.min(query, lastQuery));
}

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
      aria-valuetext=${`${name.toLowerCase()} of token ${query}, ${tokenWord(frame.tokens[query]!.text)}`}
      @input=${(event: Event) => set({ query: Number((event.target as HTMLInputElement).value) })}
  /></label>`;
}
