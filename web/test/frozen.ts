/**
 * The frozen set of a release: a few numbers for each quantity that an address shows, namely how many values there are,
 * how many are undefined, their mean, the smallest, the largest, and a sum that changes when two of them change places.
 */

/**
 * The tolerance, relative to the largest value. Summing in another order changes the seventh digit of all values and of
 * their mean, which is tolerated. A change in the third digit of a single value among a few hundred, which a page would
 * print, changes the mean by more.
 */
const TOLERANCE = 2e-6;
const DIGITS = 9;
/** The golden ratio, whose multiples modulo 1 are all different, so that each place has a weight of its own. */
const GOLDEN = (Math.sqrt(5) - 1) / 2;
const NAMES = ['count', 'undefined', 'mean', 'smallest', 'largest', 'sum by place'];

type Value = number | null;
/** For each quantity, by its name: a number for each of NAMES. */
export type Shows = Readonly<Record<string, readonly number[]>>;

const round = (value: number) => Number(value.toPrecision(DIGITS));

function summarize(values: readonly Value[]): number[] {
  const defined = values.filter((value): value is number => Number.isFinite(value));
  const meanOf = (of: (value: number, i: number) => number) =>
    defined.reduce((all, value, i) => all + of(value, i), 0) / Math.max(defined.length, 1);
  const [low, high] = defined.reduce(
    ([a, b], value) => [Math.min(a!, value), Math.max(b!, value)],
    defined.length ? [Infinity, -Infinity] : [0, 0],
  );
  const means = [
    meanOf((value) => value),
    low!,
    high!,
    meanOf((value, i) => value * ((i * GOLDEN) % 1)),
  ];
  return [values.length, values.length - defined.length, ...means.map(round)];
}

/** Returns all numbers of a JSON value by their keys; the numbers of a list are one quantity. */
function quantitiesOf(value: unknown, path = '', quantities: Record<string, Value[]> = {}) {
  if (typeof value === 'number' || typeof value === 'boolean' || value === null)
    (quantities[path] ??= []).push(value === null ? null : Number(value));
  else if (Array.isArray(value)) for (const one of value) quantitiesOf(one, path, quantities);
  else if (typeof value === 'object')
    for (const [key, one] of Object.entries(value as object))
      quantitiesOf(one, path ? `${path} ${key}` : key, quantities);
  return quantities;
}

export const showsOf = (value: unknown): Shows =>
  Object.fromEntries(
    Object.entries(quantitiesOf(value)).map(([name, values]) => [name, summarize(values)]),
  );

/**
 * Returns one line per changed quantity. A new quantity does not count as a change.
 * @param before the numbers of the release
 * @param now the numbers of today
 */
export function changes(before: Shows, now: Shows): string[] {
  return Object.entries(before).flatMap(([name, oldNumbers]) => {
    const newNumbers = now[name];
    if (!newNumbers) return [`${name} is gone; it was ${oldNumbers.join(', ')}`];
    const largest = Math.max(
      ...[oldNumbers, newNumbers].flatMap((one) => one.slice(2).map(Math.abs)),
    );
    const isSame = (value: number, i: number) =>
      i < 2 ? value === newNumbers[i] : Math.abs(value - newNumbers[i]!) <= TOLERANCE * largest;
    return oldNumbers.flatMap((value, i) =>
      isSame(value, i) ? [] : `${name}: ${NAMES[i]} ${value} is now ${newNumbers[i]}`,
    );
  });
}

export const HOME = 'https://sinkscope.example/';

/** The frozen numbers of a release, by address, code, file and command. */
export interface Frozen {
  readonly links: readonly { readonly address: string; readonly shows: Shows }[];
  readonly snippets: readonly {
    readonly host: string;
    readonly code: string;
    readonly shows: Shows;
  }[];
  readonly recordings: readonly { readonly file: string; readonly shows: Shows }[];
  readonly commands: readonly { readonly given: readonly string[]; readonly shows: Shows }[];
}

const PROMPT = encodeURIComponent('The old man sat at the door and looked over the water.');

/** A page of the course: what links into it and its readers rely on. */
export interface FrozenLesson {
  readonly address: string;
  /** The ids of its figures, or of the glossary's terms: a link may end in any of them. */
  readonly ids: readonly string[];
  /** Hashes of the states of the page that the lesson links to. */
  readonly links: readonly string[];
  /** The lesson's figures, with their numbers if they show one text. */
  readonly figures: readonly {
    readonly state: Readonly<Record<string, string>>;
    readonly shows?: Shows;
  }[];
}

/** Views that need more than one run of a model, or files that tests do not have. */
const LONG_VIEWS = ['lab', 'training', 'effects', 'length'];

export const isCounted = ({
  view = '',
  shown = '',
  input = '',
}: Readonly<Record<string, string>>) =>
  !LONG_VIEWS.includes(view) && !shown.includes('recording:') && input !== 'heldout';

/** Links of the next release, with what readers change in them: text, models, edits, start token, kind of prompts. */
export const LINKS = [
  'index.html',
  `index.html#prompt=${PROMPT}`,
  'index.html#room=explore&shown=softmax',
  `explore/index.html#room=explore&shown=softmax&prompt=${PROMPT}&layer=2&head=1`,
  'explore/index.html#room=explore&shown=sigmoid&view=mass&normalize=yes',
  'explore/index.html#room=explore&shown=softmax,softmax1&view=sinks&T=32&eps=0.2',
  'explore/index.html#room=explore&shown=softmax&view=norms&first=none',
  'explore/index.html#room=explore&shown=softmax&view=scores&input=repeat&seed=7',
  'explore/index.html#room=explore&shown=softmax&view=geometry&map=dot',
  'explore/index.html#room=explore&shown=softmax~evict(window,24)&view=loss&input=heldout&n=4',
  'explore/index.html#room=explore&shown=key-bias&view=bias',
  'explore/index.html#room=explore&shown=softmax~hide_key(0)&view=change',
  'compare/index.html#room=compare&shown=softmax,sigmoid,sink-logit&view=mass',
  'compare/index.html#room=compare&shown=softmax,gated&view=norms&input=random&n=4&seed=3',
  'embed.html#view=attention&shown=softmax~sigmoid',
  'embed.html#view=contribution&shown=sink-logit',
  'embed.html#view=outputs&shown=softmax',
  'embed.html#view=arrows&shown=softmax&theme=dark',
  'embed.html#view=ratios&shown=softmax,sigmoid&controls=text',
  'embed.html#view=channels&shown=softmax&channel=73',
];

/** The figure whose code is frozen for each host of the dialog. */
export const EMBEDDED = 'shown=softmax&view=sinks&T=16&layer=2&head=1';

const TEXT =
  'The old man sat at the door and looked over the water. He thought of his child, and every night was long.';

/** Commands of the next release whose JSON is frozen; `./` is the folder of the release. */
export const COMMANDS: readonly (readonly string[])[] = [
  ['measure', 'models/zoo/softmax', '--text', TEXT, '--tokens', '24'],
  ['measure', 'models/zoo/softmax@1400', '--text', TEXT, '--tokens', '16', '--eps', '0.2,0.3'],
  [
    ...['measure', 'models/zoo/gated', '--text', TEXT, '--tokens', '24'],
    ...['--edit', 'evict(policy=window,budget=8)'],
  ],
  ['measure', './softmax.safetensors'],
];
