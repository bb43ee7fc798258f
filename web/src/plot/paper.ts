/** Reports whether the page is being printed, so that figures are drawn in the light theme. */
import { signal } from '@preact/signals-core';

export const isPrinting = signal(false);

if (typeof addEventListener === 'function') {
  addEventListener('beforeprint', () => (isPrinting.value = true));
  addEventListener('afterprint', () => (isPrinting.value = false));
}
