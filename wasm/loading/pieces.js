/** Reads a stream piece by piece, into one buffer if the stream supports that. */

const BYTES = 2 ** 22;

/**
 * Pieces share one buffer and are valid until the next read: a browser lets hundreds of megabytes
 * of buffers pile up before it collects them.
 * @param {ReadableStream<Uint8Array>} stream
 * @returns {{ next(): Promise<Uint8Array | undefined>, cancel(reason?: unknown): Promise<void> }}
 * next: undefined at the end
 */
export function piecesOf(stream) {
  try {
    const reader = stream.getReader({ mode: 'byob' });
    let buffer = new ArrayBuffer(BYTES);
    const next = async () => {
      const { done, value } = await reader.read(new Uint8Array(buffer));
      if (done) return undefined;
      ({ buffer } = value);
      return value;
    };
    return { next, cancel: (reason) => reader.cancel(reason) };
  } catch {
    // This is not a byte stream.
    return wholePiecesOf(stream);
  }
}

/**
 * Works like piecesOf, but each piece has its own buffer.
 * @param {ReadableStream<Uint8Array>} stream
 */
export function wholePiecesOf(stream) {
  const reader = stream.getReader();
  return {
    next: async () => (await reader.read()).value,
    cancel: (/** @type {unknown} */ reason) => reader.cancel(reason),
  };
}
