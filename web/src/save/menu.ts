/** The menu of every figure that saves the picture or its numbers as a file. */
import { html, render } from 'lit';
import type { Frame } from '../frame';
import type { Theme } from '../plot/color';

export const KINDS = ['SVG', 'PNG', 'CSV', 'JSON'] as const;
export type Kind = (typeof KINDS)[number];

export function fileName(
  {
    name,
    numbers,
  }: {
    readonly name: string;
    readonly numbers: readonly { readonly frame: Pick<Frame, 'title'> }[];
  },
  kind: string,
): string {
  const titles = numbers
    .map(({ frame }) => frame.title)
    .slice(0, 2)
    .join('-');
  const model = titles.toLowerCase().replace(/[^\p{L}\p{N}.]+/gu, '-');
  return `sinkscope-${name}-${model}.${kind.toLowerCase()}`.slice(-120);
}

/** Reads the picture of an element that `draw` redraws in the light theme, and undoes it before the next paint. */
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

type RecordingFile = { readonly name: string; readonly bytes: Uint8Array<ArrayBuffer> };

function sizeWords(bytes: number): string {
  return bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** Adds the button of a recording: a first click makes the files, so that their size shows, a second saves them. */
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

/** Adds a menu with a button for each kind of file, which `choose` gets. */
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
