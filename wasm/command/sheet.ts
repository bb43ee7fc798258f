/** Writes a measurement, or the values of each prompt, as CSV. README.md describes the columns. */
import { editLabel } from '../engine/edit_text.ts';
import { csvOf, type Cell } from '../study/csv.ts';
import { layerNumber } from '../abi/layers.ts';
import type { Architecture, Describe } from '../abi/types.ts';
import type { MeasureResult } from './measure.ts';

const COLUMNS = [
  'subject',
  'class',
  'metric',
  'mean',
  'deviation',
  'layer',
  'head',
  'key',
  'prompts',
  'index',
  'eps',
] as const;

function placeOf(
  i: number,
  letters: readonly string[],
  shape: readonly number[],
  architecture: Pick<Architecture, 'layers'> = {},
) {
  const place: { layer?: number; head?: number; key?: number; index?: number } = {};
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    const index = i % shape[axis];
    i = Math.floor(i / shape[axis]);
    const letter = letters[axis];
    if (letter === 'L') place.layer = layerNumber(architecture, index);
    // Row 0 of hidden states is the embedding, before layer 0.
    else if (letter === 'L+1') place.layer = index - 1;
    else if (letter === 'H' || letter === 'G') place.head = index;
    else if (letter === 'T') place.key = index;
    else if (shape[axis] > 1) place.index = index;
  }
  return place;
}

export function editLabelsOf({ edits }: Pick<MeasureResult, 'edits'>, describe: Describe) {
  // A recording stores the label of an edit, because later versions may have other edits.
  return edits.map((edit) => ('label' in edit ? edit.label : editLabel(edit, describe)));
}

function factsOf(result: MeasureResult, describe: Describe): [string, string][] {
  const { metrics: _, ...facts } = result;
  for (const name of ['byEps', 'byPrompt', 'conditions']) Reflect.deleteProperty(facts, name);
  const edits = editLabelsOf(result, describe);
  return [
    ['indices', 'counted from 0'],
    ['measured_by', `Sinkscope ${describe.version}`],
    ...edits.map((label) => ['edit', label] as [string, string]),
    ['subject', JSON.stringify(facts)],
  ];
}

/** Writes CSV: a line for each number, or for each prompt if `result` has `byPrompt`. */
export function toCsv(result: MeasureResult, describe: Describe) {
  const facts = factsOf(result, describe);
  const modelClass = result.class.toUpperCase();
  if ('byPrompt' in result && result.byPrompt) {
    const columns = columnsOf(result, describe);
    const records = result.byPrompt.map(({ metrics }, i) => [
      ...[result.model, modelClass, i],
      ...columns.map(({ name, shape }) => promptValue(shape, metrics[name])),
    ]);
    const names = columns.map(({ name }) => name);
    return csvOf(facts, ['subject', 'class', 'prompt', ...names], records);
  }
  const records: Cell[][] = [];
  const { metrics: ownMetrics, byEps, sequences: prompts } = result;
  for (const { eps: threshold, metrics } of [
    { eps: result.eps, metrics: ownMetrics },
    ...(byEps?.slice(1) ?? []),
  ])
    for (const { name, shape: letters, arguments: argumentNames } of describe.metrics) {
      if (!(name in metrics)) continue;
      const { shape, mean, deviation } = metrics[name];
      const eps = argumentNames.includes('eps') ? threshold : null;
      mean.forEach((value, i) => {
        const { layer, head, key, index } = placeOf(i, letters, shape, result.architecture);
        if (key !== undefined && key >= describe.defaults.keys) return;
        const record: Record<(typeof COLUMNS)[number], Cell> = {
          ...{ subject: result.model, class: modelClass, metric: name, mean: value },
          ...{ deviation: deviation[i], layer, head, key, prompts, index, eps },
        };
        records.push(COLUMNS.map((column) => record[column]));
      });
    }
  return csvOf(facts, COLUMNS, records);
}

const columnsOf = ({ metrics }: MeasureResult, describe: Describe) =>
  describe.metrics.filter(({ name }) => name in metrics);

/** Reduces a metric of one prompt to the mean over layers and heads, at key and index 0. */
function promptValue(
  letters: readonly string[],
  { shape, values }: { shape: readonly number[]; values: readonly (number | null)[] },
) {
  const selectedValues = values.filter((value, i) => {
    const { key = 0, index = 0 } = placeOf(i, letters, shape);
    return value !== null && key === 0 && index === 0;
  });
  const sum = selectedValues.reduce((a: number, b) => a + Number(b), 0);
  return selectedValues.length ? sum / selectedValues.length : null;
}

/** Prints the metrics with one number per prompt, and alpha of the first key, as columns. */
export function promptsText(result: MeasureResult, describe: Describe) {
  if (!('byPrompt' in result) || !result.byPrompt) return '';
  const columns = columnsOf(result, describe).filter(
    ({ name, shape: [letter] }) => name === 'alpha' || letter === 'T' || letter === '1',
  );
  const isShare = ({ unit = '' }) => unit.startsWith('share');
  const rows = result.byPrompt.map(({ metrics }, i) => [
    String(i),
    ...columns.map((row) => {
      const value = promptValue(row.shape, metrics[row.name]);
      if (value === null) return '-';
      return isShare(row) ? `${(100 * value).toFixed(2)}%` : value.toFixed(3);
    }),
  ]);
  const titles = ['prompt', ...columns.map(({ label }) => label.replace('_k', '_1'))];
  const widths = titles.map((name, i) =>
    Math.max(name.length, ...rows.map((row) => row[i].length)),
  );
  const lines = [titles, ...rows].map((cells) =>
    cells.map((cell, i) => cell.padStart(widths[i])).join('  '),
  );
  return `${lines.join('\n')}\n`;
}
