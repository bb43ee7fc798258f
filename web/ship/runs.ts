/** Draws runs of protocol B as a figure that needs no JavaScript: two outcomes of each run, in groups of recipes. */
import { decisiveRuns, meanOf, modelsOfZoo, type DecisiveRuns } from './facts.ts';
import { formatFixed, make, table, text, type Node } from './nodes.ts';

const OUTCOMES = {
  alpha: 'α₁ above uniform attention',
  loss: 'loss (nats per token)',
} as const;
type Outcome = keyof typeof OUTCOMES;

export interface Group {
  readonly title: string;
  /** The recipes in the order in which a line connects their means; the line skips recipes without runs. */
  readonly recipes: readonly string[];
}

/**
 * Parses groups of recipes.
 * @param written as `Softmax: decay-0 softmax | Sigmoid: sigmoid`
 */
export function parseGroups(written: string): Group[] {
  return written.split('|').map((group) => {
    const [title = '', recipes = ''] = group.split(':');
    return { title: title.trim(), recipes: recipes.trim().split(/\s+/) };
  });
}

const WIDTH = 440;
const HEIGHT = 290;
const EDGE = { left: 46, right: 84, top: 12, bottom: 40 };
const TICKS = 5;
/** The approximate width of a letter, in the figure's units. */
const CHARACTER = 7;
const LINE_HEIGHT = 14;

function ticksOf([low, high]: readonly [number, number]): number[] {
  const raw = (high - low) / TICKS;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((one) => one * power >= raw)! * power;
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: count }, (_, i) => (first + i) * step);
}

const format = (value: number) => formatFixed(value, 2);
const rangeOf = (all: readonly number[]) =>
  all.length === 1
    ? format(all[0]!)
    : `${format(meanOf(all))} (${format(Math.min(...all))} to ${format(Math.max(...all))})`;

function domainOf(values: readonly number[]): readonly [number, number] {
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
  [xOutcome, yOutcome]: readonly [Outcome, Outcome],
  all: Readonly<Record<string, DecisiveRuns>> = decisiveRuns(),
): Node[] {
  const recipeRuns = groups.map(({ title, recipes }) => ({
    title,
    recipes: recipes.flatMap((id) => (Object.hasOwn(all, id) ? [{ id, runs: all[id]! }] : [])),
  }));
  for (const { title, recipes } of recipeRuns)
    if (recipes.length === 0)
      throw new Error(`“${title}”: expected a recipe with a run, found none.`);
  const allRuns = recipeRuns.flatMap(({ recipes }) => recipes.map(({ runs }) => runs));
  const domains = [xOutcome, yOutcome].map((name) =>
    domainOf(allRuns.flatMap((runs) => runs[name])),
  );
  const [xDomain, yDomain] = domains as [readonly [number, number], readonly [number, number]];
  const x = (value: number) =>
    EDGE.left +
    ((value - xDomain[0]) / (xDomain[1] - xDomain[0])) * (WIDTH - EDGE.left - EDGE.right);
  const y = (value: number) =>
    HEIGHT -
    EDGE.bottom -
    ((value - yDomain[0]) / (yDomain[1] - yDomain[0])) * (HEIGHT - EDGE.top - EDGE.bottom);
  const label = (at: { x: number; y: number; className: string; anchor?: string }, value: string) =>
    make(
      'text',
      {
        x: at.x.toFixed(1),
        y: at.y.toFixed(1),
        className: [at.className],
        textAnchor: at.anchor ?? 'start',
      },
      [text(value)],
    );
  const line = (className: string, x1: number, y1: number, x2: number, y2: number) =>
    make('line', {
      className: [className],
      ...Object.fromEntries(
        Object.entries({ x1, y1, x2, y2 }).map(([name, value]) => [name, value.toFixed(1)]),
      ),
    });
  const bottom = HEIGHT - EDGE.bottom;
  const axes = [
    ...ticksOf(xDomain).flatMap((value) => [
      line('grid', x(value), EDGE.top, x(value), bottom),
      label({ x: x(value), y: bottom + 16, className: 'tick', anchor: 'middle' }, format(value)),
    ]),
    ...ticksOf(yDomain).flatMap((value) => [
      line(
        Math.abs(value) < 1e-9 ? 'zero' : 'grid',
        EDGE.left,
        y(value),
        WIDTH - EDGE.right,
        y(value),
      ),
      label({ x: EDGE.left - 6, y: y(value) + 4, className: 'tick', anchor: 'end' }, format(value)),
    ]),
    label(
      {
        x: (EDGE.left + WIDTH - EDGE.right) / 2,
        y: HEIGHT - 6,
        className: 'axis',
        anchor: 'middle',
      },
      OUTCOMES[xOutcome],
    ),
    label({ x: EDGE.left, y: EDGE.top - 1, className: 'axis' }, OUTCOMES[yOutcome]),
  ];
  const meanPoints = recipeRuns.map(({ recipes }) =>
    recipes.map(({ runs }) => [x(meanOf(runs[xOutcome])), y(meanOf(runs[yOutcome]))] as const),
  );
  // A group's name is next to its last mean, or on the nearest free line above or below that mean.
  const nameBoxes: { readonly x: number; readonly y: number; readonly width: number }[] = [];
  for (const [g, { title }] of recipeRuns.entries()) {
    const [lastX, lastY] = meanPoints[g]!.at(-1)!;
    const at = { x: lastX + 9, width: title.length * CHARACTER };
    const isFree = (y: number) =>
      y > EDGE.top + LINE_HEIGHT &&
      y < bottom &&
      !nameBoxes.some(
        (one) =>
          Math.abs(one.y - y) < LINE_HEIGHT && one.x < at.x + at.width && at.x < one.x + one.width,
      );
    const candidates = recipeRuns.flatMap((_, i) => [
      lastY + 4 + i * LINE_HEIGHT,
      lastY + 4 - i * LINE_HEIGHT,
    ]);
    nameBoxes.push({ ...at, y: candidates.find(isFree) ?? lastY + 4 });
  }
  const marks = recipeRuns.map(({ title, recipes }, g) =>
    make('g', { className: [`run-${g + 1}`] }, [
      make('polyline', {
        points: meanPoints[g]!.map((at) => at.map((one) => one.toFixed(1)).join(',')).join(' '),
      }),
      ...recipes.flatMap(({ runs }) =>
        runs[xOutcome].map((value, i) =>
          make('circle', {
            className: ['run'],
            cx: x(value).toFixed(1),
            cy: y(runs[yOutcome][i]!).toFixed(1),
            r: 2.2,
          }),
        ),
      ),
      ...meanPoints[g]!.map(([cx, cy]) =>
        make('circle', { className: ['mean'], cx: cx.toFixed(1), cy: cy.toFixed(1), r: 4.2 }),
      ),
      label({ ...nameBoxes[g]!, className: 'name' }, title),
    ]),
  );
  const titles = new Map(modelsOfZoo().map(({ id, title }) => [id, title]));
  const untrained = groups.flatMap(({ recipes }) =>
    recipes.filter((id) => !Object.hasOwn(all, id)),
  );
  return [
    make('svg', { className: ['runs'], viewBox: `0 0 ${WIDTH} ${HEIGHT}`, ariaHidden: 'true' }, [
      ...axes,
      ...marks,
    ]),
    make('details', {}, [
      make('summary', {}, [text('The same as a table')]),
      table(
        ['Models', 'Recipe', 'Seeds', OUTCOMES[yOutcome], OUTCOMES[xOutcome]],
        recipeRuns.flatMap(({ title, recipes }) =>
          recipes.map(({ id, runs }) => [
            title,
            titles.get(id) ?? id,
            String(runs.seeds.length),
            rangeOf(runs[yOutcome]),
            rangeOf(runs[xOutcome]),
          ]),
        ),
      ),
      make('p', {}, [
        text(
          `${allRuns.reduce((sum, { seeds }) => sum + seeds.length, 0)} runs.` +
            (untrained.length > 0 ? ` Not trained yet: ${untrained.join(', ')}.` : ''),
        ),
      ]),
    ]),
  ];
}
