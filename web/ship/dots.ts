/** Draws a dot for each seed of a recipe, and their mean, in a table that needs no JavaScript. */
import { longRuns, meanOf, modelsOfZoo } from './facts.ts';
import { formatFixed, make, table, text, type Node } from './nodes.ts';

const OUTCOMES: Readonly<Record<string, string>> = {
  alpha: 'α₁ above uniform attention',
  loss: 'loss (nats)',
};

export interface Dots {
  readonly title: string;
  readonly values: readonly number[];
  readonly mean: number;
}

/** Reads the outcome of the recipes' long runs at a step, sorted by mean, the largest first. */
export function seedDots(recipes: readonly string[], step: number, outcome: string): Dots[] {
  const titles = new Map(modelsOfZoo().map(({ id, title }) => [id, title]));
  return recipes
    .map((id) => {
      const values = longRuns(id).flatMap(({ points }) => {
        const value = points.find((point) => point.step === step)?.[outcome];
        return typeof value === 'number' ? [value] : [];
      });
      if (values.length < 2)
        throw new Error(
          `“${id}”: expected ${outcome} of two seeds or more at step ${step}, found ${values.length}.`,
        );
      return { title: titles.get(id) ?? id, values, mean: meanOf(values) };
    })
    .sort((a, b) => b.mean - a.mean);
}

const [WIDTH, HEIGHT, MARGIN] = [240, 20, 6];

function stripOf({ values, mean }: Dots, [low, high]: readonly [number, number]): Node {
  const x = (value: number) =>
    (MARGIN + ((value - low) / (high - low)) * (WIDTH - 2 * MARGIN)).toFixed(1);
  const middle = HEIGHT / 2;
  const line = (className: string, x1: string, x2: string, y1: number, y2: number) =>
    make('line', { className: [className], x1, x2, y1, y2 });
  return make(
    'svg',
    { className: ['dots'], viewBox: `0 0 ${WIDTH} ${HEIGHT}`, ariaHidden: 'true' },
    [
      line('axis', '0', String(WIDTH), middle, middle),
      ...(low < 0 && high > 0 ? [line('zero', x(0), x(0), 0, HEIGHT)] : []),
      line('mean', x(mean), x(mean), 2, HEIGHT - 2),
      ...values.map((value) => make('circle', { cx: x(value), cy: middle, r: 3.2 })),
    ],
  );
}

/** Returns a table with a dot for each seed, and a sentence on the widest spread; `outcome` is a key of OUTCOMES. */
export function dotsOf(recipes: readonly string[], step: number, outcome: string): Node[] {
  const title = Object.hasOwn(OUTCOMES, outcome) && OUTCOMES[outcome];
  if (!title)
    throw new Error(
      `The outcome “${outcome}”: expected one of ${Object.keys(OUTCOMES).join(', ')}.`,
    );
  const rows = seedDots(recipes, step, outcome);
  const allValues = rows.flatMap(({ values }) => values);
  const domain = [Math.min(0, ...allValues), Math.max(...allValues)] as const;
  const format = (value: number) => formatFixed(value, 2);
  const rangeWords = (values: readonly number[]) =>
    `${format(Math.min(...values))} to ${format(Math.max(...values))}`;
  const spreadOf = ({ values }: Dots) => Math.max(...values) - Math.min(...values);
  const widestRow = rows.reduce((a, b) => (spreadOf(b) > spreadOf(a) ? b : a));
  return [
    table(
      ['Recipe', 'Seeds', title, 'Mean (min to max)'],
      rows.map((row) => [
        row.title,
        String(row.values.length),
        stripOf(row, domain),
        `${format(row.mean)} (${rangeWords(row.values)})`,
      ]),
    ),
    make('p', { className: ['dots-says'] }, [
      text(
        `Step ${step.toLocaleString('en')} of the long runs, a dot for each seed and a line at their mean. The seeds of ` +
          `“${widestRow.title}” lie farthest apart: ${rangeWords(widestRow.values)}.`,
      ),
    ]),
  ];
}
