/** The code that a teacher pastes: the element, an iframe, and both in the form that course tools take. */
import { printHash, type State } from '../ask/state';
import { titleOf as titleOfView } from '../views/index';
import { attributesOf } from './attributes';

interface Snippet {
  /** The hosts that take the code. */
  readonly label: string;
  readonly make: (state: State, base: URL) => string;
}

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

function script(base: URL): string {
  return `<script type="module" src=${quoted(new URL('sink-scope.js', base).href)}></script>`;
}

function element(state: State): string {
  const view = state.view;
  const rest = attributesOf(own(state)).filter(([name]) => name !== 'view');
  const attributes = [['view', view] as const, ...rest];
  return `<sink-scope${attributes.map(([name, value]) => ` ${name}=${quoted(value)}`).join('')}></sink-scope>`;
}

function addressOf(state: State, base: URL): string {
  const address = new URL('embed.html', base);
  address.hash = printHash({ ...own(state), view: state.view });
  // The default view is named too: a page that changes its default changes no course.
  if (!/(^|[#&])view=/.test(address.hash))
    address.hash += `${address.hash ? '&' : ''}view=${state.view}`;
  return address.href;
}

const titleOf = (state: State) => `Sinkscope: ${titleOfView(state.view)}`;

/** @param size the height, or a ratio where nothing can set the height later */
function frame(state: State, base: URL, source = 'src', size = 'height: 520px'): string {
  return (
    `<iframe ${source}=${quoted(addressOf(state, base))} title=${quoted(titleOf(state))} ` +
    `loading="lazy" style="width: 100%; ${size}; border: 0"></iframe>`
  );
}

const both = (state: State, base: URL) => `${script(base)}\n${element(state)}`;
const sized = (state: State, base: URL) => `${frame(state, base)}\n${script(base)}`;
const fixed = (state: State, base: URL) => frame(state, base, 'src', 'aspect-ratio: 4 / 3');

export const snippets: readonly Snippet[] = [
  { label: 'HTML element, MkDocs, Observable Framework', make: both },
  { label: 'iframe with automatic height', make: sized },
  { label: 'iframe only (no script), Moodle, Canvas', make: fixed },
  { label: 'address only, Notion, Google Sites', make: addressOf },
  {
    label: 'Quarto, bookdown',
    make: (state, base) => `\`\`\`{=html}\n${sized(state, base)}\n\`\`\``,
  },
  {
    // The element follows the theme of the book, which a frame cannot see.
    label: 'Jupyter Book 1 (Sphinx)',
    make: (state, base) => `\`\`\`{raw} html\n${both(state, base)}\n\`\`\``,
  },
  {
    // MyST prints raw HTML as text, and has a directive for frames. In print it has the placeholder.
    label: 'Jupyter Book 2 (MyST)',
    make: (state, base) =>
      [
        `:::{iframe} ${addressOf(state, base)}`,
        ':width: 100%',
        `:title: ${titleOf(state)}`,
        `:placeholder: ${new URL('picture.png', base).href}`,
        ':::',
      ].join('\n'),
  },
  {
    // MDX is JSX, where a style is an object.
    label: 'Docusaurus (MDX)',
    make: (state, base) =>
      `<iframe src=${quoted(addressOf(state, base))} title=${quoted(titleOf(state))} loading="lazy" ` +
      `style={{ width: '100%', height: 520, border: 0 }} />`,
  },
  {
    label: 'reveal.js',
    make: (state, base) => `<section>\n  ${frame(state, base, 'data-src')}\n</section>`,
  },
];
