/** Draws both labs: their maps on one scale, the task, and the curves. The room and the figure share this. */
import { html, render, type TemplateResult } from 'lit';
import type { Context, Scope } from '../page/context';
import type { Theme } from '../plot/color';
import { addElement } from '../page/view';
import { createCharts } from './charts';
import { addSaveMenu } from './export';
import { createLegend, createMap, type Actions } from './map';
import type { Pair } from './pair';
import { rowNotes, taskTitle, type NamedLab } from './words';

const FRAME_MS = 100;

interface Look {
  readonly actions?: Actions;
  /** How many of the charts are shown. */
  readonly chartCount: number;
  readonly hasTask?: boolean;
}

function taskTemplate(pair: readonly [NamedLab, NamedLab]): TemplateResult {
  return html`<h2>${taskTitle(pair[0].lab)}</h2>
    ${rowNotes(pair[0]).map(
      ({ example, who, what }) =>
        html`<p><strong class="lab-example">${example}</strong> ${who}: ${what}</p>`,
    )}`;
}

/**
 * Adds the pictures.
 * @returns their element, a function that draws them, and one that adds the menu that saves them
 */
export function createPictures(
  place: HTMLElement,
  context: Context,
  pair: Pair,
  { actions, chartCount, hasTask }: Look,
) {
  const grid = addElement(place, 'lab-grid');
  const maps = ([0, 1] as const).map((side) => createMap(grid, side, actions));
  const side = addElement(grid, 'lab-side');
  const task = hasTask ? addElement(side, 'lab-task', 'section') : undefined;
  task?.setAttribute('aria-label', 'The task');
  const drawCharts = createCharts(addElement(side, 'lab-charts'), 0, chartCount);
  const drawLegend = createLegend(grid);
  const draw = (theme: Theme = context.theme.peek()) => {
    const labs = pair.namedLabs();
    labs.forEach((lab, i) => maps[i]!(lab, theme));
    drawLegend(labs, theme);
    drawCharts(labs);
    if (task) render(taskTemplate(labs), task);
  };
  const addSave = (bar: HTMLElement) =>
    addSaveMenu(bar, context, () => ({
      ...{ pair: pair.namedLabs(), columns: pair.columns, grid, draw },
    }));
  return { grid, draw, addSave };
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
