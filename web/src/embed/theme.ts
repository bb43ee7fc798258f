/** The theme of a host's page, of which nothing is known but how it looks. */
import type { Theme } from '../plot/color';

/** A page with light letters is dark, however it says so. */
export function themeOf(element: Element): Theme {
  const parts = getComputedStyle(element)
    .color.match(/[\d.]+/g)
    ?.map(Number) ?? [0];
  const [red = 0, green = 0, blue = 0] = parts;
  return 0.299 * red + 0.587 * green + 0.114 * blue > 128 ? 'dark' : 'light';
}

/** Calls `look` whenever the theme may have changed; returns what ends that. */
export function watchTheme(look: () => void): () => void {
  // Themes are classes and attributes of the document, or the system's.
  const watcher = new MutationObserver(look);
  for (const root of [document.documentElement, document.body])
    watcher.observe(root, { attributes: true });
  const system = matchMedia('(prefers-color-scheme: dark)');
  system.addEventListener('change', look);
  return () => {
    watcher.disconnect();
    system.removeEventListener('change', look);
  };
}
