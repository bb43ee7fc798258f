/**
 * Compares models by the descriptions of their architectures. The code names no key of a description, so that keys of a
 * new family are compared as well.
 */

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns every value that is not an object, with its path of keys. */
function leavesOf(value: unknown, path: readonly string[] = []): [readonly string[], unknown][] {
  if (!isObject(value)) return [[path, value]];
  return Object.entries(value).flatMap(([key, inner]) => leavesOf(inner, [...path, key]));
}

function listWords(values: readonly unknown[]): string {
  const runs: { text: string; count: number }[] = [];
  for (const text of values.map(valueWords)) {
    const lastRun = runs.at(-1);
    if (lastRun?.text === text) lastRun.count++;
    else runs.push({ text, count: 1 });
  }
  return runs.map(({ text, count }) => (count > 1 ? `${text} ×${count}` : text)).join(', ');
}

export function valueWords(value: unknown): string {
  if (value === null) return 'none';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'number')
    return Number.isInteger(value)
      ? value.toLocaleString('en')
      : String(Number(value.toPrecision(6)));
  if (Array.isArray(value)) return value.length ? listWords(value) : 'none';
  if (isObject(value))
    return Object.entries(value)
      .map(([key, inner]) => `${key} ${valueWords(inner)}`)
      .join(' ');
  return String(value).replaceAll('_', ' ');
}

/**
 * Returns the keys whose values differ. `values` has a key's value in words for each description; undefined where the
 * key is absent.
 * @param descriptions one or more JSON values
 */
export function differencesOf(descriptions: readonly object[]) {
  const leafMaps = descriptions.map(
    (description) =>
      new Map(leavesOf(description).map(([path, value]) => [path.join('.'), { path, value }])),
  );
  const keys = [...new Set(leafMaps.flatMap((leafMap) => [...leafMap.keys()]))];
  const differences = keys.flatMap((key) => {
    const leaves = leafMaps.map((leafMap) => leafMap.get(key));
    const values = leaves.map((leaf) => leaf && valueWords(leaf.value));
    const { path } = leaves.find((leaf) => leaf)!;
    return values.every((value) => value === values[0]) ? [] : [{ path, values }];
  });
  return { differences, equalCount: keys.length - differences.length };
}

/**
 * Names a key in words: outer keys first, and letters of shapes spelled out.
 * @param letters the meanings of the letters, from describe
 */
export function pathWords(
  path: readonly string[],
  letters: Readonly<Record<string, string>>,
): string {
  return path
    .map((key) => (Object.hasOwn(letters, key) ? `${letters[key]} ${key}` : key))
    .join(' ')
    .replaceAll('_', ' ');
}
