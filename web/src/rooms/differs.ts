/**
 * Differences between models, by their architecture descriptions. No key is named here, so that a new family's keys are
 * compared as well.
 */

/** A key whose values differ between the descriptions. */
interface Difference {
  /** The path of the key, from the outside in. */
  readonly path: readonly string[];
  /** The value in each description, in words; undefined if absent. */
  readonly values: readonly (string | undefined)[];
}

interface Differences {
  readonly differences: readonly Difference[];
  /** The number of keys with equal values. */
  readonly alike: number;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns every value that is not an object, with its path of keys. */
function leaves(value: unknown, path: readonly string[] = []): [readonly string[], unknown][] {
  if (!isObject(value)) return [[path, value]];
  return Object.entries(value).flatMap(([key, inner]) => leaves(inner, [...path, key]));
}

function number(value: number): string {
  if (Number.isInteger(value)) return value.toLocaleString('en');
  return String(Number(value.toPrecision(6)));
}

/** Writes equal neighbors once, with their number. */
function list(values: readonly unknown[]): string {
  const runs: { said: string; count: number }[] = [];
  for (const said of values.map(words)) {
    const last = runs.at(-1);
    if (last?.said === said) last.count++;
    else runs.push({ said, count: 1 });
  }
  return runs.map(({ said, count }) => (count > 1 ? `${said} ×${count}` : said)).join(', ');
}

/** Formats a value. */
export function words(value: unknown): string {
  if (value === null) return 'none';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'number') return number(value);
  if (Array.isArray(value)) return value.length ? list(value) : 'none';
  if (isObject(value))
    return Object.entries(value)
      .map(([key, inner]) => `${key} ${words(inner)}`)
      .join(' ');
  return String(value).replaceAll('_', ' ');
}

/** @param descriptions at least one; JSON values */
export function differencesOf(descriptions: readonly object[]): Differences {
  const leafMaps = descriptions.map(
    (one) => new Map(leaves(one).map(([path, value]) => [path.join('.'), { path, value }])),
  );
  const keys = [...new Set(leafMaps.flatMap((one) => [...one.keys()]))];
  const differences: Difference[] = [];
  for (const key of keys) {
    const values = leafMaps.map((one) => {
      const leaf = one.get(key);
      return leaf && words(leaf.value);
    });
    if (values.every((value) => value === values[0])) continue;
    const { path } = leafMaps.find((one) => one.has(key))!.get(key)!;
    differences.push({ path, values });
  }
  return { differences, alike: keys.length - differences.length };
}

/**
 * Names a key. The letters of shapes are spelled out, inner keys follow the outer ones.
 * @param letters their meanings, from describe
 */
export function placeWords(
  path: readonly string[],
  letters: Readonly<Record<string, string>>,
): string {
  return path
    .map((key) => (Object.hasOwn(letters, key) ? `${letters[key]} ${key}` : key))
    .join(' ')
    .replaceAll('_', ' ');
}

/** Formats all differences in a line. */
export function differenceLine(
  { differences, alike }: Differences,
  letters: Readonly<Record<string, string>>,
): string {
  if (!differences.length) return `The architectures are identical in all ${alike} settings.`;
  const phrases = differences.map(
    ({ path, values }) =>
      `${placeWords(path, letters)}: ${values.map((value) => value ?? '–').join(' | ')}`,
  );
  return `${phrases.join('; ')}. ${alike} other settings identical.`;
}
