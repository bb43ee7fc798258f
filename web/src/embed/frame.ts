/**
 * Connects embed.html in a frame with its host page. Without a message from the host, the figure fits into the frame. A
 * host with sink-scope.js gives the frame the height that the figure reports, and sends the host's theme. Heights and
 * keys are not secret, so they are posted to any host; sink-scope.js listens only to frames of this site.
 */
import type { Theme } from '../plot/color';
import { createFitter } from './fit';
import { isUsed, keyOf, leaveFocus } from './keys';
import './fit.css';

const { body } = document;

/** Exchanges messages with the host page; `onTheme` gets its theme. */
export function startFrame(onTheme: (theme: Theme) => void): void {
  if (parent === window) return;
  body.classList.add('fit-page');
  const postToHost = (message: object) => parent.postMessage(message, '*');
  const fit = createFitter(
    () => document.querySelector<HTMLElement>('.room-figure'),
    () => new DOMRect(0, 0, innerWidth, innerHeight),
  );
  let lastHeight = 0;
  const reportHeight = () => {
    const height = Math.ceil(body.getBoundingClientRect().height);
    if (height === lastHeight) return;
    lastHeight = height;
    postToHost({ sinkscope: 'height', height });
  };
  const update = () => {
    fit.look();
    reportHeight();
  };
  addEventListener('resize', update);
  new MutationObserver(update).observe(document.querySelector('main')!, {
    childList: true,
    characterData: true,
    subtree: true,
  });
  new ResizeObserver(update).observe(body);
  addEventListener('mousedown', leaveFocus);
  addEventListener('keydown', (event) => {
    if (!isUsed(event)) postToHost({ sinkscope: 'key', ...keyOf(event) });
  });
  addEventListener('message', ({ source, data }) => {
    if (source !== parent || data?.sinkscope !== 'host') return;
    if (data.theme === 'light' || data.theme === 'dark') onTheme(data.theme);
    if (!data.follows) return;
    fit.end();
    body.classList.remove('fit-page');
    reportHeight();
  });
}
