/**
 * Lines and bars by Observable Plot, which is fetched when the first of them is drawn: the sink map
 * does not wait for it.
 */
import type * as PlotModule from '@observablehq/plot';

let loading: Promise<typeof PlotModule> | undefined;

export interface Series {
  readonly name: string;
  /** A CSS variable's name, "--sink". */
  readonly color: string;
  readonly values: ArrayLike<number>;
  readonly dashed?: boolean;
}

export interface ChartData {
  readonly kind: 'lines' | 'bars';
  readonly series: readonly Series[];
  /** The first value's place on the x axis. */
  readonly from: number;
  /** Places of the values on a logarithmic x axis, where they do not stand one after the other. */
  readonly places?: readonly number[];
  readonly xLabel: string;
  readonly yLabel: string;
  readonly label: string;
  readonly log?: boolean;
  readonly yMax?: number;
  /** Both ends of the y axis, where several charts share it. */
  readonly yRange?: readonly [number, number];
  readonly percent?: boolean;
  /** Width below which it is drawn no narrower, but scaled down; 220 if absent. */
  readonly least?: number;
}

/** Whole numbers: every one where there are few, else about eight. */
function ticks(data: ChartData): number[] {
  const n = Math.max(...data.series.map((series) => series.values.length));
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 500].find((s) => n / s <= 12) ?? 1000;
  const from = step === 1 ? data.from : Math.ceil(data.from / step) * step;
  const count = Math.floor((data.from + n - 1 - from) / step) + 1;
  return Array.from({ length: Math.max(0, count) }, (_, i) => from + i * step);
}

interface Point {
  readonly x: number;
  readonly y: number;
  readonly name: string;
}

function points(data: ChartData, series: Series): Point[] {
  const placeOf = (i: number) => data.places?.[i] ?? data.from + i;
  return Array.from(series.values, (y, i) => ({ x: placeOf(i), y, name: series.name })).filter(
    ({ y }) => Number.isFinite(y) && (!data.log || y > 0),
  );
}

function marks(plot: typeof PlotModule, data: ChartData): PlotModule.Markish[] {
  const [first, ...others] = data.series;
  const line = (series: Series) =>
    plot.lineY(points(data, series), {
      x: 'x',
      y: 'y',
      stroke: `var(${series.color})`,
      strokeDasharray: series.dashed ? '3,3' : undefined,
      marker: series.values.length < 30 ? 'dot' : undefined,
    });
  if (data.kind === 'lines') return data.series.map(line);
  const bars = plot.rectY(points(data, first), {
    x1: (p: Point) => p.x - 0.38,
    x2: (p: Point) => p.x + 0.38,
    y: 'y',
    fill: `var(${first.color})`,
  });
  return [bars, ...others.map(line)];
}

/** Powers of ten from 1 on; what stands below 1 is 0, which has no logarithm. */
function logAxis(data: ChartData): PlotModule.ScaleOptions {
  const least = Math.min(1, ...(data.places ?? []));
  const most = Math.max(10, ...(data.places ?? []));
  const powers = Array.from({ length: Math.floor(Math.log10(most)) + 1 }, (_, i) => 10 ** i);
  return {
    label: data.xLabel,
    type: 'log',
    domain: [least, most],
    ticks: [...(least < 1 ? [least] : []), ...powers],
    tickFormat: (x: number) => (x < 1 ? '0' : x >= 1000 ? `${x / 1000}k` : String(x)),
    inset: 6,
  };
}

export async function drawChart(root: HTMLElement, data: ChartData): Promise<void> {
  const plot = await (loading ??= import('@observablehq/plot'));
  const drawn = plot.plot({
    width: Math.max(data.least ?? 220, root.clientWidth),
    height: 168,
    marginLeft: 44,
    marginBottom: 32,
    marginTop: 22,
    style: { background: 'none', fontSize: '11px' },
    ariaLabel: data.label,
    x: data.places
      ? logAxis(data)
      : { label: data.xLabel, tickFormat: 'd', ticks: ticks(data), inset: 6 },
    y: {
      label: data.yLabel,
      grid: true,
      ticks: 4,
      type: data.log ? 'log' : 'linear',
      domain: data.yRange ?? (data.yMax === undefined ? undefined : [0, data.yMax]),
      tickFormat: data.percent ? '%' : data.log ? '~g' : undefined,
    },
    marks: [...(data.log ? [] : [plot.ruleY([0])]), ...marks(plot, data)],
  });
  drawn.setAttribute('role', 'img');
  // One sentence stands for the picture; names of its inner groups would be read besides.
  for (const group of drawn.querySelectorAll('g[aria-label]')) group.removeAttribute('aria-label');
  root.replaceChildren(drawn, key(data));
}

/** The names of the series, in their colours. */
function key(data: ChartData): HTMLElement {
  const list = document.createElement('p');
  list.className = 'chart-key';
  for (const series of data.series) {
    const item = document.createElement('span');
    item.style.setProperty('--swatch', `var(${series.color})`);
    item.textContent = series.name;
    list.append(item);
  }
  return list;
}
