import { encode } from 'uqr';
import { expect, it } from 'vitest';
import { parseHash } from '../src/ask/state';
import { plateHtml, plates } from '../ship/plates.ts';

const HOME = 'https://sinkscope.example/1.0.0/';

it('there are six plates, each with two sentences, a question and its conditions', () => {
  const allPlates = plates();
  expect(allPlates).toHaveLength(6);
  for (const { sentences, question, conditions, title } of allPlates) {
    expect(sentences, title).toHaveLength(2);
    expect(sentences.join(' '), title).not.toMatch(/[{}]/);
    expect(question, title).toMatch(/\?$/);
    expect(conditions.length, title).toBeGreaterThan(0);
    for (const condition of conditions) expect(condition).toMatch(/ε = .* T = \d+/);
  }
});

it('each plate has a picture with marks, not only words', () => {
  for (const { figure, svg } of plates())
    expect(svg.match(/<(path|rect|circle|line)\b/g)!.length, figure).toBeGreaterThan(10);
});

it('each plate links to the figure in the state of its picture', () => {
  for (const { figure, link } of plates()) {
    const { state, problems } = parseHash(link.split('#')[1]!);
    expect(problems, figure).toEqual([]);
    // The link contains the text, since a later page may have another default.
    if (state.input === 'text') expect(link, figure).toMatch(/prompt=/);
    else expect(state, figure).toMatchObject({ T: 120, n: 8, view: 'loss' });
  }
});

it('the sheet of plates is vector graphics, with a QR code for the printed address', () => {
  for (const plate of plates()) {
    const html = plateHtml(plate, HOME);
    expect(html).not.toMatch(/<image|<img|<script/);
    const [, address = ''] = /<a href="([^"]+)"/.exec(html) ?? [];
    const plainAddress = address.replaceAll('&amp;', '&');
    expect(plainAddress).toBe(new URL(plate.link, HOME).href);
    const { data } = encode(plainAddress, { border: 1 });
    const darkCount = data.flat().filter(Boolean).length;
    const [, code = ''] = /<footer>[^]*<svg[^>]*>([^]*?)<\/svg>/.exec(html) ?? [];
    expect(code.match(/M\d+,\d+h10v10h-10z/g)).toHaveLength(darkCount);
  }
});
