/** Detects the theme of a host page from its colors. */
import type { Theme } from '../plot/color';

let pixel: CanvasRenderingContext2D | null | undefined;

/** Luminance from 0 to 1, and opacity; the color may be in any color space of CSS. */
function lightOf(color: string): { readonly light: number; readonly alpha: number } {
  pixel ??= document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  if (!pixel) return { light: 0, alpha: 0 };
  pixel.clearRect(0, 0, 1, 1);
  pixel.fillStyle = color;
  pixel.fillRect(0, 0, 1, 1);
  const { data } = pixel.getImageData(0, 0, 1, 1);
  return {
    light: (0.299 * data[0]! + 0.587 * data[1]! + 0.114 * data[2]!) / 255,
    alpha: data[3]! / 255,
  };
}

function* upFrom(element: Element): Generator<Element> {
  for (let at: Element | null = element; at;) {
    yield at;
    const root: Node = at.getRootNode();
    at = at.parentElement ?? (root instanceof ShadowRoot ? root.host : null);
  }
}

/** Luminance of the background of an element's letters. */
function backgroundLuminance(element: Element): number {
  for (const one of upFrom(element)) {
    const { light, alpha } = lightOf(getComputedStyle(one).backgroundColor);
    if (alpha > 0.5) return light;
  }
  // A page without a background has the browser's, by its color scheme.
  const schemes = getComputedStyle(element).colorScheme;
  const isSystemDark = matchMedia('(prefers-color-scheme: dark)').matches;
  const isDark = schemes.includes('dark') && (!schemes.includes('light') || isSystemDark);
  return isDark ? 0 : 1;
}

/** Letters of a luminance between these decide nothing without their background. */
const [DARK, LIGHT] = [0.4, 0.6];

/**
 * A page with light letters is dark. The background may be a picture, or a layer that is no ancestor, so that it
 * decides only for letters of a middle gray.
 */
export function themeOf(element: Element): Theme {
  const letters = lightOf(getComputedStyle(element).color).light;
  const limit = letters > LIGHT || letters < DARK ? 0.5 : backgroundLuminance(element);
  return letters > limit ? 'dark' : 'light';
}

/** Calls `look` whenever the host's theme may have changed; returns a function that stops this. */
export function watchTheme(element: Element, look: () => void): () => void {
  // Themes are classes and attributes of ancestors, stylesheets, or the system's preference.
  const watcher = new MutationObserver(look);
  for (const one of upFrom(element)) watcher.observe(one, { attributes: true });
  watcher.observe(document.head, {
    attributes: true,
    attributeFilter: ['href', 'media', 'disabled', 'rel'],
    childList: true,
    subtree: true,
  });
  // During a transition, colors are between those of the two themes.
  const onTransition = ({ propertyName }: TransitionEvent) =>
    propertyName.includes('color') && look();
  const job = new AbortController();
  const { signal } = job;
  const system = matchMedia('(prefers-color-scheme: dark)');
  system.addEventListener('change', look, { signal });
  document.addEventListener('transitionend', onTransition, { signal });
  document.head.addEventListener('load', look, { signal, capture: true });
  return () => {
    watcher.disconnect();
    job.abort();
  };
}
