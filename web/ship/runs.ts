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

const scale =
  ([low, high]: Domain, from: number, to: number) =>
  (value: number) =>
    from + ((value - low) / (high - low)) * (to - from);

const label = (kind: string, x: number, y: number, value: string, textAnchor = 'start') =>
  make('text', { x: x.toFixed(1), y: y.toFixed(1), className: [kind], textAnchor }, [text(value)]);

function line(kind: string, x1: number, y1: number, x2: number, y2: number): Node {
  const ends = Object.entries({ x1, y1, x2, y2 }).map(([name, value]) => [name, value.toFixed(1)]);
  return make('line', { className: [kind], ...Object.fromEntries(ends) });
}

const { left: LEFT, top: TOP } = MARGIN;
const [RIGHT, BOTTOM] = [WIDTH - MARGIN.right, HEIGHT - MARGIN.bottom];

interface GroupWithRuns {
  readonly title: string;
  readonly recipes: readonly { readonly id: string; readonly runs: DecisiveRuns }[];
}

type Point = readonly [x: number, y: number];

function axesOf(xDomain: Domain, yDomain: Domain): Node[] {
  const x = scale(xDomain, LEFT, RIGHT);
  const y = scale(yDomain, BOTTOM, TOP);
  return [
    ...ticksOf(xDomain).flatMap((value) => [
      line('grid', x(value), TOP, x(value), BOTTOM),
      label('tick', x(value), BOTTOM + 16, formatNumber(value), 'middle'),
    ]),
    ...ticksOf(yDomain).flatMap((value) => [
      line(Math.abs(value) < 1e-9 ? 'zero' : 'grid', LEFT, y(value), RIGHT, y(value)),
      label('tick', LEFT - 6, y(value) + 4, formatNumber(value), 'end'),
    ]),
    label('axis', (LEFT + RIGHT) / 2, HEIGHT - 6, LOSS, 'middle'),
    label('axis', LEFT, TOP - 1, ALPHA),
  ];
}

/** Returns where each title stands: next to its group's last mean, or on the nearest free line above or below it. */
function namePlaces(titles: readonly string[], lastMeans: readonly Point[]): Point[] {
  const nameBoxes: { readonly x: number; readonly y: number; readonly width: number }[] = [];
  for (const [g, title] of titles.entries()) {
    const [lastX, lastY] = lastMeans[g]!;
    const nameBox = { x: lastX + 9, width: title.length * LETTER_WIDTH };
    const isFree = (y: number) =>
      y > TOP + LINE_HEIGHT &&
      y < BOTTOM &&
      !nameBoxes.some(
        (box) =>
          Math.abs(box.y - y) < LINE_HEIGHT &&
          box.x < nameBox.x + nameBox.width &&
          nameBox.x < box.x + box.width,
      );
    const candidates = titles.flatMap((_, i) => [
      lastY + 4 + i * LINE_HEIGHT,
      lastY + 4 - i * LINE_HEIGHT,
    ]);
    nameBoxes.push({ ...nameBox, y: candidates.find(isFree) ?? lastY + 4 });
  }
  return nameBoxes.map(({ x, y }) => [x, y]);
}

const circle = (kind: string, [x, y]: Point, r: number) =>
  make('circle', { className: [kind], cx: x.toFixed(1), cy: y.toFixed(1), r });

/** Draws the runs and means of each group, and its name. */
function marksOf(
  groups: readonly GroupWithRuns[],
  pointOf: (loss: number, alpha: number) => Point,
) {
  const meanPoints = groups.map(({ recipes }) =>
    recipes.map(({ runs }) => pointOf(meanOf(runs.loss), meanOf(runs.alpha))),
  );
  const titles = groups.map(({ title }) => title);
  const places = namePlaces(
    titles,
    meanPoints.map((points) => points.at(-1)!),
  );
  return groups.map(({ title, recipes }, g) =>
    make('g', { className: [`run-${g + 1}`], style: `color: var(--run-${g + 1})` }, [
      make('polyline', {
        points: meanPoints[g]!.map((point) =>
          point.map((coordinate) => coordinate.toFixed(1)).join(','),
        ).join(' '),
      }),
      ...recipes.flatMap(({ runs }) =>
        runs.loss.map((loss, i) => circle('run', pointOf(loss, runs.alpha[i]!), 2.2)),
      ),
      ...meanPoints[g]!.map((point) => circle('mean', point, 4.2)),
      label('name', ...places[g]!, title),
    ]),
  );
}

function runsTable(groups: readonly GroupWithRuns[]): Node {
  const titles = new Map(modelsOfZoo().map(({ id, title }) => [id, title]));
  return table(
    ['Models', 'Recipe', 'Seeds', ALPHA, LOSS],
    groups.flatMap(({ title, recipes }) =>
      recipes.map(({ id, runs }) => [
        title,
        titles.get(id) ?? id,
        String(runs.seeds.length),
        rangeWords(runs.alpha),
        rangeWords(runs.loss),
      ]),
    ),
  );
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
  const x = scale(xDomain, LEFT, RIGHT);
  const y = scale(yDomain, BOTTOM, TOP);
  const untrainedRecipes = groups.flatMap(({ recipes }) =>
    recipes.filter((id) => !Object.hasOwn(runsById, id)),
  );
  const runCount = allRuns.reduce((sum, { seeds }) => sum + seeds.length, 0);
  const untrainedNote = untrainedRecipes.length
    ? ` Not trained yet: ${untrainedRecipes.join(', ')}.`
    : '';
  return [
    make('svg', { className: ['runs'], viewBox: `0 0 ${WIDTH} ${HEIGHT}`, ariaHidden: 'true' }, [
      ...axesOf(xDomain, yDomain),
      ...marksOf(groupsWithRuns, (loss, alpha) => [x(loss), y(alpha)]),
    ]),
    make('details', {}, [
      make('summary', {}, [text('The same as a table')]),
      runsTable(groupsWithRuns),
      make('p', {}, [text(`${runCount} runs.${untrainedNote}`)]),
    ]),
  ];
}
