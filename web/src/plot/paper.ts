/** Whether the page is being printed: then everything is drawn, in the colors of white paper. */
import { signal } from '@preact/signals-core';

export const isPrinting = signal(false);

if (typeof addEventListener === 'function') {
  addEventListener('beforeprint', () => (isPrinting.value = true));
  addEventListener('afterprint', () => (isPrinting.value = false));
}
