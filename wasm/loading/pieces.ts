/** Reads a stream piece by piece, into one buffer if the stream supports that. */

const BUFFER_BYTES = 2 ** 22;

/**
 * Reads the pieces of a stream in one buffer, each valid until the next read: with separate
 * buffers hundreds of megabytes would pile up. At the end, `next` resolves to undefined.
 */
export function piecesOf(stream: ReadableStream<Uint8Array>): {
  next(): Promise<Uint8Array | undefined>;
  cancel(reason?: unknown): Promise<void>;
} {
  try {
    const reader = stream.getReader({ mode: 'byob' });
    let buffer = new ArrayBuffer(BUFFER_BYTES);
    const next = async () => {
      const { done, value } = await reader.read(new Uint8Array(buffer));
      if (done) return undefined;
      ({ buffer } = value);
      return value;
    };
    return { next, cancel: (reason) => reader.cancel(reason) };
  } catch {
    // The stream is not a byte stream.
    return wholePiecesOf(stream);
  }
}

/** Works like piecesOf, but each piece has its own buffer. */
export function wholePiecesOf(stream: ReadableStream<Uint8Array>) {
  const reader = stream.getReader();
  return {
    next: async () => (await reader.read()).value,
    cancel: (reason: unknown) => reader.cancel(reason),
  };
}
