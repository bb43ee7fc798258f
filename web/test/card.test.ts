// @vitest-environment happy-dom
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { cardOf, linesOf, pictureOf } from '../src/save/card';
import type { Frame } from '../src/frame';
import { css, sequential } from '../src/plot/color';
import { finding, stampWords } from '../src/words';
import { frameOf, tensor } from './fixture';

const upTo = (most: number) => (line: string) => line.length <= most;

describe('the picture to share', () => {
  it('breaks a sentence between words, and none is lost', () => {
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

describe('what is drawn on it', () => {
  let written: string[] = [];
  const images: unknown[][] = [];
  const places: unknown[][] = [];
  let pixels: ImageData | undefined;
  const text = (from: number) => written.slice(from).join(' ');
  beforeEach(() => {
    [written, images.length, places.length, pixels] = [[], 0, 0, undefined];
    vi.stubGlobal(
      'ImageData',
      class {
        constructor(
          readonly data: Uint8ClampedArray,
          readonly width: number,
        ) {}
      },
    );
    vi.spyOn(HTMLCanvasElement.prototype, 'getContext').mockReturnValue({
      fillRect: () => {},
      // Ten pixels a letter, whatever the font: 636 pixels have 63 of them.
      measureText: (line: string) => ({ width: 10 * line.length }),
      fillText(this: CanvasRenderingContext2D, line: string, x: number, y: number) {
        written.push(line);
        places.push([this.font.split(' s')[0], this.fillStyle, x, y]);
      },
      drawImage(this: CanvasRenderingContext2D, ...all: unknown[]) {
        images.push([...all, this.imageSmoothingEnabled]);
      },
      putImageData: (image: ImageData) => (pixels = image),
    } as never);
  });
  const att = { att: tensor([3, 3], [1, 0, 0, 0.9, 0.1, 0, 0.8, 0.1, 0.1]) };
  const at = { layer: 1, head: 0 };
  const frame = (change: Partial<Frame> = {}) =>
    frameOf({ head: { ...at, tensors: att }, ...change } as never);

  it('is the text, the share, the finding, its conditions, the map and the link', () => {
    const own = frame();
    const card = cardOf(own, at, 'https://page.example/#a');
    expect([card.width, card.height]).toEqual([1200, 630]);
    expect(written[0]).toMatch(/^“.*”?$/);
    const after = written.indexOf('90%') + 1;
    expect(text(after)).toBe(
      `${finding(own, at)} ${stampWords(own)} Softmax model, head L1H0: rows attend to columns ` +
        'Sinkscope · https://page.example/#a',
    );
    expect(images.map(([, ...place]) => place)).toEqual([[732, 48, 420, 420, false]]);
    const { colors } = sequential('light', 1, true);
    const cells = new Uint32Array(pixels!.data.buffer);
    expect([cells.length, cells[0]]).toEqual([9, colors.at(-1)]);
    const hidden = sequential('light', 1, true).hidden;
    expect([cells[1], cells[2], cells[5]]).toEqual([hidden, hidden, hidden]);
    expect(css(sequential('light', 1, true), 0.9)).toBeTruthy();
  });

  it('has its lines one below the other, 1.3 times as far apart as they are high', () => {
    const question = { ...frame().question, prompt: 'word '.repeat(20) };
    cardOf(frame({ question } as never), at, 'https://page.example/');
    const [ink, gray] = ['#1d1b22', '#55525e'];
    const y = [48, 87, 48 + 78 + 12, 138 + 1.3 * 92 + 0.4 * 92];
    expect(places.slice(0, 4)).toEqual([
      ['600 30px', ink, 48, y[0]],
      ['600 30px', ink, 48, y[1]],
      ['700 92px', '#b0305a', 48, y[2]],
      ['400 22px', ink, 48, y[3]],
    ]);
    expect(places.slice(-2)).toEqual([
      ['400 17px', gray, 732, 478],
      ['600 20px', gray, 48, 578],
    ]);
  });

  it('has two lines of conditions at most, and no long link', () => {
    const title = 'word '.repeat(40).trim();
    const long = `https://page.example/#${'a'.repeat(71)}`;
    cardOf(frame({ title }), at, long);
    const stamp = stampWords(frame({ title }));
    const from = written.findIndex((line) => stamp.startsWith(line));
    const [first, second, third] = written.slice(from);
    expect([stamp.startsWith(`${first} `), second!.endsWith('…')]).toEqual([true, true]);
    expect(third).toBe(`${title}, head L1H0: rows attend to columns`);
    expect(written.at(-1)).toBe('Sinkscope · https://page.example/');
    cardOf(frame(), at, long.slice(0, -1));
    expect(written.at(-1)).toBe(`Sinkscope · ${long.slice(0, -1)}`);
  });

  it('has no map where the frame has none, and is a picture', async () => {
    vi.spyOn(HTMLCanvasElement.prototype, 'toBlob').mockImplementation((done) =>
      done(new Blob(['png'])),
    );
    const file = await pictureOf(frame({ pooled: 2 } as never), at, 'https://page.example/');
    expect([file.name, file.type, images]).toEqual(['sinkscope.png', 'image/png', []]);
    vi.mocked(HTMLCanvasElement.prototype.toBlob).mockImplementation((done) => done(null));
    await expect(pictureOf(frame(), at, '')).rejects.toThrow('The picture was not made.');
  });
});
