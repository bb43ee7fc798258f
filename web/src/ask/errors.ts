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

/** A file, or a sentence that names it: the browser's own words for a missing network say neither. */
export async function fetched(
  address: URL | string,
  name: string,
  init?: RequestInit,
): Promise<Response> {
  const response = await fetch(address, init).catch((cause: unknown) => {
    throw new InputError(`${name}: expected a file, and no server was reached.`, { cause });
  });
  if (!response.ok)
    throw new InputError(`${name}: expected a file, the server said ${response.status}.`);
  return response;
}
