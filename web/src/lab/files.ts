/** Writes a lab's model as files for other programs, and its log as CSV or JSON. */
import { strToU8, zipSync } from 'fflate';
import { labFolder, sha256, type DiskFile, type LabRecipe, type LogEntry } from 'sinkscope';
import { csvOf } from 'sinkscope/internal';
import type { Facts } from '../save/numbers';
import type { Settings } from './settings';
import type { Setup } from './setup';

/** A trained model, and the data that repeat its training. */
export interface TrainedModel {
  readonly setup: Setup;
  readonly weights: Uint8Array;
  readonly steps: number;
  readonly defaults: LabRecipe['settings'];
}

/** Returns the files that `train --out` also writes, which Explore, transformers and the command line open. */
async function filesOf({ setup, weights, steps, defaults }: TrainedModel) {
  const { options, tokenizer, tokenizerConfig, source, text } = setup;
  const recipe = {
    settings: { ...defaults, ...options.recipe },
    steps_done: steps,
    from: source ? { ...source, sha256: source.sha256 ?? (await sha256(options.begin!)) } : null,
    text: text
      ? { name: text.name, tokens: text.tokens, sha256: await sha256(text.content) }
      : null,
  } as LabRecipe;
  return labFolder({
    ...{ config: options.config, weights, tokenizer, tokenizerConfig, recipe },
    ...(text ? { text: text.content } : {}),
  });
}

export async function modelFiles(
  folder: string,
  trainedModel: TrainedModel,
): Promise<readonly DiskFile[]> {
  return (await filesOf(trainedModel)).map(({ path, data }) => ({
    path: `${folder}/${path}`,
    file: new Blob([data as BlobPart]),
  }));
}

export async function modelZip(folder: string, trainedModel: TrainedModel): Promise<Blob> {
  const files = (await filesOf(trainedModel)).map(
    ({ path, data }) =>
      [`${folder}/${path}`, typeof data === 'string' ? strToU8(data) : data] as const,
  );
  return new Blob([zipSync(Object.fromEntries(files)) as BlobPart], { type: 'application/zip' });
}

export interface LabLog {
  readonly name: string;
  readonly settings: Settings;
  readonly log: readonly LogEntry[];
  readonly command: string;
}

/** The version of the build that measured a log, and the link to both labs. */
type Origin = Pick<Facts, 'version' | 'link'>;

export function logCsv(
  labs: readonly LabLog[],
  columns: readonly string[],
  { version, link }: Origin,
) {
  return csvOf(
    [
      ['measured_by', `Sinkscope ${version}`],
      ['link', link],
      ...labs.map(({ name, command }) => [name, command] as const),
    ],
    ['lab', ...columns],
    labs.flatMap(({ name, log }) =>
      log.map((entry) => [name, ...columns.map((column) => entry[column] ?? NaN)]),
    ),
  );
}

export function logJson(labs: readonly LabLog[], { version, link }: Origin): string {
  return `${JSON.stringify({ measured_by: `Sinkscope ${version}`, link, labs }, null, 1)}\n`;
}
