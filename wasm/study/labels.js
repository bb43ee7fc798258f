/** Texts with labels: a domain, a language, a class. */
import { checkList } from '../abi/arguments.js';

/** Longest label, in UTF-16 units. */
const LONGEST = 60;

/**
 * The texts of each label, in the order in which labels appear.
 * @param {readonly string[]} texts each `label<TAB>text`
 * @returns {{ label: string, texts: string[] }[] | undefined} undefined unless each text has a label and there
 * are two labels or more
 */
export function groupsOf(texts) {
  checkList(texts, 'text', 'texts');
  /** @type {Map<string, string[]>} */
  const groups = new Map();
  for (const line of texts) {
    const at = line.indexOf('\t');
    const label = line.slice(0, Math.max(0, at)).trim();
    const text = line.slice(at + 1).trim();
    if (!label || label.length > LONGEST || !text) return undefined;
    groups.set(label, [...(groups.get(label) ?? []), text]);
  }
  if (groups.size < 2) return undefined;
  return [...groups].map(([label, own]) => ({ label, texts: own }));
}
