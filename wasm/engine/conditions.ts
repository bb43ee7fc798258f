/** Reads the conditions of a recording, a JSON text in its metadata. Unknown keys are dropped. */
import { SinkscopeError, parseJson } from '../abi/errors.ts';
import { readImages } from './images.ts';
import type { Architecture } from '../abi/types.ts';
import type { Conditions } from './types.ts';

type Json = Record<string, unknown>;

export const FORMAT_VERSION = '1';

function conditionError(key: string, expected: string) {
  return new SinkscopeError('bad_config', key, `recording: expected ${expected}`);
}

const isObject = (x: unknown) => typeof x === 'object' && x !== null && !Array.isArray(x);

function objectOf(json: Json, key: string): Json {
  const value = json[key] ?? {};
  if (!isObject(value)) throw conditionError(key, 'an object');
  return value as Json;
}

function textOf(json: Json, key: string) {
  const value = json[key] ?? null;
  if (value !== null && typeof value !== 'string') throw conditionError(key, 'a text');
  return value;
}

/**
 * Returns the whole number under a key.
 * @param defaultValue value of an absent key; without one, the key is required
 */
function integerOf<Standard extends number | null = never>(
  json: Json,
  key: string,
  defaultValue?: Standard,
): number | Standard {
  const value = json[key] ?? defaultValue;
  if (value === null && defaultValue === null) return defaultValue;
  if (!Number.isInteger(value)) throw conditionError(key, 'a whole number');
  return value as number;
}

function listOf<T>(
  json: Json,
  key: string,
  fits: (value: unknown) => boolean,
  expected: string,
): T[] {
  const value = json[key] ?? [];
  if (!Array.isArray(value) || !value.every(fits)) throw conditionError(key, expected);
  return value;
}

const isText = (x: unknown) => typeof x === 'string';
const isTokens = (x: unknown) => Array.isArray(x) && x.every(isText);

const KEY_UNITS = ['token', 'frame', 'patch'] as const;

/** Reads what the queries of cross-attention are. @param keys the tokens of each kept prompt, T each */
function readCross(
  json: Json,
  keys: readonly string[][],
  { T: keyCount, kind }: { T: number; kind: string },
): NonNullable<Conditions['cross']> {
  const T = integerOf(json, 'T');
  const unit = KEY_UNITS.find((name) => name === json.keys);
  const tokens: string[][] = listOf(json, 'tokens', isTokens, 'lists of strings');
  const areLists = Array.isArray(json.tokens) && tokens.length === keys.length;
  if (!unit) throw conditionError('cross.keys', KEY_UNITS.join(' or '));
  if (!areLists || tokens.some(({ length }) => length !== T))
    throw conditionError('cross.tokens', `${keys.length} lists of ${T} strings`);
  if (kind !== 'bidirectional') throw conditionError('model.mask', 'the kind bidirectional');
  if (keys.some(({ length }) => length !== keyCount))
    throw conditionError('tokens', `lists of ${keyCount} strings`);
  return { T, keys: unit, tokens };
}

export function readConditions(json: string): Conditions {
  const root: Json = parseJson(json, 'bad_config', 'recording');
  const model = objectOf(root, 'model');
  const mask = objectOf(model, 'mask');
  const first = objectOf(root, 'first');
  const prompts = objectOf(root, 'prompts');
  const isWindow = (x: unknown) => x === null || Number.isInteger(x);
  const isEdit = (x: unknown) => {
    const { kind, label } = isObject(x) ? (x as Json) : {};
    return isText(kind) && isText(label);
  };
  const versions = Object.entries(objectOf(root, 'versions'));
  const sizeOf = (key: string) => integerOf(model, key);
  const kind = (textOf(mask, 'kind') ?? 'causal') as Architecture['mask']['kind'];
  const window = integerOf(mask, 'window', null);
  const prefix = integerOf(mask, 'prefix', null);
  const L = sizeOf('L');
  const layers: number[] = listOf(model, 'layers', (x) => Number.isInteger(x), 'whole numbers');
  const windows: (number | null)[] = listOf(model, 'windows', isWindow, 'numbers or null');
  const generated = integerOf(prompts, 'generated', null);
  const tokens: string[][] = listOf(root, 'tokens', isTokens, 'lists of strings');
  const images = root.images ?? null;
  const modelWindow = kind === 'window' ? window : null;
  const T = integerOf(prompts, 'T');
  const part = textOf(model, 'part');
  return {
    model: {
      id: textOf(model, 'id') ?? '',
      revision: textOf(model, 'revision'),
      sha256: textOf(model, 'sha256'),
      family: textOf(model, 'family') ?? '',
      ...(part ? { part } : {}),
      L,
      blocks: integerOf(model, 'blocks', L),
      layers: layers.length ? layers : Array.from({ length: L }, (_, l) => l),
      H: sizeOf('H'),
      G: sizeOf('G'),
      K: sizeOf('K'),
      U: integerOf(model, 'U', sizeOf('K')),
      D: sizeOf('D'),
      V: sizeOf('V'),
      F: integerOf(model, 'F', 0),
      E: integerOf(model, 'E', 0),
      dtype: textOf(model, 'dtype'),
      attention: textOf(model, 'attention'),
      operation: textOf(model, 'operation') ?? 'softmax',
      mask: { kind, ...(window ? { window } : {}), ...(prefix ? { prefix } : {}) },
      windows: windows.length
        ? windows.map((width) => width || null)
        : Array.from({ length: L }, () => modelWindow || null),
    },
    first: {
      token: textOf(first, 'token'),
      id: integerOf(first, 'id', null),
      position: integerOf(first, 'position', 0),
    },
    tokens,
    ...(root.cross ? { cross: readCross(objectOf(root, 'cross'), tokens, { T, kind }) } : {}),
    ...(images === null ? {} : { images: readImages(images, tokens) }),
    prompts: {
      source: textOf(prompts, 'source'),
      sha256: textOf(prompts, 'sha256'),
      source_sha256: textOf(prompts, 'source_sha256'),
      count: integerOf(prompts, 'count'),
      kept: integerOf(prompts, 'kept'),
      T,
      ...(generated ? { generated } : {}),
    },
    eps: listOf(root, 'eps', (x) => Number.isFinite(x), 'numbers'),
    edits: listOf(root, 'edits', isEdit, 'objects with a kind and a label'),
    class: textOf(root, 'class') ?? 'MEASURED',
    license: textOf(root, 'license'),
    versions: Object.fromEntries(versions.map(([name, value]) => [name, String(value)])),
    command: textOf(root, 'command'),
  };
}
