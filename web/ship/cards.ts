/**
 * Previews of shared links: a title, a sentence and a picture for each room and each lesson. All rooms are states of
 * one page, which a preview cannot distinguish, so each room also has a small page with its preview, which redirects to
 * the room.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { HtmlTagDescriptor, Plugin } from 'vite';
import { ROOMS, type RoomName } from '../src/rooms/names.ts';
import { escapeHtml, lessons } from './lessons.ts';
import { POLICY_TAGS } from './policy.ts';

/** The size of every picture in pixels, as large previews need it. */
export const SIZE = { width: 1200, height: 630 } as const;

export interface Card {
  /** The path of the card's page below Sinkscope's address: `explore/index.html`. */
  readonly page: string;
  readonly name: string;
  readonly heading: string;
  readonly description: string;
  /** The figures of lessons that the picture shows, as lessons/pictures names them. */
  readonly figures: readonly string[];
}

const FIGURES: Readonly<Record<RoomName, readonly string[]>> = {
  start: ['1-map', '1-twin'],
  explore: ['1-heads'],
  compare: ['6-threshold'],
  training: ['3-course'],
  purpose: ['4-stream'],
  lab: ['3-lab'],
  learn: ['2-sums'],
};

const [startRoom, ...otherRooms] = ROOMS;

/** Returns a card for every page that a link may lead to, except embeds. */
export function cards(): readonly Card[] {
  return [
    ...ROOMS.map((room) => ({
      ...room,
      page: room === startRoom ? 'index.html' : `${room.name}/index.html`,
      figures: FIGURES[room.name],
    })),
    ...lessons().map(({ slug, title, description, figures }) => ({
      ...{ name: slug, page: `learn/${slug}/index.html`, heading: title, description },
      figures: [figures[0]!.id],
    })),
    {
      name: 'glossary',
      page: 'learn/glossary/index.html',
      heading: 'Glossary',
      description: 'The terms of attention sinks, a sentence each.',
      figures: ['1-map'],
    },
  ];
}

export const figureSvgs = ({ figures }: Card): readonly string[] =>
  figures.map((name) =>
    readFileSync(join(import.meta.dirname, '../lessons/pictures', `${name}.svg`), 'utf8'),
  );

/** Returns a hash of all that a card's picture shows; a test compares it to find outdated pictures. */
export function fingerprintOf(card: Card): string {
  const hash = createHash('sha256').update(JSON.stringify([card.heading, card.description]));
  for (const svg of figureSvgs(card)) hash.update(svg);
  return hash.digest('hex').slice(0, 16);
}

export const pictureOf = ({ name }: Card) => `cards/${name}.png`;

export function tagsOf(card: Card, home: string): readonly Readonly<Record<string, string>>[] {
  return [
    { property: 'og:site_name', content: 'Sinkscope' },
    { property: 'og:type', content: card.page.startsWith('learn/') ? 'article' : 'website' },
    { property: 'og:title', content: card.heading },
    { property: 'og:description', content: card.description },
    { property: 'og:image', content: home + pictureOf(card) },
    { property: 'og:image:width', content: String(SIZE.width) },
    { property: 'og:image:height', content: String(SIZE.height) },
    { property: 'og:image:alt', content: `${card.heading} A figure of Sinkscope.` },
    { name: 'twitter:card', content: 'summary_large_image' },
    { name: 'description', content: card.description },
  ];
}

/** A script that opens the room in the state of the link's hash. It also runs in browsers without modules. */
const REDIRECT = `location.replace('../index.html' + (location.hash || document.currentScript.getAttribute('data-hash')));
`;

/** Returns the page of a room. It shows the room's picture even where no script runs. */
function roomPage(card: Card, home: string): string {
  const tags = [...POLICY_TAGS, ...tagsOf(card, home)].map(
    (attributes) =>
      `    <meta ${Object.entries(attributes)
        .map(([name, value]) => `${name}="${escapeHtml(value)}"`)
        .join(' ')} />`,
  );
  const hash = `#room=${card.name}`;
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
${tags.join('\n')}
    <title>${escapeHtml(card.heading)} · Sinkscope</title>
    <link rel="icon" href="data:," />
    <script src="../room.js" data-hash="${hash}"></script>
  </head>
  <body>
    <main>
      <h1><a href="../index.html${hash}">${escapeHtml(card.heading)}</a></h1>
      <p>${escapeHtml(card.description)}</p>
      <img src="../${pictureOf(card)}" width="${SIZE.width / 2}" height="${SIZE.height / 2}" alt="" />
    </main>
  </body>
</html>
`;
}

/** Adds previews to the pages, and a page and a picture for each room; `home` is the built page's address, or ''. */
export function previews(home: string): Plugin {
  const cardsByPage = new Map(cards().map((card) => [card.page, card]));
  const homeOf = (page: string) => home || '../'.repeat(page.split('/').length - 1) || './';
  return {
    name: 'cards',
    transformIndexHtml: (_, { path }) => {
      const card = cardsByPage.get(path.slice(1));
      const tags = card ? tagsOf(card, homeOf(card.page)) : [];
      return tags.map((attrs): HtmlTagDescriptor => ({ tag: 'meta', attrs, injectTo: 'head' }));
    },
    generateBundle() {
      const emit = (fileName: string, source: string | Uint8Array) =>
        this.emitFile({ type: 'asset', fileName, source });
      for (const card of cardsByPage.values())
        emit(
          pictureOf(card),
          readFileSync(join(import.meta.dirname, '../cards', `${card.name}.png`)),
        );
      emit('room.js', REDIRECT);
      for (const { name } of otherRooms) {
        const card = cardsByPage.get(`${name}/index.html`)!;
        emit(card.page, roomPage(card, homeOf(card.page)));
      }
    },
  };
}
