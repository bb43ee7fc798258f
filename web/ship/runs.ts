/** Draws runs of protocol B as a figure that needs no JavaScript: the loss and α₁ of each run, in groups of recipes. */
import { decisiveRuns, meanOf, modelsOfZoo, type DecisiveRuns } from './facts.ts';
import { formatFixed, make, table, text, type Node } from './nodes.ts';

const ALPHA = 'α₁ above uniform attention';
const LOSS = 'loss (nats per token)';

export interface Group {
  readonly title: string;
  /** The recipes in the order in which a line connects their means; the line skips recipes without runs. */
  readonly recipes: readonly string[];
}

/** @param text as `Softmax: decay-0 softmax | Sigmoid: sigmoid` */
export function parseGroups(text: string): Group[] {
  return text.split('|').map((group) => {
    const [title = '', recipes = ''] = group.split(':');
    return { title: title.trim(), recipes: recipes.trim().split(/\s+/) };
  });
}

const WIDTH = 440;
const HEIGHT = 290;
const MARGIN = { left: 46, right: 84, top: 12, bottom: 40 };
const TICK_COUNT = 5;
/** The approximate width of a letter, in the figure's units. */
const LETTER_WIDTH = 7;
const LINE_HEIGHT = 14;

function ticksOf([low, high]: Domain): number[] {
  const rawStep = (high - low) / TICK_COUNT;
  const power = 10 ** Math.floor(Math.log10(rawStep));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rawStep)! * power;
  const firstMultiple = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - firstMultiple + 1;
  return Array.from({ length: count }, (_, i) => (firstMultiple + i) * step);
}

const formatNumber = (value: number) => formatFixed(value, 2);
const rangeWords = (values: readonly number[]) =>
  values.length === 1
    ? formatNumber(values[0]!)
    : `${formatNumber(meanOf(values))} (${formatNumber(Math.min(...values))} to ${formatNumber(Math.max(...values))})`;

type Domain = readonly [low: number, high: number];

function domainOf(values: readonly number[]): Domain {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const margin = (high - low || 1) * 0.06;
  return [low - margin, high + margin];
}

/**
 * Returns a figure of all runs of some recipes, with a dot for each run, a ring for each recipe's mean and a line
 * through the means of each group, and the same numbers as a table.
 * @throws Error if a group has no run at all
 */
export function runsOf(
  groups: readonly Group[],
  runsById: Readonly<Record<string, DecisiveRuns>> = decisiveRuns(),
): Node[] {
  const groupsWithRuns = groups.map(({ title, recipes }) => ({
    title,
    recipes: recipes.flatMap((id) =>
      Object.hasOwn(runsById, id) ? [{ id, runs: runsById[id]! }] : [],
    ),
  }));
  for (const { title, recipes } of groupsWithRuns)
    if (recipes.length === 0)
      throw new Error(`“${title}”: expected a recipe with a run, found none.`);
  const allRuns = groupsWithRuns.flatMap(({ recipes }) => recipes.map(({ runs }) => runs));
  const xDomain = domainOf(allRuns.flatMap((runs) => runs.loss));
  const yDomain = domainOf(allRuns.flatMap((runs) => runs.alpha));
  const scale =
    ([low, high]: Domain, from: number, to: number) =>
    (value: number) =>
      from + ((value - low) / (high - low)) * (to - from);
  const { left, top } = MARGIN;
  const [right, bottom] = [WIDTH - MARGIN.right, HEIGHT - MARGIN.bottom];
  const x = scale(xDomain, left, right);
  const y = scale(yDomain, bottom, top);
  const label = (kind: string, x: number, y: number, value: string, textAnchor = 'start') =>
    make('text', { x: x.toFixed(1), y: y.toFixed(1), className: [kind], textAnchor }, [
      text(value),
    ]);
  const line = (kind: string, x1: number, y1: number, x2: number, y2: number) => {
    const ends = Object.entries({ x1, y1, x2, y2 }).map(([name, value]) => [
      name,
      value.toFixed(1),
    ]);
    return make('line', { className: [kind], ...Object.fromEntries(ends) });
  };
  const axes = [
    ...ticksOf(xDomain).flatMap((value) => [
      line('grid', x(value), top, x(value), bottom),
      label('tick', x(value), bottom + 16, formatNumber(value), 'middle'),
    ]),
    ...ticksOf(yDomain).flatMap((value) => [
      line(Math.abs(value) < 1e-9 ? 'zero' : 'grid', left, y(value), right, y(value)),
      label('tick', left - 6, y(value) + 4, formatNumber(value), 'end'),
    ]),
    label('axis', (left + right) / 2, HEIGHT - 6, LOSS, 'middle'),
    label('axis', left, top - 1, ALPHA),
  ];
  const meanPoints = groupsWithRuns.map(({ recipes }) =>
    recipes.map(({ runs }) => [x(meanOf(runs.loss)), y(meanOf(runs.alpha))] as const),
  );
  // A group's name is next to its last mean, or on the nearest free line above or below that mean.
  const nameBoxes: { readonly x: number; readonly y: number; readonly width: number }[] = [];
  for (const [g, { title }] of groupsWithRuns.entries()) {
    const [lastX, lastY] = meanPoints[g]!.at(-1)!;
    const nameBox = { x: lastX + 9, width: title.length * LETTER_WIDTH };
    const isFree = (y: number) =>
      y > top + LINE_HEIGHT &&
      y < bottom &&
      !nameBoxes.some(
        (box) =>
          Math.abs(box.y - y) < LINE_HEIGHT &&
          box.x < nameBox.x + nameBox.width &&
          nameBox.x < box.x + box.width,
      );
    const candidates = groupsWithRuns.flatMap((_, i) => [
      lastY + 4 + i * LINE_HEIGHT,
      lastY + 4 - i * LINE_HEIGHT,
    ]);
    nameBoxes.push({ ...nameBox, y: candidates.find(isFree) ?? lastY + 4 });
  }
  const marks = groupsWithRuns.map(({ title, recipes }, g) =>
    make('g', { className: [`run-${g + 1}`] }, [
      make('polyline', {
        points: meanPoints[g]!.map((point) =>
          point.map((coordinate) => coordinate.toFixed(1)).join(','),
        ).join(' '),
      }),
      ...recipes.flatMap(({ runs }) =>
        runs.loss.map((value, i) =>
          make('circle', {
            className: ['run'],
            cx: x(value).toFixed(1),
            cy: y(runs.alpha[i]!).toFixed(1),
            r: 2.2,
          }),
        ),
      ),
      ...meanPoints[g]!.map(([cx, cy]) =>
        make('circle', { className: ['mean'], cx: cx.toFixed(1), cy: cy.toFixed(1), r: 4.2 }),
      ),
      label('name', nameBoxes[g]!.x, nameBoxes[g]!.y, title),
    ]),
  );
  const titles = new Map(modelsOfZoo().map(({ id, title }) => [id, title]));
  const untrainedRecipes = groups.flatMap(({ recipes }) =>
    recipes.filter((id) => !Object.hasOwn(runsById, id)),
  );
  return [
    make('svg', { className: ['runs'], viewBox: `0 0 ${WIDTH} ${HEIGHT}`, ariaHidden: 'true' }, [
      ...axes,
      ...marks,
    ]),
    make('details', {}, [
      make('summary', {}, [text('The same as a table')]),
      table(
        ['Models', 'Recipe', 'Seeds', ALPHA, LOSS],
        groupsWithRuns.flatMap(({ title, recipes }) =>
          recipes.map(({ id, runs }) => [
            title,
            titles.get(id) ?? id,
            String(runs.seeds.length),
            rangeWords(runs.alpha),
            rangeWords(runs.loss),
          ]),
        ),
      ),
      make('p', {}, [
        text(
          `${allRuns.reduce((sum, { seeds }) => sum + seeds.length, 0)} runs.` +
            (untrainedRecipes.length > 0
              ? ` Not trained yet: ${untrainedRecipes.join(', ')}.`
              : ''),
        ),
      ]),
    ]),
  ];
}
