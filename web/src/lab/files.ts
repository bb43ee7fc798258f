/** A lab's model as files that open anywhere, and its log as a sheet or as JSON. */
import type { DiskFile, LogEntry } from 'sinkscope';
import { csv } from '../save/numbers';
import { VOCABULARY, commandOf, type Settings } from './settings';

const FIRST = '<s>';

function run(from: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => String.fromCodePoint(from.codePointAt(0)! + i));
}

/** How a token reads: triggers are ringed numbers, all others letters and digits. */
export function letters({ triggers, first }: Settings): readonly string[] {
  const plain = [...run('a', 26), ...run('A', 26), ...run('0', 10), '+', '='];
  const zero = first === 'fixed' ? FIRST : '*';
  return [zero, ...run('①', Number(triggers)), ...plain].slice(0, VOCABULARY);
}

/** A tokenizer.json in which every letter is a token. */
export function tokenizerOf(settings: Settings): string {
  const special = {
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: true,
  };
  return JSON.stringify({
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: settings.first === 'fixed' ? [{ id: 0, content: FIRST, ...special }] : [],
    normalizer: null,
    pre_tokenizer: null,
    post_processor: null,
    decoder: null,
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      vocab: Object.fromEntries(letters(settings).map((text, id) => [text, id])),
      merges: [],
    },
  });
}

/** What Explore and transformers open. */
export function modelFiles(
  folder: string,
  settings: Settings,
  config: object,
  weights: Uint8Array,
): readonly DiskFile[] {
  const file = (name: string, content: string | Uint8Array): DiskFile => ({
    path: `${folder}/${name}`,
    file: new Blob([content as BlobPart]),
  });
  const bos = settings.first === 'fixed' ? { bos_token: FIRST } : {};
  const own = { tokenizer_class: 'PreTrainedTokenizerFast', ...bos };
  return [
    file('config.json', JSON.stringify(config, null, 2)),
    file('model.safetensors', weights),
    file('tokenizer.json', tokenizerOf(settings)),
    file('tokenizer_config.json', JSON.stringify(own, null, 2)),
  ];
}

export interface Logged {
  readonly name: string;
  readonly settings: Settings;
  readonly log: readonly LogEntry[];
}

/** What measured it, and the address of both labs. */
export interface Origin {
  readonly version: string;
  readonly link: string;
}

/** A line for each step of each lab. */
export function logCsv(
  labs: readonly Logged[],
  columns: readonly string[],
  { version, link }: Origin,
) {
  return csv(
    [
      ['measured_by', `Sinkscope ${version}`],
      ['link', link],
      ...labs.map(({ name, settings }) => [name, commandOf(settings)] as const),
    ],
    ['lab', ...columns],
    labs.flatMap(({ name, log }) =>
      log.map((entry) => [name, ...columns.map((column) => entry[column] ?? NaN)]),
    ),
  );
}

export function logJson(labs: readonly Logged[], { version, link }: Origin): string {
  const told = labs.map((lab) => ({ ...lab, command: commandOf(lab.settings) }));
  return `${JSON.stringify({ measured_by: `Sinkscope ${version}`, link, labs: told }, null, 1)}\n`;
}
