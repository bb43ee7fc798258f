/** The menu of every figure that saves the picture or its numbers as a file. */
import { html, render } from 'lit';
import type { Theme } from '../plot/color';
import { stampWords } from '../words';
import { figureOf, pngOf, svgText, type FigureMetadata } from './figure';
import { factsOf, toCsv, toJson, type Facts, type Numbers } from './numbers';

export interface Figure {
  readonly name: string;
  readonly title: string;
  readonly place: HTMLElement;
  readonly says: readonly string[];
  readonly numbers: readonly Numbers[];
  readonly facts: Facts;
  /** Draws in the light theme, returns what `take` returns, and then draws in the reader's theme again. */
  readonly drawOnPaper: <T>(take: () => T) => T;
}

export const KINDS = ['SVG', 'PNG', 'CSV', 'JSON'] as const;
export type Kind = (typeof KINDS)[number];

/** Whether others can open an address: it must be neither on this machine nor on a local network. */
function isPublic(link: string): boolean {
  const { protocol, hostname } = new URL(link);
  const isLocal =
    !hostname.includes('.') ||
    /^(127|10|192\.168|169\.254|172\.(1[6-9]|2\d|3[01]))\.|\.(local|internal|test|home\.arpa)$/.test(
      hostname,
    ) ||
    hostname.startsWith('[');
  return protocol.startsWith('http') && !isLocal;
}

/** Returns a picture's description, its metadata for programs, and the line below the picture. */
export function metadataOf({
  name,
  title,
  says,
  numbers,
  facts,
}: Omit<Figure, 'place' | 'drawOnPaper'>): FigureMetadata {
  const { corpus, version, link } = facts;
  const frames = numbers.map(({ frame }) => frame);
  const models = [...new Set(frames.map((frame) => frame.title))].join(', ');
  const publicAddress = isPublic(link) ? new URL(link) : undefined;
  return {
    title: models ? `${title}: ${models}` : title,
    description: [...says, ...frames.map(stampWords)].join('\n'),
    facts: {
      figure: name,
      measured_by: `Sinkscope ${version}`,
      ...(publicAddress ? { link } : {}),
      corpus,
      subjects: numbers.map(({ frame, measured }) => factsOf(frame, measured)),
    },
    // A link's long text would not fit below the picture, so this names only the page.
    note:
      `Sinkscope ${version}` +
      (publicAddress ? ` ${publicAddress.origin}${publicAddress.pathname}` : ''),
  };
}

function pictureOf(figure: Figure): SVGSVGElement {
  return figure.drawOnPaper(() => figureOf(figure.place, metadataOf(figure)));
}

export async function fileOf(kind: Kind, figure: Figure): Promise<Blob> {
  const { name, numbers, facts } = figure;
  if (kind === 'PNG') return pngOf(pictureOf(figure));
  if (kind === 'SVG') return new Blob([svgText(pictureOf(figure))], { type: 'image/svg+xml' });
  if (kind === 'CSV') return new Blob([toCsv(numbers, facts)], { type: 'text/csv' });
  return new Blob([toJson(name, numbers, facts)], { type: 'application/json' });
}

/** Returns a name that every file system accepts. */
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

/**
 * Draws an element in the light theme, reads the picture, and restores the reader's theme, all before the next paint.
 * @param draw draws the element in a theme; without one, in the reader's
 */
export function drawOnPaper<T>(element: Element, draw: (theme?: Theme) => void, take: () => T): T {
  const root = element.getRootNode();
  const themedElement =
    root instanceof ShadowRoot ? (root.host as HTMLElement) : document.documentElement;
  const { theme } = themedElement.dataset;
  themedElement.dataset.theme = 'light';
  draw('light');
  try {
    return take();
  } finally {
    if (theme === undefined) delete themedElement.dataset.theme;
    else themedElement.dataset.theme = theme;
    draw();
  }
}

export function downloadFile(file: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(file);
  link.download = name;
  link.click();
  // The browser reads the file after the click, so the address stays for a while.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const MENU_MARGIN = 8;

/** Makes a <details> a menu: it closes on a click elsewhere and on Escape, and its content stays in the window. */
export function makeMenu(menu: HTMLDetailsElement): void {
  const closeOutside = (event: Event) => {
    if (!event.composedPath().includes(menu)) menu.open = false;
  };
  menu.addEventListener('toggle', () => {
    document[menu.open ? 'addEventListener' : 'removeEventListener'](
      'pointerdown',
      closeOutside,
      true,
    );
    const content = menu.lastElementChild as HTMLElement;
    content.style.translate = '';
    if (!menu.open) return;
    const { left, right } = content.getBoundingClientRect();
    const overflow = Math.max(0, right - (document.documentElement.clientWidth - MENU_MARGIN));
    content.style.translate = `${Math.max(MENU_MARGIN - left, -overflow)}px`;
  });
  menu.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || !menu.open) return;
    menu.open = false;
    menu.querySelector('summary')!.focus();
  });
}

interface RecordingFile {
  readonly name: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

function sizeWords(bytes: number): string {
  return bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/**
 * Adds the button of a recording to a menu. The first click makes the files, so that the menu can show their size; the
 * second click saves them.
 */
export function addRecording(
  menu: HTMLDetailsElement,
  make: () => Promise<readonly RecordingFile[]>,
  fail: (error: unknown) => void,
): void {
  const button = document.createElement('button');
  button.type = 'button';
  let files: readonly RecordingFile[] | undefined;
  const setLabel = (text: string) => (button.textContent = text);
  const reset = () => {
    files = undefined;
    setLabel('Recording …');
  };
  reset();
  button.title = 'What was measured, in one file that this page, the command line and Python open';
  button.addEventListener('click', () => {
    if (files) {
      for (const { name, bytes } of files) downloadFile(new Blob([bytes]), name);
      menu.open = false;
      return reset();
    }
    setLabel('Measuring …');
    make().then(
      (recordings) => {
        files = recordings;
        const size = recordings.reduce((sum, { bytes }) => sum + bytes.length, 0);
        setLabel(`Save recording (${sizeWords(size)})`);
      },
      (error) => {
        reset();
        fail(error);
      },
    );
  });
  menu.addEventListener('toggle', () => {
    if (!menu.open) reset();
  });
  menu.lastElementChild!.append(button);
}

/**
 * Adds a menu with a button for each kind of file.
 * @param choose gets the kind that the reader chooses
 */
export function addKinds<const K extends string>(
  place: HTMLElement,
  name: string,
  kinds: readonly K[],
  choose: (kind: K) => void,
): HTMLDetailsElement {
  const menu = document.createElement('details');
  menu.className = 'save';
  const chooseKind = (kind: K) => {
    menu.open = false;
    menu.querySelector('summary')!.focus();
    choose(kind);
  };
  render(
    html`<summary aria-label="Save ${name}">Save</summary>
      <div>
        ${kinds.map((kind) => html`<button type="button" @click=${() => chooseKind(kind)}>${kind}</button>`)}
      </div>`,
    menu,
  );
  makeMenu(menu);
  place.append(menu);
  return menu;
}
