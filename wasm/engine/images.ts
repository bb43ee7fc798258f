/** Checks what a recording says of the images of its prompts, as the Python package does. */
import { SinkscopeError } from '../abi/errors.ts';
import type { Conditions } from './types.ts';

const MAX_PICTURE_SIDE = 256;
/** The tensor with the share of attention on each kind of token, by the kind's letter in `kinds`. */
const KIND_SHARES = { i: 'image_share', t: 'text_share', s: 'special_share' } as const;

type Json = Record<string, unknown>;
type TensorEntry = { readonly dtype: string; readonly shape: readonly number[] };

/** @param value what the conditions have at `images`  @param tokens those of each kept prompt */
export function readImages(
  value: unknown,
  tokens: Conditions['tokens'],
): NonNullable<Conditions['images']> {
  const fail = (key: string, expected: string) =>
    new SinkscopeError('bad_config', key, `recording: expected ${expected}`);
  if (!Array.isArray(value) || value.length !== tokens.length)
    throw fail('images', `a list of ${tokens.length}, one for each list of tokens`);
  return value.map((entry: Json | null, i) => {
    const { kinds, rows = null, cols = null } = entry ?? {};
    const { length } = tokens[i];
    if (typeof kinds !== 'string' || !/^[tis]+$/.test(kinds) || kinds.length !== length)
      throw fail('images.kinds', `${length} of the letters t, i and s, one for each token`);
    const patches = kinds.split('i').length - 1;
    if (rows === null && cols === null) return { kinds };
    const areSizes = [rows, cols].every((n) => Number.isInteger(n) && (n as number) > 0);
    if (!areSizes || (rows as number) * (cols as number) !== patches)
      throw fail('images.rows', `rows and columns of ${patches} patches, or neither`);
    return { kinds, rows: rows as number, cols: cols as number };
  });
}

/** Refuses pictures and shares of attention of other types and shapes. */
export function checkImageTensors(
  { model: { L, H, blocks }, tokens }: Conditions,
  entries: Readonly<Record<string, TensorEntry | undefined>>,
): void {
  const refuse = (name: string, expected: string, { dtype, shape }: TensorEntry) => {
    const found = `found ${dtype} of [${shape.join(', ')}]`;
    throw new SinkscopeError('bad_tensor', name, `expected ${expected}, ${found}`);
  };
  const isLong = (n: number) => n !== 1;
  const checkFloats = (name: string, shape: readonly number[]) => {
    const entry = entries[name];
    const hasShape = entry?.shape.filter(isLong).join() === shape.filter(isLong).join();
    if (entry && !(/^B?F/.test(entry.dtype) && hasShape))
      refuse(name, `floats of shape [${shape.join(', ')}]`, entry);
  };
  for (const share of Object.values(KIND_SHARES))
    for (const statistic of ['mean', 'deviation']) checkFloats(`${statistic}.${share}`, [L, H]);
  tokens.forEach(({ length }, i) => {
    checkFloats(`${i}.sink_value`, [blocks + 1, length]);
    const name = `${i}.picture`;
    const entry = entries[name];
    const [height = 0, width = 0, channels] = entry?.shape ?? [];
    const fits = [height, width].every((side) => side > 0 && side <= MAX_PICTURE_SIDE);
    if (entry && !(entry.dtype === 'U8' && entry.shape.length === 3 && channels === 3 && fits))
      refuse(name, `U8 of shape [height, width, 3], at most ${MAX_PICTURE_SIDE} a side`, entry);
  });
}
