// @vitest-environment happy-dom
import { describe, expect, it, vi } from 'vitest';
import { cardOf, linesOf, pictureOf } from '../src/save/card';
import type { Frame } from '../src/frame';
import { sequential } from '../src/plot/color';
import { findingWords, stampWords } from '../src/words';
import { frameOf, tensor } from './fixture';

const upTo = (most: number) => (line: string) => line.length <= most;

describe('the picture to share', () => {
  it('breaks a sentence between words without losing any', () => {
    const text = 'The old man sat at the door and looked over the water.';
    const lines = linesOf(text, 9, upTo(20));
    expect(lines.every((line) => line.length <= 20)).toBe(true);
    expect(lines.join(' ')).toBe(text);
  });

  it('breaks a text without spaces, and one that is too long ends in an ellipsis', () => {
    expect(linesOf('字'.repeat(36), 9, upTo(12))).toEqual(Array(3).fill('字'.repeat(12)));
    const lines = linesOf('word '.repeat(100), 2, upTo(15));
    expect(lines).toEqual(['word word word', 'word word word…']);
    expect(linesOf('one two three four five', 3, upTo(5))).toEqual(['one', 'two', 'three…']);
    expect(linesOf('  one\n two  ', 1, upTo(9))).toEqual(['one two']);
    expect(linesOf('', 1, upTo(9))).toEqual([]);
  });
});

describe('the content of the picture', () => {
  const at = { layer: 1, head: 0 };
  const head = { ...at, tensors: { att: tensor([3, 3], [1, 0, 0, 0.5, 0.5, 0, 0.25, 0.25, 0.5]) } };
  const link = 'https://page.example/#a';
  const frameWith = (prompt: string, change: object = {}) =>
    frameOf({ head, question: { ...frameOf().question, prompt }, ...change } as never);

  function drawCard(frame: Frame, to = link) {
    const texts: [line: string, x: number, y: number, font: string, color: string][] = [];
    const images: unknown[][] = [];
    const pixels: number[] = [];
    const context = {
      font: '',
      fillStyle: '',
      imageSmoothingEnabled: true,
      fillRect: vi.fn(),
      // Ten pixels a letter, whatever the font: 636 pixels have 63 of them.
      measureText: (line: string) => ({ width: 10 * line.length }),
      fillText(line: string, x: number, y: number) {
        texts.push([line, x, y, this.font.split(' s')[0]!, this.fillStyle]);
      },
      putImageData: ({ data }: ImageData) => pixels.push(...new Uint32Array(data.buffer)),
      drawImage(_: unknown, ...place: number[]) {
        images.push([...place, this.imageSmoothingEnabled]);
      },
    };
    vi.spyOn(HTMLCanvasElement.prototype, 'getContext').mockReturnValue(context as never);
    vi.stubGlobal(
      'ImageData',
      class {
        constructor(
          readonly data: Uint8ClampedArray,
          readonly width: number,
        ) {}
      },
    );
    const card = cardOf(frame, at, { version: '1.2.3', link: to });
    return { card, texts, lines: texts.map(([line]) => line), images, pixels, context };
  }

  it('puts text, share, finding, conditions, map and link in their places', () => {
    const frame = frameWith('word '.repeat(20).trim());
    const { card, texts, lines, images, pixels, context } = drawCard(frame);
    expect([card.width, card.height]).toEqual([1200, 630]);
    expect(context.fillRect).toHaveBeenCalledWith(0, 0, 1200, 630);
    const [ink, gray] = ['#1d1b22', '#55525e'];
    // The number is the mean of the drawn column, (1 + 0.5 + 0.25) / 3. A line takes 1.3 times its size, and 0.4 times
    // more at the end of a text.
    expect(texts.slice(0, 4).map(([line, ...place]) => [line.slice(0, 10), ...place])).toEqual([
      ['“word word', 48, 48, '600 30px', ink],
      ['word word ', 48, 87, '600 30px', ink],
      ['58%', 48, 138, '700 92px', '#b0305a'],
      [findingWords(frame, at).slice(0, 10), 48, 138 + 1.3 * 92 + 0.4 * 92, '400 20px', ink],
    ]);
    expect(lines.slice(3, -2).join(' ')).toBe(`${findingWords(frame, at)} ${stampWords(frame)}`);
    expect(lines.every((line) => line.length <= 63)).toBe(true);
    expect(texts.slice(-2)).toEqual([
      ['Softmax model, head L1H0: rows attend to columns', 732, 478, '400 17px', gray],
      [`Sinkscope 1.2.3 · ${link}`, 48, 578, '600 20px', gray],
    ]);
    expect(images).toEqual([[732, 48, 420, 420, false]]);
    const { colors, hidden } = sequential('light', 1, true);
    const [all, half, quarter] = [256, 181, 128].map((step) => colors[step]);
    expect(pixels).toEqual([all, hidden, hidden, half, half, hidden, quarter, quarter, half]);
  });

  it('names the head by the model’s number of its layer', () => {
    const architecture = { ...frameOf().architecture, layers: [3, 7] };
    const { lines } = drawCard(frameWith('word', { architecture }));
    expect(lines).toMatchSnapshot();
  });

  it('has at most five lines of text and two of conditions, and shortens the link', () => {
    const title = 'word '.repeat(40).trim();
    const longFrame = frameWith('word '.repeat(200), { title });
    const { texts, lines } = drawCard(longFrame, `${link}${'a'.repeat(70)}`);
    const promptLines = texts.filter(([, , , font]) => font === '600 30px');
    expect([promptLines.length, promptLines[4]![0].endsWith('…')]).toEqual([5, true]);
    const stamp = stampWords(longFrame);
    const [first, second, third] = lines.slice(lines.findIndex((line) => stamp.startsWith(line)));
    expect([stamp.startsWith(`${first} `), second!.endsWith('…')]).toEqual([true, true]);
    expect(third).toBe(`${title}, head L1H0: rows attend to columns`);
    expect(lines.at(-1)).toBe('Sinkscope 1.2.3 · https://page.example/');
    const longLink = `${link}${'a'.repeat(69)}`;
    expect(drawCard(longFrame, longLink).lines.at(-1)).toBe(`Sinkscope 1.2.3 · ${longLink}`);
  });

  it('omits the map for means; the file is a PNG, or an error if the browser makes none', async () => {
    const meanFrame = frameWith('A text.', { pooled: 2 });
    expect(drawCard(meanFrame).images).toEqual([]);
    const make = vi.spyOn(HTMLCanvasElement.prototype, 'toBlob');
    make.mockImplementation((done) => done(new Blob(['png'])));
    const file = await pictureOf(meanFrame, at, { version: '1.2.3', link });
    expect([file.name, file.type, file.size]).toEqual(['sinkscope.png', 'image/png', 3]);
    make.mockImplementation((done) => done(null));
    await expect(
      pictureOf(meanFrame, at, { version: '', link: '' }),
    ).rejects.toThrowErrorMatchingSnapshot();
  });
});
