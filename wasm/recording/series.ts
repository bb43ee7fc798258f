/**
 * Reads a series, a safetensors file of the Python package with a recording per checkpoint, whose
 * tensors are i/NAME; each becomes a file, which the engine checks like any recording.
 */
import { SinkscopeError } from '../abi/errors.ts';
import { headerBytes } from '../loading/safetensors.ts';

const [SERIES_KEY, SERIES_VERSION] = ['sinkscope.series', '1'];
const STEP_MAX = 1e9;

/** Returns the header of a safetensors file, and where its numbers begin; undefined for other files. */
async function headerOf(file: Blob): Promise<{ text: string; end: number } | undefined> {
  const MAX_HEADER = 10 ** 8;
  if (file.size < 10) return undefined;
  const lengthView = new DataView(await file.slice(0, 8).arrayBuffer());
  const end = 8 + Number(lengthView.getBigUint64(0, true));
  if (end - 8 > Math.min(MAX_HEADER, file.size - 8)) return undefined;
  return { text: await file.slice(8, end).text(), end };
}

/** Returns what the header of a file names it; undefined for files of other programs. */
export async function markOf(file: Blob): Promise<'recording' | 'series' | undefined> {
  const [, mark] = /"sinkscope\.(recording|series)"/.exec((await headerOf(file))?.text ?? '') ?? [];
  return mark as 'recording' | 'series' | undefined;
}

export interface Series {
  /** In rising order. */
  readonly steps: readonly number[];
  /** Returns the recording of a checkpoint, one of `steps`. */
  readonly part: (step: number) => Blob;
}

interface Entry {
  readonly name: string;
  readonly dtype: unknown;
  readonly shape: unknown;
  readonly from: number;
  readonly to: number;
}

/** @throws SinkscopeError 'bad_file' unless the condition holds */
function expect(holds: boolean, where: string, expected: string, found: unknown): void {
  const text = `expected ${expected}, found ${JSON.stringify(found)?.slice(0, 80) ?? 'none'}`;
  if (!holds) throw new SinkscopeError('bad_file', where, text);
}

function parse(text: string, where: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new SinkscopeError('bad_file', where, 'expected JSON, found something else');
  }
}

/** Returns the entries of each checkpoint, without its number, in the order of their bytes. */
function entriesOfParts(entries: object, count: number, size: number): Entry[][] {
  const parts = Array.from({ length: count }, (): Entry[] => []);
  for (const [name, entry] of Object.entries(entries)) {
    const [, index = '', rest = ''] = /^(\d{1,9})\/(.+)$/s.exec(name) ?? [];
    expect(Boolean(parts[Number(index || NaN)]), name, `a number below ${count} before /`, index);
    const [from = NaN, to = NaN] = Array.isArray(entry?.data_offsets) ? entry.data_offsets : [];
    const isRange = [from, to].every(Number.isInteger) && from >= 0 && from <= to && to <= size;
    expect(isRange, name, `data_offsets within ${size} bytes`, entry?.data_offsets);
    parts[Number(index)]!.push({ name: rest, dtype: entry.dtype, shape: entry.shape, from, to });
  }
  for (const part of parts) part.sort((a, b) => a.from - b.from);
  return parts;
}

function checkedContent(text: unknown): { steps: number[]; recordings: unknown[] } {
  const content = parse(String(text), 'sinkscope') as Record<string, unknown> | null;
  const { steps, recordings } = content ?? {};
  const isRising =
    Array.isArray(steps) &&
    steps.length > 0 &&
    steps.every((step, i) => Number.isInteger(step) && step > (i ? steps[i - 1] : -1)) &&
    steps.at(-1) <= STEP_MAX;
  expect(isRising, 'steps', 'rising whole numbers', steps);
  const areAll = Array.isArray(recordings) && recordings.length === (steps as number[]).length;
  expect(areAll, 'recordings', 'one for each step', (recordings as unknown[])?.length);
  return { steps: steps as number[], recordings: recordings as unknown[] };
}

/**
 * Opens a series.
 * @returns undefined for any other file, also for a recording
 * @throws SinkscopeError 'bad_file' with the place that is malformed
 */
export async function openSeries(file: Blob): Promise<Series | undefined> {
  const header = await headerOf(file);
  if (!header?.text.includes(`"${SERIES_KEY}"`)) return undefined;
  const { __metadata__: metadata, ...entries } = (parse(header.text, 'safetensors header') ??
    {}) as Record<string, Record<string, unknown>>;
  const version = metadata?.[SERIES_KEY];
  if (version === undefined) return undefined;
  expect(version === SERIES_VERSION, SERIES_KEY, `version ${SERIES_VERSION}`, version);
  const { steps, recordings } = checkedContent(metadata!.sinkscope);
  const parts = entriesOfParts(entries, steps.length, file.size - header.end);
  const part = (step: number) => {
    const index = steps.indexOf(step);
    let end = 0;
    const moved = parts[index]!.map(({ name, dtype, shape, from, to }) => {
      const start = end;
      end += to - from;
      return [name, { dtype, shape, data_offsets: [start, end] }];
    });
    const conditions = JSON.stringify(recordings[index]);
    const __metadata__ = { 'sinkscope.recording': '1', sinkscope: conditions };
    const start = headerBytes({ ...Object.fromEntries(moved), __metadata__ });
    const slices = parts[index]!.map(({ from, to }) =>
      file.slice(header.end + from, header.end + to),
    );
    return new Blob([start, ...slices]);
  };
  return { steps, part };
}
