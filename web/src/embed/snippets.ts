/** The code that a teacher pastes: the element, an iframe, and both in the form that course tools take. */
import { printHash, type State } from '../ask/state';
import { viewNamed } from '../views/index';
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

function frame(state: State, base: URL, source = 'src'): string {
  const address = new URL('embed.html', base);
  address.hash = printHash({ ...own(state), view: state.view });
  // The default view is named too: a page that changes its default changes no course.
  if (!/(^|[#&])view=/.test(address.hash))
    address.hash += `${address.hash ? '&' : ''}view=${state.view}`;
  return (
    `<iframe ${source}=${quoted(address.href)} title=${quoted(`Sinkscope: ${viewNamed(state.view).title}`)} ` +
    'loading="lazy" style="width: 100%; height: 520px; border: 0"></iframe>'
  );
}

const both = (state: State, base: URL) => `${script(base)}\n${element(state)}`;
const sized = (state: State, base: URL) => `${frame(state, base)}\n${script(base)}`;

export const snippets: readonly Snippet[] = [
  { label: 'HTML element, Observable Framework', make: both },
  { label: 'iframe with automatic height, MkDocs', make: sized },
  { label: 'iframe only (no script)', make: frame },
  { label: 'Quarto', make: (state, base) => `\`\`\`{=html}\n${sized(state, base)}\n\`\`\`` },
  {
    label: 'Jupyter Book',
    make: (state, base) => `\`\`\`{raw} html\n${sized(state, base)}\n\`\`\``,
  },
  {
    label: 'reveal.js',
    make: (state, base) => `<section>\n  ${frame(state, base, 'data-src')}\n</section>`,
  },
];
