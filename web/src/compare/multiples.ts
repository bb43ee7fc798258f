/** The rows of small multiples: a section for each figure, a cell in it for each model. */
import { figureOf, pngOf, svgText } from '../save/figure';
import { addKinds, hand } from '../save/menu';
import { drawLegend } from '../plot/legend';
import type { Theme } from '../plot/color';
import { storedWords, type Column } from '../study/study';
import { part } from '../views/view';
import { CLASS_WORDS, settingWords } from '../words';
import { figureCsv, figureJson, type FigureFacts } from './numbers';
import { figures, type Drawn, type FigureKind, type Lit } from './figures';

/** A model's column, and whether it was measured as is asked now. */
export interface Shown {
  readonly key: string;
  readonly column: Column;
  readonly isStale: boolean;
}

export interface MultiplesDesk {
  readonly facts: () => FigureFacts;
  readonly fail: (error: unknown) => void;
}

interface Place {
  readonly root: HTMLElement;
  readonly title: HTMLElement;
  readonly badge: HTMLElement;
  readonly setting: HTMLElement;
  readonly drawn: Drawn;
}

interface Row {
  readonly kind: FigureKind;
  readonly legend: HTMLElement;
  readonly grid: HTMLElement;
  readonly places: Map<string, Place>;
}

const KINDS = ['SVG', 'PNG', 'CSV', 'JSON'] as const;

export class Multiples {
  readonly #rows: readonly Row[];
  #shown: readonly Shown[] = [];
  #look = '';
  #theme: Theme = 'light';
  #lit: Lit;

  constructor(root: HTMLElement, desk: MultiplesDesk) {
    this.#rows = figures.map((kind) => this.#build(root, kind, desk));
  }

  /** Draws what has changed. */
  update(shown: readonly Shown[], theme: Theme): void {
    const isSame =
      shown.length === this.#shown.length &&
      shown.every(({ key, column, isStale }, i) => {
        const before = this.#shown[i];
        return before.key === key && before.column === column && before.isStale === isStale;
      });
    const look = `${theme} ${innerWidth}`;
    if (isSame && look === this.#look) return;
    this.#shown = shown;
    this.#look = look;
    this.#theme = theme;
    for (const row of this.#rows) this.#arrange(row);
    this.#draw();
  }

  #build(root: HTMLElement, kind: FigureKind, desk: MultiplesDesk): Row {
    const section = part(root, 'view multiples', 'section');
    section.id = `compare-${kind.name}`;
    part(section, '', 'h3').textContent = kind.title;
    part(section, 'how', 'p').textContent = kind.how;
    const picture = part(section, 'picture');
    const legend = part(picture, 'legend-place');
    const grid = part(picture, 'multiples-grid');
    const row = { kind, legend, grid, places: new Map<string, Place>() };
    addKinds(section, kind.title, KINDS, (what) => {
      const file = this.#fileOf(what, row, picture, desk.facts());
      const name = `sinkscope-compare-${kind.name}.${what.toLowerCase()}`;
      void file.then((made) => hand(made, name), desk.fail);
    });
    return row;
  }

  async #fileOf(
    what: (typeof KINDS)[number],
    { kind }: Row,
    picture: HTMLElement,
    facts: FigureFacts,
  ): Promise<Blob> {
    const columns = this.#shown.map(({ column }) => column);
    const numbers = columns.map((column) => ({ column, quantities: kind.numbers(column) }));
    if (what === 'CSV') return new Blob([figureCsv(numbers, facts)], { type: 'text/csv' });
    if (what === 'JSON')
      return new Blob([figureJson(kind.name, numbers, facts)], { type: 'application/json' });
    const link = facts.link.length > 120 ? `${facts.link.slice(0, 119)}…` : facts.link;
    const svg = figureOf(picture, kind.title, link);
    return what === 'PNG' ? pngOf(svg) : new Blob([svgText(svg)], { type: 'image/svg+xml' });
  }

  /** A place for each model, in the order of the picks. */
  #arrange({ kind, grid, places }: Row): void {
    grid.style.setProperty('--models', String(this.#shown.length));
    for (const [key, { root }] of places)
      if (!this.#shown.some((one) => one.key === key)) {
        root.remove();
        places.delete(key);
      }
    this.#shown.forEach(({ key }, i) => {
      const place = places.get(key) ?? this.#place(kind);
      places.set(key, place);
      // What stands right is not moved, for it may hold the focus.
      if (grid.children[i] !== place.root) grid.insertBefore(place.root, grid.children[i] ?? null);
    });
  }

  #place(kind: FigureKind): Place {
    const root = document.createElement('div');
    root.className = 'multiple';
    const caption = part(root, 'caption', 'p');
    const title = part(caption, 'caption-title', 'strong');
    const badge = part(caption, 'badge', 'span');
    const setting = part(root, 'stamp', 'p');
    const drawn = kind.create(part(root, 'figure-place'), (lit) => {
      this.#lit = lit;
      this.#draw(true);
    });
    return { root, title, badge, setting, drawn };
  }

  /** @param onlyLit nothing but the marked head has changed, which charts do not show */
  #draw(onlyLit = false): void {
    const columns = this.#shown.map(({ column }) => column);
    const context = { columns, theme: this.#theme, lit: this.#lit };
    for (const { kind, legend, places } of this.#rows) {
      if (onlyLit && !kind.legend) continue;
      const scale = kind.legend?.(columns, this.#theme);
      if (scale && columns.length)
        drawLegend(legend, scale.scale, scale.low, scale.high, scale.ends);
      for (const { key, column, isStale } of this.#shown) {
        const { root, title, badge, setting, drawn } = places.get(key)!;
        root.classList.toggle('stale', isStale);
        root.classList.toggle('counterfactual', column.class === 'counterfactual');
        title.textContent = column.title;
        badge.textContent = CLASS_WORDS[column.class];
        setting.textContent = [settingWords(column), storedWords(column)]
          .filter(Boolean)
          .join(' · ');
        drawn.update(column, context);
      }
    }
  }
}
