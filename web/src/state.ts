/**
 * The state of the page: one table. The URL's hash is read and written by looping over it, so any
 * state is a link, and a row added here is in every link by itself.
 *
 * A hash comes from strangers. What cannot be read is left at its default and reported; nothing
 * throws.
 */

/** How one value stands in a link. */
interface Row<Value> {
  readonly default: Value;
  /** The value, or undefined for what makes no sense. */
  readonly parse: (text: string) => Value | undefined;
  readonly print: (value: Value) => string;
}

/** Longest prompt, in UTF-16 units, that a link carries or the page accepts. */
export const PROMPT_MAX = 20_000;

function text(standard: string, longest: number): Row<string> {
  return {
    default: standard,
    parse: (t) => (t.length <= longest ? t : undefined),
    print: (v) => v,
  };
}

function choice<const Value extends string>(
  standard: Value,
  ...values: readonly Value[]
): Row<Value> {
  return { default: standard, parse: (t) => values.find((v) => v === t), print: (v) => v };
}

/** A name that some table defines at run time. */
function word(standard: string): Row<string> {
  return {
    default: standard,
    parse: (t) => (/^[\w-]{0,64}$/.test(t) ? t : undefined),
    print: (v) => v,
  };
}

/** A model: one that lies beside the page by its name, one of a hub as hub:owner/name@revision. */
function model(standard: string): Row<string> {
  return {
    default: standard,
    parse: (t) => (/^([\w-]{0,64}|hub:\w[^\s\p{Cc}\\]{0,300})$/u.test(t) ? t : undefined),
    print: (v) => v,
  };
}

function words(): Row<readonly string[]> {
  return {
    default: [],
    parse: (t) => (/^[\w,-]{0,400}$/.test(t) ? t.split(',').filter(Boolean) : undefined),
    print: (v) => v.join(','),
  };
}

/** Models to compare, as compare/picks.ts writes them. */
function picks(): Row<readonly string[]> {
  return {
    default: [],
    parse: (t) => (/^[^\s\p{Cc}\\]{0,2000}$/u.test(t) ? t.split(',').filter(Boolean) : undefined),
    print: (v) => v.join(','),
  };
}

function number(standard: number, low: number, high: number, whole = true): Row<number> {
  return {
    default: standard,
    parse: (t) => {
      const value = t.trim() === '' ? NaN : Number(t);
      const fits = value >= low && value <= high && (!whole || Number.isInteger(value));
      return fits ? value : undefined;
    },
    print: String,
  };
}

function flag(standard: boolean): Row<boolean> {
  return {
    default: standard,
    parse: (t) => (t === '1' ? true : t === '0' ? false : undefined),
    print: (v) => (v ? '1' : '0'),
  };
}

const STORY =
  'Once upon a time there was a little girl who lived with her grandmother in a small house at ' +
  'the edge of a great dark wood. Every morning she went to the well for water, and every evening ' +
  'she sat by the fire and listened to the old woman, who told her stories of the sea, and of the ' +
  'king who had lost his name.';

export const table = {
  /** What runs: typed text, or ids drawn from the vocabulary (the inputs of the paper's table 1). */
  input: choice('text', 'text', 'random', 'repeat'),
  prompt: text(STORY, PROMPT_MAX),
  seed: number(1, 0, 4294967295),
  /** Whether special tokens stand first, and which: none named is BOS, auto the tokenizer's own. */
  bos: flag(true),
  first: text('', 64),
  /** Tokens that are run and measured. */
  T: number(64, 1, 4096),
  eps: number(0.3, 0, 1, false),
  /** Sequences averaged in the sink scores. */
  n: number(1, 1, 100),
  /** The two sides. An empty b shows one model alone. */
  a: model('softmax'),
  b: model('sigmoid'),
  /** The step of training that both sides show; -1: the trained weights. */
  step: number(-1, -1, 1e9),
  /** The operation swapped in at inference; empty: the model's own. NaN: its default parameter. */
  swapA: word(''),
  swapB: word(''),
  paramA: number(NaN, -1000, 1000, false),
  paramB: number(NaN, -1000, 1000, false),
  /** -1: the head with the largest sink score of side A. */
  layer: number(-1, -1, 1023),
  head: number(-1, -1, 1023),
  /** The selected cell of the attention map; -1: none. */
  query: number(-1, -1, 4095),
  key: number(-1, -1, 4095),
  /** Colour scale of attention maps; small weights show on the root scale. */
  scale: choice('linear', 'linear', 'root'),
  temperature: number(0.8, 0, 5, false),
  topK: number(40, 0, 100000),
  /** Places that are hidden behind the text of a masked diffusion model, and the steps to fill them. */
  masked: number(24, 1, 1024),
  denoise: number(12, 1, 1024),
  /** What is compared in place of the two sides; none: the sides stand there. */
  compare: picks(),
  /** The texts of a comparison, and how many of them a study takes. */
  corpus: choice('heldout', 'heldout', 'text', 'random', 'repeat', 'file'),
  prompts: number(100, 1, 1000),
  theme: choice('auto', 'auto', 'light', 'dark'),
  /** The one view that embed.html shows. */
  view: word('sinks'),
  /** Controls that are taken away. */
  hide: words(),
} as const;

export type State = {
  readonly [Name in keyof typeof table]: (typeof table)[Name] extends Row<infer Value>
    ? Value
    : never;
};

const rows = Object.entries(table) as [keyof State, Row<unknown>][];

export const defaults = Object.fromEntries(
  rows.map(([name, row]) => [name, row.default]),
) as unknown as State;

export interface Parsed {
  readonly state: State;
  /** One sentence for each key that could not be read. */
  readonly problems: readonly string[];
}

/** Longest hash that is looked at: a prompt of the longest kind, every unit escaped. */
const HASH_MAX = 9 * PROMPT_MAX;

function clip(value: string): string {
  return value.length > 40 ? `${value.slice(0, 40)}…` : value;
}

export function parseHash(hash: string): Parsed {
  if (hash.length > HASH_MAX)
    return { state: defaults, problems: ['The link is too long to be one of this page.'] };
  const state: Record<string, unknown> = { ...defaults };
  const problems: string[] = [];
  for (const [name, value] of new URLSearchParams(hash.replace(/^#/, ''))) {
    if (!Object.hasOwn(table, name)) {
      problems.push(`The link names “${clip(name)}”, which this page does not know.`);
      continue;
    }
    const parsed = (table[name as keyof State] as Row<unknown>).parse(value);
    if (parsed === undefined)
      problems.push(`The link gives ${name} the value “${clip(value)}”, which it cannot have.`);
    else state[name] = parsed;
  }
  return { state: state as unknown as State, problems: problems.slice(0, 5) };
}

/** Only what differs from the defaults, in the table's order. */
export function printHash(state: State): string {
  const params = new URLSearchParams();
  for (const [name, row] of rows)
    if (row.print(state[name]) !== row.print(row.default)) params.set(name, row.print(state[name]));
  return params.toString();
}

export interface Store {
  get(): State;
  set(change: Partial<State>): void;
  subscribe(listener: (state: State, before: State) => void): () => void;
}

export function createStore(initial: State): Store {
  let state = initial;
  const listeners = new Set<(state: State, before: State) => void>();
  return {
    get: () => state,
    set(change) {
      const before = state;
      state = { ...state, ...change };
      const names = Object.keys(change) as (keyof State)[];
      if (names.some((name) => !Object.is(state[name], before[name])))
        for (const listener of listeners) listener(state, before);
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
