/**
 * The state of the page: one table, whose rows are the keys of a link. Reading and writing the URL's hash loops over
 * the table, so that every state is a link. A hash is untrusted: a key with an unreadable value is reported and keeps
 * its default, and nothing throws.
 */
import { isOnDisk } from './ids';
import { MAX_SUBJECTS, parseSubject, printSubject, splitSubjects } from './subject';

/** A row of the table: how a link writes and reads a value. */
interface Row<Value> {
  readonly default: Value;
  readonly parse: (text: string) => Value | undefined;
  readonly print: (value: Value) => string;
}

/** The longest prompt, in UTF-16 units, that a link carries or the page accepts: some 8,192 tokens of English. */
export const PROMPT_MAX = 40_000;

/** Returns a row for texts of at most `longest` UTF-16 units that match a pattern. */
function textRow(standard: string, longest: number, pattern = /^/): Row<string> {
  const parse = (t: string) => (t.length <= longest && pattern.test(t) ? t : undefined);
  return { default: standard, parse, print: (v) => v };
}

const FAST_LAB = 'width:32,learning_rate:0.01,batch:16,steps:400';

const nameRow = (standard: string) => textRow(standard, 64, /^[\w-]*$/);

function choiceRow<const Value extends string>(
  standard: Value,
  ...values: readonly Value[]
): Row<Value> {
  return { default: standard, parse: (t) => values.find((v) => v === t), print: (v) => v };
}

/** @param known the names that the list may have; without them, any name */
function namesRow(known?: readonly string[]): Row<readonly string[]> {
  const parse = (t: string) => {
    if (!/^[\w\s,-]{0,400}$/.test(t)) return undefined;
    const names = t.split(/[\s,]+/).filter(Boolean);
    return names.every((name) => known?.includes(name) ?? true) ? names : undefined;
  };
  return { default: [], parse, print: (v) => v.join(',') };
}

/** Returns a row for subjects in the syntax of subject.ts, without duplicates. */
function subjectsRow(...standard: readonly string[]): Row<readonly string[]> {
  return {
    default: standard,
    parse: (t) => {
      const subjects = splitSubjects(t.slice(0, 2000)).map(parseSubject);
      const isValid = subjects.every((subject) => subject !== undefined);
      if (!isValid || !subjects.length) return undefined;
      return [...new Set(subjects.map(printSubject))].slice(0, MAX_SUBJECTS);
    },
    print: (v) => v.join(','),
  };
}

interface NumberRow extends Row<number> {
  /** `step` is what a press of the field's buttons adds; if it is 1, only whole numbers are valid. */
  readonly range: { readonly low: number; readonly high: number; readonly step: number };
}

function numberRow(standard: number, low: number, high: number, step = 1): NumberRow {
  const parse = (t: string) => {
    const value = t.trim() === '' ? NaN : Number(t);
    const isValid = value >= low && value <= high && (step !== 1 || Number.isInteger(value));
    return isValid ? value : undefined;
  };
  return { default: standard, parse, print: String, range: { low, high, step } };
}

/** The default text: each of its words is one token of the zoo's vocabulary, so that rows and columns are words. */
const DEFAULT_TEXT =
  'The old man sat at the door and looked over the water. He thought of his child, and every night ' +
  'was long.';

/** Controls that an embed may show next to its figure: `controls="text step"`. */
export const CONTROLS = ['text', 'question', 'step', 'generate', 'save'] as const;

/** Parts of a page that a link may hide. */
const HIDEABLE = [
  ...['text', 'numbers', 'subjects', 'generate', 'finding'],
  ...['how', 'save', 'links', 'hand'],
] as const;

export type HideablePart = (typeof HIDEABLE)[number];

export const table = {
  room: nameRow('start'),
  /** The step of Start's story that a link opens; 0: the first screen. */
  why: numberRow(0, 0, 6),
  /** `at` is the index in `shown` of the subject that rooms for one subject show. */
  shown: subjectsRow('softmax', 'sigmoid'),
  at: numberRow(0, 0, MAX_SUBJECTS - 1),
  input: choiceRow('text', 'text', 'heldout', 'random', 'repeat', 'file'),
  prompt: textRow(DEFAULT_TEXT, PROMPT_MAX),
  seed: numberRow(1, 0, 4294967295),
  /**
   * The token at the start of a text. Empty: those that the tokenizer adds itself, as in transformers and on the
   * command line; `bos`: the tokenizer's start token; `none`: none; any other value is the text of a special token.
   */
  first: textRow('', 64),
  /** At most T tokens of each prompt are run and measured. */
  T: numberRow(64, 1, 8192),
  eps: numberRow(0.3, 0, 1, 0.05),
  n: numberRow(1, 1, 1000),
  /** The selected head; -1: the head that gives the first token the largest weight. */
  layer: numberRow(-1, -1, 1023),
  head: numberRow(-1, -1, 1023),
  /** The selected cell of the attention map; -1: none. */
  query: numberRow(-1, -1, 8191),
  key: numberRow(-1, -1, 8191),
  /** The other end of several selected keys, which may come before `key`; -1: one key. */
  lastKey: numberRow(-1, -1, 8191),
  /** The most rows and columns of a map; a longer text is drawn in blocks, as the mean or largest of their cells. */
  cells: numberRow(512, 8, 1024),
  pool: choiceRow('mean', 'mean', 'largest'),
  /** The first query and key of the exact cells that are shown instead of the blocks; -1: the whole map. */
  zoomQuery: numberRow(-1, -1, 8191),
  zoomKey: numberRow(-1, -1, 8191),
  /** The selected channel of the residual stream; -1: none. */
  channel: numberRow(-1, -1, 65535),
  /** Where the map's actions hide a key or zero a value: in all heads, a layer or a head. */
  scope: choiceRow('all', 'all', 'layer', 'head'),
  scale: choiceRow('root', 'root', 'linear'),
  /** For operations whose rows need not sum to 1: whether maps show each weight as a share of its row. */
  normalize: choiceRow('no', 'no', 'yes'),
  map: choiceRow('cos', 'cos', 'dot', 'norm'),
  temperature: numberRow(0.8, 0, 5, 0.1),
  topK: numberRow(40, 0, 100000),
  /** For masked diffusion models: how many masked positions follow the text, and in how many steps they are filled. */
  masked: numberRow(24, 1, 1024),
  denoise: numberRow(12, 1, 1024),
  hiddenKey: choiceRow('none', 'none', 'strongest', 'random'),
  /** What the search for a suffix optimizes, and how many tokens the suffix has. */
  goal: choiceRow('loss', 'loss', 'away', 'steal'),
  suffix: numberRow(5, 1, 32),
  view: nameRow('attention'),
  curve: nameRow('sink_1'),
  /** Each lab's settings that differ from those of the package, as settings.ts writes them: a pair that trains in seconds. */
  leftRun: textRow(FAST_LAB, 600, /^[\w:.,+-]*$/),
  rightRun: textRow(`operation:sigmoid_log_n,${FAST_LAB}`, 600, /^[\w:.,+-]*$/),
  experiment: choiceRow('streaming', 'streaming', 'cache', 'quantization', 'fragility'),
  source: choiceRow('heldout', 'heldout', 'text', 'random', 'file'),
  length: numberRow(120, 8, 65536),
  runs: numberRow(8, 1, 1000),
  /** The cache never evicts the first keys and evicts the recent ones last. */
  firstKeys: numberRow(1, 0, 64),
  recentKeys: numberRow(23, 1, 4095),
  positions: nameRow('text'),
  recompute: choiceRow('no', 'no', 'yes'),
  policy: nameRow('h2o'),
  budget: numberRow(24, 1, 4096),
  sweep: choiceRow('some', 'some', 'all'),
  /** What is quantized, which numbers share a scale, and how many first tokens stay exact. */
  quantized: nameRow('hidden'),
  granularity: nameRow('tensor'),
  bits: numberRow(6, 2, 8),
  exactTokens: numberRow(1, 1, 64),
  perturbation: choiceRow('repeat', 'repeat', 'channel', 'weight', 'tag'),
  repeats: numberRow(100, 1, 4095),
  /** The columns of the comparison's table (empty: the default ones), and the panel below the table. */
  columns: namesRow(),
  panel: choiceRow('none', 'none', 'numbers', 'reported', 'seeds', 'remedies'),
  measure: nameRow('loss'),
  theme: choiceRow('auto', 'auto', 'light', 'dark'),
  controls: namesRow(CONTROLS),
  hide: namesRow(HIDEABLE),
} as const;

export type State = {
  readonly [Name in keyof typeof table]: (typeof table)[Name] extends Row<infer Value>
    ? Value
    : never;
};

export type NumberName = {
  [Name in keyof typeof table]: (typeof table)[Name] extends NumberRow ? Name : never;
}[keyof typeof table];

const rows = Object.entries(table) as [keyof State, Row<unknown>][];

export const defaults = Object.fromEntries(
  rows.map(([name, row]) => [name, row.default]),
) as unknown as State;

/** Returns the keys in which two states differ, joined by commas. */
export const differingKeys = (state: State, other: State): string =>
  rows.flatMap(([name]) => (Object.is(state[name], other[name]) ? [] : name)).join();

/** Keys that, with the subjects, decide which runs are measured. */
export const QUESTION = ['input', 'prompt', 'seed', 'first', 'T', 'eps', 'n'] as const;

export interface ParsedState {
  readonly state: State;
  /** One sentence for each key that could not be read. */
  readonly problems: readonly string[];
}

/** A longer hash is not parsed: a UTF-16 unit of the prompt takes nine characters, the tenth is for other keys. */
const HASH_MAX = 10 * PROMPT_MAX;

/** Returns the beginning of a text that is too long to show; no character is cut in two. */
export function shorten(value: string, length = 40): string {
  if (value.length <= length) return value;
  return `${value.slice(0, length).replace(/[\ud800-\udbff]$/, '')}…`;
}

/** Says that a key has a value that cannot be read; `source` is what gives the value: a link or an element. */
export function unreadableValue(name: string, value: string, source = 'The link'): string {
  return `${source} gives ${name} the value “${shorten(value)}”, which it cannot have.`;
}

export function parseHash(hash: string, source = 'The link'): ParsedState {
  if (hash.length > HASH_MAX)
    return { state: defaults, problems: [`${source} is too long for this page.`] };
  const state: Record<string, unknown> = { ...defaults };
  const problems: string[] = [];
  for (const [name, value] of new URLSearchParams(hash.replace(/^#/, ''))) {
    // Links of earlier versions say whether Compare shows its models large, which it always does.
    if (name === 'large') continue;
    if (!Object.hasOwn(table, name)) {
      problems.push(`${source} names “${shorten(name)}”, which this page does not know.`);
      continue;
    }
    const parsedValue = (table[name as keyof State] as Row<unknown>).parse(value);
    if (parsedValue === undefined) problems.push(unreadableValue(name, value, source));
    else state[name] = parsedValue;
  }
  return { state: state as unknown as State, problems: problems.slice(0, 5) };
}

let lastEscaped: { readonly value: string; readonly encoded: string } = { value: '', encoded: '' };

/** Encodes a value for a hash, in which more characters can stay readable than in a query string. */
function escapeValue(value: string): string {
  // All links of a page contain the same long text, whose encoding is cached.
  if (value.length < 20) return encode(value);
  if (lastEscaped.value !== value) lastEscaped = { value, encoded: encode(value) };
  return lastEscaped.encoded;
}

function encode(value: string): string {
  const readable: Record<string, string> = { '%40': '@', '%2C': ',', '%3A': ':', '%2F': '/' };
  // Replaces lone surrogates, which cannot be encoded, by the replacement character.
  return encodeURIComponent(
    value.replace(
      /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g,
      '\ufffd',
    ),
  )
    .replace(/%(40|2C|3A|2F)/g, (code) => readable[code]!)
    .replace(/%20/g, '+');
}

/** Returns a state's hash in the table's order: what differs from the defaults, and the keys `always`. */
export function printHash(state: State, always: readonly (keyof State)[] = []): string {
  return rows
    .filter(
      ([name, row]) => always.includes(name) || row.print(state[name]) !== row.print(row.default),
    )
    .map(([name, row]) => `${name}=${escapeValue(row.print(state[name]))}`)
    .join('&');
}

/** Returns the state for a link; with `keepsDiskModels` for readers who have the same files on their disk. */
export function linkableState(state: State, keepsDiskModels = false): State {
  const shown = state.shown.filter((subject) => keepsDiskModels || !isOnDisk(subject));
  const input = state.input === 'file' ? defaults.input : state.input;
  const prompt = state.prompt.length > PROMPT_MAX ? defaults.prompt : state.prompt;
  return { ...state, shown: shown.length ? shown : defaults.shown, input, prompt };
}

export function linkTo(state: State, change: Partial<State> = {}): string {
  return `#${printHash(linkableState({ ...state, ...change }))}`;
}
