/** The text that the reader typed last, which rooms and lessons offer each other while the browser's tab is open. */
import { shorten } from '../ask/state';
import { base } from '../base';

const KEY = 'sinkscope:text';

/** Keeps a typed text; nothing on other sites, whose storage is not the page's. */
export function rememberText(text: string): void {
  if (base.origin !== location.origin) return;
  try {
    sessionStorage.setItem(KEY, text);
  } catch {
    // If the browser stores nothing, no text is offered.
  }
}

/** Returns the text that the reader typed last; empty if there is none. */
export function rememberedText(): string {
  try {
    return sessionStorage.getItem(KEY) ?? '';
  } catch {
    return '';
  }
}

/** Returns a text's beginning on one line, for the label of a button. */
export const excerptOf = (text: string): string => shorten(text.replace(/\s+/g, ' ').trim());
