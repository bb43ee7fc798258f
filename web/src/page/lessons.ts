/** The addresses of lessons, and which of them were read to their end: the list stays in this browser. */
import { pageAt } from '../base';

export const lessonLink = (slug: string) => pageAt(`learn/${slug}/index.html`);

const KEY = 'sinkscope:lessons';

export function readLessons(): readonly string[] {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(KEY) ?? '[]');
    return Array.isArray(stored) ? stored.filter((one) => typeof one === 'string') : [];
  } catch {
    // Browsers may forbid storage, or another program may have written the value.
    return [];
  }
}

export function markRead(slug: string): void {
  try {
    localStorage.setItem(KEY, JSON.stringify([...new Set([...readLessons(), slug])]));
  } catch {
    // Without storage the lesson still works.
  }
}
