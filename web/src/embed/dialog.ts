/** The dialog `</>`: the code to paste for the shown figure, with a live preview. */
import { signal, effect } from '@preact/signals-core';
import { html, render, type TemplateResult } from 'lit';
import { createRef, ref } from 'lit/directives/ref.js';
import { base } from '../base';
import { choiceField } from '../page/controls';
import type { Context } from '../page/context';
import { linkableState, type State, CONTROLS } from '../ask/state';
import { titleOf } from '../views/index';
import { embedHash, snippets, type Size } from './snippets';
import '../page/dialog.css';
import './dialog.css';

const SIZES: readonly (readonly [string, Size])[] = [
  ['as wide as the text', { height: 520 }],
  ['360 × 300', { width: 360, height: 300 }],
  ['480 × 360', { width: 480, height: 360 }],
  ['852 × 520', { width: 852, height: 520 }],
];

const THEMES = [
  ['auto', 'the reader’s'],
  ['light', 'light'],
  ['dark', 'dark'],
] as const;

/** What the reader has chosen in the dialog. */
class Choices {
  readonly snippetIndex = signal(0);
  readonly sizeIndex = signal(0);
  readonly controls = signal<readonly string[]>([]);
  readonly theme = signal<State['theme']>('auto');
  readonly #shownState: State;

  constructor(shownState: State) {
    this.#shownState = shownState;
  }

  get state(): State {
    return { ...this.#shownState, controls: this.controls.value, theme: this.theme.value };
  }

  get size(): Size {
    return SIZES[this.sizeIndex.value]![1];
  }

  get address(): string {
    return new URL(`embed.html${embedHash(this.state)}`, base).href;
  }

  toggle(name: string): void {
    const otherNames = this.controls.peek().filter((other) => other !== name);
    this.controls.value = this.controls.peek().includes(name) ? otherNames : [...otherNames, name];
  }
}

async function copy(text: string, context: Context): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    context.notify('Embed code copied.');
  } catch (error) {
    context.fail(error);
  }
}

function choiceFields({ snippetIndex, sizeIndex, theme }: Choices): TemplateResult {
  return html`<div class="numbers">
    ${choiceField(
      'for',
      String(snippetIndex.value),
      snippets.map(({ label }, i) => [String(i), label] as const),
      (value) => (snippetIndex.value = Number(value)),
    )}
    ${choiceField('theme', theme.value, THEMES, (value) => {
      theme.value = value as State['theme'];
    })}
    ${choiceField(
      'size',
      String(sizeIndex.value),
      SIZES.map(([label], i) => [String(i), label] as const),
      (value) => (sizeIndex.value = Number(value)),
    )}
  </div>`;
}

const controlFields = (choices: Choices) =>
  html`<div class="numbers" role="group" aria-label="Controls of the embed">
    <span class="hint">show controls for</span>
    ${CONTROLS.map(
      (name) =>
        html`<label class="check"
          ><input
            type="checkbox"
            .checked=${choices.controls.value.includes(name)}
            @change=${() => choices.toggle(name)}
          />
          ${name}</label
        > `,
    )}
  </div>`;

const codeField = (text: string) =>
  html`<label class="text"
    ><span class="unseen">Code to paste</span
    ><textarea
      readonly
      rows="6"
      spellcheck="false"
      .value=${text}
      @focus=${(event: Event) => (event.target as HTMLTextAreaElement).select()}
    ></textarea>
  </label>`;

/** @param pinned the head that the figure shows, if the state does not name one */
export function showEmbed(context: Context, view: string, pinned: Partial<State>): void {
  const dialog = document.createElement('dialog');
  dialog.className = 'embed-dialog';
  dialog.setAttribute('aria-label', `Embed ${titleOf(view)}`);
  const choices = new Choices({ ...linkableState({ ...context.state.peek(), ...pinned }), view });
  const preview = createRef<HTMLIFrameElement>();
  const firstAddress = choices.address;
  const endEffect = effect(() => {
    const { size, state, address } = choices;
    const text = snippets[choices.snippetIndex.value]!.make(state, base, size);
    render(
      html`<div class="embed-head">
          <h2>Embed: ${titleOf(view)}</h2>
          <button type="button" aria-label="Close" @click=${() => dialog.close()}>✕</button>
        </div>
        ${choiceFields(choices)} ${controlFields(choices)} ${codeField(text)}
        <button type="button" class="primary" @click=${() => void copy(text, context)}>Copy</button>
        <iframe
          ${ref(preview)}
          class="embed-preview"
          title="Preview"
          src=${firstAddress}
        ></iframe>`,
      dialog,
    );
    Object.assign(preview.value!.style, {
      width: size.width ? `${size.width}px` : 'calc(100% - 2px)',
      height: `${size.height}px`,
    });
    // Keeps the frame, which reads its new hash; location.replace adds no step to the reader's history.
    if (preview.value!.dataset.address) preview.value!.contentWindow!.location.replace(address);
    preview.value!.dataset.address = address;
  });
  dialog.addEventListener('close', () => {
    endEffect();
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();
}
