/** Messages on the page: notices, errors, the progress of a run, a newer build. */
import { effect, signal, type ReadonlySignal } from '@preact/signals-core';
import { html, nothing, render } from 'lit';
import { errorSentence } from '../ask/errors';
import type { Engine } from './context';
import { elapsed } from './elapsed';
import { addElement, setText } from './view';

/** Work of fewer milliseconds shows no progress. */
const PROGRESS_DELAY_MS = 250;
/** Milliseconds for which a notice stays. */
const NOTICE_MS = 6000;

export const notices = signal<readonly string[]>([]);
export const failure = signal('');
const activateNewVersion = signal<(() => void) | undefined>(undefined);
let noticeTimer: number | undefined;

export function notify(notice: string): void {
  clearTimeout(noticeTimer);
  notices.value = [notice];
  noticeTimer = window.setTimeout(() => (notices.value = []), NOTICE_MS);
}

/** Shows an error, which stays until the reader's next action. */
export function fail(error: unknown): void {
  failure.value = errorSentence(error);
}

export function offerNewVersion(activate: () => void): void {
  activateNewVersion.value = activate;
}

/** A download that runs beside the queue. */
interface Download {
  /** Whether an open dialog shows the download; then the page does not. */
  readonly isShown: boolean;
  readonly work: string | undefined;
  readonly goBack: () => void;
}

/** @param download read again whenever `changes` changes */
export function drawMessages(
  place: HTMLElement,
  engine: ReadonlySignal<Engine | undefined>,
  download: Download,
  changes: ReadonlySignal<number>,
): void {
  const newVersionPlace = addElement(place, 'newer');
  effect(() => {
    render(
      activateNewVersion.value
        ? html`<p class="message" role="status">
            A newer version of this page is available.
            <button type="button" @click=${activateNewVersion.value}>Reload</button>
          </p>`
        : nothing,
      newVersionPlace,
    );
  });
  const messagePlace = addElement(place, 'message', 'p');
  messagePlace.setAttribute('role', 'alert');
  const progress = addElement(place, 'progress', 'p');
  progress.setAttribute('role', 'status');
  let progressTimer = 0;
  effect(() => {
    const message = [...new Set([failure.value, ...notices.value].filter(Boolean))].join('\n');
    messagePlace.hidden = !message;
    setText(messagePlace, message);
    messagePlace.classList.toggle('error', failure.value !== '');
  });
  effect(() => {
    void changes.value;
    const work = engine.value?.queue.work.value;
    const downloadText = download.isShown ? undefined : download.work;
    const shownWork = work?.text ? work : undefined;
    const isBusy = engine.value ? work !== undefined : failure.value === '';
    document.body.toggleAttribute('data-busy', isBusy);
    // A screen reader reads a result once: when all models have answered, not after each.
    for (const region of document.querySelectorAll('main [role=status]'))
      region.ariaBusy = String(isBusy);
    clearTimeout(progressTimer);
    const stop = () => {
      engine.peek()?.queue.stop();
      download.goBack();
    };
    const draw = () => {
      progress.hidden = !shownWork && !downloadText;
      progress.classList.toggle('download', Boolean(downloadText));
      const progressBar =
        shownWork && shownWork.share >= 0
          ? html`<progress max="1" .value=${shownWork.share} aria-label="Progress"></progress>`
          : nothing;
      const words = downloadText ?? shownWork?.text ?? '';
      render(
        words
          ? html`<span>${words} …${elapsed(words)}</span> ${progressBar}
              <button type="button" @click=${stop}>Stop</button>`
          : nothing,
        progress,
      );
    };
    const isLate =
      downloadText || (shownWork && performance.now() - shownWork.since > PROGRESS_DELAY_MS);
    if (isLate || !shownWork) draw();
    else progressTimer = window.setTimeout(draw, PROGRESS_DELAY_MS);
  });
}
