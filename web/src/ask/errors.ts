/** Errors as the reader sees them. */
import { SinkscopeError } from 'sinkscope';

/** An error that the reader can fix; its message is a sentence. */
export class InputError extends Error {}

/** Formats an error for the reader: its place, its sentence, and the code to look up. */
export function errorSentence(error: unknown): string {
  if (error instanceof SinkscopeError) return `${error.message} (${error.code})`;
  return error instanceof Error ? error.message : String(error);
}

export const isTimeout = (error: unknown): boolean =>
  error instanceof SinkscopeError && error.code === 'too_slow';

/** Fetches a file; an error names the file, since the browser's own message does not. */
export async function fetchNamed(
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
