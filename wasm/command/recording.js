/** Handles recordings on the command line: recognises, prints and writes them. */
import { openAsBlob } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { sha256 } from '../loading/hash.js';
import { recordStudy } from '../recording/study.js';
import { leastTokens } from '../study/judge.js';

/** @typedef {import('../sinkscope.js').Engine} Engine */
/** @typedef {import('../sinkscope.js').Recording} Recording */
/** @typedef {import('./command.js').OpenedModel} OpenedModel */

/** Recordings have shorter headers. */
const HEADER_BYTES_MAX = 1e8;
/** Larger weights are not hashed, because that would read them twice. */
const HASHED_BYTES_MAX = 2 ** 29;

/**
 * Tells whether a path is a safetensors file whose header declares a recording.
 * @param {string} path
 */
export async function isRecording(path) {
  const stats = await stat(path).catch(() => undefined);
  if (!stats?.isFile()) return false;
  const file = await open(path);
  try {
    const start = Buffer.alloc(8);
    const { bytesRead } = await file.read(start, 0, 8, 0);
    const length = bytesRead === 8 ? Number(start.readBigUInt64LE(0)) : 0;
    if (length > HEADER_BYTES_MAX || length > stats.size) return false;
    const header = Buffer.alloc(length);
    await file.read(header, 0, length, 8);
    return header.includes('"sinkscope.recording"');
  } finally {
    await file.close();
  }
}

/**
 * @param {Engine} engine
 * @param {string} path
 */
export async function openFile(engine, path) {
  return engine.openRecording(await openAsBlob(path));
}

/**
 * Returns the measurement of a recording, in the form of a model's.
 * @param {Engine} engine
 * @param {string} path
 * @param {number[]} [thresholds]
 */
export async function readRecording(engine, path, thresholds) {
  const recording = await openFile(engine, path);
  const { conditions, architecture } = recording;
  const eps = thresholds?.length === 1 ? thresholds[0] : thresholds;
  const result = await recording.measure({ eps });
  const least_tokens = leastTokens(result.eps);
  return {
    model: conditions.model.id,
    class: conditions.class.toLowerCase(),
    arithmetic: undefined,
    special: undefined,
    first: conditions.first.token,
    position: conditions.first.position,
    architecture,
    conditions,
    edits: conditions.edits,
    cut: undefined,
    loss: result.metrics.loss_mean?.mean[0],
    conclusive: result.T >= least_tokens,
    least_tokens,
    ...result,
  };
}

/**
 * Records an opened model and returns the bytes.
 * @param {OpenedModel} opened
 * @param {{ keep: number, fields?: string[], half?: boolean, source?: string, licence?: string, command?: string }} options
 */
export async function recordOpened(opened, options) {
  const { id, plan, model, tokenizer, sequences, thresholds, edits, text } = opened;
  const [file] = plan.files.weights;
  const isSmall =
    plan.files.weights.length === 1 && file.blob && file.blob.size <= HASHED_BYTES_MAX;
  const bytes = isSmall
    ? new Uint8Array(await /** @type {Blob} */ (file.blob).arrayBuffer())
    : undefined;
  const hash = file.sha256 ?? (bytes && (await sha256(bytes))) ?? null;
  const source = Array.isArray(text) ? text.join('\n') : text;
  return recordStudy(model, sequences, {
    ...options,
    keep: Math.min(options.keep, sequences.length),
    eps: thresholds,
    edits,
    strings: (ids) => ids.map((id) => tokenizer.piece(id)),
    model: { id, sha256: hash },
    ...(source === undefined ? {} : { sourceSha256: await sha256(source) }),
  });
}

/**
 * Writes one line for each difference that compareRecordings reported.
 * @param {Awaited<ReturnType<typeof import('../sinkscope.js').compareRecordings>>} found
 * @param {number} tolerance
 */
export function differencesText({ differences, compared, onlyA, onlyB }, tolerance) {
  const text = (/** @type {unknown} */ x) =>
    typeof x === 'number' ? String(x) : JSON.stringify(x);
  const lines = differences.map(({ name, index, a, b, difference, count, of }) =>
    index
      ? `${name}[${index.join('][')}]: ${text(a)} and ${text(b)}, ${difference === Infinity ? 'one of them undefined' : `${difference?.toPrecision(3)} apart`}; ${count} of ${of} numbers differ`
      : `${name}: ${text(a)} and ${text(b)}`,
  );
  const unmatched = [
    ['A', onlyA],
    ['B', onlyB],
  ].flatMap(([which, names]) =>
    names.length ? [`note: only ${which} has ${/** @type {string[]} */ (names).join(', ')}`] : [],
  );
  const end = differences.length
    ? `${differences.length} differences beyond ${tolerance} in ${compared.length} tensors`
    : `${compared.length} tensors agree within ${tolerance}`;
  return `${[...lines, ...unmatched, end].join('\n')}\n`;
}
