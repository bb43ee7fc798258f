/** The progress of a download or a long run, in words. */

/** Decimal units, as disks and hubs count. */
export function size(bytes: number): string {
  if (!Number.isFinite(bytes)) return 'unknown size';
  if (bytes < 1e6) return `${(bytes / 1e3).toFixed(0)} kB`;
  if (bytes < 1e9) return `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
  return `${(bytes / 1e9).toFixed(2)} GB`;
}

function duration(seconds: number): string {
  if (seconds < 90) return `${Math.ceil(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

export interface Loaded {
  readonly done: number;
  /** The size; NaN if unknown. */
  readonly total: number;
  /** Bytes per second; NaN until known. */
  readonly rate?: number;
  /** Remaining seconds; NaN until known. */
  readonly remaining?: number;
  readonly note?: string;
}

/** Describes the cost of a long run: memory, and the remaining time extrapolated from the progress so far. */
export function runWords(
  T: number,
  bytes: number,
  { done, total, since }: { readonly done: number; readonly total: number; readonly since: number },
): string {
  const remaining = ((performance.now() - since) / 1000) * ((total - done) / done);
  const time = done > 0 && remaining >= 1 ? `, about ${duration(remaining)} left` : '';
  return `Running ${T.toLocaleString('en')} tokens in ${size(bytes)} of memory${time}`;
}

/** Describes the progress of a download: bytes, rate, remaining time, and the cause of a pause. */
export function loadedWords({ done, total, rate = NaN, remaining = NaN, note }: Loaded): string {
  const parts = [Number.isFinite(total) ? `${size(done)} of ${size(total)}` : size(done)];
  if (rate > 0) parts.push(`${size(rate)}/s`);
  if (remaining > 0) parts.push(`${duration(remaining)} left`);
  if (note) parts.push(note);
  return parts.join(' · ');
}
