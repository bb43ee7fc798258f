/** Ids of models that are not in the zoo: hub:owner/name@revision, and disk:FINGERPRINT/name. */
import { sha256, type Plan } from 'sinkscope';
import { isRecordingId, isDiskRecording, nameOfRecording } from './recordings';

const HUB_PREFIX = 'hub:';
const DISK_PREFIX = 'disk:';
/** The number of bytes at each end of a file that a fingerprint covers. */
const EDGE_BYTES = 2 ** 20;

/** Whether a model is published on a hub. */
export function isHubId(id: string): boolean {
  return id.startsWith(HUB_PREFIX);
}

/** Returns the name that resolveHub takes, from a model's id. */
export function hubName(id: string): string {
  return id.slice(HUB_PREFIX.length);
}

/** Returns the id of a plan of the hub, which a link carries. */
export function idOfPlan(plan: Plan): string {
  const { revision = 'main', format, files } = plan;
  const suffix = revision === 'main' ? '' : `@${revision}`;
  const [first] = files.weights;
  const fileSuffix = format === 'gguf' && first ? `:${first.name}` : '';
  return `${HUB_PREFIX}${plan.id}${suffix}${fileSuffix}`;
}

/** Whether the subject is a model or a recording from the reader's disk, which no other reader can open. */
export function isOnDisk(subject: string): boolean {
  return subject.startsWith(DISK_PREFIX) || isDiskRecording(subject);
}

/** Returns the name of a model that is not opened yet, from its id. */
export function nameOfId(id: string): string {
  if (isRecordingId(id)) return nameOfRecording(id);
  if (isOnDisk(id)) return id.slice(id.indexOf('/') + 1);
  return isHubId(id) ? hubName(id) : id;
}

/** Returns the fingerprint in the id of a model from the disk. */
export function fingerprintOf(id: string): string {
  return id.slice(id.indexOf(DISK_PREFIX) + DISK_PREFIX.length, id.indexOf('/'));
}

/**
 * Returns the id of a plan of the disk; equal files have equal ids. The id's fingerprint is the beginning of
 * the SHA-256 of names, sizes, and first and last MiB of the files of weights, in their order, since hashing many
 * gigabytes takes too long. Without crypto.subtle the fingerprint covers names and sizes alone.
 */
export async function idOfFiles(plan: Plan): Promise<string> {
  const parts = await Promise.all(
    plan.files.weights.map(async ({ name, bytes, blob }) => {
      const ends = blob
        ? [blob.slice(0, EDGE_BYTES), blob.slice(Math.max(EDGE_BYTES, blob.size - EDGE_BYTES))]
        : [];
      const edgeBytes = await new Blob(ends).arrayBuffer();
      return `${name} ${bytes} ${(await sha256(new Uint8Array(edgeBytes))) ?? ''}`;
    }),
  );
  const description = parts.join('\n');
  const hash =
    (await sha256(description)) ??
    Array.from(description, (c) => c.charCodeAt(0).toString(16)).join('');
  const name = titleOfFiles(plan).replace(/[^\w.-]+/g, '-');
  return `${DISK_PREFIX}${hash.padEnd(16, '0').slice(0, 16)}/${name.slice(0, 80) || 'model'}`;
}

/** Returns the name of a plan of the disk: its folder, or its file if it has no folder. */
export function titleOfFiles({ id, files }: Plan): string {
  return id === 'files' ? (files.weights[0]?.name ?? id) : id;
}
