/** Keys that a figure does not use belong to the page around it, as slides have theirs. */

/** Whether the figure has done something with the key, or the control that has the focus will. */
export function isUsed(event: KeyboardEvent): boolean {
  if (event.defaultPrevented) return true;
  const [target] = event.composedPath();
  if (!(target instanceof Element)) return false;
  const isPress = event.key === 'Enter' || event.key === ' ';
  if (target.matches('textarea, select, input:not([type=checkbox]), [contenteditable]'))
    return true;
  return isPress && target.matches('button, a, summary, input');
}

/** A click on a map leaves the arrow keys to the page around the figure; the Tab key gives them to the map. */
export function leaveFocus(event: Event): void {
  const [target] = event.composedPath();
  if (target instanceof Element && target.closest('.heatmap')) event.preventDefault();
}

/** What a message of a frame may say of a key. */
export type Key = Pick<
  KeyboardEvent,
  'key' | 'code' | 'keyCode' | 'shiftKey' | 'altKey' | 'ctrlKey' | 'metaKey'
>;

export function keyOf({ key, code, keyCode, shiftKey, altKey, ctrlKey, metaKey }: Key): Key {
  return { key, code, keyCode, shiftKey, altKey, ctrlKey, metaKey };
}
