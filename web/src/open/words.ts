/** Sizes, rates and plans as a reader should see them, and the names under which models are known. */
import { SinkscopeError, sha256, type Plan } from 'sinkscope';
import { isOfDisk } from '../ask/state';

/** Of a model on the hub; what follows is what resolveHub takes. */
const HUB = 'hub:';

export function isOfHub(id: string): boolean {
  return id.startsWith(HUB);
}

/** What resolveHub takes, of a model's id. */
export function hubName(id: string): string {
  return id.slice(HUB.length);
}

/** The id of a plan of the hub, which a link carries. */
export function idOfPlan(plan: Plan): string {
  const { revision = 'main', format, files } = plan;
  const at = revision === 'main' ? '' : `@${revision}`;
  const [first] = files.weights;
  const file = format === 'gguf' && first ? `:${first.name}` : '';
  return `${HUB}${plan.id}${at}${file}`;
}

/** Of a model on the disk: DISK, its fingerprint, a slash, its name. */
const DISK = 'disk:';
/** Of each end of a file. */
const END = 2 ** 20;

/** How a model that is not open yet is called. */
export function nameOfId(id: string): string {
  if (isOfDisk(id)) return id.slice(id.indexOf('/') + 1);
  return isOfHub(id) ? hubName(id) : id;
}

export function fingerprintOf(id: string): string {
  return id.slice(DISK.length, id.indexOf('/'));
}

/**
 * The id of a plan of the disk: the same for whoever has the same files. Its fingerprint is the beginning of
 * the SHA-256 of sizes, first and last MiB of the files of weights, in their order; of many gigabytes, the
 * whole would have to be read. Where there is no crypto it is of sizes and names alone.
 */
export async function idOfFiles(plan: Plan): Promise<string> {
  const parts = await Promise.all(
    plan.files.weights.map(async ({ name, bytes, blob }) => {
      const ends = blob ? [blob.slice(0, END), blob.slice(Math.max(END, blob.size - END))] : [];
      const read = await new Blob(ends).arrayBuffer();
      return `${name} ${bytes} ${(await sha256(new Uint8Array(read))) ?? ''}`;
    }),
  );
  const all = parts.join('\n');
  const hash = (await sha256(all)) ?? Array.from(all, (c) => c.charCodeAt(0).toString(16)).join('');
  const name = titleOfFiles(plan).replace(/[^\w.-]+/g, '-');
  return `${DISK}${hash.padEnd(16, '0').slice(0, 16)}/${name.slice(0, 80) || 'model'}`;
}

/** The name of a plan of the disk: the folder, or the file where there is none. */
export function titleOfFiles({ id, files }: Plan): string {
  return id === 'files' ? (files.weights[0]?.name ?? id) : id;
}

/** Decimal units, as disks and hubs count. */
export function size(bytes: number): string {
  if (!Number.isFinite(bytes)) return 'unknown size';
  if (bytes < 1e6) return `${(bytes / 1e3).toFixed(0)} kB`;
  if (bytes < 1e9) return `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
  return `${(bytes / 1e9).toFixed(2)} GB`;
}

function duration(seconds: number): string {
  if (seconds < 90) return `${Math.ceil(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

export interface Loaded {
  readonly done: number;
  /** NaN when unknown. */
  readonly total: number;
  /** Bytes a second; NaN until known. */
  readonly rate?: number;
  /** Seconds; NaN until known. */
  readonly remaining?: number;
  readonly note?: string;
}

/** How far a download is: bytes, rate, what remains, and why it pauses. */
export function loadedWords({ done, total, rate = NaN, remaining = NaN, note }: Loaded): string {
  const parts = [Number.isFinite(total) ? `${size(done)} of ${size(total)}` : size(done)];
  if (rate > 0) parts.push(`${size(rate)}/s`);
  if (remaining > 0) parts.push(`${duration(remaining)} left`);
  if (note) parts.push(note);
  return parts.join(' · ');
}

/** An error as a reader should see it: its place, the sentence, and the code to look up. */
export function sentence(error: unknown): string {
  if (error instanceof SinkscopeError) return `${error.message} (${error.code})`;
  return error instanceof Error ? error.message : String(error);
}

const FORMATS = { safetensors: 'safetensors', pytorch: 'PyTorch', gguf: 'GGUF' } as const;

/** Rows of a plan: what is read, what it costs, what it may be used for. */
export function planRows(plan: Plan, kept: number): readonly (readonly [string, string])[] {
  const { weights } = plan.files;
  const isRemote = weights.some(({ url }) => url);
  const [one, ...more] = weights;
  const files = one && !more.length ? one.name : `${weights.length} files, ${FORMATS[plan.format]}`;
  const commit = plan.commit ? ` (commit ${plan.commit.slice(0, 8)})` : '';
  const rows: [string, string][] = [
    ['weights', files],
    [
      isRemote ? 'to download' : 'on your disk',
      kept > 0 && isRemote
        ? `${size(Math.max(0, plan.bytes - kept))}; ${size(kept)} of ${size(plan.bytes)} are cached`
        : plan.bytes
          ? size(plan.bytes)
          : 'size unknown',
    ],
    ['memory', `about ${size(plan.memory)}`],
    ['tokenizer', tokenizerWords(plan)],
  ];
  if (isRemote) {
    rows.unshift(['revision', `${plan.revision ?? 'main'}${commit}`]);
    rows.push(['license', plan.licence ?? 'not stated']);
  } else if (plan.licence) rows.push(['license', plan.licence]);
  if (plan.remembered)
    rows.push(['source', 'cached from an earlier visit (Hugging Face cannot be reached)']);
  return rows;
}

function tokenizerWords({ format, files }: Plan): string {
  if (format === 'gguf') return 'in the GGUF file';
  if (files.tokenizer) return 'tokenizer.json';
  if (files.vocab && files.merges) return 'vocab.json and merges.txt';
  return 'none found';
}
