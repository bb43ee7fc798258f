/**
 * Reads the conditions of a recording, a JSON text in its metadata, whose keys the core has checked when it opened the
 * file: this file gives them their defaults, drops unknown ones, and checks those of cross-attention and images.
 */
import { SinkscopeError, parseJson } from '../abi/errors.ts';
import { readImages } from './images.ts';
import type { Conditions } from './types.ts';

export const FORMAT_VERSION = '1';

const conditionError = (key: string, expected: string) =>
  new SinkscopeError('bad_config', key, `recording: expected ${expected}`);

/** For the core a key or a text ends with its NUL, so that it has checked another than this; it reads no token strings. */
function refuseNul(key: string, value: unknown) {
  const isRead = typeof value === 'string' && key !== 'token' && !/^\d+$/.test(key);
  if (key.includes('\0') || (isRead && value.includes('\0')))
    throw conditionError(key, 'keys and texts without NUL');
  return value;
}

/** As written: each key may be absent or null. */
type Written<T> = T extends readonly unknown[]
  ? T
  : T extends object
    ? { [K in keyof T]?: Written<T[K]> | null }
    : T;

/** Returns the values under some keys, each with its default. */
const withDefaults = <T extends object>(json: object | null | undefined, defaults: T): T =>
  Object.fromEntries(
    Object.entries(defaults).map(([key, value]) => [key, Reflect.get(json ?? {}, key) ?? value]),
  ) as T;

const TEXT = null as string | null;
const MODEL = {
  ...{ id: '', revision: TEXT, sha256: TEXT, family: '' },
  ...{ L: 0, H: 0, G: 0, K: 0, D: 0, V: 0, F: 0, E: 0 },
  ...{ dtype: TEXT, attention: TEXT, operation: 'softmax' },
};
const FIRST = { token: TEXT, id: null as number | null, position: 0 };
const PROMPTS = { source: TEXT, sha256: TEXT, source_sha256: TEXT, count: 0, kept: 0, T: 0 };

const KEY_UNITS = ['token', 'frame', 'patch'] as const;

/** Reads what the queries of cross-attention are. @param keys the tokens of each kept prompt, T each */
function readCross(
  json: Written<NonNullable<Conditions['cross']>>,
  keys: Conditions['tokens'],
  { T: keyCount, kind }: { T: number; kind: string },
): NonNullable<Conditions['cross']> {
  const T = json.T!;
  const unit = KEY_UNITS.find((name) => name === json.keys);
  const tokens = json.tokens;
  const isQueries = (x: unknown) =>
    Array.isArray(x) && x.length === T && x.every((text) => typeof text === 'string');
  if (!unit) throw conditionError('cross.keys', KEY_UNITS.join(' or '));
  if (!Array.isArray(tokens) || tokens.length !== keys.length || !tokens.every(isQueries))
    throw conditionError('cross.tokens', `${keys.length} lists of ${T} strings`);
  if (kind !== 'bidirectional') throw conditionError('model.mask', 'the kind bidirectional');
  if (keys.some(({ length }) => length !== keyCount))
    throw conditionError('tokens', `lists of ${keyCount} strings`);
  return { T, keys: unit, tokens };
}

export function readConditions(json: string): Conditions {
  const root: Written<Conditions> = parseJson(json, 'bad_config', 'recording');
  if (json.includes('\\u0000')) JSON.parse(json, refuseNul);
  const { part, blocks, layers, U, mask, windows } = root.model!;
  const model = withDefaults(root.model, MODEL);
  const kind = mask?.kind ?? 'causal';
  const window = (kind === 'window' && mask?.window) || null;
  const prompts = withDefaults(root.prompts, PROMPTS);
  const generated = root.prompts?.generated;
  const tokens = root.tokens ?? [];
  return {
    model: {
      ...model,
      ...(part ? { part } : {}),
      blocks: blocks ?? model.L,
      layers: layers ?? Array.from({ length: model.L }, (_, l) => l),
      U: U ?? model.K,
      mask: {
        kind,
        ...(mask?.window ? { window: mask.window } : {}),
        ...(mask?.prefix ? { prefix: mask.prefix } : {}),
      },
      windows: windows?.map((width) => width || null) ?? Array(model.L).fill(window),
    },
    first: withDefaults(root.first, FIRST),
    tokens,
    ...(root.cross ? { cross: readCross(root.cross, tokens, { T: prompts.T, kind }) } : {}),
    ...((root.images ?? null) === null ? {} : { images: readImages(root.images, tokens) }),
    prompts: { ...prompts, ...(generated ? { generated } : {}) },
    eps: root.eps ?? [],
    edits: root.edits ?? [],
    class: root.class ?? 'MEASURED',
    license: root.license ?? null,
    versions: root.versions ?? {},
    command: root.command ?? null,
  } as Conditions;
}
