/**
 * Draws a view over frames with known numbers, and records its calls of the plots. A test that imports this mocks the
 * plots by `plots()`, and runs in happy-dom.
 */
import { effect, signal } from '@preact/signals-core';
import { expect, vi } from 'vitest';
import { defaults, type State } from '../src/ask/state';
import { selectedHead, type Frame } from '../src/frame';
import type { PointerTarget, View } from '../src/page/view';
import type { ChartData } from '../src/plot/chart';
import type { Scale } from '../src/plot/color';
import type { Cell } from '../src/plot/heatmap';

interface MapData {
  readonly rows: number;
  readonly cols: number;
  readonly data: Float32Array;
  readonly scale: Scale;
  readonly label: string;
  readonly chosen?: Cell;
  readonly chosenCols?: number;
  readonly outlined?: readonly Cell[];
  readonly cellShape?: number;
  readonly rowWords?: readonly string[];
  readonly colWords?: readonly string[];
  readonly rowTitle?: string;
  readonly colTitle?: string;
  readonly remark?: { readonly text: string };
  readonly describe: (cell: Cell) => string;
}

interface Map_ {
  readonly root: Element;
  readonly events: {
    readonly onPoint?: (cell: Cell | undefined) => void;
    readonly onChoose?: (cell: Cell) => void;
    readonly onExtend?: (from: Cell, to: Cell) => void;
    readonly onBeyond?: (step: readonly [number, number]) => void;
  };
  data: MapData;
  lit: Cell | undefined;
}

const maps: Map_[] = [];
const charts = new Map<Element, ChartData>();
export const paintedMaps: Pick<MapData, 'rows' | 'cols' | 'data'>[] = [];

export const mapsIn = (place: Element) =>
  maps.filter(({ root, data }) => data && place.contains(root));
export const chartsIn = (place: Element) =>
  [...charts].filter(([root]) => place.contains(root)).map(([, data]) => data);
export const forgetPlots = () => {
  maps.splice(0);
  charts.clear();
};

export const plots = {
  heatmap: {
    paint: (_: unknown, data: MapData) => void paintedMaps.push(data),
    createHeatmap: (root: Element, events: Map_['events'] = {}) => {
      const recordedMap = { root, events, lit: undefined } as unknown as Map_;
      maps.push(recordedMap);
      return {
        draw: (data: MapData) => (recordedMap.data = data),
        highlight: (cell: Cell | undefined) => (recordedMap.lit = cell),
      };
    },
  },
  chart: { drawChart: (root: Element, data: ChartData) => void charts.set(root, data) },
};

/** Views whose caption follows the selection or a measurement; other views' captions are their sentences. */
const VIEWS_WITH_OWN_CAPTION = new Set([
  'channels',
  'likeness',
  'loss',
  'patches',
  'perturbations',
  'sweep',
  'training',
]);

export interface Options extends Partial<State> {
  readonly frames?: readonly Frame[];
  readonly group?: readonly Frame[];
  readonly isPlain?: boolean;
  readonly isAnswered?: boolean;
  readonly api?: object;
}

export function drawView(view: View, frame: Frame, options: Options = {}) {
  maps.length = 0;
  charts.clear();
  const root = document.createElement('div');
  const pointed = signal<PointerTarget>({});
  const [set, point, fail] = [vi.fn(), vi.fn(), vi.fn()];
  const api = { set, point, fail, pointed, effect: (run: () => void) => void effect(run) };
  const update = view.draw(root, { ...api, ...options.api } as never);
  const viewMaps = [...maps];
  const draw = (
    shownFrame: Frame,
    {
      frames = [shownFrame],
      group = [shownFrame],
      isPlain = false,
      isAnswered = false,
      api: _,
      ...state
    }: Options = {},
  ) => {
    const all = { ...defaults, ...state };
    const at = selectedHead(shownFrame, all);
    update(shownFrame, { state: all, theme: 'light', at, frames, group, isPlain, isAnswered });
    const caption = root.querySelector('.caption')?.textContent;
    const sentences = (view.drawsAllSubjects ? frames : [shownFrame])
      .map((one) => view.says(one, at))
      .join('\n');
    if (caption !== undefined && !VIEWS_WITH_OWN_CAPTION.has(view.name) && !isAnswered)
      expect(caption).toBe(sentences);
  };
  draw(frame, options);
  const all = (selector: string) => [...root.querySelectorAll<HTMLElement>(selector)];
  const textOf = (one: Element | undefined) => one?.textContent!.replace(/\s+/g, ' ').trim() ?? '';
  return {
    root,
    maps: viewMaps,
    map: viewMaps[0]!,
    pointed,
    set,
    point,
    fail,
    draw,
    all,
    text: (selector: string) => textOf(all(selector)[0]),
    texts: (selector: string) => all(selector).map(textOf),
    click: (name: string) =>
      all('button')
        .find((one) => textOf(one).includes(name))!
        .click(),
    charts: () => [...charts].filter(([place]) => root.contains(place)).map(([, data]) => data),
    lines: (i = 0) =>
      [...charts][i]![1].series.map(({ name, values }) => [name, ...Array.from(values)]),
    /** Returns cells whose readout does not end in their number. */
    wrong: () =>
      mapsIn(root).flatMap(({ data: { rows, cols, data, describe } }, map) =>
        Array.from(data).flatMap((value, i) => {
          const [row, col] = [Math.floor(i / cols), i % cols];
          const readout = describe({ row, col });
          const [, number = 'NaN', sign] =
            /([-+]?[\d.]+(?:e-\d+)?)(%?)\D*$/.exec(
              readout.replace('−', '-').replace(/, [\d.]+ times uniform$/, ''),
            ) ?? [];
          const isNotSelected = value === 0 && readout.endsWith('not selected');
          const error = Math.abs(Number(number) / (sign ? 100 : 1) - value);
          const isRight =
            row < rows && (Number.isNaN(value) ? readout !== '' : isNotSelected || error <= 0.006);
          return isRight ? [] : [`map ${map}, ${row},${col}: ${value}, “${readout}”`];
        }),
      ),
    /** Returns a map's readouts of some cells, each as 'row,column'. */
    says: (places: string, i = 0) =>
      places.split(' ').map((place) => {
        const [row, col] = place.split(',').map(Number) as [number, number];
        return viewMaps[i]!.data.describe({ row, col });
      }),
  };
}
