// @vitest-environment happy-dom
/** The table of seeds: the text of each recipe's row, and the places of its dots. */
import { html } from 'lit';
import { expect, it, vi } from 'vitest';
import type { Card } from '../src/ask/zoo';
import { seedsTable } from '../src/rooms/seeds_table';
import { OUTCOMES } from '../src/timeline/seeds';
import { mount } from './page';

/** Returns made-up runs of a recipe, each with the same outcomes at every step but the last. */
const runsOf = (steps: number[], sinks: number[]) =>
  sinks.map((sink, i) => ({
    seed: i + 1,
    training: { steps: 16_000 },
    sink_tokens: [1],
    points: steps.map((step, at) => ({ step, 'sink_0.3': at ? sink : 99, alpha: null, loss: 2 })),
  }));
const logs: Record<string, object[]> = {
  long: runsOf([4000, 8000], [10, 20, 30, 40]),
  short: runsOf([0, 4000], [50, 70]),
};
vi.mock('../src/timeline/seeds', async (load) => ({
  ...(await load<object>()),
  seedRuns: async (id: string) => {
    if (id === 'broken') throw new Error('no network');
    return logs[id] ?? [];
  },
}));

const createCard = (id: string, sinks: number[], more: object = {}) => {
  const [sink_1, ...others] = sinks;
  return {
    ...{ id, title: `The ${id} model`, seed: 2, training: { steps: 4000 } },
    measured: { sink_1, value_ratio: 0.5, loss: 3 },
    further_seeds: others.map((otherSink, i) => ({
      seed: i + 3,
      sink_1: otherSink,
      value_ratio: 0.25 + i,
      loss: 2,
    })),
    ...more,
  } as unknown as Card;
};
async function renderTable(cards: readonly Card[]) {
  const reader = mount(html`${seedsTable(cards)}`);
  for (let turn = 0; turn < 9; turn++) await Promise.resolve();
  const tables = reader.all('table.seeds');
  /** Returns the cell of each outcome. */
  const valuesOf = (table: Element) =>
    OUTCOMES.map(({ title }) => {
      const rows = [...table.querySelectorAll('tr')];
      return rows.find((row) => reader.words(row.firstElementChild as HTMLElement) === title)
        ?.lastElementChild as HTMLElement | undefined;
    });
  const coordinate = (name: string, element: Element) =>
    Math.round(Number(element.getAttribute(name)));
  return {
    ...reader,
    cells: tables.map((table) => [
      reader.words(table.querySelector('caption')!),
      ...valuesOf(table).map((cell) => (cell ? reader.words(cell) : '–')),
    ]),
    strip: (table: number, outcome = 0) => {
      const svg = valuesOf(tables[table]!)[outcome]!;
      return {
        dots: [...svg.querySelectorAll('circle')].map((dot) => coordinate('cx', dot)),
        ring: [...svg.querySelectorAll('circle.shown')].map((dot) => coordinate('cx', dot)),
        lines: [...svg.querySelectorAll('line:not(.axis)')].map((line) => [
          line.getAttribute('class'),
          coordinate('x1', line),
          coordinate('x2', line),
        ]),
      };
    },
  };
}

it('the row of a recipe has a dot for each seed on the scale of its column, and a ring for the shown one', async () => {
  const { cells, strip, text } = await renderTable([
    createCard('a', [60, 20, 40]),
    createCard('b', [30]),
  ]);
  expect(cells).toMatchSnapshot();
  // The scale maps 20 .. 60 to 4 .. 108.
  expect(strip(0)).toEqual({ dots: [108, 4, 56], ring: [108], lines: [['mean', 56, 56]] });
  expect(strip(1)).toEqual({ dots: [30], ring: [30], lines: [] });
  expect(text('.hint')).toMatchSnapshot();
  const twoSeeds = await renderTable([createCard('c', [60, 20])]);
  expect(twoSeeds.cells[0]!.slice(0, 2)).toMatchSnapshot();
  const oneSeed = await renderTable([createCard('b', [30], { training: {} })]);
  expect(oneSeed.cells[0]![0]).toMatch(/^The b modelone seed/);
  expect(oneSeed.text('.hint')).toBe('Over 100 held-out sequences, T = 64, ε = 0.3.');
});

it('the row of a recipe has an interval from four seeds on, if it fits on the scale', async () => {
  // Student's t of three degrees of freedom is 3.18245; the deviation of these is 12.91: 25 ± 20.54.
  const { cells, strip, text } = await renderTable([
    createCard('c', [10, 20, 30, 40]),
    createCard('d', [0, 0, 0, 99]),
  ]);
  expect(cells[0]![1]).toBe('25.0 ± 20.5% 10.0 to 40.0');
  // The scale goes from 0 to 99: the interval of d exceeds it.
  const x = (value: number) => Math.round(4 + (104 * value) / 99);
  expect(strip(0).lines).toEqual([
    ['interval', x(4.46), x(45.54)],
    ['mean', x(25), x(25)],
  ]);
  expect([cells[1]![1], strip(1).lines]).toEqual(['0.0 to 99.0%', [['mean', x(24.75), x(24.75)]]]);
  expect(text('.hint')).toMatchSnapshot();
});

it('long runs are listed at the last step that all models have', async () => {
  const bothTables = await renderTable([createCard('long', [1]), createCard('short', [2])]);
  expect(bothTables.cells.map(([name]) => name!.split('model')[1]!.slice(0, 11))).toEqual([
    ...['4,000 steps', '4,000 steps', ', long runs', ', long runs'],
  ]);
  // At step 4,000 the longer runs had 99.
  expect(bothTables.cells[2]!.slice(1)).toEqual([
    '99.0 ± 0.0% 99.0 to 99.0',
    '–',
    '–',
    '–',
    '2.000 ± 0.000 2.000 to 2.000',
  ]);
  expect(bothTables.cells[3]![1]).toBe('50.0 to 70.0%');
  expect(bothTables.strip(2).ring).toEqual([]);
  expect(bothTables.text('.hint')).toMatchSnapshot();
  const alone = await renderTable([createCard('long', [1], { title: 'Alone' })]);
  // An outcome that a recipe lacks has no row.
  expect(alone.texts('th')).toEqual(['Sink₁', '‖v₁‖ / mean ‖v‖', 'loss', 'Sink₁', 'loss']);
  expect(alone.texts('caption strong')).toEqual(['Alone', 'Alone, long runs']);
});

it('the table is absent if logs cannot be read', async () => {
  expect((await renderTable([createCard('broken', [1])])).root.textContent).toBe('');
});
