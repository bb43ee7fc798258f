/** `</>`: what to paste for the figure that is seen, with a live preview. */
import { signal, effect } from '@preact/signals-core';
import { html, render } from 'lit';
import { base } from '../base';
import { choices } from '../page/controls';
import type { Context } from '../page/context';
import { linkable, printHash, type State, CONTROLS } from '../ask/state';
import { titleOf } from '../views/index';
import { snippets } from './snippets';
import '../page/dialog.css';
import './dialog.css';

export function showEmbed(context: Context, view: string): void {
  const dialog = document.createElement('dialog');
  dialog.className = 'embed-dialog';
  dialog.setAttribute('aria-label', `Embed ${titleOf(view)}`);
  const kind = signal(0);
  const controls = signal<readonly string[]>([]);
  const state = (): State => ({ ...linkable(context.state.value), view, controls: controls.value });
  const toggle = (name: string) => {
    const now = controls.peek();
    controls.value = now.includes(name) ? now.filter((one) => one !== name) : [...now, name];
  };
  const copy = async (text: string) => {
    try {
      await navigator.clipboard.writeText(text);
      context.notify('Embed code copied.');
    } catch (error) {
      context.fail(error);
    }
  };
  const end = effect(() => {
    const text = snippets[kind.value]!.make(state(), base);
    render(
      html`<div class="embed-head">
          <h2>Embed: ${titleOf(view)}</h2>
          <button type="button" aria-label="Close" @click=${() => dialog.close()}>✕</button>
        </div>
        ${choices(
          'for',
          String(kind.value),
          snippets.map(({ label }, i) => [String(i), label] as const),
          (value) => (kind.value = Number(value)),
        )}
        <div class="numbers" role="group" aria-label="Controls of the embed">
          <span class="hint">show controls for</span>
          ${CONTROLS.map(
            (name) =>
              html`<label class="check"
                ><input
                  type="checkbox"
                  .checked=${controls.value.includes(name)}
                  @change=${() => toggle(name)}
                />
                ${name}</label
              > `,
          )}
        </div>
        <label class="text"
          ><span class="unseen">Code to paste</span
          ><textarea
            readonly
            rows="6"
            spellcheck="false"
            .value=${text}
            @focus=${(event: Event) => (event.target as HTMLTextAreaElement).select()}
          ></textarea>
        </label>
        <button type="button" class="primary" @click=${() => void copy(text)}>Copy</button>
        <iframe
          class="embed-preview"
          title="Preview"
          src=${new URL(`embed.html#${printHash(state())}&view=${view}`, base).href}
        ></iframe>`,
      dialog,
    );
  });
  dialog.addEventListener('close', () => {
    end();
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();
}
