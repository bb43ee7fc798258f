/** Names that links and embeds of versions before 1.0 have, and today's in their place: .github/CHANGELOG.md. */

/** Former keys. */
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

/** Former values of keys. */
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

/** Former words within values of keys. */
const WORDS: Readonly<Record<string, readonly [RegExp, string]>> = {
  shown: [/~quantise\b/g, '~quantize'],
  leftRun: [/\boptimiser:/g, 'optimizer:'],
  rightRun: [/\boptimiser:/g, 'optimizer:'],
};

const own = <Value>(table: Readonly<Record<string, Value>>, name: string): Value | undefined =>
  Object.hasOwn(table, name) ? table[name] : undefined;

/** Returns today's name and value of a key of a link. */
export function current(name: string, value: string): readonly [name: string, value: string] {
  const key = own(FORMER_KEYS, name) ?? name;
  const [former, word] = own(WORDS, key) ?? ['', ''];
  return [key, own(own(VALUES, key) ?? {}, value) ?? value.replaceAll(former, word)];
}
