// @vitest-environment happy-dom
/** The table of compared models: reading, sorting, pointing. */
import { render } from 'lit';
import { describe, expect, it, vi } from 'vitest';
import { modelsOfZoo } from '../ship/facts';
import { lessons } from '../ship/lessons';
import type { Card } from '../src/ask/zoo';
import { OPEN_LABEL, REMEDIES, twinWords } from '../src/remedies';
import { remediesTable } from '../src/rooms/remedies';
import { defaults } from '../src/ask/state';
import type { Frame } from '../src/frame';
import { panelOf } from '../src/rooms/all_numbers';
import { metricsOf, tableOf, type ReportedRow, type Sorting } from '../src/rooms/metrics';
import { metricsTable } from '../src/rooms/metrics_table';
import { frameOf, tensor } from './fixture';
import { mount as draw } from './page';

const fullFrame = (change: Partial<Frame> = {}, tensors: Frame['tensors'] = {}) =>
  frameOf(
    {
      sequences: 2,
      perPrompt: {
        sink_ratio: [0.5, 0.25],
        sink_ratio_raw: [0.25, 0.25],
        loss_mean: [3, 5],
        value_ratio: [0.25, 0.75],
        row_mass_summary: [1, 1],
      },
      spread: {
        alpha: new Float32Array(12).fill(0.0001),
        value_ratio: new Float32Array(4).fill(0.5),
      },
      ...change,
    } as never,
    {
      hidden_ratio: tensor([3], [9, 4, 8]),
      key_ratio: tensor([2, 2], [1, 0.5, 2, 1]),
      value_ratio: tensor([2, 2], [1, 2, 0.25, 1]),
      entropy_mean: tensor([2, 2], [1, NaN, 2, 3]),
      // With uniform attention, each row would give <s> 0.1.
      row_mass: tensor([2, 2, 3], [0.1, 0.2, 0.3, 0.1, 0.2, 0.3, 0.1, 0.2, 0.3, 0.1, 0.2, 0.3]),
      ...tensors,
    },
  );

function table(
  shown: { frame: Frame; isStale?: boolean }[],
  sorting: Sorting = { name: '', descending: false },
  reported: ReportedRow[] = [],
) {
  const sort = vi.fn();
  const columns = tableOf({ metrics: [] });
  const rows = shown.map((one) => ({ isStale: false, ...one }));
  const drawnTable = draw(
    metricsTable(
      { measuredRows: rows, reported, table: columns, sorting, sort, file: undefined },
      'A table.',
    ),
  );
  return {
    ...drawnTable,
    sort,
    headings: drawnTable.all('thead th'),
    names: drawnTable.texts('tbody tr:not(.reported) th[scope=row]'),
    cell: (name: string, i = 0) => drawnTable.texts(`td[data-metric=${name}]`)[i],
    text: drawnTable.words,
  };
}

describe('the table', () => {
  it('has value, spread and place of each number, with the precision of its column', () => {
    const { cell, names, root } = table([{ frame: fullFrame() }]);
    expect(
      Object.fromEntries(
        [...root.querySelectorAll<HTMLElement>('td')].map(({ dataset }) => [
          dataset.metric!,
          cell(dataset.metric!),
        ]),
      ),
    ).toEqual({
      // ± √(0.125² · 2) over two prompts.
      sink_1: '37.5% ± 17.7%',
      sink_1_by_shares: '37.5% ± 17.7%',
      uniform: '0.100',
      sink_elsewhere: '25.0% position 2',
      loss: '4.000 ± 1.414',
      alpha_max: '0.900 ± <0.001 L1H0',
      hidden_ratio: '8.00 after layer 1',
      key_ratio_min: '0.50 L0H1',
      value_ratio: '0.50 ± 0.35',
      value_ratio_min: '0.250 ± 0.500 L1H0',
      entropy: '2.00',
      row_mass: '1.000 ± 0',
    });
    expect(names[0]).toMatch(/^Softmax model MEASURED 2 prompts/);
    expect(root.querySelector('caption')!.textContent).toContain('A table.');
  });

  it('has a column for each further summary of the core, with the precision of its unit', () => {
    const metric = (name: string, unit: string, shape: string[], more: object = {}) => ({
      ...{ name, unit, shape, label: name, question: 'How much?', summary: true, averaged: true },
      ...{ arguments: [], ...more },
    });
    const columns = tableOf({
      metrics: [
        metric('share', 'share of row', ['L', 'H']),
        metric('nats', 'nats', ['T']),
        metric('compared', 'nats', [], { arguments: ['base'] }),
        metric('drawn', 'nats', [], { summary: false }),
        metric('single', 'nats', [], { averaged: false }),
        metric('loss_mean', 'nats', []),
      ],
    } as never).slice(-2);
    expect(columns.map(({ name, meaning }) => [name, meaning])).toMatchSnapshot();
    const frame = fullFrame(
      { spread: { nats: new Float32Array([0.5, 0, 0]) } },
      { share: tensor([2, 2], [0.25, NaN, 0.5, 0.75]), nats: tensor([3], [1.25, 7, 7]) },
    );
    const template = metricsTable(
      {
        ...{
          measuredRows: [{ frame, isStale: false }],
          reported: [],
          table: columns,
          file: undefined,
        },
        ...{ sorting: { name: '', descending: false }, sort: vi.fn() },
      },
      'A table.',
    );
    expect(draw(template).texts('tbody td')).toEqual(['50.0%', '1.25 ± 0.50']);
    // The column is left out if no model has the metric, and a single model without the metric has an empty cell.
    expect(metricsOf([frame], columns).map(({ name }) => name)).toEqual(['share', 'nats']);
    expect(metricsOf([fullFrame()], columns)).toEqual([]);
  });

  it('takes the units of its definitions from the core', () => {
    const meaningsOf = (entropy: string, loss: string) => {
      const units = { entropy_mean: entropy, loss_mean: loss };
      const metrics = Object.entries(units).map(([name, unit]) => ({ name, unit }));
      const rows = tableOf({ metrics } as never);
      return Object.fromEntries(rows.map(({ name, meaning }) => [name, meaning!]));
    };
    const meanings = meaningsOf('of ln n', 'nat');
    expect(meanings.entropy).toMatch(/a share of ln n for n visible keys/);
    expect(meanings.loss).toMatch(/in nats per token/);
    // The definitions take their units from the description, and name none of their own.
    const otherMeanings = meaningsOf('hectares', 'miles');
    expect([otherMeanings.entropy, otherMeanings.loss]).toEqual([
      expect.stringContaining('hectares'),
      expect.stringContaining('miles'),
    ]);
    expect(Object.values(otherMeanings).join(' ')).not.toMatch(/\bnats?\b|\bln\b|\bbits?\b/);
  });

  it('names the token of one prompt, marks raw weights, stale rows and short texts', () => {
    const operation = { ...frameOf().operation, normalizes: false };
    const { model } = frameOf();
    const frame = fullFrame({ sequences: 1, operation, model: { ...model, bits: 4.5 } } as never, {
      alpha_uniform: tensor([3], [0.5, 0, 0]),
    });
    const { cell, names, root } = table([{ frame, isStale: true }, { frame: fullFrame() }]);
    expect([cell('sink_1'), cell('sink_1', 1)]).toEqual(['25.0% ± 0', '37.5% ± 17.7%']);
    expect(cell('sink_elsewhere')).toBe('0.0%');
    expect(names[0]).toMatch(
      /1 prompt, stored at 4\.5 bits per weight, text too short to count heads/,
    );
    expect([...root.querySelectorAll('tbody tr')].map((row) => row.className.trim())).toEqual([
      'measured stale',
      'measured',
    ]);
  });

  it('is sorted by a click: numbers from the largest, names from A, and back', () => {
    const sortingAfterClick = (sorting: Sorting, i: number) => {
      const { headings, sort } = table([{ frame: fullFrame() }], sorting);
      headings[i]!.querySelector('button')!.click();
      return sort.mock.lastCall![0];
    };
    const unsorted = { name: '', descending: false };
    expect(sortingAfterClick(unsorted, 0)).toEqual({ name: 'model', descending: false });
    expect(sortingAfterClick(unsorted, 1)).toEqual({ name: 'sink_1', descending: true });
    expect(sortingAfterClick({ name: 'sink_1', descending: true }, 1)).toEqual({
      name: 'sink_1',
      descending: false,
    });
    expect(sortingAfterClick({ name: 'model', descending: false }, 0)).toEqual({
      name: 'model',
      descending: true,
    });
    const b = { frame: fullFrame({ title: 'b' }), isStale: false };
    const a = { frame: fullFrame({ title: 'A', perPrompt: { sink_ratio: [1] } }) };
    const titleOrder = (name: string, descending: boolean) =>
      table([b, a], { name, descending })
        .names.map((one) => one![0])
        .join('');
    expect([titleOrder('', false), titleOrder('model', false), titleOrder('model', true)]).toEqual([
      'bA',
      'Ab',
      'bA',
    ]);
    expect([
      titleOrder('sink_1', true),
      titleOrder('sink_1', false),
      titleOrder('loss', false),
    ]).toEqual(['Ab', 'bA', 'bA']);
    const { headings, text } = table([b], { name: 'loss', descending: true });
    const sortDirections = headings.map((element) => element.getAttribute('aria-sort'));
    expect([
      sortDirections.indexOf('descending'),
      sortDirections.filter((one) => one === 'none').length,
    ]).toEqual([5, 12]);
    expect([text(headings[5]), text(headings[0])]).toEqual(['loss▾', 'model']);
    expect(text(table([b], { name: 'loss', descending: false }).headings[5])).toBe('loss▴');
  });

  it('lists values reported in papers below, by paper', () => {
    const reported: ReportedRow[] = [
      { title: 'Low', sink_1: 12.25, where: 'Paper A' },
      { title: 'High', sink_1: 90, loss: 3.5, where: 'Paper A' },
      { title: 'None', where: 'Paper B' },
    ];
    const { root, text } = table(
      [{ frame: fullFrame() }],
      { name: 'sink_1', descending: true },
      reported,
    );
    const rows = [...root.querySelectorAll('.reported-rows tr.reported')].map(text);
    expect(rows).toEqual([
      'Paper A',
      'High REPORTED 90.00%–––3.50–––––––',
      'Low REPORTED 12.25%–––––––––––',
      'Paper B',
    ]);
    expect(root.querySelector('.where')!.getAttribute('colspan')).toBe('13');
    expect(table([{ frame: fullFrame() }]).root.querySelector('.reported-rows')).toBeNull();
  });
});

it('a link that sets the columns opens the table', () => {
  const panels = [{}, { columns: ['loss'] }, { columns: ['loss'], panel: 'seeds' as const }];
  expect(panels.map((change) => panelOf({ ...defaults, ...change }))).toEqual([
    'none',
    'numbers',
    'seeds',
  ]);
});

describe('production models', () => {
  it('are the same in Compare and lesson 5, with a link to each twin', () => {
    const place = document.createElement('div');
    const zoo = modelsOfZoo();
    render(
      remediesTable(zoo as unknown as readonly Card[], (change) => `#${change!.shown!.join()}`),
      place,
    );
    const links = [...place.querySelectorAll('a[href^="#"]')];
    expect(links.map((element) => element.getAttribute('href'))).toEqual(
      REMEDIES.flatMap(({ twin, families }) => [
        `#softmax,${twin}`,
        ...families.flatMap(({ checkpoint, opens }) =>
          opens ? `#hub:${checkpoint as string}` : [],
        ),
      ]),
    );
    const lesson = document.createElement('div');
    lesson.innerHTML = lessons().find(({ slug }) => slug.startsWith('5-'))!.html;
    const [tableText, lessonText] = [place, lesson].map((element) =>
      element.textContent!.replace(/\s+/g, ' '),
    );
    const families = REMEDIES.flatMap((remedy) => remedy.families);
    expect(lesson.querySelector('a[href*="hub:Qwen/Qwen3.5-0.8B"]')?.textContent).toBe(OPEN_LABEL);
    for (const words of [
      ...REMEDIES.flatMap((one) => [one.title, one.formula, twinWords(one, zoo)]),
      ...families.flatMap(({ name, where, source }) => [name, where, source.title]),
      ...families.map(({ checkpoint }) =>
        typeof checkpoint === 'string' ? checkpoint : `– (${checkpoint.none})`,
      ),
    ]) {
      expect(tableText).toContain(words);
      expect(lessonText).toContain(words);
    }
  });
});
