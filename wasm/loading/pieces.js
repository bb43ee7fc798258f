/** A stream piece by piece, in one buffer where the stream can fill it. */

const BYTES = 2 ** 22;

/**
 * A piece is good until the next is asked for. A browser lets some hundred
 * megabytes of buffers pile up before it collects them, so that pieces share one.
 * @param {ReadableStream<Uint8Array>} stream
 * @returns {{ next(): Promise<Uint8Array | undefined>, cancel(reason?: unknown): Promise<void> }} next: undefined
 *   at the end
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
    // It is not a stream of bytes.
    return wholePiecesOf(stream);
  }
}

/**
 * Like piecesOf, but each piece has a buffer of its own.
 * @param {ReadableStream<Uint8Array>} stream
 */
export function wholePiecesOf(stream) {
  const reader = stream.getReader();
  return {
    next: async () => (await reader.read()).value,
    cancel: (/** @type {unknown} */ reason) => reader.cancel(reason),
  };
}
