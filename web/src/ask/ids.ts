/** Ids of models that are not in the zoo: hub:owner/name@revision, and disk:FINGERPRINT/name. */
import { sha256, type Plan } from 'sinkscope';
import { hashOfEnds, isRecordingId, isDiskRecording, nameOfRecording } from './recordings';

const HUB_PREFIX = 'hub:';
const DISK_PREFIX = 'disk:';

export const isHubId = (id: string): boolean => id.startsWith(HUB_PREFIX);

export const hubName = (id: string): string => id.slice(HUB_PREFIX.length);

export function idOfPlan(plan: Plan): string {
  const { revision = 'main', format, files } = plan;
  const suffix = revision === 'main' ? '' : `@${revision}`;
  const [firstFile] = files.weights;
  const fileSuffix = format === 'gguf' && firstFile ? `:${firstFile.name}` : '';
  return `${HUB_PREFIX}${plan.id}${suffix}${fileSuffix}`;
}

/** Whether the subject is a model or a recording from the reader's disk, which no other reader can open. */
export const isOnDisk = (subject: string): boolean =>
  subject.startsWith(DISK_PREFIX) || isDiskRecording(subject);

/** Whether an id names a model or a recording that is not a model of the zoo. */
export const isOutsideZoo = (id: string): boolean =>
  isHubId(id) || isOnDisk(id) || isRecordingId(id);

export function nameOfId(id: string): string {
  if (isRecordingId(id)) return nameOfRecording(id);
  if (isOnDisk(id)) return id.slice(id.indexOf('/') + 1);
  return isHubId(id) ? hubName(id) : id;
}

export const fingerprintOf = (id: string): string =>
  id.slice(id.indexOf(DISK_PREFIX) + DISK_PREFIX.length, id.indexOf('/'));

/**
 * Returns the id of a plan for files on the reader's disk; equal files have equal ids. The fingerprint in the id is the
 * beginning of a SHA-256 over the names and sizes of the weight files, in their order, and over the ends of each file.
 * Without crypto.subtle the fingerprint covers names and sizes only.
 */
export async function idOfFiles(plan: Plan): Promise<string> {
  const parts = await Promise.all(
    plan.files.weights.map(
      async ({ name, bytes, blob = new Blob() }) =>
        `${name} ${bytes} ${(await hashOfEnds(blob)) ?? ''}`,
    ),
  );
  const description = parts.join('\n');
  const hash =
    (await sha256(description)) ??
    Array.from(description, (c) => c.charCodeAt(0).toString(16)).join('');
  const name = titleOfFiles(plan).replace(/[^\w.-]+/g, '-');
  return `${DISK_PREFIX}${hash.padEnd(16, '0').slice(0, 16)}/${name.slice(0, 80) || 'model'}`;
}

/** Returns a stranger's text without signs that turn the order of words, isolated if it is written from the right. */
export function isolate(text: string): string {
  const plainText = text.replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '');
  return /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/.test(plainText)
    ? `\u2068${plainText}\u2069`
    : plainText;
}

export const titleOfFiles = ({ id, files }: Plan): string =>
  isolate(id === 'files' ? (files.weights[0]?.name ?? id) : id);
