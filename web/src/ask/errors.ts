/** What can go wrong, as the reader sees it. */
import { SinkscopeError } from 'sinkscope';

/** Something the reader can put right, said in a sentence. */
export class InputError extends Error {}

/** An error as a reader should see it: its place, the sentence, and the code to look up. */
export function sentence(error: unknown): string {
  if (error instanceof SinkscopeError) return `${error.message} (${error.code})`;
  return error instanceof Error ? error.message : String(error);
}

/** The reader may wait longer for what failed so. */
export function isTooSlow(error: unknown): boolean {
  return error instanceof SinkscopeError && error.code === 'too_slow';
}
