/**
 * The small multiples: one picture for each model, drawn on scales that all of them share, so that
 * what looks larger is larger.
 */
import { mean } from '../frame';
import { drawChart } from '../plot/chart';
import { diverging, sequential, type Scale, type Theme } from '../plot/color';
import { createHeatmap, type Cell, type HeatmapData } from '../plot/heatmap';
import { drawRose } from '../plot/rose';
import type { Quantity } from '../save/numbers';
import { firstAlphas, means, type Column } from '../study/study';
import { angles } from '../views/geometry';
import { largest, part } from '../views/view';
import { percent, show } from '../words';

/** The head that is pointed at in any of the maps. */
export type Lit = Cell | undefined;

export interface Legend {
  readonly scale: Scale;
  readonly low: number;
  readonly high: number;
  readonly ends: readonly [string, string];
}

export interface FigureContext {
  /** All that stand in the row. */
  readonly columns: readonly Column[];
  readonly theme: Theme;
  readonly lit: Lit;
}

export interface Drawn {
  update(column: Column, context: FigureContext): void;
}

export interface FigureKind {
  readonly name: string;
  readonly title: string;
  readonly how: string;
  /** Of the scale that the row shares. */
  readonly legend?: (columns: readonly Column[], theme: Theme) => Legend;
  readonly numbers: (column: Column) => readonly Quantity[];
  readonly create: (root: HTMLElement, point: (lit: Lit) => void) => Drawn;
}

/** Charts of six models stand side by side. */
const LEAST_WIDTH = 176;
const KEYS = 10;

/** A map of all heads; `named` is what a cell's number is called. */
function drawHeads(
  map: ReturnType<typeof createHeatmap>,
  column: Column,
  data: ArrayLike<number>,
  { scale, lit, label, named }: Pick<HeatmapData, 'scale' | 'lit' | 'label'> & { named: string },
): void {
  const { L, H } = column.architecture;
  map.draw({
    rows: L,
    cols: H,
    data,
    scale,
    rowTitle: 'layer',
    colTitle: 'head',
    cellShape: Math.max(1, Math.min(2, (1.2 * L) / H)),
    label,
    lit: lit && lit.row < L && lit.col < H ? lit : undefined,
    describe: ({ row, col }) =>
      row < 0 || col < 0
        ? ''
        : `layer ${row + 1}, head ${col + 1}: ${named} ${show(data[row * H + col], 3)}`,
  });
}

/** Scales are functions, and a map is painted anew for another one. */
function remembered<Key>(make: (key: Key, theme: Theme) => Scale) {
  let last: { key: Key; theme: Theme; scale: Scale } | undefined;
  return (key: Key, theme: Theme): Scale => {
    if (last?.key !== key || last.theme !== theme) last = { key, theme, scale: make(key, theme) };
    return last.scale;
  };
}

function heads(name: string, column: Column, data: ArrayLike<number>): Quantity {
  const { L, H } = column.architecture;
  return { name, axes: ['layer', 'head'], shape: [L, H], data };
}

const sinks: FigureKind = {
  name: 'sinks',
  title: 'Sink maps',
  how: 'A cell is a head, its colour α₁: the mean attention that token 1 receives.',
  legend: (_, theme) => ({ scale: sequential(theme), low: 0, high: 1, ends: ['α₁ = 0', '1'] }),
  numbers: (column) => [heads('alpha_1', column, firstAlphas(column))],
  create(root, point) {
    const map = createHeatmap(part(root, 'plot'), { onPoint: point });
    const scaleOf = remembered<string>((_, theme) => sequential(theme));
    return {
      update(column, { theme, lit }) {
        const sink = percent(mean(column.perPrompt.sink_1));
        drawHeads(map, column, firstAlphas(column), {
          scale: scaleOf('', theme),
          lit,
          named: 'α₁ =',
          label: `Sink score of token 1 by layer and head, ${column.title}; ${sink} exceed ${column.eps}.`,
        });
      },
    };
  },
};

/** Of the head that gives token 1 most. */
function strongestAlphas(column: Column): Float64Array {
  const { layer, head } = column.strongest;
  const at = (layer * column.architecture.H + head) * column.T;
  return means(column, 'alpha').slice(at, at + column.T);
}

const scores: FigureKind = {
  name: 'scores',
  title: 'Sink scores by position',
  how:
    'Bars: αₖ of the head that gives token 1 most, for the first ten keys. Dashed: what even ' +
    'attention would give. Line: Sinkₖ, the share of all heads with αₖ above ε.',
  numbers: (column) => {
    const { T } = column;
    const of = (name: string, data: ArrayLike<number>) => ({
      name,
      axes: ['key'],
      shape: [T],
      data,
    });
    return [
      of('alpha_of_strongest_head', strongestAlphas(column)),
      of('alpha_of_even_attention', column.uniform.data),
      of('sink', means(column, 'sink_ratio')),
    ];
  },
  create(root) {
    const place = part(root, 'chart');
    return {
      update(column, { columns }) {
        const shown = (one: Column) => [
          strongestAlphas(one).subarray(0, KEYS),
          means(one, 'sink_ratio').subarray(0, KEYS),
        ];
        const [alpha, sink] = shown(column);
        const { layer, head } = column.strongest;
        const where = `layer ${layer + 1}, head ${head + 1}`;
        void drawChart(place, {
          kind: 'bars',
          from: 1,
          least: LEAST_WIDTH,
          xLabel: 'key k',
          yLabel: 'share',
          yRange: [0, 1.05 * largest(columns.flatMap(shown), 0.1)],
          label:
            `Sink scores by key position, ${column.title}: alpha of token 1 is ` +
            `${show(alpha[0])} in ${where}, Sink 1 is ${percent(sink[0])}.`,
          series: [
            { name: `αₖ, ${where}`, color: '--sink', values: alpha },
            {
              name: 'even attention',
              color: '--ink-3',
              values: column.uniform.data.subarray(0, KEYS),
              dashed: true,
            },
            { name: 'Sinkₖ', color: '--query', values: sink },
          ],
        });
      },
    };
  },
};

/** Half the width of the scale that all cosine gaps fit into. */
function gapSize(columns: readonly Column[]): number {
  return (
    Math.ceil(
      10 *
        largest(
          columns.map((one) => means(one, 'cos_gap')),
          0.1,
        ),
    ) / 10
  );
}

const geometry: FigureKind = {
  name: 'geometry',
  title: 'Key and query geometry',
  how:
    'A cell is a head, its colour the cosine gap: how much nearer to the queries key 1 points than ' +
    'the other keys. Below, of the strongest head and the first prompt, the angles between every ' +
    'query and key 1 (coloured), and all other keys (grey).',
  legend(columns, theme) {
    const size = gapSize(columns);
    const ends = [`cosine gap ${show(-size, 1)}`, show(size, 1)] as const;
    return { scale: diverging(theme, size), low: -size, high: size, ends };
  },
  numbers: (column) => {
    const { cos } = column.strongest;
    return [
      heads('cosine_gap', column, means(column, 'cos_gap')),
      { name: 'cosine', axes: ['query', 'key'], shape: cos.shape, data: cos.data },
    ];
  },
  create(root, point) {
    const map = createHeatmap(part(root, 'plot'), { onPoint: point });
    const rose = part(root, 'rose');
    const key = part(root, 'chart-key', 'p');
    const scaleOf = remembered<number>((size, theme) => diverging(theme, size));
    let drawn: Column | undefined;
    return {
      update(column, { columns, theme, lit }) {
        const { layer, head, cos } = column.strongest;
        const where = `layer ${layer + 1}, head ${head + 1}`;
        drawHeads(map, column, means(column, 'cos_gap'), {
          scale: scaleOf(gapSize(columns), theme),
          lit,
          named: 'cosine gap',
          label: `Cosine gap by layer and head, ${column.title}.`,
        });
        if (drawn === column) return;
        drawn = column;
        const { first, others } = angles(cos.data, column.T);
        const degrees = (set: number[]) => `${show((mean(set) * 180) / Math.PI, 0)}°`;
        drawRose(
          rose,
          [
            { angles: others, name: 'others' },
            { angles: first, name: 'sink' },
          ],
          `Angles between queries and keys in ${where} of ${column.title}: ${degrees(first)} on ` +
            `average with key 1, ${degrees(others)} with the others.`,
        );
        key.innerHTML =
          `<span style="--swatch: var(--sink)">key 1, mean ${degrees(first)}</span>` +
          `<span style="--swatch: var(--ink-3)">others ${degrees(others)}</span>` +
          `<small>${where}</small>`;
      },
    };
  },
};

/** Ratios by layer, the embedding first: keys and values have none there. */
function ratios(column: Column) {
  const { G } = column.architecture;
  const overGroups = (name: string) => {
    const all = means(column, name);
    const layers = Array.from({ length: all.length / G }, (_, l) =>
      mean(all.subarray(l * G, (l + 1) * G)),
    );
    return [NaN, ...layers];
  };
  return {
    hidden: Array.from(means(column, 'hidden_ratio')),
    key: overGroups('key_ratio'),
    value: overGroups('value_ratio'),
  };
}

/** Both ends of all ratios, with a little room. */
function ratioRange(columns: readonly Column[]): [number, number] {
  const all = columns
    .flatMap((one) => Object.values(ratios(one)).flat())
    .filter((ratio) => ratio > 0 && Number.isFinite(ratio));
  return [0.9 * Math.min(0.5, ...all), 1.1 * Math.max(2, ...all)];
}

const norms: FigureKind = {
  name: 'norms',
  title: 'Norms by layer',
  how:
    "Token 1's norm over the mean of the others': hidden states, keys and values (means over heads). " +
    '1 is like the others; a sink often has a long hidden state and a short value.',
  numbers: (column) => {
    const { hidden, key, value } = ratios(column);
    const of = (name: string, data: readonly number[]) => ({
      name,
      axes: ['layer'],
      shape: [data.length],
      data,
      from: [0],
    });
    return [of('hidden_ratio', hidden), of('key_ratio', key), of('value_ratio', value)];
  },
  create(root) {
    const place = part(root, 'chart');
    return {
      update(column, { columns }) {
        const { hidden, key, value } = ratios(column);
        void drawChart(place, {
          kind: 'lines',
          from: 0,
          least: LEAST_WIDTH,
          xLabel: 'layer',
          yLabel: 'ratio',
          log: true,
          yRange: ratioRange(columns),
          label:
            `Norms of token 1 over the others' by layer, ${column.title}: hidden up to ` +
            `${show(Math.max(...hidden), 1)}.`,
          series: [
            { name: 'hidden', color: '--sink', values: hidden },
            { name: 'keys', color: '--query', values: key },
            { name: 'values', color: '--side-b', values: value, dashed: true },
          ],
        });
      },
    };
  },
};

export const figures: readonly FigureKind[] = [sinks, scores, geometry, norms];
