import { REQUEST_OPTIONS } from './ask.ts';
import { checkOptions, urlOf } from '../abi/arguments.ts';
import { fetchFile } from './download.ts';
import type { DownloadOptions } from './types.ts';

/**
 * Streams a file. A cut connection is replaced by a range request as long as the ETag stays the
 * same; five failures in a row end the stream with SinkscopeError 'read'.
 * @example const { bytes, stream } = await openDownload(url, { signal });
 */
export async function openDownload(
  url: URL | string,
  options: DownloadOptions = {},
): Promise<{
  /** Size of the whole file; undefined if not announced. */
  readonly bytes: number | undefined;
  readonly tag: string | undefined;
  readonly stream: ReadableStream<Uint8Array>;
}> {
  checkOptions(options, { ...REQUEST_OPTIONS, from: 'count', version: 'text', bytes: 'count' });
  return fetchFile(urlOf(url, undefined, 'url'), options);
}
