/** The addresses of lessons, and a list in this browser's storage of those that the reader has read to the end. */
import { pageAt } from '../base';

export const lessonLink = (slug: string) => pageAt(`learn/${slug}/index.html`);

const KEY = 'sinkscope:lessons';

export function readLessons(): readonly string[] {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(KEY) ?? '[]');
    return Array.isArray(stored) ? stored.filter((slug) => typeof slug === 'string') : [];
  } catch {
    // The browser may forbid storage, or another program may have written the value.
    return [];
  }
}

export function markRead(slug: string): void {
  try {
    localStorage.setItem(KEY, JSON.stringify([...new Set([...readLessons(), slug])]));
  } catch {
    // If the browser stores nothing, the lesson is not marked as read.
  }
}
