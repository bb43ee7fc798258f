/** Passes keys that a figure does not use to the enclosing page, such as slides with their own keys. */

/** Whether the figure has handled the key or the focused control will handle it. */
export function isUsed(event: KeyboardEvent): boolean {
  if (event.defaultPrevented) return true;
  const [target] = event.composedPath();
  if (!(target instanceof Element)) return false;
  const isPress = event.key === 'Enter' || event.key === ' ';
  if (target.matches('textarea, select, input:not([type=checkbox]), [contenteditable]'))
    return true;
  return isPress && target.matches('button, a, summary, input');
}

/** Keeps a click on a map from moving the focus there, so that arrow keys stay with the page; Tab still moves it. */
export function leaveFocus(event: Event): void {
  const [target] = event.composedPath();
  if (target instanceof Element && target.closest('.heatmap')) event.preventDefault();
}

export type Key = Pick<
  KeyboardEvent,
  'key' | 'code' | 'keyCode' | 'shiftKey' | 'altKey' | 'ctrlKey' | 'metaKey'
>;

export function keyOf({ key, code, keyCode, shiftKey, altKey, ctrlKey, metaKey }: Key): Key {
  return { key, code, keyCode, shiftKey, altKey, ctrlKey, metaKey };
}
