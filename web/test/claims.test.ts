import { describe, expect, it } from 'vitest';
import { columnOf, kindOf } from '../src/rooms/claims';
import { draws } from '../src/ask/question';
import { lead, remarkOf } from '../src/rooms/start';
import { sharesOf, type Frame } from '../src/frame';
import { frameOf, tensor } from './fixture';

/** A causal map, its rows scaled to a sum; the first column is favored by `pull`. */
function mapOf(T: number, pull: number, sum: number, draw: () => number): Float32Array {
  const map = new Float32Array(T * T).fill(NaN);
  for (let t = 0; t < T; t++) {
    for (let k = 0; k <= t; k++) map[t * T + k] = draw() * (k ? 1 : pull);
    const row = map.subarray(t * T, t * T + t + 1);
    const size = row.reduce((a, b) => a + b, 0);
    row.forEach((value, k) => (row[k] = (sum * value) / size));
  }
  return map;
}

/** A frame whose picture is the map, and whose metrics say something else. */
function drawn(map: Float32Array, T: number, alpha: number, normalises = true): Frame {
  const { operation, tokens } = frameOf();
  return frameOf(
    {
      T,
      operation: { ...operation, normalises },
      tokens: Array.from({ length: T }, (_, t) => ({ ...tokens[t ? 1 : 0]!, id: t })),
      head: { layer: 1, head: 0, tensors: { att: tensor([T, T], map) } },
    },
    { alpha: tensor([2, 2, T], new Float32Array(4 * T).fill(alpha)) },
  );
}

/** The words of a template, whatever it nests. */
function wordsOf(part: unknown): string {
  if (Array.isArray(part)) return part.map(wordsOf).join('');
  if (typeof part !== 'object' || part === null) return String(part ?? '');
  const { strings, values } = part as { strings: string[]; values: unknown[] };
  return strings.map((one, i) => one + (i < values.length ? wordsOf(values[i]) : '')).join('');
}

describe('the sentence about a drawn map', () => {
  const draw = draws(7);
  const cases = Array.from({ length: 400 }, (_, i) => {
    const T = 2 + (i % 29);
    const pull = [0.2, 1, 3, 10, 100][i % 5]!;
    const sum = [1, 0.13, 0.02, 2][Math.floor(i / 5) % 4]!;
    return { T, map: mapOf(T, pull, sum, draw) };
  });

  it('holds in the cells of the picture, on any map', () => {
    const seen = new Set<string>();
    for (const { T, map } of cases) {
      // Counted again, cell by cell.
      let [strong, first, rows] = [0, 0, 0];
      for (let t = 1; t < T; t++, rows++) {
        first += map[t * T]!;
        if (map[t * T]! > 0.5) strong++;
      }
      const said = remarkOf(drawn(map, T, 0.9))!;
      seen.add(said.text.replace(/[\d.]+/g, 'N'));
      const [, n, of] = /(\d+) of (\d+) tokens/.exec(said.text)?.map(Number) ?? [];
      const [, mean] = /([\d.]+)% on average/.exec(said.text)?.map(Number) ?? [];
      if (/almost every/.test(said.text)) expect(strong).toBeGreaterThanOrEqual(0.75 * rows);
      if (n !== undefined) expect([n, of]).toEqual([strong, rows]);
      if (mean !== undefined) expect(mean).toBeCloseTo((100 * first) / rows, mean < 10 ? 0 : -0.3);
      if (/no strong/.test(said.text)) expect(strong).toBeLessThan(0.4 * rows);
    }
    expect([...seen].sort()).toEqual([
      'no strong column: N% on average',
      '◀ N of N tokens attend mostly here',
      '◀ a weaker column: N% on average',
      '◀ almost every token attends here',
    ]);
  });

  it('follows the picture and not the metrics beside it', () => {
    for (const { T, map } of cases) {
      const said = [0, 0.3, 1].map((alpha) => remarkOf(drawn(map, T, alpha))!.text);
      expect(new Set(said).size).toBe(1);
    }
    // The same head, drawn as raw weights and as shares of its rows.
    const faint = mapOf(20, 100, 0.02, draw);
    expect(kindOf(columnOf(faint, 20))).toBe('none');
    expect(kindOf(columnOf(sharesOf(faint, 20), 20))).toBe('all');
    expect(columnOf(faint, 20).rowSum).toBeCloseTo(0.02, 6);
  });

  it('is nothing of a text of one token, and sizes of signed weights', () => {
    expect(remarkOf(drawn(Float32Array.of(1), 1, 1))).toBeUndefined();
    const signed = Float32Array.of(1, NaN, -0.9, 0.1);
    expect(columnOf(signed, 2)).toMatchObject({ strong: 1, rows: 1 });
  });
});

describe('the sentence of the first screen', () => {
  const at = { layer: 0, head: 0 };
  const said = (T: number, even: number) => {
    const frame = drawn(mapOf(T, 10, 1, draws(T)), T, 0.84);
    const uniform = { ...frame.tensors, alpha_uniform: tensor([1], [even]) };
    return wordsOf(lead([{ ...frame, tensors: uniform }], [at])).replace(/\s+/g, ' ');
  };

  it('gives the share of the shown head, the mean and uniform attention at every length', () => {
    for (let T = 2; T <= 64; T++) {
      const even = Array.from({ length: T }, (_, t) => 1 / (t + 1)).reduce((a, b) => a + b) / T;
      const words = said(T, even);
      expect(words).toMatch(
        /The strongest head, L0H0, gives 84% of its attention to the start token “<s>”/,
      );
      expect(words).toContain('Mean over all 4 heads: 84%. ');
      const note = `Short text (${T} tokens): uniform attention is already ${(100 * even).toFixed(0)}%.`;
      const plain = `Uniform attention: ${(100 * even).toFixed(0)}%.`;
      expect([words.includes(note), words.includes(plain)], `${T}`).toEqual([
        even > 0.15,
        even <= 0.15,
      ]);
    }
  });
});
