/**
 * Copies a link to the page's state. Afterwards offers the names that the link leaves out, and a picture to send with
 * it.
 */
import { effect, signal } from '@preact/signals-core';
import { html, nothing, render } from 'lit';
import { fingerprintOf, isOnDisk, nameOfId } from '../ask/ids';
import { linkableState, linkTo, printHash } from '../ask/state';
import { parseSubject } from '../ask/subject';
import { sharedLink, state } from './address';
import type { Context } from './context';
import { nameOf } from './controls';
import { notify } from './messages';
import { downloadFile } from '../save/menu';
import { selectedHead, type Frame } from '../frame';
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

const isPictureOffered = signal(false);

export async function copyLink(): Promise<void> {
  const { shown, input } = state.peek();
  const notice = await copyToClipboard(sharedLink(linkTo(state.peek())));
  omittedSubjects.value = shown.filter(isOnDisk);
  isPictureOffered.value = true;
  notify(input === 'file' ? `${notice} It does not contain your file of prompts.` : notice);
}

/** Returns the frame of the selected subject; undefined until it has a map. */
function picturedFrame({ engine }: Context): Frame | undefined {
  const { shown, at, room } = state.value;
  if (room === 'lab' || room === 'learn') return undefined;
  const subject = shown[Math.min(at, shown.length - 1)]!;
  const entry = engine.value?.queue.entries.value.get(subject);
  return entry?.isStale || !entry?.frame?.tensors.alpha ? undefined : entry.frame;
}

/** Shares the picture through the device's dialog, or saves it where there is none. */
async function sharePicture(frame: Frame, context: Context): Promise<void> {
  isPictureOffered.value = false;
  const link = sharedLink(linkTo(state.peek()));
  const { pictureOf } = await import('../save/card');
  const { version } = context.facts();
  const picture = await pictureOf(frame, frame.head ?? selectedHead(frame, state.peek()), {
    version,
    link,
  });
  const data = { files: [picture], text: link };
  if (!navigator.canShare?.(data)) return downloadFile(picture, picture.name);
  await navigator.share(data).catch((error: unknown) => {
    // The reader may cancel the dialog.
    if (!(error instanceof DOMException && error.name === 'AbortError')) throw error;
  });
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

export function drawPictureOffer(place: HTMLElement, context: Context): void {
  const picturePlace = addElement(place, 'offered');
  effect(() => {
    const frame = isPictureOffered.value ? picturedFrame(context) : undefined;
    render(
      frame
        ? html`<p class="message" role="status">
            Your sentence, its number and the link, as a picture:
            <button
              type="button"
              @click=${() => void sharePicture(frame, context).catch(context.fail)}
            >
              Share picture
            </button>
            <button
              type="button"
              aria-label="Close"
              @click=${() => (isPictureOffered.value = false)}
            >
              ✕
            </button>
          </p>`
        : nothing,
      picturePlace,
    );
  });
}
