// @vitest-environment happy-dom
/** A figure as a file: each part of a cell with known boxes and styles, in the saved SVG. */
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { figureOf, pngOf, svgText } from '../src/save/figure';

const description = {
  title: 'A map',
  description: 'Of one head.',
  facts: { eps: 0.3 },
  note: 'Sinkscope 1.2.3',
};

type Box = readonly [left: number, top: number, width: number, height: number];
/** Returns the data-box of an element, else of the nearest ancestor. */
const boxOf = (element: Element | null): Box =>
  (element?.closest<HTMLElement>('[data-box]')?.dataset.box ?? '0,0,0,0')
    .split(',')
    .map(Number) as never;
const rect = ([left, top, width, height]: Box) => ({ left, top, width, height }) as DOMRect;

/** Returns the element's data-style, else the page's. */
const styleOf = (element: Element, pseudo?: string) => {
  const styleText = (element as HTMLElement).dataset?.[pseudo ? 'before' : 'style'] ?? '';
  const declarations = new Map(
    styleText.split(';').map((row) => row.split(/:(.*)/s).slice(0, 2) as [string, string]),
  );
  const valueOf = (name: string, usual: string) => declarations.get(name) ?? usual;
  return {
    color: valueOf('color', 'rgb(1, 2, 3)'),
    fontSize: valueOf('font-size', '10px'),
    fontWeight: valueOf('font-weight', '400'),
    backgroundImage: valueOf('background-image', 'none'),
    backgroundColor: valueOf('background-color', 'none'),
    writingMode: valueOf('writing-mode', 'horizontal-tb'),
    getPropertyValue: (name: string) =>
      valueOf(name, `${name} of ${element.tagName.toLowerCase()}`),
  };
};

let pixels: { width: number; height: number; data: Uint8ClampedArray };
const drawCalls: unknown[][] = [];
beforeEach(() => {
  document.body.replaceChildren();
  drawCalls.length = 0;
  vi.spyOn(Element.prototype, 'getBoundingClientRect').mockImplementation(function (this: Element) {
    return rect(boxOf(this));
  });
  // Words of six pixels a letter in lines of 60; a line is twelve pixels high.
  vi.spyOn(Range.prototype, 'getBoundingClientRect').mockImplementation(function (this: Range) {
    const [left, top] = boxOf(this.startContainer.parentElement);
    const line = Math.floor((6 * this.startOffset) / 60);
    return rect([
      left + 6 * this.startOffset - 60 * line,
      top + 12 * line,
      6 * this.toString().length,
      12,
    ]);
  });
  Object.defineProperty(Element.prototype, 'checkVisibility', {
    value(this: Element) {
      return !this.closest('[hidden]');
    },
    configurable: true,
  });
  vi.stubGlobal('getComputedStyle', styleOf);
  vi.spyOn(HTMLCanvasElement.prototype, 'getContext').mockReturnValue({
    measureText: (text: string) => ({ width: 6 * [...text].length }),
    getImageData: () => pixels,
    drawImage(this: CanvasRenderingContext2D, ...all: unknown[]) {
      drawCalls.push([...all, this.imageSmoothingEnabled]);
    },
  } as never);
  vi.spyOn(HTMLCanvasElement.prototype, 'toDataURL').mockReturnValue('data:image/png;base64,AA');
});

function saveFigure(markup: string, more: Partial<typeof description> = {}) {
  document.body.innerHTML = `<section data-box="100,200,300.2,150.5">${markup}</section>`;
  const svg = figureOf(document.querySelector('section')!, { ...description, ...more });
  const all = (selector: string) => [...svg.querySelectorAll(selector)];
  const attributesOf = (element: Element | undefined, ...names: string[]) =>
    names.map((name) => element?.getAttribute(name));
  return { svg, all, attributesOf };
}
/**
 * Compares the elements of a saved figure with the snapshot. The section begins at (100, 200) and is drawn at (12, 34): a
 * box at (110, 220) is at (22, 54) in the file.
 */
const showsFile = (...saved: Parameters<typeof saveFigure>) => {
  const { svg } = saveFigure(...saved);
  expect(svgText(svg).replaceAll('><', '>\n<')).toMatchSnapshot();
};

describe('a figure as SVG', () => {
  it('has the size of its cell with a margin, its title above, its note below, and a description for screen readers', () => {
    showsFile('');
    // 301 pixels have room for fifty letters of six pixels, the ellipsis included.
    const titleOf = (letters: number) =>
      saveFigure('', { title: 'a'.repeat(letters) }).all('text')[0]!.textContent;
    expect([50, 51].map(titleOf)).toEqual(['a'.repeat(50), `${'a'.repeat(49)}…`]);
  });

  it('has a map as one path for each color, over runs of equal cells', () => {
    const [red, halfRed, transparent] = [0xff0000ff, 0x80c00a00, 0x00ffffff];
    const cells = Uint32Array.of(red, red, transparent, halfRed, red, red);
    pixels = { width: 3, height: 2, data: new Uint8ClampedArray(cells.buffer) };
    showsFile('<canvas width="3" height="2" data-box="110,220,30,40"></canvas>');
  });

  it('draws a large map as an image, scaled so that programs do not smooth it', () => {
    const data = new Uint8ClampedArray(4);
    pixels = { width: 200, height: 200, data: new Uint8ClampedArray(4 * 40_000) };
    expect(saveFigure('<canvas data-box="100,200,9,9"></canvas>').all('image')).toEqual([]);
    pixels = { width: 40_001, height: 1, data };
    saveFigure('<canvas></canvas>');
    expect(drawCalls.at(-1)!.slice(1)).toEqual([0, 0, 40_001, 1, false]);
    pixels = { width: 300, height: 200, data };
    showsFile('<canvas data-box="110,220,30,40"></canvas>');
    // Seven pixels for each of 300 columns come closest to 2048.
    expect(drawCalls.at(-1)!.slice(1)).toEqual([0, 0, 2100, 1400, false]);
  });

  it('copies the styles of the page into the elements of a chart, without a style sheet', () => {
    showsFile(
      '<svg class="chart" style="width: 9px" data-box="110,220,30,40">' +
        '<path class="line" data-style="stroke:red"></path><text>ε</text><svg></svg><style>a{}</style></svg>',
    );
    expect(document.querySelector('svg path')!.getAttribute('class')).toBe('line');
  });

  it('has a scale as a gradient, and the bar behind a word as long as its share', () => {
    const gradient = 'linear-gradient(color(srgb 0.5 0 1 / 0.5), rgb(1, 2, 3), color(srgb 1 0 0))';
    showsFile(
      `<i class="legend-bar" data-box="110,220,30,40" data-style="background-image:${gradient}"></i>` +
        '<ul class="next"><li style="--share: 0.25" data-box="110,220,40,8" ' +
        'data-style="background-image:linear-gradient(rgba(0, 0, 0, 0.1))"></li>' +
        '<li style="--share: 1" data-box="110,220,40,8"></li><li hidden></li></ul>',
    );
  });

  // A line's letters stand on 0.78 of its height. “three” begins at the tenth letter, the first of the second line. A
  // pressed button has light letters; on paper they have the cell's color.
  it('breaks texts into the lines of the screen, and omits controls', () =>
    showsFile(
      '<p data-box="110,220,60,24" data-style="font-weight:700;color:red">one  two  three four</p>' +
        '<button>Train</button><label>ε <input></label><details><summary>More</summary></details>' +
        '<p hidden>hidden</p><p data-box="110,300,60,24"><span class="term"><button>sink</button></span></p>' +
        '<div class="segmented"><button aria-pressed="true" data-style="color:white">mean</button>' +
        '<button aria-pressed="false">all</button></div><p>  </p>',
    ));

  // A box of 41 pixels, less its padding of 5, has room for six letters. A column's word has no padding, so a box of 36
  // pixels also has room for six letters.
  it('cuts the labels of a map to their boxes', () =>
    showsFile(
      '<div class="row-words"><span data-box="110,220,41,10">abcdef</span><span></span></div>' +
        '<div class="col-words"><span data-box="110,220,36,10">abcdefgh</span>' +
        '<span data-box="110,220,6,10">0</span>' +
        '<span data-box="110,220,10,22" data-style="writing-mode:vertical-rl">abcd</span></div>',
    ));

  it('draws the output of each head as a bar in a frame, with its number', () =>
    showsFile(
      '<div class="outputs"><span>H0</span><button class="output" data-box="110,220,80,40">' +
        '<span data-box="110,220,20,40" data-style="background-color:color(srgb 1 0 0 / 0.5)"></span>0.06' +
        '</button></div>',
    ));

  it('has frames of outlined cells, the squares of a key, and the names of axes', () => {
    showsFile(
      '<i class="mark outlined" data-box="110,220,4,4"></i><i class="mark chosen"></i>' +
        '<p class="chart-key"><span data-box="110,220,50,16" data-before="background-color:red"></span>' +
        '<span><svg></svg></span></p>' +
        '<div class="map-inner" data-row="query" data-box="110,220,30,40"></div>',
    );
    showsFile('<div class="map-inner" data-col="key" data-box="110,220,30,40"></div>');
  });
});

describe('the saved picture', () => {
  it('has only characters that XML allows', () => {
    const { svg } = saveFigure('', { description: 'a\u0000b\u001fc\ufffed\te\nf' });
    expect(svgText(svg)).toContain('<desc>a\ufffdb\ufffdc\ufffdd\te\nf</desc>');
    expect(svgText(svg).endsWith('\n')).toBe(true);
  });

  it('has two pixels per screen pixel, and reports if it is too large', async () => {
    let source = '';
    vi.stubGlobal(
      'Image',
      class {
        set src(value: string) {
          source = value;
        }
        decode = async () => {};
      },
    );
    const { svg } = saveFigure('');
    const createElement = vi.spyOn(document, 'createElement');
    vi.spyOn(HTMLCanvasElement.prototype, 'toBlob').mockImplementation((resolve) =>
      resolve(new Blob(['png'])),
    );
    expect((await pngOf(svg)).size).toBe(3);
    const canvas = createElement.mock.results.at(-1)!.value as HTMLCanvasElement;
    expect([canvas.width, canvas.height]).toEqual([650, 426]);
    expect(drawCalls.at(-1)!.slice(1)).toEqual([0, 0, 650, 426, false]);
    expect(decodeURIComponent(source.split(',')[1]!)).toContain('<title>A map</title>');
    vi.mocked(HTMLCanvasElement.prototype.toBlob).mockImplementation((resolve) => resolve(null));
    await expect(pngOf(svg)).rejects.toThrowErrorMatchingSnapshot();
  });
});
