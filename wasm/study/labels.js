/** Groups texts by label: a domain, a language, a class. */
import { checkList } from '../abi/arguments.js';

/** Longest label in UTF-16 units: labels name lines and columns. */
const LABEL_LENGTH_MAX = 60;

/**
 * Groups texts by label, in the order of the labels' first occurrence.
 * @param {readonly string[]} texts each `label<TAB>text`
 * @returns {{ label: string, texts: string[] }[] | undefined} undefined unless each text has a
 * label and there are two labels or more
 */
export function groupsOf(texts) {
  checkList(texts, 'text', 'texts');
  /** @type {Map<string, string[]>} */
  const groups = new Map();
  for (const line of texts) {
    const at = line.indexOf('\t');
    const label = line.slice(0, Math.max(0, at)).trim();
    const text = line.slice(at + 1).trim();
    if (!label || label.length > LABEL_LENGTH_MAX || !text) return undefined;
    groups.set(label, [...(groups.get(label) ?? []), text]);
  }
  if (groups.size < 2) return undefined;
  return [...groups].map(([label, labelled]) => ({ label, texts: labelled }));
}
