/** The addresses of lessons, and which of them were read to their end: the list stays in this browser. */
import { pageAt } from '../base';

export const lessonLink = (slug: string) => pageAt(`learn/${slug}/index.html`);

const KEY = 'sinkscope:lessons';

export function readLessons(): readonly string[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEY) ?? '[]');
    return Array.isArray(kept) ? kept.filter((one) => typeof one === 'string') : [];
  } catch {
    // Storage may be forbidden, or hold what another program wrote.
    return [];
  }
}

export function markRead(slug: string): void {
  try {
    localStorage.setItem(KEY, JSON.stringify([...new Set([...readLessons(), slug])]));
  } catch {
    // A lesson can be read without storage.
  }
}
