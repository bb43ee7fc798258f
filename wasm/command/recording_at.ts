/** Recognizes a recording by its first bytes. */
import { openAsBlob } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { expect } from '../abi/errors.ts';
import { markOf, openSeries } from '../recording/series.ts';

const isFile = async (path: string) => (await stat(path).catch(() => undefined))?.isFile() ?? false;

/** Returns the recording at a path, or of a series the step that PATH@STEP names or the last. */
export async function recordingAt(path: string) {
  const [, file, step] = ((await isFile(path)) ? null : /^(.+)@(\d+)$/s.exec(path)) ?? [path, path];
  if (!(await isFile(file))) return undefined;
  const blob = await openAsBlob(file);
  const mark = await markOf(blob);
  if (step === undefined && mark === 'recording') return blob;
  // Node.js 24.19 ends where a Blob of several slices of a file is read, so that a series is read into memory.
  const series = mark === 'series' ? await openSeries(new Blob([await readFile(file)])) : undefined;
  if (!series) return undefined;
  const named = Number(step ?? series.steps.at(-1));
  expect(series.steps.includes(named), path, `one of the steps ${series.steps.join(', ')}`, named);
  return series.part(named);
}
