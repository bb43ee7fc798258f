/** A small menu on every figure: the picture, or its numbers, as a file. */
import type { Frame } from '../frame';
import { figureOf, pngOf, svgText } from './figure';
import { toCsv, toJson, type Facts, type Quantity } from './numbers';

export interface Figure extends Facts {
  readonly title: string;
  readonly cell: HTMLElement;
  readonly quantities: readonly Quantity[];
}

const KINDS = ['SVG', 'PNG', 'CSV', 'JSON'] as const;
type Kind = (typeof KINDS)[number];

function pictureOf({ cell, title, frame, link }: Figure): SVGSVGElement {
  // A long text is in the link, too; a picture has no room for it.
  const address = link.length > 120 ? `${link.slice(0, 119)}…` : link;
  return figureOf(cell, `${title}: ${frame.model.title}`, address);
}

async function fileOf(kind: Kind, figure: Figure): Promise<Blob> {
  if (kind === 'PNG') return pngOf(pictureOf(figure));
  if (kind === 'SVG') return new Blob([svgText(pictureOf(figure))], { type: 'image/svg+xml' });
  if (kind === 'CSV') return new Blob([toCsv(figure.quantities, figure)], { type: 'text/csv' });
  return new Blob([toJson(figure.quantities, figure)], { type: 'application/json' });
}

/** A name that every file system takes. */
export function fileName(figure: string, frame: Frame, kind: string): string {
  const model = frame.model.title.toLowerCase().replace(/[^\p{L}\p{N}.]+/gu, '-');
  return `sinkscope-${figure}-${model}.${kind.toLowerCase()}`.slice(-120);
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
 * Puts a menu into a cell: a button for each kind of file.
 * @param choose called when the reader chose one
 */
export function addKinds<const K extends string>(
  cell: HTMLElement,
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
  cell.append(menu);
  return menu;
}

/**
 * Puts the menu of a figure into its cell.
 * @param what the figure as it stands when the reader chooses
 */
export function addMenu(
  cell: HTMLElement,
  name: string,
  what: () => Figure,
  fail: (error: unknown) => void,
): HTMLElement {
  return addKinds(cell, name, KINDS, (kind) => {
    const figure = what();
    const file = fileOf(kind, figure);
    void file.then((made) => hand(made, fileName(figure.figure, figure.frame, kind)), fail);
  });
}
