/**
 * Ids of recordings, which are subjects like models: recording:NAME.safetensors is shipped with the page,
 * recording:https://HOST/PATH.safetensors is on another site, recording:disk:FINGERPRINT/NAME.safetensors is on a
 * reader's disk. Of a series, ID@STEP is the recording of a checkpoint.
 */
import { sha256 } from 'sinkscope';
import { base } from '../base';
import { idWithoutStep } from './steps';

const RECORDING_PREFIX = 'recording:';
const DISK_PREFIX = `${RECORDING_PREFIX}disk:`;

export const isRecordingId = (id: string): boolean => id.startsWith(RECORDING_PREFIX);

/** Whether all shown subjects are recordings, for which the lab's engine suffices. */
export const areRecordings = (shown: readonly string[]): boolean =>
  shown.length > 0 && shown.every(isRecordingId);

export const isDiskRecording = (id: string): boolean => id.startsWith(DISK_PREFIX);

export const fileIdOf = idWithoutStep;

/** Returns the id of a recording at an address, with commas, tildes and @ escaped, which separate parts of subjects. */
export function idOfAddress(address: string | URL): string {
  const { href } = new URL(address);
  return `${RECORDING_PREFIX}${href.replace(/[,~\\]|@(?=\d+$)/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)}`;
}

/** Returns the SHA-256 of a file's first and last MiB: many gigabytes would take too long. Needs crypto.subtle. */
export async function hashOfEnds(file: Blob): Promise<string | undefined> {
  const MIB = 2 ** 20;
  const ends = [file.slice(0, MIB), file.slice(Math.max(MIB, file.size - MIB))];
  return sha256(new Uint8Array(await new Blob(ends).arrayBuffer()));
}

export async function idOfRecordingFile(file: File): Promise<string> {
  const hash = (await hashOfEnds(file)) ?? file.size.toString(16);
  const name = file.name.replace(/[^\w.-]+/g, '-').slice(-80) || 'recording';
  return `${DISK_PREFIX}${hash.padEnd(16, '0').slice(0, 16)}/${name}`;
}

export function addressOfRecording(id: string): URL | undefined {
  if (isDiskRecording(id)) return undefined;
  const path = fileIdOf(id).slice(RECORDING_PREFIX.length);
  return /^https?:/.test(path) ? new URL(path) : new URL(RECORDINGS + path, base);
}

export const isOnThisSite = (id: string): boolean => addressOfRecording(id)?.origin === base.origin;

export function nameOfRecording(id: string): string {
  const fileId = fileIdOf(id);
  const file = fileId.slice(fileId.lastIndexOf('/') + 1).replace(RECORDING_PREFIX, '');
  try {
    return decodeURIComponent(file.split(/[?#]/)[0]!).replace(/\.safetensors$/, '');
  } catch {
    return file;
  }
}

export async function isRecordingFile(file: Blob): Promise<boolean> {
  const { markOf } = await import('./outside');
  return (await markOf(file)) !== undefined;
}
