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
  const texts = all('text').slice(1, -1);
  return {
    svg,
    all,
    attributesOf,
    texts,
    textContents: texts.map(({ textContent }) => textContent),
  };
}
const CELL = [12, 34] as const;

describe('a figure as SVG', () => {
  it('has the size of its cell with a margin, its title above, its note below, and a description for screen readers', () => {
    const { svg, all, attributesOf } = saveFigure('');
    expect(attributesOf(svg, 'width', 'height', 'viewBox', 'role')).toEqual([
      ...['325', '213', '0 0 325 213'],
      'img',
    ]);
    expect(['title', 'desc', 'metadata'].map((name) => all(name)[0]!.textContent)).toEqual([
      ...['A map', 'Of one head.'],
      '{"eps":0.3}',
    ]);
    expect(attributesOf(all('rect')[0], 'width', 'height', 'fill')).toEqual([
      '325',
      '213',
      '#ffffff',
    ]);
    const [title, note] = all('text');
    expect([title!.textContent, note!.textContent]).toEqual(['A map', 'Sinkscope 1.2.3']);
    expect(attributesOf(title, 'x', 'y', 'font-size', 'font-weight', 'fill')).toEqual([
      ...['12', '22', '15', '600'],
      'rgb(1, 2, 3)',
    ]);
    expect(attributesOf(note, 'y', 'font-size')).toEqual(['203', '10']);
    // 301 pixels have room for fifty letters of six pixels, the ellipsis included.
    expect(saveFigure('', { title: 'a'.repeat(50) }).all('text')[0]!.textContent).toBe(
      'a'.repeat(50),
    );
    expect(saveFigure('', { title: 'a'.repeat(51) }).all('text')[0]!.textContent).toBe(
      `${'a'.repeat(49)}…`,
    );
  });

  it('has a map as one path for each color, over runs of equal cells', () => {
    const [red, halfRed, transparent] = [0xff0000ff, 0x80c00a00, 0x00ffffff];
    const cells = Uint32Array.of(red, red, transparent, halfRed, red, red);
    pixels = { width: 3, height: 2, data: new Uint8ClampedArray(cells.buffer) };
    const { all, attributesOf } = saveFigure(
      '<canvas width="3" height="2" data-box="110,220,30,40"></canvas>',
    );
    expect(attributesOf(all('g')[0], 'transform', 'shape-rendering')).toEqual([
      `translate(${10 + CELL[0]} ${20 + CELL[1]}) scale(10 20)`,
      'crispEdges',
    ]);
    expect(all('path').map((path) => attributesOf(path, 'd', 'fill'))).toEqual([
      ['M0 0h2v1h-2zM1 1h2v1h-2z', '#ff0000'],
      ['M0 1h1v1h-1z', '#000ac0'],
    ]);
    expect(all('image')).toEqual([]);
  });

  it('draws a large map as an image, scaled so that programs do not smooth it', () => {
    const data = new Uint8ClampedArray(4);
    pixels = { width: 200, height: 200, data: new Uint8ClampedArray(4 * 40_000) };
    expect(saveFigure('<canvas data-box="100,200,9,9"></canvas>').all('image')).toEqual([]);
    pixels = { width: 40_001, height: 1, data };
    saveFigure('<canvas></canvas>');
    expect(drawCalls.at(-1)!.slice(1)).toEqual([0, 0, 40_001, 1, false]);
    pixels = { width: 300, height: 200, data };
    const { all, attributesOf } = saveFigure('<canvas data-box="110,220,30,40"></canvas>');
    expect(
      attributesOf(all('image')[0], 'x', 'y', 'width', 'height', 'href', 'preserveAspectRatio'),
    ).toEqual(['22', '54', '30', '40', 'data:image/png;base64,AA', 'none']);
    // Seven pixels for each of 300 columns come closest to 2048.
    expect(drawCalls.at(-1)!.slice(1)).toEqual([0, 0, 2100, 1400, false]);
  });

  it('copies the styles of the page into the elements of a chart, without a style sheet', () => {
    const { all, attributesOf } = saveFigure(
      '<svg class="chart" style="width: 9px" data-box="110,220,30,40">' +
        '<path class="line" data-style="stroke:red"></path><text>ε</text><style>a{}</style></svg>',
    );
    const chart = all('svg')[0]!;
    expect(attributesOf(chart, 'x', 'y', 'width', 'height', 'class', 'style', 'color')).toEqual([
      ...['22', '54', '30', '40'],
      ...[null, null, 'rgb(1, 2, 3)'],
    ]);
    expect(
      attributesOf(chart.querySelector('path')!, 'stroke', 'fill', 'stroke-width', 'class'),
    ).toEqual([...['red', 'fill of path', 'stroke-width of path'], null]);
    expect(chart.querySelector('style')).toBeNull();
    const text = chart.querySelector('text')!;
    expect(attributesOf(text, 'text-anchor')).toEqual(['text-anchor of text']);
    expect(text.getAttribute('font-family')).toMatch(/^Helvetica/);
    expect(document.querySelector('svg path')!.getAttribute('class')).toBe('line');
  });

  it('has a scale as a gradient, and the bar behind a word as long as its share', () => {
    const gradient = 'linear-gradient(color(srgb 0.5 0 1 / 0.5), rgb(1, 2, 3), color(srgb 1 0 0))';
    const { all, attributesOf } = saveFigure(
      `<i class="legend-bar" data-box="110,220,30,40" data-style="background-image:${gradient}"></i>` +
        '<ul class="next"><li style="--share: 0.25" data-box="110,220,40,8" ' +
        'data-style="background-image:linear-gradient(rgba(0, 0, 0, 0.1))"></li>' +
        '<li style="--share: 1" data-box="110,220,40,8"></li><li hidden></li></ul>',
    );
    expect(all('stop').map((stop) => attributesOf(stop, 'offset', 'stop-color'))).toEqual([
      ['0', 'rgba(128,0,255,0.5)'],
      ['0.5', 'rgb(1, 2, 3)'],
      ['1', 'rgba(255,0,0,1)'],
    ]);
    expect(
      all('rect')
        .slice(1)
        .map((bar) => attributesOf(bar, 'x', 'y', 'width', 'height', 'fill')),
    ).toEqual([
      ['22', '54', '30', '40', 'url(#scale-0)'],
      ['22', '54', '10', '8', 'rgba(0, 0, 0, 0.1)'],
      ['22', '54', '40', '8', 'none'],
    ]);
    expect(all('linearGradient').map(({ id }) => id)).toEqual(['scale-0']);
  });

  it('breaks texts into the lines of the screen, and omits controls', () => {
    const { texts, attributesOf, textContents } = saveFigure(
      '<p data-box="110,220,60,24" data-style="font-weight:700;color:red">one  two  three four</p>' +
        '<button>Train</button><label>ε <input></label><details><summary>More</summary></details>' +
        '<p hidden>hidden</p><p data-box="110,300,60,24"><span class="term"><button>sink</button></span></p>' +
        '<div class="segmented"><button aria-pressed="true" data-style="color:white">mean</button>' +
        '<button aria-pressed="false">all</button></div><p>  </p>',
    );
    expect(textContents).toEqual(['one two', 'three four', 'sink', 'mean']);
    const names = ['x', 'y', 'textLength', 'fill', 'font-weight', 'font-size'];
    expect(
      attributesOf(texts[0], ...names).map((value) =>
        isNaN(Number(value)) ? value : Number(value),
      ),
    ).toEqual([
      ...[10 + CELL[0], 20 + CELL[1] + 0.78 * 12, 6 * 'one  two'.length, 'red', 700],
      '10px',
    ]);
    // "three" begins at the tenth letter, which is the first of the second line.
    expect(Number(attributesOf(texts[1], 'y')[0])).toBeCloseTo(20 + CELL[1] + 12 + 0.78 * 12, 9);
    // A pressed button has light letters; on paper they have the cell's color.
    expect(attributesOf(texts[3], 'fill')).toEqual(['rgb(1, 2, 3)']);
  });

  it('cuts the labels of a map to their boxes', () => {
    const { texts, attributesOf, textContents } = saveFigure(
      '<div class="row-words"><span data-box="110,220,41,10">abcdef</span><span></span></div>' +
        '<div class="col-words"><span data-box="110,220,36,10">abcdefgh</span>' +
        '<span data-box="110,220,6,10">0</span>' +
        '<span data-box="110,220,10,22" data-style="writing-mode:vertical-rl">abcd</span></div>',
    );
    // A box of 41 pixels, less its padding of 5, has room for six letters.
    // A column's word has no padding, so a box of 36 pixels also has room for six letters.
    expect(textContents).toEqual(['abcdef', 'abcde…', '0', 'ab…']);
    expect(texts.map((text) => attributesOf(text, 'text-anchor')[0])).toEqual([
      ...['end', 'middle'],
      ...['middle', 'start'],
    ]);
    expect(attributesOf(texts[0], 'x', 'y').map(Number)).toEqual([22 + 41 - 5, 54 + 5 + 3.6]);
    expect(attributesOf(texts[1], 'x', 'y').map(Number)).toEqual([22 + 18, 54 + 5 + 3.6]);
    const [, x, y] = /translate\(([\d.]+) ([\d.]+)\) rotate\(90\)/.exec(
      attributesOf(texts[3], 'transform')[0]!,
    )!;
    expect([x, y].map(Number)).toEqual([22 + 5 - 3.6, 58]);
    expect(attributesOf(texts[3], 'x')).toEqual([null]);
  });

  it('draws the output of each head as a bar in a frame, with its number', () => {
    const { all, attributesOf, textContents } = saveFigure(
      '<div class="outputs"><span>H0</span><button class="output" data-box="110,220,80,40">' +
        '<span data-box="110,220,20,40" data-style="background-color:color(srgb 1 0 0 / 0.5)"></span>0.06' +
        '</button></div>',
    );
    expect(
      all('rect')
        .slice(1)
        .map((bar) => attributesOf(bar, 'x', 'y', 'width', 'height', 'fill')),
    ).toEqual([
      ['22', '54', '20', '40', 'rgba(255,0,0,0.5)'],
      ['22', '54', '80', '40', 'none'],
    ]);
    expect(textContents).toEqual(['H0', '0.06']);
  });

  it('has frames of outlined cells, the squares of a key, and the names of axes', () => {
    const { all, attributesOf, textContents } = saveFigure(
      '<i class="mark outlined" data-box="110,220,4,4"></i><i class="mark chosen"></i>' +
        '<p class="chart-key"><span data-box="110,220,50,16" data-before="background-color:red"></span>' +
        '<span><svg></svg></span></p>' +
        '<div class="map-inner" data-row="query" data-box="110,220,30,40"></div>',
    );
    expect(
      all('rect')
        .slice(1)
        .map((rect) => attributesOf(rect, 'x', 'y', 'width', 'height', 'fill')),
    ).toEqual([
      ['22', '54', '4', '4', 'none'],
      ['22', '57', '10', '10', 'red'],
    ]);
    expect(attributesOf(all('rect')[1], 'stroke', 'stroke-width')).toEqual(['rgb(1, 2, 3)', '1.5']);
    expect(textContents).toEqual(['query']);
    const namedFigure = saveFigure(
      '<div class="map-inner" data-col="key" data-box="110,220,30,40"></div>',
    );
    expect(namedFigure.textContents).toEqual(['key']);
    expect(namedFigure.attributesOf(namedFigure.texts[0], 'x', 'y')).toEqual(['52', '93']);
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
