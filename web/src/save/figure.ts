/** Makes an SVG of a figure on its own: vectors, texts as texts, no controls, metadata for programs. */

const SVG = 'http://www.w3.org/2000/svg';
const MARGIN = 12;
/** Most programs have these fonts. The SVG states the width of each text, so that the layout stays without them. */
const FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";
const TITLE_HEIGHT = 34;

/** Styles that `copyChart` writes into the parts of a chart as attributes. */
const STYLES = [
  'fill',
  'fill-opacity',
  'stroke',
  'stroke-width',
  'stroke-opacity',
  'stroke-dasharray',
  // The outline of a curve's name lies below the letters.
  'paint-order',
  'font-size',
  'font-weight',
  'font-family',
  'font-variant',
  'text-anchor',
];

function makeNode(
  name: string,
  attributes: Record<string, string | number>,
  text = '',
): SVGElement {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
  node.textContent = text;
  return node;
}

type Place = Pick<DOMRect, 'left' | 'top'>;

function boxOf(element: Element | Range, origin: Place) {
  const { left, top, width, height } = element.getBoundingClientRect();
  return { x: left - origin.left, y: top - origin.top, width, height };
}

function copyChart(svg: SVGSVGElement, origin: Place): SVGElement {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  // The random numbers in Lit's markers would make each saved file different.
  const comments = document.createNodeIterator(copy, NodeFilter.SHOW_COMMENT);
  for (let comment = comments.nextNode(); comment; comment = comments.nextNode())
    (comment as Comment).remove();
  const originals = [svg, ...svg.querySelectorAll('*')];
  [copy, ...copy.querySelectorAll('*')].forEach((element, i) => {
    const style = getComputedStyle(originals[i]!);
    for (const name of STYLES) element.setAttribute(name, style.getPropertyValue(name));
    element.removeAttribute('class');
    element.removeAttribute('style');
  });
  // The sheet's rules are attributes now; the sheet would also apply to other charts.
  for (const sheet of copy.querySelectorAll('style')) sheet.remove();
  const box = boxOf(svg, origin);
  for (const [key, value] of Object.entries(box)) copy.setAttribute(key, String(value));
  copy.setAttribute('color', getComputedStyle(svg).color);
  for (const label of copy.querySelectorAll('text')) label.setAttribute('font-family', FONT);
  return copy;
}

/** A map with more cells is saved as pixels, not as paths. */
const MAX_PATH_CELLS = 40_000;
/** A map of pixels is scaled up to this size, so that no program smooths cells into each other. */
const MAP_PIXELS = 2048;

/** Returns a map as one path per color, in which each run of cells is a rectangle. */
function mapPaths({ width, height }: ImageData, data: Uint32Array): SVGElement[] {
  const paths = new Map<number, string>();
  for (let row = 0; row < height; row++)
    for (let col = 0; col < width;) {
      const color = data[row * width + col]!;
      const runStart = col;
      while (col < width && data[row * width + col] === color) col++;
      // The highest byte of a pixel is its alpha.
      if (color >>> 24) {
        const run = `M${runStart} ${row}h${col - runStart}v1h${runStart - col}z`;
        paths.set(color, (paths.get(color) ?? '') + run);
      }
    }
  return [...paths].map(([color, d]) => {
    const [r, g, b] = [color & 255, (color >> 8) & 255, (color >> 16) & 255];
    return makeNode('path', { d, fill: `#${[r, g, b].map(hex).join('')}` });
  });
}

const hex = (byte: number) => byte.toString(16).padStart(2, '0');

function copyMap(canvas: HTMLCanvasElement, origin: Place): SVGElement {
  const { x, y, width, height } = boxOf(canvas, origin);
  const image = canvas.getContext('2d')!.getImageData(0, 0, canvas.width, canvas.height);
  if (image.width * image.height <= MAX_PATH_CELLS) {
    const group = makeNode('g', {
      transform: `translate(${x} ${y}) scale(${width / image.width} ${height / image.height})`,
      'shape-rendering': 'crispEdges',
    });
    group.append(...mapPaths(image, new Uint32Array(image.data.buffer)));
    return group;
  }
  const factor = Math.max(1, Math.ceil(MAP_PIXELS / Math.max(image.width, image.height)));
  const largeCanvas = document.createElement('canvas');
  Object.assign(largeCanvas, { width: factor * image.width, height: factor * image.height });
  const context = largeCanvas.getContext('2d')!;
  context.imageSmoothingEnabled = false;
  context.drawImage(canvas, 0, 0, largeCanvas.width, largeCanvas.height);
  const href = largeCanvas.toDataURL();
  return makeNode('image', { x, y, width, height, href, preserveAspectRatio: 'none' });
}

/** Converts color(srgb r g b / a), as browsers write mixed colors, to a form that other programs know. */
function plainColor(color: string): string {
  const [, r, g, b, a = 1] =
    /^color\(srgb ([\d.]+) ([\d.]+) ([\d.]+)(?: \/ ([\d.]+))?/.exec(color) ?? [];
  if (r === undefined) return color;
  return `rgba(${[r, g, b].map((part) => Math.round(255 * Number(part))).join()},${a})`;
}

/** Returns the box of a color scale with its gradient, or the bar behind a word. */
function gradientBox(element: Element, origin: Place, number: number): SVGElement[] {
  const { backgroundImage } = getComputedStyle(element);
  const colors = (backgroundImage.match(/(?:rgba?|color)\([^)]*\)/g) ?? []).map(plainColor);
  const box = boxOf(element, origin);
  const share = Number((element as HTMLElement).style.getPropertyValue('--share') || NaN);
  if (Number.isFinite(share))
    return [makeNode('rect', { ...box, width: box.width * share, fill: colors[0] ?? 'none' })];
  const gradient = makeNode('linearGradient', { id: `scale-${number}` });
  colors.forEach((color, i) =>
    gradient.append(makeNode('stop', { offset: i / (colors.length - 1), 'stop-color': color })),
  );
  return [gradient, makeNode('rect', { ...box, fill: `url(#scale-${number})` })];
}

function* linesOf(node: Text): Generator<{ text: string; range: Range }> {
  const words = [...node.data.matchAll(/\S+/g)];
  let lineStart = 0;
  const rangeOf = (first: number, last: number) => {
    const range = document.createRange();
    const [begin, end] = [words[first]!, words[last]!];
    range.setStart(node, begin.index);
    range.setEnd(node, end.index + end[0].length);
    return range;
  };
  for (let i = 1; i <= words.length; i++) {
    const isLineEnd =
      i === words.length ||
      rangeOf(i, i).getBoundingClientRect().top >
        rangeOf(lineStart, lineStart).getBoundingClientRect().top + 4;
    if (!isLineEnd) continue;
    const range = rangeOf(lineStart, i - 1);
    yield { text: range.toString().replace(/\s+/g, ' '), range };
    lineStart = i;
  }
}

/** A saved figure leaves these controls out; of several choices `copyTexts` keeps the chosen one. */
const CONTROLS =
  'svg, .save, .unsaved, .readout, button, input, select, textarea, summary, label, a.button';

/** Returns the longest prefix of a text that fits, with an ellipsis if it is shortened. */
function shorten(text: string, width: number, font: string): string {
  const context = (measuringContext ??= document.createElement('canvas').getContext('2d')!);
  context.font = font;
  const fits = (candidate: string) => context.measureText(candidate).width <= width + 1;
  if (fits(text)) return text;
  const letters = [...text];
  while (letters.length > 1 && !fits(`${letters.join('')}…`)) letters.pop();
  return `${letters.join('')}…`;
}
let measuringContext: CanvasRenderingContext2D | undefined;

function clippedLabel(span: HTMLElement, origin: Place): SVGElement {
  const { color, fontSize } = getComputedStyle(span);
  const { x, y, width, height } = boxOf(span, origin);
  const isUpright = getComputedStyle(span).writingMode !== 'horizontal-tb';
  const isRow = Boolean(span.closest('.row-words'));
  // Subtracts the padding of a row's word and of an upright word; a column's box is as wide as its word.
  const labelLength = isUpright ? height - 4 : width - (isRow ? 5 : 0);
  const middle = isUpright ? x + width / 2 : y + height / 2;
  const baselineShift = 0.36 * parseFloat(fontSize);
  const attributes = {
    fill: color,
    'font-size': fontSize,
    'font-family': FONT,
    'text-anchor': isRow ? 'end' : isUpright ? 'start' : 'middle',
    ...(isUpright
      ? { transform: `translate(${middle - baselineShift} ${y + 4}) rotate(90)` }
      : { x: isRow ? x + width - 5 : x + width / 2, y: middle + baselineShift }),
  };
  const text = shorten(span.textContent ?? '', labelLength, `${fontSize} ${FONT}`);
  return makeNode('text', attributes, text);
}

/** Returns the visible texts of a cell, line by line, without those of controls. */
function copyTexts(cell: Element, origin: Place): SVGElement[] {
  const textElements: SVGElement[] = visibleElements<HTMLElement>(
    cell,
    ':is(.row-words, .col-words) span',
  )
    .filter(({ textContent }) => textContent)
    .map((span) => clippedLabel(span, origin));
  const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode as Text;
    const parent = node.parentElement!;
    const chosenOption = parent.closest('.segmented [aria-pressed="true"]');
    if (parent.closest('.row-words, .col-words') || !parent.checkVisibility()) continue;
    // On the page, words with a definition and heads' small maps and bars are buttons, but belong to the picture.
    if (!chosenOption && !parent.closest('.term, .thumb, .output') && parent.closest(CONTROLS))
      continue;
    const { fontSize, fontWeight } = getComputedStyle(parent);
    const { color } = getComputedStyle(chosenOption ? cell : parent);
    for (const { text, range } of linesOf(node)) {
      const { x, y, width, height } = boxOf(range, origin);
      // The baseline is at four fifths of the box; the width is for programs that replace the font.
      const attributes = {
        ...{ x, y: y + 0.78 * height, textLength: width, lengthAdjust: 'spacingAndGlyphs' },
        ...{ fill: color, 'font-size': fontSize, 'font-family': FONT, 'font-weight': fontWeight },
      };
      textElements.push(makeNode('text', attributes, text));
    }
  }
  return textElements;
}

function visibleElements<E extends Element>(cell: Element, selector: string): E[] {
  return [...cell.querySelectorAll<E>(selector)].filter((element) => element.checkVisibility());
}

function swatches(cell: Element, origin: Place): SVGElement[] {
  return visibleElements(cell, '.chart-key span:not(:has(svg))').map((span) => {
    const { x, y, height } = boxOf(span, origin);
    const fill = getComputedStyle(span, '::before').backgroundColor;
    return makeNode('rect', { x, y: y + height / 2 - 5, width: 10, height: 10, rx: 2, fill });
  });
}

function outputBars(cell: Element, origin: Place): SVGElement[] {
  return visibleElements(cell, '.output > span').flatMap((output) => {
    const fill = plainColor(getComputedStyle(output).backgroundColor);
    const { color: stroke } = getComputedStyle(cell);
    return [
      makeNode('rect', { ...boxOf(output, origin), fill }),
      makeNode('rect', {
        ...boxOf(output.parentElement!, origin),
        ...{ fill: 'none', stroke, 'stroke-opacity': 0.2 },
      }),
    ];
  });
}

/** Returns the cells of a key without a token, whose column is beside its map. */
function extraCells(cell: Element, origin: Place): SVGElement[] {
  return visibleElements(cell, '.extra-key i').map((element) =>
    makeNode('rect', {
      ...boxOf(element, origin),
      fill: plainColor(getComputedStyle(element).backgroundColor),
      'shape-rendering': 'crispEdges',
    }),
  );
}

function cellOutlines(cell: Element, origin: Place): SVGElement[] {
  return visibleElements(cell, '.mark.outlined').map((mark) => {
    const stroke = getComputedStyle(mark).color;
    return makeNode('rect', { ...boxOf(mark, origin), fill: 'none', stroke, 'stroke-width': 1.5 });
  });
}

/** Returns the names of a map's axes, which on the page come from a style sheet. */
function axisNames(cell: Element, origin: Place): SVGElement[] {
  return visibleElements<HTMLElement>(cell, '.map-inner').flatMap((inner) => {
    const { x, y, width, height } = boxOf(inner, origin);
    const fill = getComputedStyle(inner, '::before').color;
    const font = { fill, 'font-size': 11, 'font-family': FONT, 'text-anchor': 'end' };
    const rowTransform = `translate(${x + 9} ${y}) rotate(-90)`;
    return [
      makeNode('text', { ...font, transform: rowTransform }, inner.dataset.row),
      makeNode('text', { ...font, x: x + width, y: y + height - 1 }, inner.dataset.col),
    ].filter(({ textContent }) => textContent);
  });
}

/** Returns a line of text above or below the figure, cut to the figure's width. */
function captionLine(
  text: string,
  y: number,
  [size, weight]: readonly [number, number],
  width: number,
) {
  const fill = getComputedStyle(document.body).color;
  const font = { 'font-family': FONT, 'font-size': size, 'font-weight': weight };
  const line = shorten(text, width - 2 * MARGIN, `${weight} ${size}px ${FONT}`);
  return makeNode('text', { x: MARGIN, y, fill, ...font }, line);
}

export interface FigureMetadata {
  readonly title: string;
  readonly description: string;
  readonly facts: object;
  readonly note: string;
}

/** Returns the box of an element, or that of its children if a room lays these out and the element has no box. */
function surroundingBox(element: HTMLElement): Place & Pick<DOMRect, 'width' | 'height'> {
  if (getComputedStyle(element).display !== 'contents') return element.getBoundingClientRect();
  const boxes = [...element.children].map((child) => child.getBoundingClientRect());
  const [left, top] = [
    Math.min(...boxes.map((box) => box.left)),
    Math.min(...boxes.map((box) => box.top)),
  ];
  const [right, bottom] = [
    Math.max(...boxes.map((box) => box.right)),
    Math.max(...boxes.map((box) => box.bottom)),
  ];
  return { left, top, width: right - left, height: bottom - top };
}

/** `cell` has a view's drawing and its conditions; the title of `metadata` is written above. */
export function figureOf(cell: HTMLElement, metadata: FigureMetadata): SVGSVGElement {
  const box = surroundingBox(cell);
  const origin = { left: box.left - MARGIN, top: box.top - TITLE_HEIGHT };
  const width = Math.ceil(box.width) + 2 * MARGIN;
  const height = Math.ceil(box.height) + TITLE_HEIGHT + MARGIN + 16;
  const size = { width, height };
  const svg = makeNode('svg', {
    ...{ xmlns: SVG, ...size, viewBox: `0 0 ${width} ${height}`, role: 'img' },
  });
  svg.append(
    makeNode('title', {}, metadata.title),
    makeNode('desc', {}, metadata.description),
    makeNode('metadata', {}, JSON.stringify(metadata.facts)),
    makeNode('rect', { ...size, fill: '#ffffff' }),
    captionLine(metadata.title, 22, [15, 600], width),
    ...visibleElements<HTMLCanvasElement>(cell, 'canvas').map((canvas) => copyMap(canvas, origin)),
    ...visibleElements(cell, '.legend-bar, .next li').flatMap((element, i) =>
      gradientBox(element, origin, i),
    ),
    // A chart within a chart is copied with it.
    ...visibleElements<SVGSVGElement>(cell, 'svg')
      .filter((chart) => !chart.parentElement!.closest('svg'))
      .map((chart) => copyChart(chart, origin)),
    ...outputBars(cell, origin),
    ...extraCells(cell, origin),
    ...cellOutlines(cell, origin),
    ...swatches(cell, origin),
    ...axisNames(cell, origin),
    ...copyTexts(cell, origin),
    captionLine(metadata.note, height - 10, [10, 400], width),
  );
  return svg as SVGSVGElement;
}

/** Serializes an SVG, and replaces control characters, which would make the XML invalid. */
export function svgText(svg: SVGSVGElement): string {
  const xml = new XMLSerializer().serializeToString(svg);
  return `${xml.replace(/[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/g, '\ufffd')}\n`;
}

export async function pngOf(svg: SVGSVGElement): Promise<Blob> {
  const doubledSize = (name: string) => 2 * Number(svg.getAttribute(name));
  const [width, height] = [doubledSize('width'), doubledSize('height')];
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText(svg))}`;
  await image.decode();
  const canvas = document.createElement('canvas');
  Object.assign(canvas, { width, height });
  const context = canvas.getContext('2d')!;
  context.imageSmoothingEnabled = false;
  context.drawImage(image, 0, 0, width, height);
  return new Promise((done, fail) =>
    canvas.toBlob((blob) => (blob ? done(blob) : fail(new Error('The picture is too large.')))),
  );
}
