/** Reads the conditions of a recording, a JSON text in its metadata. Unknown keys are dropped. */
import { SinkscopeError } from '../abi/errors.ts';
import type { Architecture } from '../abi/types.ts';
import type { Conditions } from './types.ts';

type Json = Record<string, unknown>;

/** Version of the format that this build writes and reads. */
export const VERSION = '1';

function conditionError(key: string, expected: string) {
  return new SinkscopeError('bad_config', key, `recording: expected ${expected}`);
}

const isObject = (x: unknown) => typeof x === 'object' && x !== null && !Array.isArray(x);

/** @returns empty if the key is absent */
function object(json: Json, key: string): Json {
  const value = json[key] ?? {};
  if (!isObject(value)) throw conditionError(key, 'an object');
  return value as Json;
}

function text(json: Json, key: string) {
  const value = json[key] ?? null;
  if (value !== null && typeof value !== 'string') throw conditionError(key, 'a text');
  return value;
}

/** @param standard undefined: the key is required */
function integer<Standard extends number | null = never>(
  json: Json,
  key: string,
  standard?: Standard,
): number | Standard {
  const value = json[key] ?? standard;
  if (value === null && standard === null) return standard;
  if (!Number.isInteger(value)) throw conditionError(key, 'a whole number');
  return value as number;
}

function list<T>(
  json: Json,
  key: string,
  fits: (value: unknown) => boolean,
  expected: string,
): T[] {
  const value = json[key] ?? [];
  if (!Array.isArray(value) || !value.every(fits)) throw conditionError(key, expected);
  return value;
}

/**
 * Parses conditions that the core has validated, and types them for JavaScript; unknown keys are
 * dropped.
 */
export function readConditions(json: string): Conditions {
  let root: Json;
  try {
    root = JSON.parse(json);
  } catch (error) {
    throw new SinkscopeError('bad_config', 'recording', `expected JSON: ${String(error)}`);
  }
  const model = object(root, 'model');
  const mask = object(model, 'mask');
  const first = object(root, 'first');
  const prompts = object(root, 'prompts');
  const isText = (x: unknown) => typeof x === 'string';
  const isWindow = (x: unknown) => x === null || Number.isInteger(x);
  const isTokens = (x: unknown) => Array.isArray(x) && x.every(isText);
  const isEdit = (x: unknown) => {
    const { kind, label } = isObject(x) ? (x as Json) : {};
    return isText(kind) && isText(label);
  };
  const versions = Object.entries(object(root, 'versions'));
  const size = (key: string) => integer(model, key);
  const kind = (text(mask, 'kind') ?? 'causal') as Architecture['mask']['kind'];
  const window = integer(mask, 'window', null);
  const prefix = integer(mask, 'prefix', null);
  const L = size('L');
  const layers: number[] = list(model, 'layers', (x) => Number.isInteger(x), 'whole numbers');
  const windows: (number | null)[] = list(model, 'windows', isWindow, 'numbers or null');
  const everywhere = kind === 'window' ? window : null;
  return {
    model: {
      id: text(model, 'id') ?? '',
      revision: text(model, 'revision'),
      sha256: text(model, 'sha256'),
      family: text(model, 'family') ?? '',
      L,
      blocks: integer(model, 'blocks', L),
      layers: layers.length ? layers : Array.from({ length: L }, (_, l) => l),
      H: size('H'),
      G: size('G'),
      K: size('K'),
      U: integer(model, 'U', size('K')),
      D: size('D'),
      V: size('V'),
      F: integer(model, 'F', 0),
      E: integer(model, 'E', 0),
      dtype: text(model, 'dtype'),
      attention: text(model, 'attention'),
      operation: text(model, 'operation') ?? 'softmax',
      mask: { kind, ...(window ? { window } : {}), ...(prefix ? { prefix } : {}) },
      windows: windows.length
        ? windows.map((one) => one || null)
        : Array.from({ length: L }, () => everywhere || null),
    },
    first: {
      token: text(first, 'token'),
      id: integer(first, 'id', null),
      position: integer(first, 'position', 0),
    },
    tokens: list(root, 'tokens', isTokens, 'lists of strings'),
    prompts: {
      source: text(prompts, 'source'),
      sha256: text(prompts, 'sha256'),
      count: integer(prompts, 'count'),
      kept: integer(prompts, 'kept'),
      T: integer(prompts, 'T'),
    },
    eps: list(root, 'eps', (x) => Number.isFinite(x), 'numbers'),
    edits: list(root, 'edits', isEdit, 'objects with a kind and a label'),
    class: text(root, 'class') ?? 'MEASURED',
    // Recordings before 1.0 have the other spelling.
    license: text(root, 'license') ?? text(root, 'licence'),
    versions: Object.fromEntries(versions.map(([name, value]) => [name, String(value)])),
    command: text(root, 'command'),
  };
}
