/** Detects the theme of a host page from its colors. */
import type { Theme } from '../plot/color';

let pixel: CanvasRenderingContext2D | null | undefined;

/** Returns a color's luminance from 0 to 1 and its opacity; the color may be in any color space of CSS. */
function luminanceOf(color: string): { readonly luminance: number; readonly alpha: number } {
  pixel ??= document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  if (!pixel) return { luminance: 0, alpha: 0 };
  pixel.clearRect(0, 0, 1, 1);
  pixel.fillStyle = color;
  pixel.fillRect(0, 0, 1, 1);
  const { data } = pixel.getImageData(0, 0, 1, 1);
  return {
    luminance: (0.299 * data[0]! + 0.587 * data[1]! + 0.114 * data[2]!) / 255,
    alpha: data[3]! / 255,
  };
}

/** Returns the element from which an element inherits: its slot, its parent, or the host of its shadow tree. */
export function inheritanceParent(element: Element): Element | null {
  const root = element.getRootNode();
  return (
    element.assignedSlot ??
    element.parentElement ??
    ('host' in root ? (root.host as Element) : null)
  );
}

function* ancestorsOf(element: Element): Generator<Element> {
  for (let current: Element | null = element; current; current = inheritanceParent(current))
    yield current;
}

function backgroundLuminance(element: Element): number {
  for (const ancestor of ancestorsOf(element)) {
    const { luminance, alpha } = luminanceOf(getComputedStyle(ancestor).backgroundColor);
    if (alpha > 0.5) return luminance;
  }
  // The background of a page that sets none is that of the browser's color scheme.
  const colorSchemes = getComputedStyle(element).colorScheme;
  const isSystemDark = matchMedia('(prefers-color-scheme: dark)').matches;
  const isDark = colorSchemes.includes('dark') && (!colorSchemes.includes('light') || isSystemDark);
  return isDark ? 0 : 1;
}

/** Letters with a luminance between these can be in a dark or in a light theme. */
const [DARK, LIGHT] = [0.4, 0.6];

/**
 * Returns the theme of the page at an element: dark if its text is light. Where the text is a middle gray, the
 * background decides; it cannot always be read, for it may be an image or an element that is not an ancestor.
 */
export function themeOf(element: Element): Theme {
  const letterLuminance = luminanceOf(getComputedStyle(element).color).luminance;
  const threshold =
    letterLuminance > LIGHT || letterLuminance < DARK ? 0.5 : backgroundLuminance(element);
  return letterLuminance > threshold ? 'dark' : 'light';
}

/** Calls `onChange` whenever the host's theme may have changed; the returned function stops the calls. */
export function watchTheme(element: Element, onChange: () => void): () => void {
  // Pages set themes by classes and attributes of ancestors, by stylesheets, or by the system's preference.
  const watcher = new MutationObserver(onChange);
  for (const ancestor of ancestorsOf(element)) watcher.observe(ancestor, { attributes: true });
  const { ownerDocument } = element;
  watcher.observe(ownerDocument.head, {
    attributes: true,
    attributeFilter: ['href', 'media', 'disabled', 'rel'],
    childList: true,
    subtree: true,
  });
  // During a transition the colors belong to neither theme, so this reads the theme again at the transition's end.
  const onTransition = ({ propertyName }: TransitionEvent) =>
    propertyName.includes('color') && onChange();
  const job = new AbortController();
  const { signal } = job;
  const systemScheme = matchMedia('(prefers-color-scheme: dark)');
  systemScheme.addEventListener('change', onChange, { signal });
  ownerDocument.addEventListener('transitionend', onTransition, { signal });
  ownerDocument.head.addEventListener('load', onChange, { signal, capture: true });
  return () => {
    watcher.disconnect();
    job.abort();
  };
}
