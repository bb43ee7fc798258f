/**
 * Connects embed.html in a frame with its host page. Without a message from the host the embed fits into the frame. On
 * a host with sink-scope.js, that script gives the frame the height that the embed reports, and sends the host's theme.
 * Heights and keys are no secret, so any host may read them; sink-scope.js listens only to frames of this site.
 */
import type { Theme } from '../plot/color';
import { fitting } from './fit';
import { isUsed, keyOf, leaveFocus } from './keys';
import './fit.css';

const { body } = document;

/**
 * Starts the exchange of messages with the host page.
 * @param onTheme called with the host page's theme
 */
export function startFrame(onTheme: (theme: Theme) => void): void {
  if (parent === window) return;
  body.classList.add('fit-page');
  const post = (message: object) => parent.postMessage(message, '*');
  const fit = fitting(
    () => document.querySelector<HTMLElement>('.room-figure'),
    () => new DOMRect(0, 0, innerWidth, innerHeight),
  );
  let last = 0;
  const report = () => {
    const height = Math.ceil(body.getBoundingClientRect().height);
    if (height === last) return;
    last = height;
    post({ sinkscope: 'height', height });
  };
  const look = () => {
    fit.look();
    report();
  };
  addEventListener('resize', look);
  new MutationObserver(look).observe(document.querySelector('main')!, {
    childList: true,
    characterData: true,
    subtree: true,
  });
  new ResizeObserver(look).observe(body);
  addEventListener('mousedown', leaveFocus);
  addEventListener('keydown', (event) => {
    if (!isUsed(event)) post({ sinkscope: 'key', ...keyOf(event) });
  });
  addEventListener('message', ({ source, data }) => {
    if (source !== parent || data?.sinkscope !== 'host') return;
    if (data.theme === 'light' || data.theme === 'dark') onTheme(data.theme);
    if (!data.follows) return;
    fit.end();
    body.classList.remove('fit-page');
    report();
  });
}
