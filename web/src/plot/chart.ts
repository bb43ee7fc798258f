/** Draws lines, bars and points as SVG, in a millisecond, where a library needs a dozen; scales and ticks are d3's. */
import { scaleLinear, scaleLog, scaleSymlog } from 'd3-scale';
import { html, nothing, render, svg } from 'lit';

export interface Series {
  readonly name: string;
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
  /** Whether the x axis counts training steps: it is log(1 + step/100), so that 0 fits; ticks end at the last step. */
  readonly steps?: boolean;
  /** The smallest range of the y axis; values may extend it. */
  readonly domain?: readonly [number, number];
  /** The smallest range of the x axis; values may extend it. */
  readonly xDomain?: readonly [number, number];
  readonly percent?: boolean;
  /** Whether the y axis counts rises of a loss in nats: its ticks are by how many percent they raise the perplexity. */
  readonly worse?: boolean;
  /** Whether the y axis begins near the smallest value instead of at 0. */
  readonly tight?: boolean;
  /** Whether each x coordinate doubles the one before: the x axis is then logarithmic, with a tick at each. */
  readonly doubling?: boolean;
  /** The x coordinate of a vertical line; `cursorWords` is its label. */
  readonly cursor?: number;
  readonly cursorWords?: string;
  readonly height?: number;
  /** Points of lines that are marked, with words beside them. */
  readonly marks?: readonly {
    readonly x: number;
    readonly y: number;
    readonly color: string;
    readonly text: string;
  }[];
  /** Whether strong lines have their names beside them instead of in the legend. */
  readonly named?: boolean;
  /** Whether lines with few values have a dot at each; true if absent. */
  readonly dots?: boolean;
  readonly onChoose?: (x: number) => void;
}

const HEIGHT = 176;
/** The distances in pixels below which labels overlap, one above another and side by side. */
const TICK_ROOM = 13;
const SIDE_ROOM = 20;
/** The same for the ticks of training steps, with up to six digits. */
const STEP_ROOM = 34;
/** By how much a perplexity rises at the ticks of an axis of rises. */
const WORSE = [0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 1, 2, 5, 10, 20, 50, 100, 1000];
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

function yTickWords({ percent, worse }: ChartData): (value: number) => string {
  if (worse) return (value) => `${shortLabel(100 * Math.expm1(value))}%`;
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

/** Returns the ticks, from the first one on, that are at least `room` pixels apart. */
const apart = (ticks: readonly number[], at: (tick: number) => number, room: number): number[] =>
  ticks.reduce<number[]>(
    (kept, tick) => (Math.abs(at(tick) - at(kept.at(-1) ?? NaN)) < room ? kept : [...kept, tick]),
    [],
  );

/** Shapes of points, which distinguish series for readers who cannot distinguish their colors. */
const SHAPES = [
  'M-3,-3h6v6h-6z',
  'M0,-4.2l4.2,4.2l-4.2,4.2l-4.2,-4.2z',
  'M0,-4l4,7h-8z',
  'M0,4l4,-7h-8z',
];
/** The horizontal distance between series of points, so that their error bars do not overlap. */
const SERIES_GAP = 0.08;

/** The ticks of an axis of training steps, which has one at the last step, too. */
const STEP_TICKS = [0, 100, 400, 1000, 2000, 4000, 10_000, 20_000, 40_000, 100_000];

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

/** The height of a name, its width by letter, and the distance from other lines that is enough. */
const [NAME_HEIGHT, LETTER_WIDTH, ENOUGH_ROOM] = [14, 8.8, 20];
/** The distances of a name's middle from its line. */
const NAME_GAPS = [-10, 10, -24, 24];
/** How much room a name must gain to be away from its line. */
const FAR_COST = 2 * ENOUGH_ROOM;
/** A name that is nearer to something else has no room. */
const MIN_ROOM = 6;
/** How many points of a line are tried for its name. */
const MAX_NAME_PLACES = 40;
const MARK_LETTER_WIDTH = 6.3;
/** The possible places of a mark's words: its left (-1) or right (1), and by how many pixels lower; the first with room is taken. */
const MARK_PLACES = [
  [-1, -8],
  [1, 17],
  [1, -8],
  [-1, 17],
  [1, -30],
  [-1, -30],
  [1, 40],
] as const;

type Point = readonly [x: number, y: number];

/** Returns the series of the legend: faint lines last, lines of the same name and color once, no lines with a name beside them. */
function legendOf(
  { kind, series, named }: ChartData,
  unnamed: readonly Series[],
): readonly Series[] {
  // The axis says what the only bars are.
  if (kind === 'bars' && series.length < 2) return [];
  return series
    .filter((one) => one.name && (!named || one.faint || one.band || unnamed.includes(one)))
    .filter((a, i, list) => i === list.findIndex((b) => a.name === b.name && a.color === b.color))
    .sort((a, b) => Number(Boolean(a.faint)) - Number(Boolean(b.faint)));
}

/** Returns the lowest and highest y coordinate of the axis. */
function yDomain(ys: readonly number[], { log, tight }: ChartData): [number, number] {
  if (!ys.length) return [log ? 0.1 : 0, 1];
  const [minimum, maximum] = [Math.min(...ys), Math.max(...ys)];
  // The y axis begins at 0 even if a value is slightly below 0.
  const startsAtZero = !log && !tight && minimum > -0.03 * maximum;
  // A single value makes no axis: it then begins or ends at 0.
  const isSingle = !log && minimum === maximum;
  const low = startsAtZero ? 0 : isSingle ? Math.min(0, minimum) : minimum;
  const high = isSingle ? Math.max(0, minimum) : maximum;
  const magnitude = Math.max(Math.abs(low), Math.abs(high));
  const margin = Math.max(0, MIN_SPAN * magnitude - (high - low)) / 2;
  return [low - margin, high + margin || (low < 0 ? 0 : 1)];
}

/** Returns the scales of a chart of this size with their ticks, and the points of each series. */
function axesOf(data: ChartData, width: number, height: number) {
  const { series: allSeries, log = false, from = 0, kind, steps, doubling, xNames } = data;
  const shiftOf = (i: number) =>
    kind === 'points' ? SERIES_GAP * (i - (allSeries.length - 1) / 2) : 0;
  const segments = allSeries.map((series, i) => segmentsOf(series, from + shiftOf(i), log));
  const points = segments.flat(2);
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
  const pad = { bars: 0.6, points: 0.4, lines: 0 }[kind];
  const xDomain = xs.length ? [Math.min(...xs) - pad, Math.max(...xs) + pad] : [0, 1];
  const x = (steps ? scaleSymlog().constant(100) : doubling ? scaleLog() : scaleLinear())
    .domain(xDomain)
    .range([LEFT + 4, width - RIGHT]);
  const range = [height - (data.xLabel ? BOTTOM : BOTTOM - 13), TOP];
  const tickCount = height < 110 ? 2 : 4;
  const y = log
    ? scaleLog(yDomain(ys, data), range)
    : scaleLinear(yDomain(ys, data), range).nice(data.worse ? 20 : tickCount);
  const xTicks = () => {
    const last = xDomain[1]!;
    const early = STEP_TICKS.filter((tick) => tick < last / 1.6);
    if (steps) return [...apart(early, x, STEP_ROOM), last];
    if (doubling)
      return apart(
        [...new Set(xs)].sort((a, b) => a - b),
        x,
        SIDE_ROOM,
      );
    if (xNames) return [...xNames.keys()];
    return x.ticks(Math.min(8, Math.max(2, width / 48))).filter(Number.isInteger);
  };
  const worseTicks = WORSE.map(Math.log1p).filter((tick) => tick <= y.domain()[1]!);
  const yTicks = log
    ? fittingTicks(y.ticks(), y)
    : data.worse
      ? apart(worseTicks, y, 22)
      : y.ticks(tickCount);
  return { x, y, xTicks: xTicks(), yTicks, segments };
}

type Axes = ReturnType<typeof axesOf>;

function barsOf({ x, y, segments }: Axes, { color }: Series) {
  const floor = y(Math.max(y.domain()[0]!, 0));
  const barWidth = Math.max(1, 0.76 * (x(1) - x(0)));
  return segments[0]!.flat().map(
    ([a, b]) =>
      svg`<rect x=${(x(a) - barWidth / 2).toFixed(1)} width=${barWidth.toFixed(1)} y=${Math.min(y(b), floor).toFixed(1)}
          height=${Math.abs(floor - y(b)).toFixed(1)} style=${`fill: var(${color})`}></rect>`,
  );
}

function drawBand(
  { color, places, values, band }: Series,
  { from = 0, log }: ChartData,
  path: (points: readonly Point[]) => string,
) {
  if (!band?.low.length) return nothing;
  const boundary = (side: ArrayLike<number>) =>
    Array.from(side, (value, i): Point => [places?.[i] ?? from + i, value]).filter(
      ([, value], i) =>
        Number.isFinite(value) && Number.isFinite(values[i]!) && (!log || value > 0),
    );
  const points = [...boundary(band.high), ...boundary(band.low).reverse()];
  return svg`<path class="band" style=${`fill: var(${color})`} d=${`${path(points)}Z`}></path>`;
}

const isLevel = ({ values }: Series): boolean => values.length === 2 && values[0] === values[1];

function drawSeries(data: ChartData, axes: Axes, i: number) {
  const { x, y, segments } = axes;
  const series = data.series[i]!;
  if (data.kind === 'bars' && i === 0) return barsOf(axes, series);
  const points = segments[i]!.flat();
  const { color, spread, dash, faint, band } = series;
  const style = `stroke: var(${color})`;
  const errorBars = points.flatMap(([a, b], j) => {
    const half = spread?.[j];
    if (half === undefined || !Number.isFinite(half)) return [];
    const y1 = y(Math.max(b - half, y.domain()[0]!));
    const y2 = y(b + half);
    return svg`<line class="spread" style=${style} x1=${x(a)} x2=${x(a)} y1=${y1} y2=${y2}></line>`;
  });
  if (data.kind === 'points')
    return [errorBars, points.map(([a, b]) => drawPoint(color, i, [x(a), y(b)]))];
  const path = (line: readonly Point[]) =>
    line.map(([a, b], j) => `${j ? 'L' : 'M'}${x(a).toFixed(1)},${y(b).toFixed(1)}`).join('');
  const hasDots =
    points.length === 1 ||
    (data.dots !== false &&
      !band &&
      !isLevel(series) &&
      segments.flat(2).length < 400 &&
      points.length < 40);
  const dots = hasDots ? points : [];
  return svg`${drawBand(series, data, path)}<path class=${faint ? 'line faint' : 'line'} style=${style}
      stroke-dasharray=${dash ?? nothing} d=${segments[i]!.map(path).join('') || 'M0,0'}></path>
    ${errorBars}
    ${dots.map(
      ([a, b]) =>
        svg`<circle class=${faint ? 'faint' : ''} r=${faint ? 1.6 : a === data.cursor ? 5 : 2.4} cx=${x(a).toFixed(1)}
          cy=${y(b).toFixed(1)} style=${`fill: var(${color})`}></circle>`,
    )}`;
}

/** Returns points along a line at most 6 pixels apart. */
const pointsAlong = (points: readonly Point[]): Point[] =>
  points.flatMap(([x, y], i) => {
    const [nextX, nextY] = points[i + 1] ?? [x, y];
    const count = Math.max(1, Math.ceil(Math.hypot(nextX - x, nextY - y) / 6));
    return Array.from({ length: count }, (_, k): Point => {
      return [x + ((nextX - x) * k) / count, y + ((nextY - y) * k) / count];
    });
  });

/** Returns the distance from a height to the points from left to right, at most ENOUGH_ROOM. */
const distanceTo = (points: readonly Point[], y: number, left: number, right: number): number =>
  points.reduce(
    (least, [px, py]) => (px < left || px > right ? least : Math.min(least, Math.abs(py - y))),
    ENOUGH_ROOM,
  );

/** Returns the points of each series in pixels. */
const drawnLines = ({ x, y, segments }: Axes): Point[][] =>
  segments.map((own) => own.flat().map(([a, b]): Point => [x(a), y(b)]));

/** What a name or the words of a mark take: one line of text with its middle at y. */
interface Box {
  readonly left: number;
  readonly right: number;
  readonly y: number;
}

const middleOf = ({ left, right, y }: Box): Point[] => [
  [left, y],
  [right, y],
];

/** Whether words would overlap others. */
const isOn = (others: readonly Box[], { left, right, y }: Box): boolean =>
  others.some((own) => left < own.right && right > own.left && Math.abs(y - own.y) < NAME_HEIGHT);

/**
 * Writes the name of each strong line once: after its end, above it or below it, where the line is apart from others
 * and the name has room. The legend has the names of lines without room.
 * @param otherPlaces the ends of the cursor, of its label and of the words of marks
 */
function nameLines(
  { series, named: hasNames }: ChartData,
  axes: Axes,
  width: number,
  otherPlaces: readonly (readonly Point[])[],
) {
  if (!hasNames) return [];
  const named: Box[] = [];
  const { y: yOf } = axes;
  const lines = drawnLines(axes);
  const obstacles = [...lines, ...otherPlaces].map(pointsAlong);
  const drawName = (one: Series) => {
    const { name, color } = one;
    const own = series.indexOf(one);
    const length = LETTER_WIDTH * name.length;
    const lastLeft = width - RIGHT - length;
    const others = obstacles.filter((_, i) => i !== own).flat();
    // A level has two points, and its name may stand anywhere along it.
    const along = obstacles[own]!;
    const stride = Math.ceil(along.length / MAX_NAME_PLACES);
    const anchors = along.filter((_, i) => i % stride === 0);
    const end = lines[own]!.at(-1)!;
    const candidates = [
      ...(end[0] + 6 <= lastLeft ? [{ anchor: end, left: end[0] + 6, y: end[1] }] : []),
      ...NAME_GAPS.flatMap((gap) =>
        anchors.map((anchor) => {
          const left = Math.max(LEFT + 8, Math.min(lastLeft, anchor[0] - length / 2));
          return { anchor, left, y: anchor[1] + gap };
        }),
      ),
      // A name beside a steep line.
      ...anchors.flatMap((anchor) =>
        [anchor[0] - length - 8, anchor[0] + 8]
          .filter((left) => left >= LEFT + 8 && left <= lastLeft)
          .map((left) => ({ anchor, left, y: anchor[1] })),
      ),
    ];
    const scored = candidates.map(({ anchor: [x, lineY], left, y }) => {
      const room = Math.min(
        distanceTo(others, y, left, left + length),
        // A name may be near its own line, but not on it.
        2 * distanceTo(obstacles[own]!, y, left, left + length),
        y - TOP + NAME_HEIGHT,
        // The numbers of the axis are below.
        yOf.range()[0]! - y + 4,
      );
      const isFar = Math.abs(y - lineY) > NAME_HEIGHT;
      const score = 2 * room + distanceTo(others, lineY, x - 8, x + 8) - (isFar ? FAR_COST : 0);
      return { left, y, room, score };
    });
    // A level, whose look is that of other levels, has its name beside it however little room there is.
    const free = scored.filter(
      ({ room, left, y }) => room >= MIN_ROOM && !isOn(named, { left, right: left + length, y }),
    );
    const [best] = free.length
      ? free.sort((a, b) => b.score - a.score)
      : scored.filter(() => isLevel(one)).sort((a, b) => b.room - a.room);
    if (!best) return { one, text: undefined };
    const { left, y } = best;
    const box = { left, right: left + length, y };
    obstacles.push(pointsAlong(middleOf(box)));
    named.push(box);
    const text = svg`<text class="name" style=${`fill: var(${color})`} x=${left} y=${y + 4}>${name}</text>`;
    return { one, text };
  };
  // The name of the lower line comes first, so that names are in the order of the lines.
  const endOf = (one: Series) => lines[series.indexOf(one)]!.at(-1)?.[1] ?? NaN;
  return series
    .filter((one) => {
      const first = series.find(({ name, color }) => one.name === name && one.color === color);
      return Number.isFinite(endOf(one)) && !one.faint && !one.band && first === one;
    })
    .sort((a, b) => endOf(b) - endOf(a))
    .map(drawName);
}

/**
 * Draws the marks, with words at the left above a point, or where these keep away from the lines and the axis; without
 * words if these would overlap those of another mark. `places` are what words and rings take.
 */
function marksOf(
  { marks = [] }: ChartData,
  axes: Axes,
  cursorPlaces: readonly (readonly Point[])[],
) {
  const { x: xOf, y: yOf } = axes;
  const obstacles = [...drawnLines(axes), ...cursorPlaces].flatMap(pointsAlong);
  const [[, end = NaN], [floor = NaN]] = [xOf.range(), yOf.range()];
  const written: Box[] = [];
  const drawn = marks.map(({ x, y, color, text }) => {
    const [cx, cy, length] = [xOf(x), yOf(y), MARK_LETTER_WIDTH * text.length];
    const roomAt = ([side, dy]: readonly [number, number]) => {
      const [near, far] = [cx + 10 * side, cx + (10 + length) * side];
      const [left, right] = [Math.min(near, far), Math.max(near, far)];
      const isInside = left > LEFT && right <= end && cy + dy >= 12 && cy + dy <= floor;
      // The middle of the words is above their foot.
      return isInside ? distanceTo(obstacles, cy + dy - 4, left, right) : -1;
    };
    const roomiest = () =>
      MARK_PLACES.reduce((best, place) => (roomAt(place) > roomAt(best) ? place : best));
    const [side, dy] = MARK_PLACES.find((place) => roomAt(place) >= MIN_ROOM) ?? roomiest();
    const [textX, textY] = [cx + 10 * side, cy + dy];
    const ends = [textX - 8 * side, textX + length * side];
    // Names keep clear of the words' upper and lower side, and of the ring.
    const words = [-8, 0].flatMap((rise) => ends.map((at): Point => [at, textY + rise]));
    const box = { left: Math.min(...ends), right: Math.max(...ends), y: textY - 4 };
    const style = `--own: var(${color})`;
    const circle = svg`<circle class="ring" style=${style} r="6" cx=${cx} cy=${cy}></circle>`;
    const ring = [-12, 12].map((dx): Point => [cx + dx, cy]);
    if (isOn(written, box)) return { places: [ring], picture: circle };
    written.push(box);
    obstacles.push(...pointsAlong(words.slice(0, 2)), ...pointsAlong(words.slice(2)));
    const picture = svg`${circle}<text class="ring-words" x=${textX.toFixed(1)} y=${textY.toFixed(1)} text-anchor=${side < 0 ? 'end' : 'start'}>${text}</text>`;
    return { places: [words, ring], picture };
  });
  return {
    places: drawn.flatMap(({ places }) => places),
    pictures: drawn.map(({ picture }) => picture),
  };
}

function legendTemplate(data: ChartData, unnamed: readonly Series[]) {
  const { kind, series } = data;
  const needsLineSamples = kind === 'lines' && series.some(({ dash }) => dash);
  const sampleOf = (one: Series) =>
    kind === 'points'
      ? pointSample(one, series.indexOf(one))
      : needsLineSamples
        ? lineSample(one)
        : nothing;
  return html`<p class="chart-key">
    ${legendOf(data, unnamed).map(
      (one) => html`<span style="--swatch: var(${one.color})">${sampleOf(one)}${one.name}</span>`,
    )}
  </p>`;
}

export function drawChart(root: HTMLElement, data: ChartData): void {
  if (!chartData.has(root)) watcher?.observe(root);
  chartData.set(root, data);
  const width = Math.max(180, chartWidths.get(root) ?? 340);
  const { cursor, cursorWords = '', onChoose, height = HEIGHT } = data;
  const axes = axesOf(data, width, height);
  const { x, y } = axes;
  const floor = y.range()[0]!;
  const chooseAt = (event: MouseEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    onChoose!(x.invert(((event.clientX - box.left) * width) / box.width));
  };
  const dragTo = (event: PointerEvent) => {
    if (event.buttons) chooseAt(event);
  };
  const yWords = yTickWords(data);
  // Lengths that double have no room for all their digits.
  const xWords = (tick: number) =>
    data.xNames?.[tick] ?? (data.doubling ? shortLabel(tick) : tick.toLocaleString('en'));
  const cursorX = x(cursor ?? NaN);
  const hasCursor = Number.isFinite(cursorX);
  const isRight = cursorX > width / 2;
  const labelX = cursorX + (isRight ? -5 : 5);
  const labelEnd = labelX + (isRight ? -6 : 6) * cursorWords.length;
  const ends = (x1: number, x2: number, y2: number): Point[] => [
    [x1, TOP],
    [x2, y2],
  ];
  const cursorPlaces = hasCursor
    ? [ends(cursorX, cursorX, floor), ends(labelX, labelEnd, TOP)]
    : [];
  const marks = marksOf(data, axes, cursorPlaces);
  const names = nameLines(data, axes, width, [...cursorPlaces, ...marks.places]);
  render(
    html`<svg
        class="chart-picture ${onChoose ? 'choosable' : ''}"
        viewBox="0 0 ${width} ${height}"
        height=${height}
        role="img"
        aria-label=${data.label}
        @click=${onChoose ? chooseAt : nothing}
        @pointermove=${onChoose ? dragTo : nothing}
      >
        ${axes.yTicks.map(
          (tick) =>
            svg`<line class="grid" x1=${LEFT} x2=${width - RIGHT} y1=${y(tick)} y2=${y(tick)}></line>
              <text x=${LEFT - 5} y=${y(tick) + 3.5} text-anchor="end">${yWords(tick)}</text>`,
        )}
        ${axes.xTicks.map(
          (tick) =>
            svg`<text x=${x(tick)} y=${floor + 14} text-anchor="middle">${xWords(tick)}</text>`,
        )}
        ${data.series.map((_, i) => drawSeries(data, axes, i))} ${marks.pictures}
        ${names.map(({ text }) => text)}
        ${
          hasCursor
            ? svg`<line class="cursor" x1=${cursorX} x2=${cursorX} y1=${TOP - 4} y2=${floor}></line>
                <text x=${labelX} y=${TOP + 4} text-anchor=${isRight ? 'end' : 'start'}>${cursorWords}</text>`
            : nothing
        }
        <text class="axis" x=${LEFT - 38} y="11">${data.yLabel}</text>
        <text class="axis" x=${width - RIGHT} y=${height - 3} text-anchor="end">
          ${data.xLabel}
        </text>
      </svg>
      ${legendTemplate(
        data,
        names.flatMap(({ one, text }) => (text ? [] : one)),
      )}`,
    root,
  );
}
