/** The numbers of a row of small multiples, of all its models in one file. */
import { field, placesOf, plain, type Quantity } from '../save/numbers';
import { columnFacts } from '../study/files';
import type { Column } from '../study/study';
import { printPick } from './picks';

export interface FigureFacts {
  readonly corpus: Readonly<Record<string, unknown>>;
  readonly version: string;
  readonly link: string;
}

interface Numbers {
  readonly column: Column;
  readonly quantities: readonly Quantity[];
}

/** One value a line, with a column for each axis; what is undefined is left out. */
export function figureCsv(numbers: readonly Numbers[], facts: FigureFacts): string {
  const quantities = numbers.flatMap((one) => one.quantities);
  const axes = [...new Set(quantities.flatMap((one) => one.axes))];
  const lines = [
    `# corpus: ${JSON.stringify(facts.corpus)}`,
    ...numbers.map(({ column }) => `# column: ${JSON.stringify(columnFacts(column))}`),
    '# indices: "counted from 1"',
    `# measured_by: ${JSON.stringify(`Sinkscope ${facts.version}`)}`,
    `# link: ${JSON.stringify(facts.link)}`,
    ['model', 'quantity', ...axes, 'value'].join(),
  ];
  for (const { column, quantities: own } of numbers)
    for (const one of own)
      for (let i = 0; i < one.data.length; i++) {
        if (!Number.isFinite(one.data[i])) continue;
        const places = placesOf(i, one);
        const where = axes.map((axis) => places[one.axes.indexOf(axis)] ?? '');
        lines.push([field(printPick(column.pick)), one.name, ...where, one.data[i]].join());
      }
  return `${lines.join('\n')}\n`;
}

export function figureJson(
  figure: string,
  numbers: readonly Numbers[],
  { corpus, version, link }: FigureFacts,
): string {
  const models = numbers.map(({ column, quantities }) => ({
    ...columnFacts(column),
    quantities: quantities.map((one) => ({ ...one, data: plain(one.data) })),
  }));
  const facts = { figure, corpus, indices: 'counted from 1', measured_by: `Sinkscope ${version}` };
  return `${JSON.stringify({ ...facts, link, models }, null, 1)}\n`;
}
