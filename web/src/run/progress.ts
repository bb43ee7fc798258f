import type { Progress } from 'sinkscope';

/** Formats a number of bytes in decimal units, as disks and hubs count. */
export function sizeWords(bytes: number): string {
  if (!Number.isFinite(bytes)) return 'unknown size';
  if (bytes < 1e6) return `${(bytes / 1e3).toFixed(0)} kB`;
  if (bytes < 1e9) return `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
  return `${(bytes / 1e9).toFixed(2)} GB`;
}

function durationWords(seconds: number): string {
  if (seconds < 90) return `${Math.ceil(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

/** The progress of opening a model; without a stage, of a download. */
export type LoadProgress = Omit<Progress, 'stage'> & Partial<Pick<Progress, 'stage'>>;

/** What happens to a model's bytes after all of them are read. */
const STAGE_WORDS: Readonly<Record<string, string>> = {
  open: 'checking the weights',
  tokenizer: 'building the tokenizer',
};

/** Returns the words of a stage without bytes, with its share if the stage has parts; undefined while bytes are read. */
export function stageWords({ stage = '', done, total }: LoadProgress): string | undefined {
  const words = STAGE_WORDS[stage];
  return words && total > 1 ? `${words}, ${Math.floor((100 * done) / total)}%` : words;
}

/** Describes the progress of opening a model: the bytes while they are read, then what is done with them. */
export const loadWords = (progress: LoadProgress): string =>
  stageWords(progress) ?? downloadWords(progress);

/** Describes what a long run takes: memory, and the remaining time extrapolated from the progress so far. */
export function runWords(
  T: number,
  bytes: number,
  { done, total, since }: { readonly done: number; readonly total: number; readonly since: number },
): string {
  const remaining = ((performance.now() - since) / 1000) * ((total - done) / done);
  const timeNote = done > 0 && remaining >= 1 ? `, about ${durationWords(remaining)} left` : '';
  return `Running ${T.toLocaleString('en')} tokens in ${sizeWords(bytes)} of memory${timeNote}`;
}

/** Describes the progress of a download: bytes, rate, remaining time, and the cause of a pause. */
function downloadWords({ done, total, rate = NaN, remaining = NaN, note }: LoadProgress): string {
  const parts = [
    Number.isFinite(total) ? `${sizeWords(done)} of ${sizeWords(total)}` : sizeWords(done),
  ];
  if (rate > 0) parts.push(`${sizeWords(rate)}/s`);
  if (remaining > 0) parts.push(`${durationWords(remaining)} left`);
  if (note) parts.push(note);
  return parts.join(' · ');
}
