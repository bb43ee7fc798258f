/** What the two hosts, Node.js and browsers, exchange with the rest of the package. */

export type Message = {
  id: number;
  name: string;
  args: unknown[];
  value?: unknown;
  thrown?: unknown;
  report?: never[];
};

/** One end of a channel between a page and its worker. */
export type Port = {
  post(message: unknown, transferList: Transferable[]): void;
  listen(onMessage: (message: Message) => unknown): void;
};

export type StreamSource = { stream: ReadableStream<Uint8Array>; bytes: number; name: string };

export interface DiskFile {
  readonly path: string;
  readonly file: Blob;
}

export interface Store {
  put: (name: string, bytes: Uint8Array<ArrayBuffer>) => Promise<void>;
  /** The call may overwrite `reusedBuffer`, a buffer that an earlier call returned. */
  get: (
    name: string,
    reusedBuffer?: Uint8Array<ArrayBuffer>,
  ) => Promise<Uint8Array<ArrayBuffer> | undefined>;
  remove: (name: string) => Promise<void>;
  names: () => Promise<string[]>;
}
