/**
 * The state of the page: one table. The URL's hash is read and written by looping over it, so any state is a link, and
 * a new row is in every link. A hash is untrusted: an unreadable value is reported and keeps its default; nothing
 * throws.
 */
import { current } from './former';
import { isOfDisk } from './ids';
import { MOST, parseSubject, printSubject, splitSubjects } from './subject';

/** A row of the table: how a link writes and reads a value. */
interface Row<Value> {
  readonly default: Value;
  /** Parses a value; undefined if it is invalid. */
  readonly parse: (text: string) => Value | undefined;
  readonly print: (value: Value) => string;
}

/** Longest prompt, in UTF-16 units, that a link carries or the page accepts: some 8,192 tokens of English. */
export const PROMPT_MAX = 40_000;

function text(standard: string, longest: number): Row<string> {
  const parse = (t: string) => (t.length <= longest ? t : undefined);
  return { default: standard, parse, print: (v) => v };
}

function choice<const Value extends string>(
  standard: Value,
  ...values: readonly Value[]
): Row<Value> {
  return { default: standard, parse: (t) => values.find((v) => v === t), print: (v) => v };
}

/** A name of some table. */
function word(standard: string): Row<string> {
  const parse = (t: string) => (/^[\w-]{0,64}$/.test(t) ? t : undefined);
  return { default: standard, parse, print: (v) => v };
}

/** Names with their values, as in the lab's table. */
function settings(standard: string): Row<string> {
  const parse = (t: string) => (/^[\w:.,+-]{0,600}$/.test(t) ? t : undefined);
  return { default: standard, parse, print: (v) => v };
}

function words(): Row<readonly string[]> {
  const parse = (t: string) =>
    /^[\w\s,-]{0,400}$/.test(t) ? t.split(/[\s,]+/).filter(Boolean) : undefined;
  return { default: [], parse, print: (v) => v.join(',') };
}

/** Subjects in the syntax of subject.ts, without duplicates. */
function subjects(...standard: readonly string[]): Row<readonly string[]> {
  return {
    default: standard,
    parse: (t) => {
      const parsed = splitSubjects(t.slice(0, 2000)).map(parseSubject);
      const fits = parsed.every((one) => one !== undefined);
      if (!fits || !parsed.length) return undefined;
      return [...new Set(parsed.map(printSubject))].slice(0, MOST);
    },
    print: (v) => v.join(','),
  };
}

interface NumberRow extends Row<number> {
  /** `step` is what the field's buttons add; 1 for whole numbers. */
  readonly range: { readonly low: number; readonly high: number; readonly step: number };
}

function number(standard: number, low: number, high: number, step = 1): NumberRow {
  const parse = (t: string) => {
    const value = t.trim() === '' ? NaN : Number(t);
    const fits = value >= low && value <= high && (step !== 1 || Number.isInteger(value));
    return fits ? value : undefined;
  };
  return { default: standard, parse, print: String, range: { low, high, step } };
}

/** Every word of this sentence is one token of the zoo's vocabulary, so that rows and columns read as words. */
const STORY =
  'The old man sat at the door and looked over the water. He thought of his child, and every night ' +
  'was long.';

/** Controls that an embed may show beside its figure: `controls="text step"`. */
export const CONTROLS = ['text', 'question', 'step', 'generate', 'save'] as const;

export const table = {
  room: word('start'),
  /** The step of Start's story that a link opens at; 0: its first screen. */
  why: number(0, 0, 6),
  /** The shown subjects, and the index of the one that rooms for one subject show. */
  shown: subjects('softmax', 'sigmoid'),
  at: number(0, 0, MOST - 1),
  /** The input: the reader's text or file, held-out passages, or drawn tokens (the paper's table 1). */
  input: choice('text', 'text', 'heldout', 'random', 'repeat', 'file'),
  prompt: text(STORY, PROMPT_MAX),
  seed: number(1, 0, 4294967295),
  /**
   * The start of a text: empty keeps the tokenizer's own special tokens, as in transformers and on the command line;
   * bos adds its start token; none adds nothing; else a special token.
   */
  first: text('', 64),
  /** The largest number of tokens that are run and measured. */
  T: number(64, 1, 8192),
  eps: number(0.3, 0, 1, 0.05),
  /** The number of prompts in a mean. */
  n: number(1, 1, 1000),
  /** The selected head; -1: the head that gives the first token the largest weight. */
  layer: number(-1, -1, 1023),
  head: number(-1, -1, 1023),
  /** The selected cell of the attention map; -1: none. */
  query: number(-1, -1, 8191),
  key: number(-1, -1, 8191),
  /**
   * The most rows and columns of a map: a longer text is drawn in blocks, as the mean or the largest of their cells.
   */
  cells: number(512, 8, 1024),
  pool: choice('mean', 'mean', 'largest'),
  /** The first query and key of the exact cells that are shown in place of the blocks; -1: the whole map. */
  zoomQuery: number(-1, -1, 8191),
  zoomKey: number(-1, -1, 8191),
  /** The selected channel of the residual stream; -1: none. */
  channel: number(-1, -1, 65535),
  /** The scope of hiding a key or zeroing a value: all heads, a layer or a head. */
  scope: choice('all', 'all', 'layer', 'head'),
  /** Color scale of attention maps; the root scale shows small weights. */
  scale: choice('root', 'root', 'linear'),
  /** Whether attention maps show shares of the row if rows need not sum to 1. */
  normalize: choice('no', 'no', 'yes'),
  /** The quantity that the geometry view maps. */
  map: choice('cos', 'cos', 'dot', 'norm', 'angle'),
  temperature: number(0.8, 0, 5, 0.1),
  topK: number(40, 0, 100000),
  /** Positions that are masked after the text of a masked diffusion model, and the steps to fill them. */
  masked: number(24, 1, 1024),
  denoise: number(12, 1, 1024),
  /** The key that each step of unmasking hides. */
  hiddenKey: choice('none', 'none', 'strongest', 'random'),
  /** The goal of a search for a suffix, and its number of tokens. */
  goal: choice('loss', 'loss', 'away', 'steal'),
  suffix: number(5, 1, 32),
  /** The view on the stage, and the one that embed.html shows. */
  view: word('attention'),
  /** The curve of the training room. */
  curve: word('sink_1'),
  /** The lab's settings as settings.ts writes them: those that differ from the defaults. */
  leftRun: settings(''),
  rightRun: settings('operation:sigmoid_log_n'),
  /** The settings of Why it matters: the experiment, the source of its prompts, their length, and their number. */
  experiment: choice('streaming', 'streaming', 'cache', 'quantization', 'fragility'),
  source: choice('heldout', 'heldout', 'text', 'random', 'file'),
  length: number(120, 8, 65536),
  runs: number(8, 1, 1000),
  /** First keys that a cache never evicts, recent keys that it evicts last, and how it counts positions. */
  firstKeys: number(1, 0, 64),
  recentKeys: number(23, 1, 4095),
  positions: word('text'),
  recompute: choice('no', 'no', 'yes'),
  policy: word('h2o'),
  budget: number(24, 1, 4096),
  /** Whether an experiment measures all of its settings, or only those that show its result. */
  sweep: choice('some', 'some', 'all'),
  /** Quantization: which values get few bits, which numbers share a scale, how many first tokens stay exact. */
  quantized: word('hidden'),
  granularity: word('tensor'),
  bits: number(6, 2, 8),
  exactTokens: number(1, 1, 64),
  /** The perturbation of a model, and the number of its repetitions. */
  perturbation: choice('repeat', 'repeat', 'channel', 'weight', 'tag'),
  repeats: number(100, 1, 4095),
  /** Columns of the comparison's table (none: the default ones), and the panels below the table. */
  columns: words(),
  panel: choice('none', 'none', 'reported', 'seeds', 'scatter', 'remedies'),
  /** The x axis of the models' scatter plot, and its further checkpoints. */
  xAxis: choice('ratio', 'ratio', 'loss', 'size'),
  checkpoints: choice('none', 'none', 'all'),
  /** The quantity of an experiment's chart. */
  measure: word('loss'),
  theme: choice('auto', 'auto', 'light', 'dark'),
  /** Controls beside an embed's figure: names of CONTROLS. */
  controls: words(),
  /** Hidden controls. */
  hide: words(),
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

/** Returns the keys in which two states differ. */
export function differsIn(state: State, other: State): string {
  return rows.flatMap(([name]) => (Object.is(state[name], other[name]) ? [] : name)).join();
}

/** Keys that decide which runs are measured, apart from the subjects. */
export const QUESTION = ['input', 'prompt', 'seed', 'first', 'T', 'eps', 'n'] as const;

export interface Parsed {
  readonly state: State;
  /** One sentence for each key that could not be read. */
  readonly problems: readonly string[];
}

/** The longest hash that is parsed: nine characters for each unit of the longest prompt, and room for the rest. */
const HASH_MAX = 10 * PROMPT_MAX;

function clip(value: string): string {
  return value.length > 40 ? `${value.slice(0, 40)}…` : value;
}

export function parseHash(hash: string): Parsed {
  if (hash.length > HASH_MAX)
    return { state: defaults, problems: ['The link is too long for this page.'] };
  const state: Record<string, unknown> = { ...defaults };
  const problems: string[] = [];
  for (const written of new URLSearchParams(hash.replace(/^#/, ''))) {
    const [name, value] = current(...written);
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

let escaped: { readonly of: string; readonly as: string } = { of: '', as: '' };

/** A fragment may contain more characters than a form, so that subjects stay readable. */
function escape(value: string): string {
  // A page has many links, and all contain the same text, so that its encoding is cached.
  if (value.length < 20) return encode(value);
  if (escaped.of !== value) escaped = { of: value, as: encode(value) };
  return escaped.as;
}

function encode(value: string): string {
  const plain: Record<string, string> = { '%40': '@', '%2C': ',', '%3A': ':', '%2F': '/' };
  // A lone surrogate cannot be encoded; the replacement character can.
  return encodeURIComponent(
    value.replace(
      /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g,
      '\ufffd',
    ),
  )
    .replace(/%(40|2C|3A|2F)/g, (code) => plain[code]!)
    .replace(/%20/g, '+');
}

/**
 * Writes only values that differ from the defaults, in the table's order.
 * @param always names that are written even at their defaults
 */
export function printHash(state: State, always: readonly (keyof State)[] = []): string {
  return rows
    .filter(
      ([name, row]) =>
        always.includes(name) ||
        (!Object.is(state[name], row.default) && row.print(state[name]) !== row.print(row.default)),
    )
    .map(([name, row]) => `${name}=${escape(row.print(state[name]))}`)
    .join('&');
}

/**
 * Returns the state without files that another reader lacks.
 * @param isNamed whether models of the disk are named, for readers who have the same files
 */
export function linkable(state: State, isNamed = false): State {
  const shown = state.shown.filter((one) => isNamed || !isOfDisk(one));
  const input = state.input === 'file' ? defaults.input : state.input;
  const prompt = state.prompt.length > PROMPT_MAX ? defaults.prompt : state.prompt;
  return { ...state, shown: shown.length ? shown : defaults.shown, input, prompt };
}

/** @param change changes of the state for the link */
export function linkTo(state: State, change: Partial<State> = {}): string {
  return `#${printHash(linkable({ ...state, ...change }))}`;
}
