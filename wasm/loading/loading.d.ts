/** Where models come from: a hub, the disk, the checkpoints of a training; and what is kept of them. */
import type { Options, Progress } from '../engine/engine.js';

/** Bytes, or an address to fetch them from (streamed, with progress in bytes). */
export type Source = Uint8Array | Blob | URL | RemoteFile;

/** An address, and how to ask for it. */
export interface RemoteFile {
  readonly url: URL | string;
  /** Sent as a bearer token to that host alone; never stored. */
  readonly token?: string;
  /** Keep what was fetched, for the next time. */
  readonly cache?: boolean;
  /** What the address holds never changes, for example because it names this commit. */
  readonly version?: string;
  /** Of the bytes, in hexadecimal: what comes is compared with it, and not kept if it differs. */
  readonly sha256?: string;
  /** The size, where it is known: compressed answers do not state it. */
  readonly bytes?: number;
  /** The name under which the cache lists it; default: the address. */
  readonly id?: string;
}

/**
 * The files of a model. The bytes of weights are put into the engine's memory once and stay there, in
 * the type in which they are stored, as long as the model is open.
 * @example await engine.open({ weights: file }) // a GGUF file, which needs no config
 */
export interface ModelFiles {
  /** config.json; a GGUF file has none. */
  readonly config?: string | Source;
  /** safetensors, pytorch_model.bin or GGUF; several are shards of one model. */
  readonly weights: Source | readonly Source[];
}

/* Hub: models by name. */

export interface HubOptions {
  /** Default: https://huggingface.co. */
  readonly endpoint?: string | URL;
  /** An access token. It is held in memory, sent to the endpoint, and written nowhere. */
  readonly token?: string;
  /** Keep what was found, and give it again where the hub cannot be reached. */
  readonly cache?: boolean;
  readonly signal?: AbortSignal;
  /** How often one thing is asked for before it is given up; default 5. */
  readonly tries?: number;
  /** Milliseconds before the second try, doubled with each further one; default 500. */
  readonly wait?: number;
  readonly onRetry?: (retry: { readonly reason: string; readonly wait: number }) => void;
}

/** One file of a plan: on the hub (url) or on the disk (blob). */
export interface PlanFile {
  /** Its path inside the repository or folder. */
  readonly name: string;
  readonly bytes?: number;
  readonly url?: string;
  readonly version?: string;
  /** Of its bytes, in hexadecimal, where the hub lists it: what is downloaded is compared with it. */
  readonly sha256?: string;
  readonly blob?: Blob;
}

/** What a model consists of and what it costs, before anything large is read. No secret is in it. */
export interface Plan {
  readonly id: string;
  readonly format: 'safetensors' | 'pytorch' | 'gguf';
  readonly files: {
    readonly config?: PlanFile;
    /** In the order of the index; empty while there is a choice to make. */
    readonly weights: readonly PlanFile[];
    readonly tokenizer?: PlanFile;
    readonly tokenizer_config?: PlanFile;
    readonly special_tokens_map?: PlanFile;
    readonly words?: PlanFile;
    readonly vocab?: PlanFile;
    readonly merges?: PlanFile;
  };
  /** Of the weights, which is what there is to download; 0 where no size is known. */
  readonly bytes: number;
  /**
   * An estimate: the weights as they are stored and, where there is a config.json, a run of 64 tokens
   * with the default fields. In bytes.
   */
  readonly memory: number;
  /** Several GGUF files: resolve again with the id of one of them. */
  readonly choices: readonly {
    readonly file: string;
    readonly bytes: number;
    readonly id?: string;
  }[];
  /** Why it cannot be opened here, as a sentence that follows the model's name. */
  readonly refusal?: string;
  readonly revision?: string;
  /** The commit of the revision; the addresses of the files are made of it. */
  readonly commit?: string;
  /** As the model card states it. */
  readonly licence?: string;
  /** It can be listed, but its files need a token. */
  readonly gated?: boolean;
  /** From an earlier visit, for the hub could not be reached. */
  readonly remembered?: boolean;
}

/**
 * Looks a model up: `owner/name`, `owner/name@revision`, `owner/name@revision:file.gguf`, or the
 * address of its page.
 * @throws SinkscopeError 'argument', 'access' (needs a token), 'not_found', 'busy', 'offline' or 'read'
 * @example
 * const plan = await resolveHub('owner/name@main');
 * const model = await engine.open(modelFiles(plan, { cache: true }), { onProgress });
 */
export function resolveHub(id: string, options?: HubOptions): Promise<Plan>;

/**
 * What `engine.open` takes, of a plan.
 * @throws SinkscopeError 'too_large' where the plan has a refusal, 'argument' where it has choices
 * @example await engine.open(modelFiles(plan, { token, cache: true }));
 */
export function modelFiles(
  plan: Plan,
  options?: { readonly token?: string; readonly cache?: boolean },
): ModelFiles;

/**
 * The text of one small file of a plan.
 * @example const config = JSON.parse(await planText(plan, plan.files.config));
 */
export function planText(
  plan: Plan,
  file: PlanFile,
  options?: { readonly token?: string; readonly cache?: boolean; readonly signal?: AbortSignal },
): Promise<string>;

/* Timelines: the checkpoints of a training. */

/** A stored checkpoint. */
export interface Checkpoint {
  readonly step: number;
  /** Of its file; the bytes before it are needed, too. */
  readonly bytes: number;
  /** Of the run's exact weights, by the names of the model's card: sink_1 (in percent), loss, ... */
  readonly measured: Readonly<Record<string, number>>;
  /** The same of the weights as they are stored here. */
  readonly stored: Readonly<Record<string, number>>;
}

/** What a run noted of itself at a step, on fewer sequences than a checkpoint. */
export interface LogLine extends Readonly<Record<string, number>> {
  readonly step: number;
}

/**
 * The training of one model. Its weights are stored in int8 steps from one checkpoint to the next, and
 * decode to the same bits everywhere.
 */
export interface Timeline {
  readonly recipe: string;
  readonly seed: number;
  readonly parameters: number;
  /** By rising steps. */
  readonly checkpoints: readonly Checkpoint[];
  /** By rising steps. */
  readonly log: readonly LogLine[];
  /** Fetches what `open` of this step will need. */
  preload(step: number, options?: Pick<Options, 'signal'>): Promise<void>;
  /**
   * The files of a checkpoint: those that were not needed before are fetched, then it is decoded.
   * @param step one of `checkpoints`
   * @throws SinkscopeError 'argument' for another step, 'bad_file' where a length or a hash is wrong
   * @example const model = await engine.open(await timeline.open(1400, { signal }));
   */
  open(step: number, options?: Options): Promise<ModelFiles>;
  /** Frees what was fetched. */
  forget(): void;
}

/**
 * Reads what a timeline has, and none of its weights.
 * @param address of its index.json
 * @throws SinkscopeError 'bad_file' with the key that is not as expected
 * @example const timeline = await openTimeline(new URL('softmax/timeline/index.json', zoo));
 */
export function openTimeline(address: URL, options?: Pick<Options, 'signal'>): Promise<Timeline>;

/* Download: one file, in spite of cut connections. */

export interface DownloadOptions extends Pick<
  HubOptions,
  'token' | 'signal' | 'tries' | 'wait' | 'onRetry'
> {
  /** The first byte wanted. */
  readonly from?: number;
  readonly version?: string;
  readonly bytes?: number;
  /** Milliseconds of silence after which a connection counts as cut; default 60000. */
  readonly stall?: number;
}

/**
 * A file as a stream. A connection that is cut is replaced with a range request, as long as the ETag
 * stays the same; five tries in a row that bring nothing end it with SinkscopeError 'read'.
 * @example const { bytes, stream } = await openDownload(url, { signal });
 */
export function openDownload(
  url: URL | string,
  options?: DownloadOptions,
): Promise<{
  /** Of the whole file; undefined if it was not announced. */
  readonly bytes: number | undefined;
  readonly tag: string | undefined;
  readonly stream: ReadableStream<Uint8Array>;
}>;

/* Cache: what was downloaded with `cache: true`. */

export interface CachedFile {
  /** The model's name, or the address. */
  readonly id: string;
  readonly url: string;
  /** Kept so far, of this many. */
  readonly bytes: number;
  readonly total: number;
  readonly complete: boolean;
}

/**
 * The files that are kept, unfinished ones too: the next download continues from there.
 * @example for (const { id, bytes, total } of await cacheList()) show(id, bytes / total);
 */
export function cacheList(): Promise<CachedFile[]>;

/** @example label.textContent = `${(await cacheBytes()) / 1e6} MB`; */
export function cacheBytes(): Promise<number>;

/**
 * Removes what belongs to a name or an address, or all.
 * @example await cacheClear('owner/name');
 */
export function cacheClear(id?: string): Promise<void>;

/**
 * Where it is kept: the origin's private files, or a folder (Node.js).
 * @example const keeps = (await cacheKind()) !== 'none';
 */
export function cacheKind(): Promise<'opfs' | 'folder' | 'none'>;

/* Disk: files that the reader dropped or picked. Nothing leaves the machine. */

export interface DiskFile {
  /** With the folders above it, as far as they were dropped. */
  readonly path: string;
  readonly file: Blob;
}

/**
 * The models among files: one plan a folder, and one for each GGUF file.
 * @throws SinkscopeError 'read' that names what is missing and what was found
 * @example const [plan] = await planFiles(filesOfList(input.files));
 */
export function planFiles(files: readonly DiskFile[]): Promise<Plan[]>;

/** Of an <input type=file>, with or without `webkitdirectory`. */
export function filesOfList(list: Iterable<File> | ArrayLike<File>): DiskFile[];

/**
 * Of a drop, folders and all; to be called before the handler's first pause.
 * @example box.ondrop = async (event) => open(await planFiles(await filesOfDrop(event.dataTransfer)));
 */
export function filesOfDrop(transfer: {
  readonly items: ArrayLike<DroppedItem>;
}): Promise<DiskFile[]>;

/** What is read of a DataTransferItem, which hosts without a DOM have no type for. */
export interface DroppedItem {
  readonly kind: string;
  getAsFile(): File | null;
  webkitGetAsEntry?(): unknown;
}

/** What progress reports of a file while it is read, beside done and total. */
export type ReadFacts = Pick<Progress, 'rate' | 'remaining' | 'note'>;
