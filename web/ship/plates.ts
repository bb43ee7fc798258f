/**
 * Plates: a figure of the course on a sheet of paper, with an explanation, a question, space to write and the address
 * of the live figure. plates/draw.mjs makes PDF files of them.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { renderSVG } from 'uqr';
import { parseHash, printHash, table, type State } from '../src/ask/state';
import { escapeHtml } from './lessons.ts';
import { readPictures } from './markdown.ts';

const web = join(import.meta.dirname, '..');

/** An entry of plates.json. */
interface Entry {
  /** The figure's name in lessons/pictures. */
  readonly figure: string;
  readonly title: string;
  readonly sentences: readonly string[];
  readonly question: string;
}
type Plate = ReturnType<typeof plates>[number];

/** Replaces `{alpha}` by the picture's number of that name, and `{says}` by the picture's sentence. */
function fillIn(text: string, numbers: Readonly<Record<string, string>>): string {
  return text.replace(/\{(\w+)\}/g, (_, name: string) => {
    if (!(name in numbers))
      throw new Error(`plates.json: no number “${name}” in the picture: ${text}`);
    return numbers[name]!;
  });
}

/** Returns the hash of the link to a figure. The attributes of the figure have names in lower case. */
function hashOf(attributes: Readonly<Record<string, string>>): string {
  const names = new Map(Object.keys(table).map((name) => [name.toLowerCase(), name]));
  const pairs = Object.entries(attributes).map(([name, value]) => [names.get(name) ?? name, value]);
  const { state, problems } = parseHash(String(new URLSearchParams(pairs)));
  if (problems.length) throw new Error(`plates.json: ${problems.join(' ')}`);
  // The link states these settings even where they are defaults, since a later page may have other defaults.
  const pinnedKeys: (keyof State)[] = [
    'view',
    'shown',
    ...(state.input === 'text' ? ['prompt' as const] : []),
  ];
  return printHash(state, pinnedKeys);
}

/** Returns the figure without its first line, which names the view: a sheet has a title of its own. */
function withoutTitle(svg: string): string {
  const [, width, height] = /viewBox="0 0 (\d+) (\d+)"/.exec(svg)!;
  return svg
    .replace(/<text x="12" y="22"[^>]*>[^<]*<\/text>/, '')
    .replace(
      /width="\d+" height="\d+" viewBox="[^"]*"/,
      `viewBox="0 ${TITLE_HEIGHT} ${width} ${Number(height) - TITLE_HEIGHT}"`,
    );
}
const TITLE_HEIGHT = 26;

export function plates() {
  const entries = JSON.parse(readFileSync(join(web, 'plates/plates.json'), 'utf8')) as Entry[];
  return entries.map(({ figure, title, sentences, question }) => {
    const picture = readPictures()[figure];
    if (!picture) throw new Error(`plates.json: the course has no figure “${figure}”`);
    const svg = readFileSync(join(web, 'lessons/pictures', `${figure}.svg`), 'utf8');
    const [, description = ''] = /<desc>([^]*?)<\/desc>/.exec(svg) ?? [];
    const numbers = { ...picture.values, says: picture.says };
    return {
      ...{ figure, title, question, svg: withoutTitle(svg) },
      sentences: sentences.map((sentence) => fillIn(sentence, numbers)),
      // The conditions of each model, which are escaped, since the picture's description is.
      conditions: description.split('\n').filter((line) => line.includes(' · ε = ')),
      // Below the page's address.
      link: `embed.html#${hashOf(picture.state)}`,
    };
  });
}

const STYLE = `
  @page { margin: 0; }
  * { box-sizing: border-box; }
  body { display: flex; flex-direction: column; gap: 5mm; height: 100vh; margin: 0; padding: 15mm 16mm 12mm;
    color: #1d1b22; background: #ffffff; font: 12.5pt/1.45 Helvetica, Arial, 'Liberation Sans', sans-serif; }
  h1 { margin: 0; font-size: 23pt; line-height: 1.15; letter-spacing: -0.01em; }
  p { margin: 0; }
  .figure { display: flex; justify-content: center; }
  .figure svg { width: 100%; height: auto; max-height: 122mm; }
  .question { font-weight: 700; }
  .lines { flex: 1; overflow: hidden; }
  .lines div { height: 9mm; border-bottom: 0.25mm solid #b9b6bf; }
  footer { display: flex; gap: 6mm; align-items: end; justify-content: space-between; color: #55525e; font-size: 8.5pt; line-height: 1.35; }
  footer svg { flex: none; width: 27mm; height: 27mm; }
  a { color: inherit; overflow-wrap: anywhere; }
`;
/** The number of lines to write on, more than any paper has room for. */
const LINE_COUNT = 30;

/** @param home the absolute address of the page */
export function plateHtml(
  { title, sentences, question, conditions, svg, link }: Plate,
  home: string,
) {
  const address = new URL(link, home).href;
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <title>${escapeHtml(title)} · Sinkscope</title>
    <style>${STYLE}</style>
  </head>
  <body>
    <h1>${escapeHtml(title)}</h1>
    <div class="figure">${svg}</div>
    <p>${sentences.map(escapeHtml).join(' ')}</p>
    <p class="question">${escapeHtml(question)}</p>
    <div class="lines">${'<div></div>'.repeat(LINE_COUNT)}</div>
    <footer>
      <div>${conditions.map((condition) => `<p>${condition}</p>`).join('')}<p>Live: <a href="${escapeHtml(address)}">${escapeHtml(address)}</a></p></div>
      ${renderSVG(address, { border: 1 })}
    </footer>
  </body>
</html>
`;
}

export const PAPERS = ['A4', 'Letter'] as const;

export const fileOf = ({ figure }: Plate, paper: (typeof PAPERS)[number]) =>
  `${figure}-${paper.toLowerCase()}.pdf`;

export function listHtml(plates: readonly Plate[]): string {
  const rows = plates.map((plate) => {
    const files = PAPERS.map((paper) => `<a href="${fileOf(plate, paper)}">${paper}</a>`);
    return `      <li>${escapeHtml(plate.title)} ${files.join(', ')}</li>`;
  });
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <title>Plates · Sinkscope</title>
    <style>body { max-width: 40rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.6 system-ui, sans-serif; }</style>
  </head>
  <body>
    <h1>Plates</h1>
    <p>One figure a sheet, with a question and space to write. The square code leads to the live figure.</p>
    <ul>
${rows.join('\n')}
    </ul>
    <p><a href="../index.html#room=learn">The lessons</a></p>
  </body>
</html>
`;
}
