/** Frames that are saved with the page, so that Start has its first picture before its models are fetched. */
import type { Frame } from '../frame';

interface SavedTensor {
  readonly shape: readonly number[];
  /** Little-endian floats in base64, which are exact. */
  readonly data: string;
}

type SavedTensors = Readonly<Record<string, SavedTensor>>;

interface SavedFrame {
  readonly tensors: SavedTensors;
  readonly head: { readonly tensors: SavedTensors };
}

const readTensors = (tensors: SavedTensors): Frame['tensors'] =>
  Object.fromEntries(
    Object.entries(tensors).map(([name, { shape, data }]) => {
      const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
      return [name, { shape, data: new Float32Array(bytes.buffer) }];
    }),
  );

export const readSaved = (frames: readonly SavedFrame[]): Frame[] =>
  frames.map(
    ({ tensors, head, ...rest }) =>
      ({
        ...rest,
        tensors: readTensors(tensors),
        head: { ...head, tensors: readTensors(head.tensors) },
        isSaved: true,
      }) as unknown as Frame,
  );
