/**
 * Draws lines, bars and points as SVG, updated in place. Scales and their ticks are d3's. A chart is few SVG elements,
 * drawn in about a millisecond; a general library needs a dozen milliseconds.
 */
import { scaleLinear, scaleLog, scaleSymlog } from 'd3-scale';
import { html, nothing, render, svg } from 'lit';

export interface Series {
  readonly name: string;
  /** A CSS variable's name, "--sink". */
  readonly color: string;
  readonly values: ArrayLike<number>;
  /** The x coordinates of the values; absent: consecutive integers from ChartData.from. */
  readonly places?: ArrayLike<number>;
  /** The lengths of dashes and gaps in pixels: "3,3". */
  readonly dash?: string;
  readonly faint?: boolean;
  /** Half of the error bar of each value. */
  readonly spread?: ArrayLike<number>;
  /** The lowest and highest value at each x coordinate, drawn as a band. */
  readonly band?: { readonly low: ArrayLike<number>; readonly high: ArrayLike<number> };
}

export interface ChartData {
  readonly kind: 'lines' | 'bars' | 'points';
  /** The series; in a chart of bars the first one is the bars and the others are lines over them. */
  readonly series: readonly Series[];
  /** The x coordinate of the first value; 0 if absent. */
  readonly from?: number;
  readonly xLabel: string;
  /** Labels of the x coordinates 0, 1 and so on, for an axis without numbers. */
  readonly xNames?: readonly string[];
  readonly yLabel: string;
  /** One sentence that describes the picture. */
  readonly label: string;
  readonly log?: boolean;
  /**
   * Whether the x axis counts steps of training: it is linear up to 100, so that 0 fits on it, and logarithmic above.
   */
  readonly steps?: boolean;
  /** The smallest range of the y axis; values may extend it. */
  readonly domain?: readonly [number, number];
  /** The smallest range of the x axis; values may extend it. */
  readonly xDomain?: readonly [number, number];
  readonly percent?: boolean;
  /** Whether the y axis begins near the smallest value instead of at 0. */
  readonly tight?: boolean;
  /** Whether each x coordinate doubles the one before: the x axis is then logarithmic, with a tick at each. */
  readonly doubling?: boolean;
  /** The x coordinate of a vertical line; `cursorWords` is its label. */
  readonly cursor?: number;
  readonly cursorWords?: string;
  readonly height?: number;
  /**
   * Whether strong lines have their names beside them instead of in the legend: near their ends, or `apart`, where each
   * is furthest from the others.
   */
  readonly named?: boolean | 'apart';
  /** Whether lines with few values have a dot at each; true if absent. */
  readonly dots?: boolean;
  readonly onChoose?: (x: number) => void;
}

const HEIGHT = 176;
/** The distance in pixels below which labels overlap. */
const TICK_ROOM = 13;
/** The smallest span of the y axis relative to its largest value, so that rounding errors are drawn as a flat line. */
const MIN_SPAN = 1e-3;
const [LEFT, RIGHT, TOP, BOTTOM] = [42, 10, 22, 32];
const chartWidths = new WeakMap<Element, number>();
const chartData = new WeakMap<Element, ChartData>();

/** Redraws charts whose elements change their widths, so that drawing itself need not measure the layout. */
const watcher =
  typeof ResizeObserver === 'undefined'
    ? undefined
    : new ResizeObserver((entries) => {
        for (const { target, contentRect } of entries) {
          const width = Math.round(contentRect.width);
          const data = chartData.get(target);
          if (!width || width === chartWidths.get(target)) continue;
          chartWidths.set(target, width);
          if (data) drawChart(target as HTMLElement, data);
        }
      });

/** Removes the floating-point error of a tick: 0.30000000000000004 becomes 0.3. */
const round = (x: number) => Number(x.toPrecision(7));
const withMinusSign = (text: string) => text.replace(/^-/, '−');
const shortLabel = (x: number) =>
  x >= 1000 ? `${round(x / 1000)}k` : withMinusSign(String(round(x)));

function yTickWords({ percent }: ChartData): (value: number) => string {
  if (percent) return (value) => withMinusSign(`${round(100 * value)}%`);
  return (value) =>
    Math.abs(value) >= 1e4 ? withMinusSign(round(value).toExponential()) : shortLabel(value);
}

/** Returns as many ticks of a logarithmic axis as fit, preferring round numbers. */
export function fittingTicks(ticks: readonly number[], y: (value: number) => number): number[] {
  const roundnessRank = (tick: number) => {
    const leadingDigit = Math.round(tick / 10 ** Math.floor(Math.log10(tick) + 1e-9));
    return leadingDigit === 1 ? 0 : leadingDigit === 2 || leadingDigit === 5 ? 1 : 2;
  };
  const spaced: number[] = [];
  for (const tick of [...ticks].sort((a, b) => roundnessRank(a) - roundnessRank(b)))
    if (spaced.every((other) => Math.abs(y(other) - y(tick)) >= TICK_ROOM)) spaced.push(tick);
  return spaced;
}

/** Shapes of points, which distinguish series for readers who cannot distinguish their colors. */
const SHAPES = [
  'M-3,-3h6v6h-6z',
  'M0,-4.2l4.2,4.2l-4.2,4.2l-4.2,-4.2z',
  'M0,-4l4,7h-8z',
  'M0,4l4,-7h-8z',
];
/** The horizontal distance between series of points, so that their error bars do not overlap. */
const SERIES_GAP = 0.08;

/** Returns the points of a series that can be drawn, split at gaps. */
function segmentsOf(series: Series, from: number, isLog: boolean): [number, number][][] {
  const segments: [number, number][][] = [[]];
  for (let i = 0; i < series.values.length; i++) {
    const y = series.values[i]!;
    if (Number.isFinite(y) && (!isLog || y > 0))
      segments.at(-1)!.push([series.places?.[i] ?? from + i, y]);
    else if (segments.at(-1)!.length) segments.push([]);
  }
  return segments;
}

function drawPoint(color: string, i: number, position?: readonly [number, number]) {
  const transform = position
    ? `translate(${position.map((coordinate) => coordinate.toFixed(1)).join()})`
    : nothing;
  return svg`<path class="point" style=${`fill: var(${color})`} transform=${transform}
    d=${SHAPES[i % SHAPES.length]!}></path>`;
}

/** Returns a sample of a line, for legends where colors alone do not distinguish the lines. */
function lineSample({ color, dash, band, faint }: Series) {
  return html`<svg class="sample" viewBox="0 0 24 10" aria-hidden="true">
    ${band ? svg`<rect class="band" width="24" height="10" style=${`fill: var(${color})`}></rect>` : nothing}
    <path
      class=${faint ? 'line faint' : 'line'}
      style=${`stroke: var(${color})`}
      stroke-dasharray=${dash ?? nothing}
      d="M0,5L24,5"
    ></path>
  </svg>`;
}

function pointSample({ color }: Series, i: number) {
  return html`<svg class="sample" viewBox="-5 -5 10 10" aria-hidden="true">
    ${drawPoint(color, i)}
  </svg>`;
}

/** The height of a name beside a line. */
const NAME_HEIGHT = 14;

/**
 * Writes the names of strong lines beside them, each name once: left of the end of a line that rises, above one that
 * stays low, right of one that has just begun. Names do not overlap.
 * @param place returns where a point is on the picture
 */
function nameLines(
  { series, named }: ChartData,
  segments: readonly [number, number][][][],
  place: (point: readonly [number, number]) => readonly [number, number],
  [width, floor]: readonly [number, number],
) {
  const taken: number[] = [];
  const places = segments.map((own) => own.flat().map(place));
  if (named === 'apart') return nameLinesApart(series, places, [width, floor]);
  const isNamed = ({ name, color, faint, band }: Series, i: number) =>
    named &&
    places[i]!.length > 0 &&
    !faint &&
    !band &&
    i === series.findIndex((one) => one.name === name && one.color === color);
  // The name of the lower line comes first, so that names are in the order of the lines.
  return series
    .filter(isNamed)
    .map((one) => ({ ...one, end: places[series.indexOf(one)]!.at(-1)! }))
    .sort((a, b) => b.end[1] - a.end[1])
    .map(({ name, color, end: [endX, endY] }) => {
      const isEarly = endX < width / 2;
      const isLow = endY > floor - 40;
      const x = isEarly ? endX + 6 : endX - (isLow ? width / 3 : 40);
      const tops = places.flat().flatMap(([px, py]) => (px > x - 100 && px < x + 6 ? py : []));
      let y = isEarly ? Math.min(endY + 4, floor - 4) : (isLow ? Math.min(...tops) : endY) - 8;
      while (taken.some((other) => Math.abs(other - y) < NAME_HEIGHT)) y -= NAME_HEIGHT;
      taken.push(y);
      return svg`<text class="name" style=${`fill: var(${color})`} text-anchor=${isEarly ? 'start' : 'end'} x=${x} y=${y}>${name}</text>`;
    });
}

/** Returns the height of a line at x; undefined outside it. */
function heightAt(points: readonly (readonly [number, number])[], x: number): number | undefined {
  const i = points.findIndex(([px]) => px >= x);
  if (i < 0 || (i === 0 && points[0]![0] > x)) return undefined;
  const [[x0, y0], [x1, y1]] = [points[Math.max(0, i - 1)]!, points[i]!];
  return x1 === x0 ? y1 : y0 + ((y1 - y0) * (x - x0)) / (x1 - x0);
}

/**
 * Writes the name of each strong line above or below it, where the other lines and the names so far leave most room.
 * @param places the points of each line on the picture
 */
function nameLinesApart(
  series: readonly Series[],
  places: readonly (readonly (readonly [number, number])[])[],
  [width, floor]: readonly [number, number],
) {
  const taken: { readonly left: number; readonly right: number; readonly y: number }[] = [];
  return series.map(({ name, color, faint }, own) => {
    if (faint || !places[own]!.length) return nothing;
    const length = 7.5 * name.length;
    const candidates = places[own]!.flatMap(([x, y]) => {
      const left = Math.max(LEFT + 8, Math.min(width - RIGHT - length, x - length / 2));
      const right = left + length;
      const samples = Array.from({ length: 9 }, (_, i) => left + (i * length) / 8);
      const heights = places.map((points) => samples.flatMap((at) => heightAt(points, at) ?? []));
      return [-1, 1, -2, 2, -3].map((step) => {
        const [side, shift] = [Math.sign(step), NAME_HEIGHT * (Math.abs(step) - 1)];
        const edge = Math.min(...heights[own]!.map((height) => side * -height), side * -y);
        const middle = side * (NAME_HEIGHT / 2 + 3 + shift - edge);
        const others = heights.filter((_, i) => i !== own).flat();
        const overlaps = taken.some(
          (one) => one.left < right && left < one.right && Math.abs(one.y - middle) < NAME_HEIGHT,
        );
        const room = Math.min(
          ...others.map((height) => Math.abs(height - middle)),
          2 * NAME_HEIGHT,
          middle - TOP + NAME_HEIGHT,
          floor - middle + 2,
        );
        const apart = Math.min(
          20,
          ...places.flatMap((points, i) => {
            const height = i === own ? undefined : heightAt(points, x);
            return height === undefined ? [] : Math.abs(height - y);
          }),
        );
        const steepness = Math.max(...heights[own]!, y) - Math.min(...heights[own]!, y);
        return {
          left,
          right,
          y: middle,
          score: room + apart - 0.3 * steepness - shift - (overlaps ? 100 : 0),
        };
      });
    });
    const best = candidates.reduce((a, b) => (b.score > a.score + 1 ? b : a));
    taken.push(best);
    return svg`<text class="name" style=${`fill: var(${color})`} text-anchor="middle" x=${(best.left + best.right) / 2} y=${best.y + 4}>${name}</text>`;
  });
}

/** Returns the series of the legend: faint lines last, lines of the same name and color once, no named lines. */
function legendOf({ series, named }: ChartData): Series[] {
  return series
    .filter(({ faint, band }) => !named || faint || band)
    .filter((a, i, list) => i === list.findIndex((b) => a.name === b.name && a.color === b.color))
    .sort((a, b) => Number(Boolean(a.faint)) - Number(Boolean(b.faint)));
}

/** Draws a chart into an element, or updates the chart there. */
export function drawChart(root: HTMLElement, data: ChartData): void {
  if (!chartData.has(root)) watcher?.observe(root);
  chartData.set(root, data);
  const width = Math.max(180, chartWidths.get(root) ?? 340);
  const bottom = data.xLabel ? BOTTOM : BOTTOM - 13;
  const {
    series: allSeries,
    log = false,
    from = 0,
    kind,
    cursor,
    onChoose,
    height = HEIGHT,
  } = data;
  const hasPoints = kind === 'points';
  const segmentsOfSeries = allSeries.map((series, i) =>
    segmentsOf(series, from + (hasPoints ? SERIES_GAP * (i - (allSeries.length - 1) / 2) : 0), log),
  );
  const points = segmentsOfSeries.flat(2);
  const xs = [...points.map(([x]) => x), ...(data.xDomain ?? [])];
  const spreadEnds = allSeries.flatMap(({ values, spread, band }) => [
    ...Array.from(spread ?? [], (half, i) => values[i]! + half),
    ...Array.from(band?.low ?? []),
    ...Array.from(band?.high ?? []),
  ]);
  // Omits values and error bars that are not positive from a logarithmic axis.
  const ys = [...points.map(([, y]) => y), ...spreadEnds, ...(data.domain ?? [])].filter(
    (value) => Number.isFinite(value) && (!log || value > 0),
  );
  const pad = kind === 'bars' ? 0.6 : hasPoints ? 0.4 : 0;
  const domain = [Math.min(...xs) - pad, Math.max(...xs) + pad];
  const x = (data.steps ? scaleSymlog().constant(100) : data.doubling ? scaleLog() : scaleLinear())
    .domain(xs.length ? domain : [0, 1])
    .range([LEFT + 4, width - RIGHT]);
  const minimum = Math.min(...ys);
  // The y axis begins at 0 even if a value is slightly below 0.
  const startsAtZero = !log && !data.tight && minimum > -0.03 * Math.max(...ys);
  // A single value makes no axis: it then begins or ends at 0.
  const isSingle = !log && minimum === Math.max(...ys);
  const low = startsAtZero ? 0 : isSingle ? Math.min(0, minimum) : minimum;
  const high = isSingle ? Math.max(0, minimum) : Math.max(...ys);
  const magnitude = Math.max(Math.abs(low), Math.abs(high));
  const margin = Math.max(0, MIN_SPAN * magnitude - (high - low)) / 2;
  const y = (log ? scaleLog() : scaleLinear())
    .domain(ys.length ? [low - margin, high + margin || (low < 0 ? 0 : 1)] : [log ? 0.1 : 0, 1])
    .range([height - bottom, TOP]);
  const tickCount = height < 110 ? 2 : 4;
  if (!log) (y as ReturnType<typeof scaleLinear>).nice(tickCount);
  const chooseAt = (event: MouseEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    onChoose!(x.invert(((event.clientX - box.left) * width) / box.width));
  };
  const xTicks = data.steps
    ? [0, 100, 300, 1000, 3000, 10_000, 30_000, 100_000].filter((t) => t <= domain[1]!)
    : data.doubling
      ? [...new Set(xs)]
      : data.xNames
        ? [...data.xNames.keys()]
        : x.ticks(Math.min(8, Math.max(2, width / 48))).filter(Number.isInteger);
  const yTicks = log
    ? fittingTicks((y as ReturnType<typeof scaleLog>).ticks(), y)
    : y.ticks(tickCount);
  const yWords = yTickWords(data);
  const path = (segment: [number, number][]) =>
    segment.map(([a, b], i) => `${i ? 'L' : 'M'}${x(a).toFixed(1)},${y(b).toFixed(1)}`).join('');
  const floor = y(Math.max(y.domain()[0]!, 0));
  const barWidth = Math.max(1, 0.76 * (x(1) - x(0)));
  const bandPath = ({ places, values, band }: Series) => {
    const boundary = (side: ArrayLike<number>) =>
      Array.from(side, (value, i): [number, number] => [places?.[i] ?? from + i, value]).filter(
        ([, value], i) =>
          Number.isFinite(value) && Number.isFinite(values[i]!) && (!log || value > 0),
      );
    return `${path([...boundary(band!.high), ...boundary(band!.low).reverse()])}Z`;
  };
  const seriesShapes = allSeries.map((series, i) => {
    const ownPoints = segmentsOfSeries[i]!.flat();
    const style = `stroke: var(${series.color})`;
    if (kind === 'bars' && i === 0)
      return ownPoints.map(
        ([a, b]) =>
          svg`<rect x=${(x(a) - barWidth / 2).toFixed(1)} width=${barWidth.toFixed(1)} y=${Math.min(y(b), floor).toFixed(1)}
            height=${Math.abs(floor - y(b)).toFixed(1)} style=${`fill: var(${series.color})`}></rect>`,
      );
    const errorBars = ownPoints.flatMap(([a, b], j) => {
      const half = series.spread?.[j];
      if (half === undefined || !Number.isFinite(half)) return [];
      const y1 = y(Math.max(b - half, y.domain()[0]!));
      const y2 = y(b + half);
      return svg`<line class="spread" style=${style} x1=${x(a)} x2=${x(a)} y1=${y1} y2=${y2}></line>`;
    });
    if (hasPoints)
      return [errorBars, ownPoints.map(([a, b]) => drawPoint(series.color, i, [x(a), y(b)]))];
    const dots =
      data.dots !== false && !series.band && points.length < 400 && ownPoints.length < 40;
    const band = series.band?.low.length
      ? svg`<path class="band" style=${`fill: var(${series.color})`} d=${bandPath(series)}></path>`
      : nothing;
    return svg`${band}<path class=${series.faint ? 'line faint' : 'line'} style=${style}
        stroke-dasharray=${series.dash ?? nothing} d=${segmentsOfSeries[i]!.map(path).join('') || 'M0,0'}></path>
      ${errorBars}
      ${
        dots
          ? ownPoints.map(
              ([a, b]) =>
                svg`<circle class=${series.faint ? 'faint' : ''} r=${series.faint ? 1.6 : 2.4} cx=${x(a).toFixed(1)}
                  cy=${y(b).toFixed(1)} style=${`fill: var(${series.color})`}></circle>`,
            )
          : nothing
      }`;
  });
  const labelOffset = x(cursor ?? NaN) > width / 2 ? -5 : 5;
  const needsLineSamples = kind === 'lines' && allSeries.some(({ dash }) => dash);
  const legendSeries = legendOf(data);
  render(
    html`<svg
        class="chart-picture ${onChoose ? 'choosable' : ''}"
        viewBox="0 0 ${width} ${height}"
        height=${height}
        role="img"
        aria-label=${data.label}
        @click=${onChoose ? chooseAt : nothing}
      >
        ${yTicks.map(
          (tick) =>
            svg`<line class="grid" x1=${LEFT} x2=${width - RIGHT} y1=${y(tick)} y2=${y(tick)}></line>
              <text x=${LEFT - 5} y=${y(tick) + 3.5} text-anchor="end">${yWords(tick)}</text>`,
        )}
        ${xTicks.map(
          (tick) =>
            svg`<text x=${x(tick)} y=${height - bottom + 14} text-anchor="middle">${data.xNames?.[tick] ?? shortLabel(tick)}</text>`,
        )}
        ${seriesShapes}
        ${nameLines(data, segmentsOfSeries, ([a, b]) => [x(a), y(b)], [width, height - bottom])}
        ${
          cursor === undefined || !Number.isFinite(cursor)
            ? nothing
            : svg`<line class="cursor" x1=${x(cursor)} x2=${x(cursor)} y1=${TOP - 4} y2=${height - bottom}></line>
                <text x=${x(cursor) + labelOffset} y=${TOP + 4}
                  text-anchor=${labelOffset < 0 ? 'end' : 'start'}>${data.cursorWords ?? ''}</text>`
        }
        <text class="axis" x=${LEFT - 38} y="11">${data.yLabel}</text>
        <text class="axis" x=${width - RIGHT} y=${height - 3} text-anchor="end">
          ${data.xLabel}
        </text>
      </svg>
      <p class="chart-key">
        ${legendSeries.map(
          (series) =>
            html`<span style="--swatch: var(${series.color})"
              >${hasPoints ? pointSample(series, allSeries.indexOf(series)) : needsLineSamples ? lineSample(series) : nothing}${series.name}</span
            >`,
        )}
      </p>`,
    root,
  );
}
