/** Copies a link to the page's state, and offers the names that the link leaves out and a picture to send with it. */
import { effect, signal } from '@preact/signals-core';
import { html, nothing, render } from 'lit';
import { fingerprintOf, isOfDisk, nameOfId } from '../ask/ids';
import { linkable, linkTo, printHash } from '../ask/state';
import { parseSubject } from '../ask/subject';
import { sharedLink, state } from './address';
import type { Context } from './context';
import { nameOf } from './controls';
import { notify } from './messages';
import { downloadFile } from '../save/menu';
import { selectedHead, type Frame } from '../frame';
import { part } from './view';

/** Copies a text; returns a notice about it. */
async function copyText(text: string): Promise<string> {
  try {
    await navigator.clipboard.writeText(text);
    return 'Link copied.';
  } catch {
    return `Copy this link: ${text}`;
  }
}

/** The names of models of the disk that the copied link leaves out. */
const leftOut = signal<readonly string[]>([]);

/** Whether the page offers a picture of the sentence after copying the link. */
const isOffered = signal(false);

export async function copyLink(): Promise<void> {
  const { shown, input } = state.peek();
  const notices = [await copyText(sharedLink(linkTo(state.peek())))];
  if (input === 'file') notices.push('It does not contain your file of prompts.');
  leftOut.value = shown.filter((one) => isOfDisk(one));
  isOffered.value = true;
  notify(notices.join(' '));
}

/** Returns the frame for the offered picture, that of the selected subject; undefined until it has a map. */
function picturedFrame({ engine }: Context): Frame | undefined {
  const { shown, at, room } = state.value;
  if (room === 'lab' || room === 'learn') return undefined;
  const subject = shown[Math.min(at, shown.length - 1)]!;
  const entry = engine.value?.queue.entries.value.get(subject);
  return entry?.isStale || !entry?.frame?.tensors.alpha ? undefined : entry.frame;
}

/** Shares the picture through the device's dialog, or saves it as a file where there is no dialog. */
async function sharePicture(frame: Frame, context: Context): Promise<void> {
  isOffered.value = false;
  const link = sharedLink(linkTo(state.peek()));
  const { pictureOf } = await import('../save/card');
  const { version } = context.facts();
  const picture = await pictureOf(frame, selectedHead(frame, state.peek()), { version, link });
  const data = { files: [picture], text: link };
  if (!navigator.canShare?.(data)) return downloadFile(picture, picture.name);
  await navigator.share(data).catch((error: unknown) => {
    // Ignores the error of a canceled dialog.
    if (!(error instanceof DOMException && error.name === 'AbortError')) throw error;
  });
}

/** Copies the link with the names of models on the disk, for readers who have the same files. */
async function copyNames(): Promise<void> {
  const ids = [...new Set(leftOut.value.map((one) => parseSubject(one)!.id))];
  leftOut.value = [];
  const hash = `#${printHash(linkable(state.peek(), true))}`;
  const notice = await copyText(sharedLink(hash));
  const names = ids.map((id) => `${nameOfId(id)} (fingerprint ${fingerprintOf(id)})`);
  notify(`${notice} Whoever opens it is asked for the files of ${names.join(', ')}.`);
}

/** Draws the offer to add the names that the copied link leaves out. */
export function drawNamesOffer(place: HTMLElement, context: Context): void {
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

/** Draws the offer of a picture of the sentence, after its link was copied. */
export function drawPictureOffer(place: HTMLElement, context: Context): void {
  const offered = part(place, 'offered');
  effect(() => {
    const frame = isOffered.value ? picturedFrame(context) : undefined;
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
            <button type="button" aria-label="Close" @click=${() => (isOffered.value = false)}>
              ✕
            </button>
          </p>`
        : nothing,
      offered,
    );
  });
}
