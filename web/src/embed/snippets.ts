/** The code that a teacher pastes: the element, an iframe, and both in the form that course tools take. */
import { printHash, type State } from '../ask/state';
import { titleOf as titleOfView } from '../views/index';
import { attributesOf } from './attributes';

interface Snippet {
  /** The hosts that take the code. */
  readonly label: string;
  readonly make: (state: State, base: URL, size?: Size) => string;
}

/** Of the embed, in CSS pixels; without a width as wide as the host's text. */
export interface Size {
  readonly width?: number;
  readonly height: number;
}
const FULL: Size = { height: 520 };

const QUOTED: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '"': '&quot;',
  '<': '&lt;',
  '>': '&gt;',
};
const quoted = (text: string) => `"${text.replace(/[&"<>]/g, (letter) => QUOTED[letter]!)}"`;

/** Of an embed: what a room is in is no part of it. */
function own(state: State): State {
  return { ...state, room: 'start', why: 0 };
}

/** Written even at their defaults: a page that changes a default changes no course. */
function pinned({ input }: State): readonly (keyof State)[] {
  return ['view', 'shown', ...(input === 'text' ? (['prompt'] as const) : [])];
}

/** The hash of embed.html. */
export function hashOf(state: State): string {
  return `#${printHash(own(state), pinned(state))}`;
}

function script(base: URL): string {
  return `<script type="module" src=${quoted(new URL('sink-scope.js', base).href)}></script>`;
}

/** Its place is reserved before the script has loaded, so that nothing moves when the figure appears. */
function attributes(state: State, { width, height }: Size): readonly (readonly [string, string])[] {
  const narrow = width ? `; max-width: ${width}px` : '';
  const style = `display: block; min-height: ${height}px; --sinkscope-height: ${height}px${narrow}`;
  return [...attributesOf(own(state), pinned(state)), ['style', style]];
}

function element(state: State, size: Size): string {
  const all = attributes(state, size).map(([name, value]) => ` ${name}=${quoted(value)}`);
  return `<sink-scope${all.join('')}></sink-scope>`;
}

function addressOf(state: State, base: URL): string {
  const address = new URL('embed.html', base);
  address.hash = hashOf(state);
  return address.href;
}

const titleOf = (state: State) => `Sinkscope: ${titleOfView(state.view)}`;

const widthOf = ({ width }: Size) => (width ? `${width}px; max-width: 100%` : '100%');

/** @param height or a ratio, where nothing can set the height later */
function frame(
  state: State,
  base: URL,
  size: Size,
  source = 'src',
  height = `height: ${size.height}px`,
  more = '',
): string {
  return (
    `<iframe ${more}${source}=${quoted(addressOf(state, base))} title=${quoted(titleOf(state))} ` +
    `loading="lazy" style="width: ${widthOf(size)}; ${height}; border: 0"></iframe>`
  );
}

const both = (state: State, base: URL, size = FULL) => `${script(base)}\n${element(state, size)}`;
const sized = (state: State, base: URL, size = FULL) =>
  `${frame(state, base, size)}\n${script(base)}`;
const fixed = (state: State, base: URL, size = FULL) => {
  const ratio = size.width ? `${size.width} / ${size.height}` : '4 / 3';
  return frame(state, base, size, 'src', `aspect-ratio: ${ratio}`);
};

export const snippets: readonly Snippet[] = [
  { label: 'HTML element, MkDocs, Observable Framework', make: both },
  { label: 'iframe with automatic height', make: sized },
  { label: 'iframe only (no script), Moodle, Canvas', make: fixed },
  { label: 'address only, Notion, Google Sites', make: addressOf },
  {
    label: 'Quarto, bookdown',
    make: (state, base, size) => `\`\`\`{=html}\n${sized(state, base, size)}\n\`\`\``,
  },
  {
    // The element follows the theme of the book, which a frame cannot see.
    label: 'Jupyter Book 1 (Sphinx)',
    make: (state, base, size) => `\`\`\`{raw} html\n${both(state, base, size)}\n\`\`\``,
  },
  {
    // MyST prints raw HTML as text, and has a directive for widgets, which follow the theme of the book.
    label: 'Jupyter Book 2 (MyST): widget',
    make: (state, base, size = FULL) => {
      const script = new URL('sink-scope.js', base).href;
      const given = { script, attributes: Object.fromEntries(attributes(state, size)) };
      return [
        `:::{anywidget} ${new URL('sink-widget.js', base).href}`,
        JSON.stringify(given, null, 2),
        ':::',
      ].join('\n');
    },
  },
  {
    // The directive for frames, which in print has the placeholder.
    label: 'Jupyter Book 2 (MyST): iframe',
    make: (state, base, size = FULL) =>
      [
        `:::{iframe} ${addressOf(state, base)}`,
        `:width: ${size.width ? `${size.width}px` : '100%'}`,
        `:title: ${titleOf(state)}`,
        `:placeholder: ${new URL('cards/start.png', base).href}`,
        ':::',
      ].join('\n'),
  },
  {
    // MDX is JSX, where a style is an object.
    label: 'Docusaurus (MDX)',
    make: (state, base, { width, height } = FULL) =>
      `<iframe src=${quoted(addressOf(state, base))} title=${quoted(titleOf(state))} loading="lazy" ` +
      `style={{ width: ${width ?? `'100%'`}, maxWidth: '100%', height: ${height}, border: 0 }} />`,
  },
  {
    label: 'reveal.js',
    // A slide has one size, in which the figure lays itself out; the script says the theme of the slides.
    make: (state, base, size = FULL) => {
      const height = `height: ${size.height}px`;
      return `<section>\n  ${frame(state, base, size, 'data-src', height, 'data-size="fixed" ')}\n</section>\n${script(base)}`;
    },
  },
];
