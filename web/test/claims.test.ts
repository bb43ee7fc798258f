import { describe, expect, it } from 'vitest';
import { claimOf, columnOf, kindOf, rowToRead } from '../src/claims';
import { randomGenerator } from '../src/ask/question';
import { verdictOf } from '../src/words';
import { attention, labelOf } from '../src/views/attention';
import { defaults } from '../src/ask/state';
import { firstPromptWeights, selectedHead, sharesOf, type Frame } from '../src/frame';
import { frameOf, tensor } from './fixture';

/** Returns a causal map whose rows have this sum; `pull` favors the first column. */
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

function frameOfMap(map: Float32Array, T: number, alpha: number, normalizes = true): Frame {
  const { operation, tokens } = frameOf();
  return frameOf(
    {
      T,
      operation: { ...operation, normalizes },
      tokens: Array.from({ length: T }, (_, t) => ({ ...tokens[t ? 1 : 0]!, id: t })),
      head: { layer: 1, head: 0, tensors: { att: tensor([T, T], map) } },
    },
    { alpha: tensor([2, 2, T], new Float32Array(4 * T).fill(alpha)) },
  );
}

const at = { layer: 1, head: 0 };
const remarkOf = (frame: Frame) => labelOf(frame, at, defaults);

describe('the sentence about a drawn map', () => {
  const draw = randomGenerator(7);
  const cases = Array.from({ length: 400 }, (_, i) => {
    const T = 2 + (i % 29);
    const pull = [0.2, 1, 3, 10, 100][i % 5]!;
    const sum = [1, 0.13, 0.02, 2][Math.floor(i / 5) % 4]!;
    return { T, map: mapOf(T, pull, sum, draw) };
  });

  it('counts tokens that receive more than half of a row, not exactly half', () => {
    const column = (own: number) => columnOf([1, NaN, NaN, own, 1 - own, NaN, own, 0, 1 - own], 3);
    expect([column(0.5).strongRows, column(0.5625).strongRows]).toEqual([0, 2]);
    expect(column(0.5)).toMatchObject({ rows: 2, mean: 0.5, alpha: 2 / 3, rowSum: 1 });
  });

  it('agrees with the cells of the picture on any map', () => {
    const remarks = new Set<string>();
    for (const { T, map } of cases) {
      let [strong, first, rows] = [0, 0, 0];
      for (let t = 1; t < T; t++, rows++) {
        const row = map.subarray(t * T, t * T + t + 1);
        first += row[0]!;
        if (row[0]! > 0.5 && row[0]! > row.reduce((a, b) => a + b) / 2) strong++;
      }
      const remark = remarkOf(frameOfMap(map, T, 0.9))!;
      remarks.add(remark.text.replace(/[\d.]+/g, 'N'));
      const alpha = (first + map[0]!) / T;
      if (/: a sink/.test(remark.text)) expect(alpha).toBeGreaterThan(0.3);
      else if (/, not over/.test(remark.text)) expect(first / rows).toBeGreaterThan(0.05);
      if (/: no sink/.test(remark.text)) expect(strong).toBeLessThan(0.4 * rows);
      if (/: no sink|, not over/.test(remark.text)) expect(alpha).toBeLessThanOrEqual(0.3);
      if (/almost empty/.test(remark.text)) expect(columnOf(map, T).rowSum).toBeLessThan(0.05);
    }
    expect([...remarks].sort()).toMatchSnapshot();
  });

  it('is about the drawn head only', () => {
    const frame = frameOfMap(cases[0]!.map, cases[0]!.T, 0.9);
    const places = [at, { layer: 1, head: 1 }, { layer: 0, head: 0 }];
    expect(places.map((one) => claimOf(frame, one).column !== undefined)).toEqual([
      ...[true, false, false],
    ]);
  });

  it('agrees with the picture if the metrics differ from it', () => {
    for (const { T, map } of cases) {
      const remarks = [0, 0.3, 1].map((alpha) => remarkOf(frameOfMap(map, T, alpha))!.text);
      expect(new Set(remarks).size).toBe(1);
    }
    const faintMap = mapOf(20, 100, 0.02, draw);
    expect(kindOf(columnOf(faintMap, 20))).toBe('empty');
    expect(kindOf(columnOf(sharesOf(faintMap, 20), 20))).toBe('all');
    expect(columnOf(faintMap, 20).rowSum).toBeCloseTo(0.02, 6);
  });

  it('is empty for a text of one token, and uses magnitudes of signed weights', () => {
    expect(remarkOf(frameOfMap(Float32Array.of(1), 1, 1))).toBeUndefined();
    const signedMap = Float32Array.of(1, NaN, -0.9, 0.1);
    expect(columnOf(signedMap, 2)).toMatchObject({ strongRows: 1, rows: 1 });
  });

  it('does not call a large weight a sink where all keys have one', () => {
    const T = 20;
    const evenMap = Float32Array.from({ length: T * T }, (_, i) =>
      i % T <= i / T ? 0.98 + 0.01 * (i % 3) : NaN,
    );
    const shares = sharesOf(evenMap, T);
    for (const cells of [evenMap, shares]) expect(kindOf(columnOf(cells, T))).toBe('none');
    const frame = frameOfMap(evenMap, T, 0.15, false);
    expect(remarkOf(frame)!.text).toMatchSnapshot();
  });
});

describe('the row that is read', () => {
  const words = ['<s>', ' the', ' cat', ',', ' sat', ' the', ' mat', '.', ' on'];
  const first = [1, 0.9, 0.5, 0.6, 0.8, 0.62, 0.4, 0.62, 0.75];
  const T = words.length;
  const map = new Float32Array(T * T).fill(NaN);
  first.forEach((weight, t) => {
    map.fill(t ? (1 - weight) / t : NaN, t * T + 1, t * T + t + 1);
    map[t * T] = weight;
  });
  const frameOfWords = (names: readonly string[], change: object = {}): Frame => ({
    ...frameOfMap(map, T, 0.7),
    tokens: names.map((text, id) => ({ ...frameOf().tokens[0]!, id, text, special: id === 0 })),
    ...change,
  });
  const frame = frameOfWords(words);
  const free = { normalize: 'no', query: -1 } as const;
  const readOf = (names: readonly string[]) => rowToRead(frameOfWords(names), free)?.query;

  it('is nearest to the mean, of words that occur once, after the first third', () => {
    // The mean is 0.69: “.” and “the” at 0.62 are as near as “on”, but no word, and no only one.
    expect(readOf(words)).toBe(8);
    expect(readOf(words.map((word, t) => (t === 8 ? ' the' : word)))).toBe(4);
    expect(readOf(words.map((word, t) => (t ? ' the' : word)))).toBe(8);
    expect(readOf(words.map((word, t) => (t ? '.' : word)))).toBe(8);
    // “ca” and “t” are parts of a word: they come after words that occur twice.
    const parts = [...words.slice(0, 6), ' ca', 't', ' the'];
    expect(readOf(parts)).toBe(4);
    expect(readOf(parts.map((word, t) => (t === 4 ? ' the' : word)))).toBe(8);
    expect(rowToRead(frame, free)).toMatchObject({ query: 8, attention: 0.75 });
    expect(rowToRead(frame, free)!.sum).toBeCloseTo(1, 6);
  });

  it('is the one that the reader chose, if the map has it, and of the first map where the token is the same', () => {
    const rowOf = (query: number) => rowToRead(frame, { normalize: 'no', query })!.query;
    expect([0, 3, 8, 9].map(rowOf)).toEqual([0, 3, 8, 8]);
    const flat = frameOfMap(mapOf(T, 1, 0.3, randomGenerator(3)), T, 0.1, false);
    const twin = { ...flat, tokens: frame.tokens };
    expect(rowToRead(twin, free, frame)!.query).toBe(8);
    const others = words.map((word, t) => (t === 8 ? ' off' : word));
    const other = { ...flat, tokens: frameOfWords(others).tokens };
    expect(rowToRead(other, free, frame)).toEqual(rowToRead(other, free));
  });

  it('is none for a single token, means over blocks and signed weights', () => {
    expect(rowToRead(frameOfMap(Float32Array.of(1), 1, 1), free)).toBeUndefined();
    expect(rowToRead({ ...frame, pooled: 4 }, free)).toBeUndefined();
    const signed = { ...frame.operation, proxy: 'share_abs' } as never;
    expect(rowToRead({ ...frame, operation: signed }, free)).toBeUndefined();
  });
});

describe('the number of a claim', () => {
  const draw = randomGenerator(11);

  it('of signed weights is the share of their sizes, in picture, metric, head and count alike', () => {
    const map = Float32Array.of(2, NaN, NaN, -3, 5, NaN, -1, -1, -3);
    const frame = frameOfMap(map, 3, 0.6, false);
    const raw = tensor([2, 2, 3], new Float32Array(12).fill(-0.25));
    raw.data[0] = 5; // The largest mean weight, which decides nothing.
    const alpha = tensor([2, 2, 3], Float32Array.of(0.3, 0, 0, 0.1, 0, 0, 0.525, 0, 0, 0.2, 0, 0));
    const signedFrame = {
      ...frame,
      operation: { ...frame.operation, proxy: 'share_abs' },
      tensors: { ...frame.tensors, alpha, alpha_raw: raw },
    } as Frame;
    const share = (1 + 3 / 8 + 1 / 5) / 3;
    for (const normalize of ['no', 'yes'] as const)
      expect(claimOf(signedFrame, at, { normalize }).attention).toBeCloseTo(share, 6);
    // Another head, whose map is not drawn, has the number of the metric.
    expect(claimOf(signedFrame, { layer: 0, head: 0 }).attention).toBeCloseTo(0.3, 6);
    expect(selectedHead(signedFrame, { layer: -1, head: -1 })).toEqual(at);
    expect(attention.says(signedFrame, at)).toMatchSnapshot();
    const drawnMaps = new Float32Array(36);
    drawnMaps.set(map, 18);
    const { tensors } = signedFrame;
    const severalPrompts = {
      ...signedFrame,
      ...{ sequences: 5, tensors: { ...tensors, att: tensor([2, 2, 3, 3], drawnMaps) } },
    } as Frame;
    expect(firstPromptWeights(severalPrompts)![2]).toBeCloseTo(share, 6);
    expect(verdictOf(signedFrame)).toMatchObject({ sink: 0.5, of: 'shares' });
  });

  it('is a share of the row if the page normalizes rows', () => {
    const map = mapOf(9, 3, 0.02, draw);
    const frame = frameOfMap(map, 9, 0.9, false);
    const shares = sharesOf(map, 9);
    const { attention, isShare } = claimOf(frame, at, { normalize: 'yes' });
    const mean = Array.from({ length: 9 }, (_, t) => shares[t * 9]!).reduce((a, b) => a + b) / 9;
    expect([isShare, claimOf(frame, at).isShare]).toEqual([true, false]);
    expect(attention).toBeCloseTo(mean, 5);
  });

  it('is averaged over prompts, and comes from the metric if the head has no map', () => {
    const frame = frameOfMap(mapOf(9, 3, 1, draw), 9, 0.75);
    expect(claimOf({ ...frame, sequences: 5 }, at).attention).toBe(0.75);
    expect(claimOf(frame, { layer: 0, head: 1 })).toMatchObject({
      attention: 0.75,
      kind: undefined,
    });
  });

  it('is about the head with the largest weight, even if another has the largest share', () => {
    const frame = frameOf(
      { operation: { ...frameOf().operation, normalizes: false } },
      {
        alpha: tensor([2, 2, 3], [0.1, 0, 0, 0.99, 0, 0, 0.2, 0, 0, 0.3, 0, 0]),
        alpha_raw: tensor([2, 2, 3], [0.001, 0, 0, 0.002, 0, 0, 0.015, 0, 0, 0.04, 0, 0]),
      },
    );
    const free = { layer: -1, head: -1 };
    expect(selectedHead(frame, free)).toEqual({ layer: 1, head: 1 });
    expect(claimOf(frame, { layer: 1, head: 1 }).isStrongest).toBe(true);
    expect(claimOf(frame, { layer: 0, head: 1 }).isStrongest).toBe(false);
    // If rows sum to 1, shares are the weights; a recording may lack raw weights.
    const { operation } = frameOf();
    expect(selectedHead({ ...frame, operation }, free)).toEqual({ layer: 0, head: 1 });
    const noRawTensors = {
      ...frame.tensors,
      alpha_raw: tensor([2, 2, 3], new Float32Array(12).fill(NaN)),
    };
    expect(selectedHead({ ...frame, tensors: noRawTensors }, free)).toEqual({ layer: 0, head: 1 });
  });
});
