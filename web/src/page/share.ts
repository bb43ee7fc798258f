/** Copies a link to the page's state. Afterwards offers the names that the link leaves out. */
import { effect, signal } from '@preact/signals-core';
import { html, nothing, render } from 'lit';
import { fingerprintOf, isOnDisk, nameOfId } from '../ask/ids';
import { linkableState, linkTo, printHash } from '../ask/state';
import { parseSubject } from '../ask/subject';
import { sharedLink, state } from './address';
import type { Context } from './context';
import { nameOf } from './controls';
import { notify } from './messages';
import { addElement } from './view';

/** Copies a link and returns a notice; if the browser refuses to copy, the notice contains the link. */
async function copyToClipboard(link: string): Promise<string> {
  try {
    await navigator.clipboard.writeText(link);
    return 'Link copied.';
  } catch {
    return `Copy this link: ${link}`;
  }
}

/** Subjects on the reader's disk that the copied link leaves out. */
const omittedSubjects = signal<readonly string[]>([]);

export async function copyLink(): Promise<void> {
  const { shown, input } = state.peek();
  const notice = await copyToClipboard(sharedLink(linkTo(state.peek())));
  omittedSubjects.value = shown.filter(isOnDisk);
  notify(input === 'file' ? `${notice} It does not contain your file of prompts.` : notice);
}

/** Copies the link with the names of models on the disk, for readers with the same files. */
async function copyLinkWithNames(): Promise<void> {
  const ids = [...new Set(omittedSubjects.value.map((subject) => parseSubject(subject)!.id))];
  omittedSubjects.value = [];
  const hash = `#${printHash(linkableState(state.peek(), true))}`;
  const notice = await copyToClipboard(sharedLink(hash));
  const names = ids.map((id) => `${nameOfId(id)} (fingerprint ${fingerprintOf(id)})`);
  notify(`${notice} Whoever opens it is asked for the files of ${names.join(', ')}.`);
}

export function drawNamesOffer(place: HTMLElement, context: Context): void {
  const namesPlace = addElement(place, 'unshared');
  effect(() => {
    const names = [
      ...new Set(omittedSubjects.value.map((subject) => nameOf({ subject }, context))),
    ];
    const areAllOmitted = names.length && state.value.shown.every(isOnDisk);
    render(
      names.length
        ? html`<p class="message" role="status">
            The link does not contain ${names.join(', ')}, because those files are on your
            disk${areAllOmitted ? ': it opens the softmax and sigmoid models instead' : ''}.
            <button type="button" @click=${() => void copyLinkWithNames()}>
              Include name and fingerprint
            </button>
            <button type="button" aria-label="Close" @click=${() => (omittedSubjects.value = [])}>
              ✕
            </button>
          </p>`
        : nothing,
      namesPlace,
    );
  });
}
