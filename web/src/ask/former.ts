/** Translates names in links and embeds of versions before 1.0 into the present names (.github/CHANGELOG.md). */

export const FORMER_KEYS: Readonly<Record<string, string>> = {
  against: 'xAxis',
  below: 'panel',
  by: 'granularity',
  exact: 'exactTokens',
  from: 'source',
  grip: 'scope',
  left: 'leftRun',
  reread: 'recompute',
  right: 'rightRun',
  times: 'repeats',
  what: 'quantized',
  without: 'hiddenKey',
};

/** For each key, present values by their former names. */
const VALUES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  view: {
    firsts: 'likeness',
    gives: 'contribution',
    kept: 'cache',
    parts: 'logit-parts',
    tags: 'sink-tag',
    valley: 'compression',
  },
  experiment: { quantisation: 'quantization' },
};

/** For each key, the pattern of a former word inside its value, and the present word. */
const WORDS: Readonly<Record<string, readonly [RegExp, string]>> = {
  shown: [/~quantise\b/g, '~quantize'],
  leftRun: [/\boptimiser:/g, 'optimizer:'],
  rightRun: [/\boptimiser:/g, 'optimizer:'],
};

const ownValue = <Value>(
  table: Readonly<Record<string, Value>>,
  name: string,
): Value | undefined => (Object.hasOwn(table, name) ? table[name] : undefined);

export function translate(name: string, value: string): readonly [name: string, value: string] {
  const key = ownValue(FORMER_KEYS, name) ?? name;
  const replacement = ownValue(WORDS, key);
  if (replacement) return [key, value.replaceAll(...replacement)];
  return [key, ownValue(ownValue(VALUES, key) ?? {}, value) ?? value];
}
