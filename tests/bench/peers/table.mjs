/** Computes the table: which engines are right, medians, and the minimal work of a row. */
import { layOut } from './gguf.mjs';
import { parsed } from './works.mjs';

export const TOLERANCE = {
  exact: { logp: 1e-3, att: 1e-5 },
  /** llama.cpp looks GELU and SiLU up in a table of 16-bit numbers, which allows larger errors. */
  tabled: { logp: 5e-3, att: 1e-3 },
  rounded: { logp: 0.1, att: 0.01 },
};

/**
 * Returns the reason why the answer of an engine is wrong; undefined if it is right.
 * @param {{ tokens: { token: number, p: number }[], att?: ArrayLike<number> }} answer the most likely next tokens and,
 * if the engine shows maps, the first weights of the last row of the last head
 * @param {{ likeliest: [number, number][], att: number[] }} expected the answer of PyTorch: tokens with log p
 */
export function refusal(answer, expected, { logp, att }) {
  if (!expected) return 'PyTorch was not asked';
  for (const [token, expectedLogp] of expected.likeliest) {
    const actualLogp = Math.log(
      answer.tokens.find((answerToken) => answerToken.token === token)?.p ?? 0,
    );
    if (!(Math.abs(actualLogp - expectedLogp) <= logp))
      return `log p of token ${token} is ${actualLogp.toFixed(4)}, by PyTorch ${expectedLogp.toFixed(4)}`;
  }
  for (const [i, expectedRow] of answer.att ? expected.att.entries() : [])
    if (!(Math.abs(answer.att[i] - expectedRow) <= att))
      return `a map gives key ${i} ${answer.att[i]}, by PyTorch ${expectedRow}`;
  return undefined;
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

export const isOurs = (name) => name.startsWith('ours');

/**
 * Returns the medians of each engine, and the ratio of each of ours to each of the others. Ours is exact, so that
 * others in 8 bits are not compared with it.
 */
export function summary(times) {
  const ms = Object.fromEntries(Object.entries(times).map(([name, all]) => [name, median(all)]));
  const names = Object.keys(ms);
  const ratiosOf = (engine) =>
    names
      .filter((other) => !isOurs(other) && !other.startsWith('ort 8 bit'))
      .map((other) => [other, ms[engine] / ms[other]]);
  const ratios = names
    .filter(isOurs)
    .map((engine) => [engine, Object.fromEntries(ratiosOf(engine))]);
  return { ms, ratios: Object.fromEntries(ratios) };
}

/** Matrices with fewer bytes may stay in the cache, where reading takes hardly any time. */
const CACHED_BYTES = 2 ** 26;

/**
 * Returns the minimal work of a row: the floating-point operations of its products, or for one token the bytes of all
 * matrices. Undefined if this is no useful bound.
 */
export function least(file, row) {
  const [shape, type] = file.split('.');
  const { kind, T, all } = parsed(row);
  // The shipped file has 8 bits and a scale per row; its matrices have the shapes of the random one.
  const { list } = layOut(shape, type === 'i8' ? 'f32' : type);
  const isTied = !list.some(({ tensor }) => tensor === 'output.weight');
  let flops = 0;
  let read = 0;
  for (const { tensor, dims, n, bytes } of list) {
    const isHead = tensor === 'output.weight' || (isTied && tensor === 'token_embd.weight');
    if (dims.length < 2 || tensor === 'position_embd.weight') continue;
    if (tensor === 'token_embd.weight' && !isHead) continue;
    flops += 2 * n * (isHead && !all ? 1 : T);
    read += type === 'i8' ? n : bytes;
  }
  if (kind === 'decode' || kind === 'key') return read < CACHED_BYTES ? {} : { bytes: read };
  return kind === 'read' ? { flops } : {};
}
