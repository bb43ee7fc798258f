/** Groups texts by label; a label is a domain, a language or a class. */
import { checkList } from '../abi/arguments.ts';
import type { LabeledTexts } from './types.ts';

/** Longest label, in UTF-16 units: a label must fit into a line or a column of a table. */
const LABEL_LENGTH_MAX = 60;

/**
 * Groups texts by label, in the order of the labels' first occurrence.
 * @param texts each `label<TAB>text`
 * @returns undefined unless each text has a label, of at most 60 characters, and there are two labels or more
 * @example const groups = groupsOf(file.split('\n'));
 */
export function groupsOf(texts: readonly string[]): LabeledTexts[] | undefined {
  checkList(texts, 'text', 'texts');
  const groups: Map<string, string[]> = new Map();
  for (const line of texts) {
    const tab = line.indexOf('\t');
    const label = line.slice(0, Math.max(0, tab)).trim();
    const text = line.slice(tab + 1).trim();
    if (!label || label.length > LABEL_LENGTH_MAX || !text) return undefined;
    groups.set(label, [...(groups.get(label) ?? []), text]);
  }
  if (groups.size < 2) return undefined;
  return [...groups].map(([label, groupTexts]) => ({ label, texts: groupTexts }));
}
