/** Writes tables as CSV, for the page and the command line. */

import { check, checkList } from '../abi/arguments.ts';

export type Cell = string | number | null | undefined;

/**
 * Matches where a spreadsheet would begin to read a formula: before =, +, - or @, also as a full-width character, at
 * the start of a text, of one of its lines, or behind the list separator of some locale; and before a tab or a line's
 * end that begins a text, which a spreadsheet may drop.
 */
const FORMULA_STARTS = /^(?=[\t\r])|(?<=^|[;|\t\r\n])(?=\s*[=+\-@＝＋－＠])/g;

/** Writes a CSV field, with a quote before what a spreadsheet would read as a formula. */
export function csvField(value: Cell): string {
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : '';
  if (!value) return '';
  check(value, 'text', 'value');
  const safeText = value.replace(FORMULA_STARTS, "'");
  return /[",;#\n\r']/.test(safeText) ? `"${safeText.replaceAll('"', '""')}"` : safeText;
}

/**
 * Writes a CSV table whose records all have the same length: a line `# name,value` for each fact about
 * the whole table, a line with the names of the columns, then the records. So every parser reads the
 * file, and one that skips comments sees only numbers.
 */
export function csvOf(
  facts: readonly (readonly [string, unknown])[],
  columns: readonly string[],
  records: readonly (readonly Cell[])[],
): string {
  checkList(facts, 'list', 'facts');
  checkList(columns, 'text', 'columns');
  checkList(records, 'list', 'records');
  const fieldCount = Math.max(2, columns.length);
  const line = (cells: readonly Cell[]) =>
    Array.from({ length: fieldCount }, (_, i) => csvField(cells[i])).join();
  // A parser that skips comments skips lines, so each fact is on one line. The # stands before any
  // quote, which would hide it, so the name has nothing that needs one.
  const comments = facts.map(([name, value]) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    return `# ${line([name.replace(/[",;#'\r\n]+/g, ' '), text.replace(/[\r\n]+/g, ' ')])}`;
  });
  return `${[...comments, line(columns), ...records.map(line)].join('\n')}\n`;
}
