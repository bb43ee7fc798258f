/** A lab's model as files that open anywhere, and its log as a sheet or as JSON. */
import type { DiskFile, LogEntry } from 'sinkscope';
import { csv } from '../save/numbers';
import { commandOf, type Settings } from './settings';
import type { Setup } from './setup';

/** What Explore and transformers open. */
export function modelFiles(
  folder: string,
  { options, tokenizer, tokenizerConfig }: Setup,
  weights: Uint8Array,
): readonly DiskFile[] {
  const file = (name: string, content: string | Uint8Array): DiskFile => ({
    path: `${folder}/${name}`,
    file: new Blob([content as BlobPart]),
  });
  return [
    file('config.json', JSON.stringify(options.config, null, 2)),
    file('model.safetensors', weights),
    file('tokenizer.json', tokenizer),
    file('tokenizer_config.json', tokenizerConfig),
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
