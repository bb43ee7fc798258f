/** Opens the model that a command names, with its texts cut into sequences. */
import { stat } from 'node:fs/promises';
import { basename, resolve } from 'node:path';
import { SinkscopeError, expect, argumentError, readError } from '../abi/errors.ts';
import { readEdit } from '../engine/edit_text.ts';
import { findPlan } from '../loading/find.ts';
import { parseHubId } from '../loading/hub.ts';
import { modelFiles } from '../loading/plan.ts';
import { splitText } from '../study/cut.ts';
import { idTokenizer } from '../text/ids.ts';
import { planTokenizer } from '../text/plan_tokenizer.ts';
import { missingError } from './options.ts';
import { recordingAt } from './recording_at.ts';
import { createStatusLine, openingPhase } from './status_line.ts';
import { isJson, parseTexts, readText } from './text_file.ts';
import { cutOrAdvise, readModelFolder } from './train.ts';
import { parseIds, parseNumber, parseThresholds, parsePositive } from './values.ts';
import type { Model } from '../engine/types.ts';
import type { Cut, Task } from '../study/types.ts';
import type { AnyTokenizer, Tokenizer } from '../text/types.ts';
import type { SpecialTokens, Values } from './values.ts';
import type { Engine } from '../load/types.ts';

export type OpenedModel = Awaited<ReturnType<typeof openModel>>;

/** Opens a model and cuts the text; `makeTasks` gets its tokenizer, which is closed afterwards. */
export async function openModel(
  engine: Engine,
  name: string,
  values: Values,
  makeTasks?: (model: Model, tokenizer: AnyTokenizer, special: SpecialTokens) => Promise<Task[]>,
) {
  const { defaults } = engine.describe;
  const cutOptions = {
    tokens: parsePositive(values.tokens ?? String(defaults.tokens), '--tokens'),
    sequences: parsePositive(values.sequences, '--sequences'),
    lines: values.lines === true,
  };
  const thresholds = parseThresholds(values.eps ?? String(defaults.eps));
  await expectExists(name);
  const texts = await readInput(values);
  const { plan, model, tokenizer, edits } = await openNamedModel(engine, name, values, texts.ids);
  let cut: Cut | undefined;
  const onCut = (result: Cut) =>
    (cut = { ...result, notes: [...(texts.notes ?? []), ...result.notes] });
  const special = specialOf(tokenizer, values.special);
  const sequences =
    texts.ids ??
    (await cutOrAdvise(['text', `--tokens than ${cutOptions.tokens}`], tokenizer, texts.text, {
      ...cutOptions,
      special,
      onCut,
    }));
  const tasks = (await makeTasks?.(model, tokenizer, special)) ?? [];
  tokenizer.close();
  return {
    tasks,
    id: plan.id,
    plan,
    model,
    tokenizer,
    sequences,
    thresholds,
    edits,
    cut,
    text: texts.ids ? undefined : texts.text,
  };
}

/** Opens a model by name, with its tokenizer, which need not open where `ids` are given. */
export async function openNamedModel(
  engine: Engine,
  name: string,
  values: Values,
  ids?: number[][],
) {
  const edits = (values.edit ?? []).map((text: string) => readEdit(text, engine.describe));
  const token = process.env.HF_TOKEN || undefined;
  const hubOptions = { token, endpoint: values.endpoint, cache: values.cache === true };
  await expectExists(name);
  if (await recordingAt(name))
    throw readError(name, 'expected a model, found a recording, which "sinkscope measure" reads');
  const checkpoint = (await isCheckpoint(name)) ? await readModelFolder(name, 'MODEL') : undefined;
  const foundPlan = await findPlan(checkpoint?.folder ?? name, hubOptions);
  const isOnDisk = checkpoint || (await stat(name).catch(() => undefined));
  const plan = isOnDisk ? { ...foundPlan, id: basename(resolve(name)) } : foundPlan;
  const limit = 1000 * parseNumber(values['tokenizer-limit'], 0.001, 1e6, '--tokenizer-limit');
  const statusLine = createStatusLine();
  try {
    const model = await engine.open(checkpoint ?? modelFiles(plan, hubOptions), {
      onProgress: (progress) => statusLine.show(...openingPhase(progress)),
    });
    statusLine.show('opening the tokenizer');
    const tokenizerPromise = planTokenizer(plan, model, { ...hubOptions, limit });
    return {
      plan,
      model,
      tokenizer: await (ids ? tokenizerPromise.catch(fallBackToIds) : tokenizerPromise),
      edits,
    };
  } finally {
    statusLine.end();
  }
}

/** Returns a tokenizer that knows only ids, in place of one that could not be opened. */
function fallBackToIds(reason: unknown) {
  if (reason instanceof SinkscopeError) return idTokenizer();
  throw reason;
}

export function specialOf(
  tokenizer: Pick<Tokenizer, 'bos' | 'piece'>,
  special: string,
): SpecialTokens {
  if (special === 'auto' || special === 'none') return special;
  if (special !== 'bos') return [special];
  const { bos } = tokenizer;
  if (bos === null)
    throw argumentError('--special', 'auto or none of a tokenizer without start token', special);
  return [tokenizer.piece(bos)];
}

export async function readInput(
  values: Values,
): Promise<{ ids?: number[][]; text: string | string[]; notes?: string[] }> {
  const { 'text-file': path, text, ids, lines, join } = values;
  const sources = [path, text, ids].filter((source) => source !== undefined);
  const expectedSource = 'one of --text-file, --text and --ids';
  if (sources.length === 0) throw missingError('text', expectedSource);
  expect(sources.length === 1, 'text', expectedSource, sources.length);
  if (ids) return { text: '', ids: ids.map((list: string) => parseIds(list)) };
  if (text !== undefined) return { text };
  const content = await readText(String(path), '--text-file');
  if (!lines) return { text: content };
  const list = isJson(String(path))
    ? parseTexts(content, `--text-file: ${path}`)
    : splitText(content, 'lines');
  const textsPerJoin = parsePositive(join, '--join');
  const { length } = list;
  const fits = textsPerJoin <= Math.max(1, length);
  expect(fits, '--join', `at most the ${length} texts of ${path}`, textsPerJoin);
  const left = length % textsPerJoin;
  const starts = Array.from({ length: (length - left) / textsPerJoin }, (_, i) => i * textsPerJoin);
  return {
    text: starts.map((from) => list.slice(from, from + textsPerJoin).join('\n\n')),
    notes: left > 0 ? [`${left} of ${length} texts ${left > 1 ? 'are' : 'is'} left over`] : [],
  };
}

/** Throws before any text is read if a name is neither an existing path nor one of a hub. */
export async function expectExists(name: string) {
  const isFile = /^[^@:]+\.(safetensors|json|bin|pt)$|^(?:[^/@:]*\/)?[^/@:]+\.gguf$/i.test(name);
  if ((isHubId(name) && !isFile) || (await stat(name).catch(() => undefined))) return;
  if (await isCheckpoint(name)) return;
  throw readError(name, 'expected a file or a folder, found none');
}

function isHubId(name: string) {
  try {
    // Any address passes here: resolveHub, which knows the endpoint, parses it later.
    return /^https?:/.test(name) || Boolean(parseHubId(name));
  } catch {
    return false;
  }
}

/** Returns whether a name is FOLDER@STEP of an existing folder and not itself a path. */
async function isCheckpoint(name: string) {
  const folder = name.slice(0, Math.max(0, name.lastIndexOf('@')));
  const stats = await stat(folder).catch(() => undefined);
  return stats?.isDirectory() && !(await stat(name).catch(() => undefined));
}
