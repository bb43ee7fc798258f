/** A small menu on every figure: the picture, or its numbers, as a file. */
import { figureOf, pngOf, svgText } from './figure';
import { toCsv, toJson, type Facts, type Numbers } from './numbers';

export interface Figure {
  readonly name: string;
  readonly title: string;
  readonly place: HTMLElement;
  readonly numbers: readonly Numbers[];
  readonly facts: Facts;
}

export const KINDS = ['SVG', 'PNG', 'CSV', 'JSON'] as const;
export type Kind = (typeof KINDS)[number];

function pictureOf({ place, title, facts: { link } }: Figure): SVGSVGElement {
  // A long text is in the link, too; a picture has no room for it.
  return figureOf(place, title, link.length > 120 ? `${link.slice(0, 119)}…` : link);
}

export async function fileOf(kind: Kind, figure: Figure): Promise<Blob> {
  const { name, numbers, facts } = figure;
  if (kind === 'PNG') return pngOf(pictureOf(figure));
  if (kind === 'SVG') return new Blob([svgText(pictureOf(figure))], { type: 'image/svg+xml' });
  if (kind === 'CSV') return new Blob([toCsv(numbers, facts)], { type: 'text/csv' });
  return new Blob([toJson(name, numbers, facts)], { type: 'application/json' });
}

/** A name that every file system takes. */
export function fileName(
  { name, numbers }: Pick<Figure, 'name' | 'numbers'>,
  kind: string,
): string {
  const titles = numbers
    .map(({ frame }) => frame.title)
    .slice(0, 2)
    .join('-');
  const model = titles.toLowerCase().replace(/[^\p{L}\p{N}.]+/gu, '-');
  return `sinkscope-${name}-${model}.${kind.toLowerCase()}`.slice(-120);
}

/** Gives the reader a file. */
export function hand(file: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(file);
  link.download = name;
  link.click();
  // The browser reads it after the click.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/**
 * Puts a menu into a place: a button for each kind of file.
 * @param choose called when the reader chose one
 */
export function addKinds<const K extends string>(
  place: HTMLElement,
  name: string,
  kinds: readonly K[],
  choose: (kind: K) => void,
): HTMLElement {
  const menu = document.createElement('details');
  menu.className = 'save';
  const summary = document.createElement('summary');
  summary.textContent = 'Save';
  summary.setAttribute('aria-label', `Save ${name}`);
  const row = document.createElement('div');
  row.append(
    ...kinds.map((kind) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = kind;
      button.addEventListener('click', () => {
        menu.open = false;
        summary.focus();
        choose(kind);
      });
      return button;
    }),
  );
  menu.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    menu.open = false;
    summary.focus();
  });
  menu.append(summary, row);
  place.append(menu);
  return menu;
}
