/** The header and the footer of the page. */
import { effect, signal, type ReadonlySignal } from '@preact/signals-core';
import { html, nothing, render } from 'lit';
import { linkTo, type State } from '../ask/state';
import { set, state } from './address';
import type { Engine } from './context';
import { choiceField } from './controls';
import type { Room } from './enter';
import { copyLink } from './share';
import { sources } from './sources';

const THEMES = [
  ['auto', 'Theme: system'],
  ['light', 'Theme: light'],
  ['dark', 'Theme: dark'],
] as const;

/** @param open opens the dialog for opening a model */
export function drawHeader(
  place: HTMLElement,
  rooms: readonly Pick<Room, 'name' | 'title'>[],
  open: () => void,
): void {
  effect(() => {
    const { room, theme, hide } = state.value;
    render(
      html`<a class="brand" tabindex="-1" href=${linkTo(state.value, { room: 'start', why: 0 })}
          >Sinkscope</a
        >
        <nav class="rooms" aria-label="Rooms">
          ${rooms.map(
            ({ name, title }) =>
              html`<a
                href=${linkTo(state.value, { room: name })}
                aria-current=${name === room ? 'page' : 'false'}
                tabindex=${name === room ? -1 : 0}
                >${title}</a
              >`,
          )}
        </nav>
        <div class="tools" ?hidden=${hide.includes('links')}>
          <button type="button" @click=${open}>Open a model</button>
          <button type="button" @click=${() => void copyLink()}>Share</button>
          ${choiceField('Theme', theme, THEMES, (value) => set({ theme: value as State['theme'] }))}
        </div>`,
      place,
    );
  });
}

export function drawFooter(place: HTMLElement, engine: ReadonlySignal<Engine | undefined>): void {
  const firstSinkMs = signal(0);
  new PerformanceObserver((list) => {
    const [mark] = list.getEntriesByName('first-sink');
    if (mark) firstSinkMs.value = mark.startTime;
  }).observe({ type: 'mark', buffered: true });
  effect(() => {
    const describe = engine.value?.models.describe;
    const entries = engine.value?.queue.entries.value;
    if (!describe) return;
    const [entry] = entries?.values() ?? [];
    const counters = [
      ...(firstSinkMs.value ? [`first sink after ${firstSinkMs.value.toFixed(0)} ms`] : []),
      ...(entry?.frame ? [`last run ${entry.frame.milliseconds.toFixed(0)} ms`] : []),
    ];
    render(
      html`<span
          >Sinkscope ${describe.version} · Your text and files stay on this machine; models download
          from Hugging Face only on request.</span
        >
        <details class="more">
          <summary>About</summary>
          <p>
            Sinkscope runs small language models in this page and measures their attention sinks.
            License: Apache-2.0. No server computes anything.
          </p>
          <div class="sources">${sources(describe.version)}</div>
          ${counters.length ? html`<p>This browser: ${counters.join(' · ')}.</p>` : nothing}
        </details>`,
      place,
    );
  });
}
