/** Recognizes, reads, writes and compares recordings for the command line. */
import { openAsBlob } from 'node:fs';
import { sha256 } from '../loading/hash.ts';
import { compareRecordings, recordStudy } from '../recording/study.ts';
import { leastTokens } from '../study/judge.ts';
import { basename, dirname, isAbsolute } from 'node:path';
import { missingError, refuse } from './options.ts';
import { expect } from '../abi/errors.ts';
import { parseCount, parseNumber, parsePositive, parseThresholds } from './values.ts';
import { openOut } from './out_folder.ts';
import { expectExists, openModel, type OpenedModel } from './open.ts';
import { recordingAt } from './recording_at.ts';
import type { Engine } from '../load/types.ts';
import type { Cut } from '../study/types.ts';
import type { CommandInput, Values } from './values.ts';
import type { Recording, StudyOptions } from '../recording/types.ts';

/** Weights of more bytes are not hashed, because the command would have to read them twice. */
const HASHED_BYTES_MAX = 2 ** 29;

/** Returns the measurements of a recording as `measure` returns those of a model. */
export async function readRecording(engine: Engine, file: Blob, thresholds?: number[]) {
  const recording = await engine.openRecording(file);
  const { conditions, architecture } = recording;
  const eps = thresholds?.length === 1 ? thresholds[0] : thresholds;
  const result = await recording.measure({ eps });
  const { mask } = architecture;
  const least_tokens = leastTokens(result.eps, { mask, first: conditions.first.position });
  return {
    model: conditions.model.id,
    class: conditions.class.toLowerCase(),
    special: undefined,
    first: conditions.first.token,
    position: conditions.first.position,
    architecture,
    conditions,
    edits: conditions.edits,
    cut: undefined as Cut | undefined,
    loss: result.metrics.loss_mean?.mean[0],
    conclusive: result.T >= least_tokens,
    least_tokens,
    ...result,
  };
}

async function recordOpenedModel(
  openedModel: OpenedModel,
  options: StudyOptions & { keep: number },
) {
  const { id, plan, model, tokenizer, sequences, thresholds, edits, text } = openedModel;
  const source = Array.isArray(text) ? text.join('\n') : text;
  return recordStudy(model, sequences, {
    ...options,
    keep: Math.min(options.keep, sequences.length),
    eps: thresholds,
    edits,
    strings: (ids) => ids.map((id) => tokenizer.piece(id)),
    model: { id, sha256: await hashOf(plan.files.weights) },
    sourceSha256: source === undefined ? undefined : await sha256(source),
  });
}

/** Returns the weight file's hash; null of several files, or of a large one if it is unknown. */
async function hashOf([file, ...others]: OpenedModel['plan']['files']['weights']) {
  if (others.length) return null;
  if (file.sha256 || !file.blob || file.blob.size > HASHED_BYTES_MAX) return file.sha256 ?? null;
  return (await sha256(new Uint8Array(await file.blob.arrayBuffer()))) ?? null;
}

export function differencesText(
  { differences, compared, onlyA, onlyB }: Awaited<ReturnType<typeof compareRecordings>>,
  tolerance: number,
) {
  const formatValue = (x: unknown) => (typeof x === 'number' ? String(x) : JSON.stringify(x));
  const lines = differences.map(({ name, index, a, b, difference, count, of }) =>
    index
      ? `${name}[${index.join('][')}]: ${formatValue(a)} and ${formatValue(b)}, ${difference === Infinity ? 'one of them undefined' : `${difference?.toPrecision(3)} apart`}; ${count} of ${of} numbers differ`
      : `${name}: ${formatValue(a)} and ${formatValue(b)}`,
  );
  const notes = [
    ['A', onlyA],
    ['B', onlyB],
  ].flatMap(([side, names]) =>
    names.length ? [`note: only ${side} has ${(names as string[]).join(', ')}`] : [],
  );
  const lastLine = differences.length
    ? `${differences.length} differences beyond ${tolerance} in ${compared.length} tensors`
    : `${compared.length} tensors agree within ${tolerance}`;
  return `${[...lines, ...notes, lastLine].join('\n')}\n`;
}

export async function recordModel(engine: Engine, { names: [name], values, args }: CommandInput) {
  const { precision, license, out = '' } = values;
  if (!out) throw missingError('--out', 'a file to write');
  expect(['half', 'single'].includes(precision), '--precision', 'half or single', precision);
  const folder = await openOut(dirname(out), [basename(out)]);
  const openedModel = await openModel(engine, name, values);
  const bytes = await recordOpenedModel(openedModel, {
    keep: parseCount(values.keep, '--keep'),
    fields: values.fields.split(','),
    half: precision === 'half',
    license,
    source: values['text-file'] && basename(values['text-file']),
    command: shellCommand(args),
  });
  await folder.write([{ path: basename(out), data: bytes }]);
  return { ...(await readRecording(engine, await openAsBlob(out))), cut: openedModel.cut };
}

/** Returns the command in shell syntax, without the folders of absolute paths. */
export function shellCommand(args: readonly string[]) {
  const words = args.map((argument) => {
    const [, prefix, path] = /^(--[\w-]+=)?(.*)$/s.exec(argument) ?? [];
    return `${prefix ?? ''}${isAbsolute(path) ? basename(path) : path}`;
  });
  const quote = (word: string) =>
    /^[\w@%+:,./-][\w@%+=:,./-]*$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
  return ['sinkscope', ...words].map(quote).join(' ');
}

/** Throws where an option asks for other conditions than those that the recording was made under. */
function expectConditions(
  { tokens, sequences, eps }: Partial<Values>,
  { prompts, eps: recordedEps }: Recording['conditions'],
) {
  const where = 'as in the recording';
  if (tokens !== undefined)
    expect(
      parsePositive(tokens, '--tokens') === prompts.T,
      '--tokens',
      `${prompts.T}, ${where}`,
      tokens,
    );
  if (sequences !== undefined) {
    const isEnough = parsePositive(sequences, '--sequences') >= prompts.count;
    expect(isEnough, '--sequences', `at least ${prompts.count}, ${where}`, sequences);
  }
  if (eps !== undefined) {
    const isSame = String(parseThresholds(eps)) === String(recordedEps);
    expect(isSame, '--eps', `${recordedEps.join(',')}, ${where}`, eps);
  }
}

export async function compare(engine: Engine, { names, values, givenOptions }: CommandInput) {
  const tolerance = parseNumber(values.tolerance, 0, 1e9, '--tolerance');
  const files = await Promise.all(names.map(recordingAt));
  for (const [i, name] of names.entries()) if (!files[i]) await expectExists(name);
  expect(
    files.some(Boolean),
    'A B',
    'a recording among the two (`sinkscope record` makes one)',
    'two models',
  );
  if (files.every(Boolean)) {
    const otherOptions = Object.keys(givenOptions).filter(
      (option) => !['tolerance', 'json', 'workers'].includes(option),
    );
    refuse(givenOptions, otherOptions, 'needs a model, and both are recordings');
  }
  const [recording] = await Promise.all(
    files.filter((file) => file !== undefined).map((file) => engine.openRecording(file)),
  );
  const { prompts, eps, edits } = recording.conditions;
  const sameConditions = {
    tokens: String(prompts.T),
    sequences: String(prompts.count),
    eps: eps.join(','),
  };
  expectConditions(values, recording.conditions);
  const [a, b] = await Promise.all(
    names.map(async (name, i) => {
      if (files[i]) return engine.openRecording(files[i]);
      const openedModel = await openModel(engine, name, { ...values, ...sameConditions });
      if (!values.edit) openedModel.edits = edits.map(({ label: _, ...edit }) => edit);
      return engine.openRecording(
        await recordOpenedModel(openedModel, { keep: prompts.kept, half: false }),
      );
    }),
  );
  const result = await compareRecordings(a, b, { tolerance });
  if (result.differences.length > 0) process.exitCode = 1;
  return { tolerance, ...result };
}
