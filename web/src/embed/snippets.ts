/** The code that a teacher pastes: the element, an iframe, and both in the formats of course tools. */
import { printHash, type State } from '../ask/state';
import { EXPERIMENT, isWholeRoom, LAB, titleOf as titleOfView } from '../views/index';
import { attributesOf } from './attributes';

interface Snippet {
  readonly label: string;
  readonly make: (state: State, base: URL, size?: Size) => string;
}

/** In CSS pixels; without a width the embed is as wide as the host's text. */
export type Size = { readonly width?: number; readonly height: number };
const DEFAULT_SIZE: Size = { height: 520 };

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '"': '&quot;',
  '<': '&lt;',
  '>': '&gt;',
  // In Markdown a blank line ends a block of HTML.
  '\n': '&#10;',
  '\r': '&#13;',
};
const quoteAttribute = (text: string) =>
  `"${text.replace(/[&"<>\n\r]/g, (letter) => ENTITIES[letter]!)}"`;

const embedState = (state: State): State => ({ ...state, room: 'start', why: 0 });

/** Returns the keys to write even at their defaults, so that a change of defaults does not change a teacher's page. */
function pinnedKeys({ input }: State): readonly (keyof State)[] {
  return ['view', 'shown', ...(input === 'text' ? (['prompt'] as const) : [])];
}

export function embedHash(state: State): string {
  return `#${printHash(embedState(state), pinnedKeys(state))}`;
}

function moduleTag(base: URL): string {
  return `<script type="module" src=${quoteAttribute(new URL('sink-scope.js', base).href)}></script>`;
}

/** Returns the size as attributes, since a host with a strict policy refuses inline styles. */
const sizeAttributes = (
  { width, height }: Size,
  isWide: boolean,
): readonly (readonly [string, string])[] => [
  ...(width ? [['width', String(width)] as const] : isWide ? [['width', '100%'] as const] : []),
  ['height', String(height)],
];

const printAttributes = (attributes: readonly (readonly [string, string])[]) =>
  attributes.map(([name, value]) => ` ${name}=${quoteAttribute(value)}`).join('');

/** Returns the attributes of the element, without a size for the lab and experiments, which have their own heights. */
function elementAttributes(state: State, size: Size): readonly (readonly [string, string])[] {
  const sizePairs = isWholeRoom(state.view) ? [] : sizeAttributes(size, false);
  return [...attributesOf(embedState(state), pinnedKeys(state)), ...sizePairs];
}

/** Returns a picture and a link for the time until the figure is drawn, and for hosts where no script runs. */
function fallbackOf(state: State, base: URL, { width }: Size) {
  const cardName = { [LAB]: 'lab', [EXPERIMENT]: 'purpose' }[state.view] ?? 'start';
  return {
    link: addressOf(state, base),
    picture: new URL(`cards/${cardName}.png`, base).href,
    width: String(width ?? '100%'),
    title: titleOf(state),
  };
}

function elementTag(state: State, base: URL, size: Size): string {
  const { link, picture, width, title } = fallbackOf(state, base, size);
  const imageTag = `<img src=${quoteAttribute(picture)} width=${quoteAttribute(width)} alt=${quoteAttribute(title)}>`;
  return (
    `<sink-scope${printAttributes(elementAttributes(state, size))}>` +
    `<a href=${quoteAttribute(link)}>${imageTag}</a></sink-scope>`
  );
}

/** Returns a script that warns if the element does not load: browsers are silent when a server blocks a module. */
function warningScript(base: URL): string {
  const message =
    `Not shown: this page could not load ${new URL('sink-scope.js', base).href}. ` +
    'Its server may not allow other sites to (Access-Control-Allow-Origin); an iframe needs no such header.';
  return (
    "<script>setTimeout(() => document.querySelectorAll('sink-scope:not(:defined):not([data-missing])')" +
    `.forEach((one) => { one.dataset.missing = ''; one.append(${JSON.stringify(message)}); }), 4000)</script>`
  );
}

function addressOf(state: State, base: URL): string {
  const address = new URL('embed.html', base);
  address.hash = embedHash(state);
  return address.href;
}

const titleOf = (state: State) => `Sinkscope: ${titleOfView(state.view)}`;

function frameTag(
  state: State,
  base: URL,
  size = DEFAULT_SIZE,
  source = 'src',
  moreAttributes = '',
): string {
  return (
    `<iframe ${moreAttributes}${source}=${quoteAttribute(addressOf(state, base))} title=${quoteAttribute(titleOf(state))}` +
    `${printAttributes(sizeAttributes(size, true))} frameborder="0" loading="lazy"></iframe>`
  );
}

const elementCode = (state: State, base: URL, size = DEFAULT_SIZE) =>
  [moduleTag(base), elementTag(state, base, size), warningScript(base)].join('\n');
const resizingFrame = (state: State, base: URL, size?: Size) =>
  `${frameTag(state, base, size)}\n${moduleTag(base)}`;

export const snippets: readonly Snippet[] = [
  { label: 'HTML element, MkDocs, Observable Framework', make: elementCode },
  { label: 'iframe with automatic height', make: resizingFrame },
  { label: 'iframe only (no script), Moodle, Canvas', make: frameTag },
  { label: 'address only, Notion, Google Sites', make: addressOf },
  {
    label: 'Quarto, bookdown',
    make: (state, base, size) => `\`\`\`{=html}\n${resizingFrame(state, base, size)}\n\`\`\``,
  },
  {
    // Uses the element, which can follow the book's theme; a frame cannot read that theme.
    label: 'Jupyter Book 1 (Sphinx)',
    make: (state, base, size) => `\`\`\`{raw} html\n${elementCode(state, base, size)}\n\`\`\``,
  },
  {
    // Uses MyST's directive for widgets, since MyST prints raw HTML as text.
    label: 'Jupyter Book 2 (MyST): widget',
    make: (state, base, size = DEFAULT_SIZE) => {
      const widgetModel = {
        script: new URL('sink-scope.js', base).href,
        attributes: Object.fromEntries(elementAttributes(state, size)),
        content: fallbackOf(state, base, size),
      };
      return [
        `:::{anywidget} ${new URL('sink-widget.js', base).href}`,
        JSON.stringify(widgetModel, null, 2),
        ':::',
      ].join('\n');
    },
  },
  {
    // Uses MyST's directive for frames, whose placeholder MyST prints on paper.
    label: 'Jupyter Book 2 (MyST): iframe',
    make: (state, base, size = DEFAULT_SIZE) =>
      [
        `:::{iframe} ${addressOf(state, base)}`,
        `:width: ${size.width ? `${size.width}px` : '100%'}`,
        `:title: ${titleOf(state)}`,
        `:placeholder: ${new URL('cards/start.png', base).href}`,
        ':::',
      ].join('\n'),
  },
  {
    // MDX is JSX, whose attributes have the names of DOM properties.
    label: 'Docusaurus (MDX)',
    make: (state, base, size) =>
      frameTag(state, base, size)
        .replace('frameborder', 'frameBorder')
        .replace('></iframe>', ' />'),
  },
  {
    label: 'reveal.js',
    // The figure fits into the fixed size of a slide; the script sends the theme and receives the keys.
    make: (state, base, size = DEFAULT_SIZE) =>
      `<section>\n  ${frameTag(state, base, size, 'data-src', 'data-size="fixed" ')}\n</section>\n${moduleTag(base)}`,
  },
];
