/**
 * A figure as one SVG that needs nothing else: the charts stay vectors, maps become images of one
 * pixel a cell, texts stay texts. What is on the screen is taken as it stands there, colours and all.
 */

const SVG = 'http://www.w3.org/2000/svg';
const MARGIN = 12;
/** Room for the title. */
const HEAD = 34;

/** What a style sheet gave to the parts of a chart, and has to be written into them. */
const STYLES = [
  'fill',
  'fill-opacity',
  'stroke',
  'stroke-width',
  'stroke-opacity',
  'stroke-dasharray',
  'font-size',
  'font-family',
  'font-variant',
  'text-anchor',
];

function make(name: string, attributes: Record<string, string | number>): SVGElement {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  return made;
}

interface Place {
  readonly left: number;
  readonly top: number;
}

function boxOf(element: Element | Range, origin: Place) {
  const { left, top, width, height } = element.getBoundingClientRect();
  return { x: left - origin.left, y: top - origin.top, width, height };
}

/** A chart with its styles inside. */
function chart(svg: SVGSVGElement, origin: Place): SVGElement {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const from = [svg, ...svg.querySelectorAll('*')];
  [copy, ...copy.querySelectorAll('*')].forEach((element, i) => {
    const style = getComputedStyle(from[i]!);
    for (const name of STYLES) element.setAttribute(name, style.getPropertyValue(name));
    element.removeAttribute('class');
    element.removeAttribute('style');
  });
  // Its rules are written into the parts, and would apply to all the others as well.
  for (const sheet of copy.querySelectorAll('style')) sheet.remove();
  const box = boxOf(svg, origin);
  for (const [key, value] of Object.entries(box)) copy.setAttribute(key, String(value));
  copy.setAttribute('color', getComputedStyle(svg).color);
  return copy;
}

function map(canvas: HTMLCanvasElement, origin: Place): SVGElement {
  return make('image', {
    ...boxOf(canvas, origin),
    href: canvas.toDataURL(),
    preserveAspectRatio: 'none',
    style: 'image-rendering: pixelated',
  });
}

/** Mixed colours are written as color(srgb r g b / a), which few programs but browsers know. */
function plainColor(color: string): string {
  const [, r, g, b, a = 1] =
    /^color\(srgb ([\d.]+) ([\d.]+) ([\d.]+)(?: \/ ([\d.]+))?/.exec(color) ?? [];
  if (r === undefined) return color;
  return `rgba(${[r, g, b].map((part) => Math.round(255 * Number(part))).join()},${a})`;
}

/** A colour scale, or the bar behind a word: a box that a gradient fills. */
function bar(element: Element, origin: Place, number: number): SVGElement[] {
  const { backgroundImage } = getComputedStyle(element);
  const colors = (backgroundImage.match(/(?:rgba?|color)\([^)]*\)/g) ?? []).map(plainColor);
  const box = boxOf(element, origin);
  const share = Number((element as HTMLElement).style.getPropertyValue('--share') || NaN);
  if (Number.isFinite(share))
    return [make('rect', { ...box, width: box.width * share, fill: colors[0] ?? 'none' })];
  const gradient = make('linearGradient', { id: `scale-${number}` });
  colors.forEach((color, i) =>
    gradient.append(make('stop', { offset: i / (colors.length - 1), 'stop-color': color })),
  );
  return [gradient, make('rect', { ...box, fill: `url(#scale-${number})` })];
}

/** The lines into which a text is broken on the screen. */
function* linesOf(node: Text): Generator<{ text: string; range: Range }> {
  const words = [...node.data.matchAll(/\S+/g)];
  let from = 0;
  const rangeOf = (first: number, last: number) => {
    const range = document.createRange();
    const [begin, end] = [words[first]!, words[last]!];
    range.setStart(node, begin.index);
    range.setEnd(node, end.index + end[0].length);
    return range;
  };
  for (let i = 1; i <= words.length; i++) {
    const breaks =
      i === words.length ||
      rangeOf(i, i).getBoundingClientRect().top >
        rangeOf(from, from).getBoundingClientRect().top + 4;
    if (!breaks) continue;
    const range = rangeOf(from, i - 1);
    yield { text: range.toString().replace(/\s+/g, ' '), range };
    from = i;
  }
}

function texts(cell: Element, origin: Place): SVGElement[] {
  const found: SVGElement[] = [];
  const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode as Text;
    const parent = node.parentElement!;
    if (parent.closest('svg, .save, .readout') || !parent.checkVisibility()) continue;
    const { color, fontSize, fontFamily, fontWeight } = getComputedStyle(parent);
    for (const { text, range } of linesOf(node)) {
      const { x, y, height } = boxOf(range, origin);
      const style = { fill: color, 'font-size': fontSize, 'font-family': fontFamily };
      // Glyphs stand on a line at about four fifths of their box.
      const made = make('text', { x, y: y + 0.78 * height, 'font-weight': fontWeight, ...style });
      made.textContent = text;
      found.push(made);
    }
  }
  return found;
}

function visible<E extends Element>(cell: Element, selector: string): E[] {
  return [...cell.querySelectorAll<E>(selector)].filter((element) => element.checkVisibility());
}

/** Squares before the names of a chart's series. */
function swatches(cell: Element, origin: Place): SVGElement[] {
  return visible(cell, '.chart-key span:not(:has(svg))').map((span) => {
    const { x, y, height } = boxOf(span, origin);
    const fill = getComputedStyle(span, '::before').backgroundColor;
    return make('rect', { x, y: y + height / 2 - 5, width: 10, height: 10, rx: 2, fill });
  });
}

/** Frames round the cells that stand out. What is pointed at or chosen is not of the figure. */
function frames(cell: Element, origin: Place): SVGElement[] {
  return visible(cell, '.mark.outlined').map((mark) => {
    const stroke = getComputedStyle(mark).color;
    return make('rect', { ...boxOf(mark, origin), fill: 'none', stroke, 'stroke-width': 1.5 });
  });
}

/** Names of a map's axes, which a style sheet writes beside it. */
function axes(cell: Element, origin: Place): SVGElement[] {
  return visible<HTMLElement>(cell, '.heatmap').flatMap((heatmap) => {
    const { x, y, width, height } = boxOf(heatmap, origin);
    const fill = getComputedStyle(heatmap, '::before').color;
    const middle = { fill, 'font-size': 12, 'font-family': 'sans-serif', 'text-anchor': 'middle' };
    const turned = `translate(${x - 6} ${y + height / 2}) rotate(-90)`;
    const rows = make('text', { ...middle, transform: turned });
    rows.textContent = heatmap.dataset.row ?? '';
    const columns = make('text', { ...middle, x: x + width / 2, y: y + height + 15 });
    columns.textContent = heatmap.dataset.col ?? '';
    return [rows, columns].filter(({ textContent }) => textContent);
  });
}

/** A line over or under the figure. */
function caption(text: string, y: number, size: number, weight: number): SVGElement {
  const fill = getComputedStyle(document.body).color;
  const font = { 'font-family': 'sans-serif', 'font-size': size, 'font-weight': weight };
  const made = make('text', { x: MARGIN, y, fill, ...font });
  made.textContent = text;
  return made;
}

/**
 * @param cell what a view drew for one side, with its conditions
 * @param title stands over it
 * @param note stands under it
 */
export function figureOf(cell: HTMLElement, title: string, note: string): SVGSVGElement {
  const box = cell.getBoundingClientRect();
  const origin = { left: box.left - MARGIN, top: box.top - HEAD };
  const width = Math.ceil(box.width) + 2 * MARGIN;
  const height = Math.ceil(box.height) + HEAD + MARGIN + 16;
  const size = { width, height };
  const svg = make('svg', { xmlns: SVG, ...size, viewBox: `0 0 ${width} ${height}` });
  svg.append(
    make('rect', { ...size, fill: getComputedStyle(document.body).backgroundColor }),
    caption(title, 22, 15, 600),
    ...visible<HTMLCanvasElement>(cell, 'canvas').map((one) => map(one, origin)),
    ...visible(cell, '.legend-bar, .next li').flatMap((one, i) => bar(one, origin, i)),
    ...visible<SVGSVGElement>(cell, 'svg').map((one) => chart(one, origin)),
    ...frames(cell, origin),
    ...swatches(cell, origin),
    ...axes(cell, origin),
    ...texts(cell, origin),
    caption(note, height - 10, 10, 400),
  );
  return svg as SVGSVGElement;
}

/** What XML cannot hold, and no text on the page should: nothing of it makes a file that cannot be read. */
export function svgText(svg: SVGSVGElement): string {
  const text = new XMLSerializer().serializeToString(svg);
  return `${text.replace(/[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/g, '\ufffd')}\n`;
}

/** The same as pixels, two for each of the screen's. */
export async function pngOf(svg: SVGSVGElement): Promise<Blob> {
  const twice = (name: string) => 2 * Number(svg.getAttribute(name));
  const [width, height] = [twice('width'), twice('height')];
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
