/** Every room and every lesson has a preview for links that are shared: a page, a title, a sentence and a picture. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { cards, fingerprintOf, SIZE, tagsOf } from '../ship/cards';
import { lessons, pages } from '../ship/lessons';
import { rooms } from '../src/rooms/index';

const folder = join(import.meta.dirname, '../cards');
const allCards = cards();
const fingerprints = JSON.parse(readFileSync(join(folder, 'drawn.json'), 'utf8')) as Record<
  string,
  string
>;

describe('previews of shared links', () => {
  it('exist for every room, every lesson and the glossary, each on its own page', () => {
    const expectedPages = [
      ...rooms.map(({ name }) => (name === 'start' ? 'index.html' : `${name}/index.html`)),
      ...Object.keys(pages()),
    ];
    expect(allCards.map(({ page }) => page).sort()).toEqual(expectedPages.sort());
    expect(pages()).toHaveProperty([`learn/${lessons()[0]!.slug}/index.html`]);
  });

  it('have a title and a sentence of their own', () => {
    for (const of of ['heading', 'description', 'name'] as const)
      expect(new Set(allCards.map((card) => card[of])).size, of).toBe(allCards.length);
    for (const { description, name } of allCards)
      expect(description.length, name).toBeLessThan(160);
  });

  it('have a picture of the stated size, drawn from their title, their sentence and their figures', () => {
    for (const card of allCards) {
      const png = readFileSync(join(folder, `${card.name}.png`));
      expect([png.readUInt32BE(16), png.readUInt32BE(20)], card.name).toEqual([
        SIZE.width,
        SIZE.height,
      ]);
      expect(png.length, card.name).toBeLessThan(200_000);
      expect(fingerprints[card.name], `${card.name}: node web/cards/draw.mjs`).toBe(
        fingerprintOf(card),
      );
    }
    expect(Object.keys(fingerprints)).toHaveLength(allCards.length);
  });

  it('name the picture by an absolute address where the address of the build is known', () => {
    const imageAddress = (home: string) =>
      tagsOf(allCards.at(-1)!, home).find(({ property }) => property === 'og:image')!.content;
    expect(imageAddress('https://example.org/x/')).toBe('https://example.org/x/cards/glossary.png');
    expect(imageAddress('../../')).toBe('../../cards/glossary.png');
  });
});
