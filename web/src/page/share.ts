/** A link to the page in its state, and what such a link cannot carry. */
import { effect, signal } from '@preact/signals-core';
import { html, nothing, render } from 'lit';
import { fingerprintOf, isOfDisk, nameOfId } from '../ask/ids';
import { linkable, printHash } from '../ask/state';
import { parseSubject } from '../ask/subject';
import { absolute, address, state } from './address';
import type { Context } from './context';
import { nameOf } from './controls';
import { notify } from './messages';
import { part } from './view';

async function copied(text: string): Promise<string> {
  try {
    await navigator.clipboard.writeText(text);
    return 'Link copied.';
  } catch {
    return `Copy this link: ${text}`;
  }
}

/** Models of the disk that the link which was just copied leaves out. */
const leftOut = signal<readonly string[]>([]);

export async function copyLink(): Promise<void> {
  const { shown, input } = state.peek();
  const said = [await copied(address())];
  if (input === 'file') said.push('It does not contain your file of prompts.');
  leftOut.value = shown.filter((one) => isOfDisk(one));
  notify(said.join(' '));
}

/** The link with the names of the disk's models, for whoever has the same files. */
async function copyNames(): Promise<void> {
  const ids = [...new Set(leftOut.value.map((one) => parseSubject(one)!.id))];
  leftOut.value = [];
  const hash = `#${printHash(linkable(state.peek(), true))}`;
  const said = await copied(absolute(hash));
  const names = ids.map((id) => `${nameOfId(id)} (fingerprint ${fingerprintOf(id)})`);
  notify(`${said} Whoever opens it is asked for the files of ${names.join(', ')}.`);
}

/** Offers to add what the copied link leaves out. */
export function drawLeftOut(place: HTMLElement, context: Context): void {
  const unshared = part(place, 'unshared');
  effect(() => {
    const names = [...new Set(leftOut.value.map((one) => nameOf({ subject: one }, context)))];
    const isAll = names.length && state.value.shown.every((one) => isOfDisk(one));
    render(
      names.length
        ? html`<p class="message" role="status">
            The link does not contain ${names.join(', ')}, because those files are on your
            disk${isAll ? ': it opens the softmax and sigmoid models instead' : ''}.
            <button type="button" @click=${() => void copyNames()}>
              Include name and fingerprint
            </button>
            <button type="button" aria-label="Close" @click=${() => (leftOut.value = [])}>✕</button>
          </p>`
        : nothing,
      unshared,
    );
  });
}
