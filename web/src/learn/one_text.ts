/**
 * A lesson has one text: when the reader changes it in a figure, all figures that show the lesson's text show the new
 * one, and so do the numbers, sentences and predictions that are read from their runs.
 */
import { excerptOf, rememberedText, rememberText } from '../page/my_text';

/** What figures share: the text, and what comes before it. */
const SHARED = ['prompt', 'first'] as const;

/** Whether a figure shows the lesson's text, and not one of its own, a recording, passages or a log of training. */
export const followsText = (figure: Pick<Element, 'getAttribute' | 'hasAttribute'>): boolean =>
  !SHARED.some((name) => figure.hasAttribute(name)) &&
  (figure.getAttribute('input') ?? 'text') === 'text' &&
  !/^recording:/.test(figure.getAttribute('shown') ?? '') &&
  !['training', 'lab'].includes(figure.getAttribute('view') ?? '');

/** Lets the figures share their text, and offers the reader's other text above the first that can be changed. */
export function shareText(figures: readonly HTMLElement[]): void {
  const followers = figures.filter(followsText);
  const copy = (source: HTMLElement) => {
    for (const name of SHARED) {
      const value = source.getAttribute(name);
      for (const figure of followers)
        if (figure.getAttribute(name) !== value && value !== null) figure.setAttribute(name, value);
    }
  };
  const watcher = new MutationObserver((changes) => {
    const source = changes.at(-1)!.target as HTMLElement;
    copy(source);
    watcher.takeRecords();
    const text = source.getAttribute('prompt');
    if (text !== null) rememberText(text);
  });
  for (const figure of followers)
    watcher.observe(figure, { attributes: true, attributeFilter: [...SHARED] });
  const [offered, first] = [
    rememberedText(),
    followers.find((one) => one.hasAttribute('controls')),
  ];
  if (!offered || !first) return;
  const button = Object.assign(document.createElement('button'), {
    className: 'my-text',
    type: 'button',
    textContent: `Use my text in this lesson: “${excerptOf(offered)}”`,
  });
  button.addEventListener('click', () => {
    first.setAttribute('prompt', offered);
    button.remove();
  });
  (first.closest('figure') ?? first).before(button);
}
