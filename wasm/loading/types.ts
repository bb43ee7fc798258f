/** Types of the sources of models (a hub, the disk, a training's checkpoints) and of the cache. */
import type { Options, Progress } from '../abi/types.ts';
import type { DiskFile } from '../host/types.ts';

/** Bytes, or an address to fetch them from (streamed, with progress in bytes). */
export type Source = Uint8Array | Blob | URL | RemoteFile;

export interface RemoteFile {
  readonly url: URL | string;
  /** Bearer token. It is sent to the host of this address only, and never stored. */
  readonly token?: string;
  readonly cache?: boolean;
  /** Version of the content, such as a commit: the content of this address then never changes. */
  readonly version?: string;
  /** SHA-256 in hexadecimal; a download that differs is rejected and not cached. */
  readonly sha256?: string;
  /** The size if known: compressed responses do not state it. */
  readonly bytes?: number;
  /** Name of the file in the cache; default: the address. */
  readonly id?: string;
}

/**
 * The files of a model. The weights are copied into the engine's memory once and stay there, in
 * their stored type, while the model is open.
 * @example await engine.open({ weights: file }) // a GGUF file, which needs no config
 */
export interface ModelFiles {
  /** config.json; GGUF files need none. */
  readonly config?: string | Source;
  /** safetensors, pytorch_model.bin or GGUF; several files are the shards of one model. */
  readonly weights: Source | readonly Source[];
}

/* Hub: models by name. */

export interface HubOptions {
  /** Default: https://huggingface.co. */
  readonly endpoint?: string | URL;
  /** Access token. It stays in memory and is sent to the endpoint only. */
  readonly token?: string;
  /** Caches the plan, and returns it when the hub cannot be reached. */
  readonly cache?: boolean;
  readonly signal?: AbortSignal;
  /** Number of tries for each request; default 5. */
  readonly tries?: number;
  /** Milliseconds before the second try, doubled for each further one; default 500. */
  readonly wait?: number;
  /** Milliseconds of silence after which a connection counts as cut; default 60000. */
  readonly stall?: number;
  readonly onRetry?: (retry: { readonly reason: string; readonly wait: number }) => void;
}

/** One file of a plan: on the hub (`url`) or on the disk (`blob`). */
export interface PlanFile {
  readonly name: string;
  readonly bytes?: number;
  readonly url?: string;
  readonly version?: string;
  readonly sha256?: string;
  readonly blob?: Blob;
}

/** The files of a model and their cost, before any large download. A plan holds no secret. */
export interface Plan {
  readonly id: string;
  readonly format: 'safetensors' | 'pytorch' | 'gguf';
  readonly files: {
    readonly config?: PlanFile;
    /** The shards in the order of the index; empty while the caller must choose. */
    readonly weights: readonly PlanFile[];
    readonly tokenizer?: PlanFile;
    readonly tokenizer_config?: PlanFile;
    readonly special_tokens_map?: PlanFile;
    readonly words?: PlanFile;
    readonly vocab?: PlanFile;
    readonly merges?: PlanFile;
    /** tokenizer.model of SentencePiece, which is not read. */
    readonly sentencepiece?: PlanFile;
    /** meta.pkl of nanoGPT: its characters. */
    readonly characters?: PlanFile;
  };
  /** Total size of the weights, which is the size of the download; 0 if unknown. */
  readonly bytes: number;
  /** Estimate in bytes: the weights and, with a config.json, a run of 64 tokens, default fields. */
  readonly memory: number;
  /** The models among several GGUF files: resolve again with the id of one of them. */
  readonly choices: readonly {
    readonly file: string;
    readonly bytes: number;
    readonly id?: string;
  }[];
  /** Why the model cannot be opened, as the end of a sentence that begins with its name. */
  readonly refusal?: string;
  readonly revision?: string;
  /** The commit of the revision, which the addresses of the files contain. */
  readonly commit?: string;
  readonly license?: string;
  /** True if the files need an access token, although the hub lists them. */
  readonly gated?: boolean;
  /** True if the plan comes from an earlier visit, because the hub could not be reached. */
  readonly remembered?: boolean;
}

/* Timelines: the checkpoints of a training. */

export interface Checkpoint {
  readonly step: number;
  /** Size of its file; decoding also needs all earlier files. */
  readonly bytes: number;
  /** Of the training's exact weights, named as in the model card: sink_1 (in percent), loss ... */
  readonly measured: Readonly<Record<string, number>>;
  /** The measurements of `measured`, on the weights as stored here. */
  readonly stored: Readonly<Record<string, number>>;
}

/** Log entry that a training wrote at a step, measured on fewer sequences than a checkpoint. */
export interface LogLine extends Readonly<Record<string, number>> {
  readonly step: number;
}

/** A model's training, whose weights, stored as int8 steps, decode to the same bits everywhere. */
export interface Timeline {
  readonly recipe: string;
  readonly seed: number;
  readonly parameters: number;
  /** In ascending order of steps. */
  readonly checkpoints: readonly Checkpoint[];
  /** In ascending order of steps. */
  readonly log: readonly LogLine[];
  preload(step: number, options?: Pick<Options, 'signal'>): Promise<void>;
  /**
   * Returns the files of a checkpoint: fetches missing ones, then decodes it.
   * @param step one of `checkpoints`
   * @throws SinkscopeError 'argument' for another step, 'bad_file' for a wrong length or hash
   * @example const model = await engine.open(await timeline.open(1400, { signal }));
   */
  open(step: number, options?: Options): Promise<ModelFiles>;
  forget(): void;
}

/* Cache: downloads with `cache: true`. */

export interface CachedFile {
  /** Name of the model, or the address. */
  readonly id: string;
  readonly url: string;
  /** Bytes in the cache, out of `total`. */
  readonly bytes: number;
  readonly total: number;
  readonly complete: boolean;
}

/* Disk: files that the reader dropped or picked. Nothing leaves the machine. */

/** The members of DataTransferItem that filesOfDrop reads; hosts without a DOM lack this type. */
export interface DroppedItem {
  readonly kind: string;
  getAsFile(): File | null;
  webkitGetAsEntry?(): unknown;
}

export type ReadFacts = Pick<Progress, 'rate' | 'remaining' | 'note'>;

/**
 * Names a model. A string is a model of the zoo (`softmax`, `sigmoid`, `softmax1`, `sink-logit`,
 * `key-bias`, `gated`); `owner/name`, `owner/name@revision` or the address of its page on the hub;
 * the address of a folder or of a GGUF file; or in Node.js a path, which takes precedence over a
 * name. Files are those that a reader picked or dropped. A plan comes from `findPlan`.
 */
export type ModelSource = string | URL | Blob | Plan | Iterable<File | DiskFile> | ArrayLike<File>;

export interface FindOptions extends HubOptions {
  /** Address of the zoo; default: `sinkscope-page` of this version, at cdn.jsdelivr.net. */
  readonly zoo?: string | URL;
}
