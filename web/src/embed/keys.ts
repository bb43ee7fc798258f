/** A figure passes unused keys to the enclosing page, such as slides with their own keys. */

/** Returns whether the figure has handled the key, or the focused control will. */
export function isUsed(event: KeyboardEvent): boolean {
  if (event.defaultPrevented) return true;
  const [target] = event.composedPath();
  if (!(target instanceof Element)) return false;
  const isPress = event.key === 'Enter' || event.key === ' ';
  if (target.matches('textarea, select, input:not([type=checkbox]), [contenteditable]'))
    return true;
  return isPress && target.matches('button, a, summary, input');
}

/** A click on a map leaves the arrow keys to the enclosing page; the Tab key gives them to the map. */
export function leaveFocus(event: Event): void {
  const [target] = event.composedPath();
  if (target instanceof Element && target.closest('.heatmap')) event.preventDefault();
}

/** The properties of a key event that a frame posts. */
export type Key = Pick<
  KeyboardEvent,
  'key' | 'code' | 'keyCode' | 'shiftKey' | 'altKey' | 'ctrlKey' | 'metaKey'
>;

export function keyOf({ key, code, keyCode, shiftKey, altKey, ctrlKey, metaKey }: Key): Key {
  return { key, code, keyCode, shiftKey, altKey, ctrlKey, metaKey };
}
