/** Draws both labs: their maps on one scale, and the curves. The room and the figure share this. */
import type { Context, Scope } from '../page/context';
import type { Theme } from '../plot/color';
import { addElement } from '../page/view';
import { createCharts } from './charts';
import { addSaveMenu } from './export';
import { createLegend, createMap } from './map';
import type { Pair } from './pair';

const FRAME_MS = 100;
/** The pixels of the room's chart. */
const CHART_HEIGHT = 320;

/**
 * Adds the pictures.
 * @param chartCount how many of the charts are shown
 * @param reset resets the labs of the room; absent in a figure
 * @returns their element and that of the charts, a function that draws them, and one that adds the menu that saves them
 */
export function createPictures(
  place: HTMLElement,
  context: Context,
  pair: Pair,
  chartCount: number,
  reset?: () => void,
) {
  const grid = addElement(place, 'lab-grid');
  const drawLegend = createLegend(grid);
  const maps = ([0, 1] as const).map((side) => createMap(grid, side, reset));
  const side = addElement(grid, 'lab-side');
  const charts = addElement(side, 'lab-charts');
  const drawCharts = createCharts(charts, 0, chartCount, reset && CHART_HEIGHT);
  const draw = (theme: Theme = context.theme.peek()) => {
    const labs = pair.namedLabs();
    labs.forEach((lab, i) => maps[i]!(lab, theme));
    drawLegend(labs, theme);
    drawCharts(labs);
  };
  const addSave = (bar: HTMLElement) =>
    addSaveMenu(bar, context, () => ({
      ...{ pair: pair.namedLabs(), columns: pair.columns, grid, draw },
    }));
  return { grid, side, draw, addSave };
}

/** Calls `draw` after changes of the labs, the theme and what the page hides, at most ten times a second. */
export function redrawAfterChanges(
  context: Context,
  pair: Pair,
  scope: Scope,
  draw: () => void,
): void {
  let timer = 0;
  scope.onEnd(() => clearTimeout(timer));
  scope.effect(() => {
    void [context.theme.value, context.state.value.hide];
    for (const { changes } of pair.labs) void changes.value;
    timer ||= window.setTimeout(() => {
      timer = 0;
      draw();
    }, FRAME_MS);
  });
}
