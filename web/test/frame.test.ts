import { describe, expect, it } from 'vitest';
import { judge } from 'sinkscope';
import { leastTokens } from 'sinkscope/internal';
import {
  alphaOfKey,
  drawnMap,
  exactCellsOf,
  groupOf,
  hiddenLayer,
  indexOfMax,
  isMasked,
  comparableKeyCount,
  largestMagnitude,
  mapsOf,
  maskHidden,
  massiveOf,
  rowSumOf,
  mean,
  modelHead,
  ofHead,
  visibleKeyEnd,
  selectedHead,
  sharesOf,
  superWeightOf,
  type Frame,
  pooledSide,
} from '../src/frame';
import { defaults } from '../src/ask/state';
import { interventionsOf } from '../src/page/hand';
import {
  classWords,
  findingWords,
  headsGive,
  headsWords,
  formatPercent,
  quote,
  makeReadable,
  formatValue,
  stampWords,
  verdictOf,
} from '../src/words';
import { attention } from '../src/views/attention';
import { frameOf, tensor } from './fixture';

const numbersOfNine = Float32Array.from({ length: 9 }, (_, i) => i);

it('the extent of a scale is the largest finite magnitude, or a given minimum', () => {
  expect(
    largestMagnitude([
      [0.25, -0.5],
      [0.125, NaN, -Infinity],
    ]),
  ).toBe(0.5);
  expect([largestMagnitude([[0]]), largestMagnitude([[0.25]], 1)]).toEqual([1e-9, 1]);
});

describe('a frame', () => {
  it('gives a single head its own numbers', () => {
    expect([...ofHead(frameOf().tensors.alpha!, { layer: 1, head: 1 })]).toEqual([
      Math.fround(0.3),
      0,
      0,
    ]);
  });

  it('maps each head to its key/value head, also if layers differ in how many they have', () => {
    const sizes = [2, 1].map((G) => ({ G, K: 3, U: 3 }));
    const groupsOf = (architecture: object, layer: number) =>
      [0, 1, 2, 3].map((head) => groupOf({ architecture } as unknown as Frame, { layer, head }));
    expect(groupsOf({ H: 4, G: 2 }, 1)).toEqual([0, 0, 1, 1]);
    expect(groupsOf({ H: 4, G: 2, sizes }, 0)).toEqual([0, 0, 1, 1]);
    expect(groupsOf({ H: 4, G: 2, sizes }, 1)).toEqual([0, 0, 0, 0]);
  });

  it('has no weight for keys after the query, unless tokens see later ones', () => {
    expect([...maskHidden(frameOf(), numbersOfNine)]).toEqual([0, NaN, NaN, 3, 4, NaN, 6, 7, 8]);
    const withMask = (mask: object) =>
      ({ ...frameOf(), architecture: { ...frameOf().architecture, mask } }) as Frame;
    expect([...maskHidden(withMask({ kind: 'bidirectional' }), numbersOfNine)]).toEqual([
      ...numbersOfNine,
    ]);
    expect([0, 1, 2].map((t) => visibleKeyEnd(withMask({ kind: 'prefix', prefix: 2 }), t))).toEqual(
      [2, 2, 3],
    );
    expect(numbersOfNine[1]).toBe(1);
  });

  it('has the exact cells of a zoomed part, also if rows see all keys', () => {
    const rows = { query: 3, key: 1, att: tensor([2, 5], [1, 2, 3, 4, 0, 6, 7, 8, 9, 10]) };
    const exactCells = (normalizes: boolean) =>
      exactCellsOf({
        ...{ ...frameOf(), T: 5, pooled: {}, head: { rows: { ...rows } } },
        operation: { normalizes },
      } as unknown as Frame)!;
    const { weights, shares, sums } = exactCells(false);
    expect([[...weights], [...exactCells(true).shares], sums]).toEqual([
      [2, 3, 7, 8],
      [2, 3, 7, 8],
      [10, 40],
    ]);
    expect([...shares]).toEqual([0.2, 0.3, 0.175, 0.2].map(Math.fround));
  });

  it('divides rows by their sum, signed rows by the sum of magnitudes, and returns NaN for empty rows', () => {
    const map = Float32Array.of(0, NaN, 0.5, -1.5);
    expect([...sharesOf(map, 2)]).toEqual([0, NaN, 0.25, -0.75]);
    expect(rowSumOf(map, 2, 1)).toBe(-1);
    const rows = Float32Array.of(1, NaN, NaN, 0.25, 0.25, NaN, 0, 0, 2);
    expect([...sharesOf(rows, 3)]).toEqual([1, NaN, NaN, 0.5, 0.5, NaN, 0, 0, 1]);
    expect([0, 1, 2].map((t) => rowSumOf(rows, 3, t))).toEqual([1, 0.5, 2]);
  });

  it('has no weight for evicted keys, and returns the same maps for the same tensor', () => {
    const att = tensor([3, 3], [1, 0, 0, 0.5, 0.5, 0, 0.25, 0.25, 0.5]);
    const head = { layer: 1, head: 0, tensors: { att } };
    // For each key, the first query that no longer has it: in the third head the last query lacks the first key.
    const evicted = tensor([2, 2, 3], [0, 0, 0, 1, 1, 1, 2, 3, 3, 0, 0, 0]);
    const frame = frameOf({ head } as never, { evicted });
    const maps = mapsOf(frame)!;
    expect([...maps.weights]).toEqual([1, NaN, NaN, 0.5, 0.5, NaN, NaN, 0.25, 0.5]);
    expect([maps.shares, mapsOf(frame)]).toEqual([maps.weights, maps]);
    expect(mapsOf(frame)).toBe(maps);
    const otherHead = { ...head, tensors: { att: tensor([2, 2], [1, 0, 1, 0]) } };
    expect([mapsOf({ ...frame, head: otherHead }), mapsOf(frameOf())]).toEqual([
      undefined,
      undefined,
    ]);
  });

  it('counts as masked if tokens see later ones and the tokenizer has a mask token', () => {
    const isMaskedWith = (kind: string, maskToken?: number) =>
      isMasked({ architecture: { mask: { kind } }, maskToken } as never);
    expect([
      isMaskedWith('bidirectional', 0),
      isMaskedWith('bidirectional'),
      isMaskedWith('causal', 0),
    ]).toEqual([...[true, false, false]]);
  });

  it('selects a layer by the model’s own layer number', () => {
    const frame = frameOf({
      architecture: { ...frameOf().architecture, blocks: 6, layers: [1, 4] },
    });
    const layers = [0, 1, 3, 4, 5, 9].map((layer) => selectedHead(frame, { layer, head: 1 }).layer);
    expect(layers).toEqual([0, 0, 0, 1, 1, 1]);
    expect(selectedHead(frame, { layer: -1, head: -1 })).toEqual({ layer: 1, head: 0 });
    expect([0, 1].map((layer) => modelHead(frame, { layer, head: 1 }).layer)).toEqual([1, 4]);
    expect(modelHead(frameOf(), { layer: 1, head: 0 })).toEqual({ layer: 1, head: 0 });
    const moves = interventionsOf(frame, {
      ...defaults,
      layer: 4,
      head: 1,
      query: 0,
      key: -1,
      scope: 'head',
    });
    expect(moves.map(({ edit }) => edit.values.join()).slice(0, 3)).toMatchSnapshot();
  });

  it('selects the head with the strongest sink by default, and clamps the selection to the model', () => {
    expect(selectedHead(frameOf(), { layer: -1, head: -1 })).toEqual({ layer: 1, head: 0 });
    expect(selectedHead(frameOf(), { layer: 9, head: 1 })).toEqual({ layer: 1, head: 1 });
    expect([...alphaOfKey(frameOf(), 0)].map((x) => x.toFixed(1))).toMatchSnapshot();
    // The first of equal values wins, and NaN never does. Without a chosen layer, the head with the largest alpha counts.
    expect([[1, 3, 3], [NaN, -1, NaN, 5], [NaN, NaN], []].map(indexOfMax)).toEqual([1, 3, 1, 0]);
    const otherAlpha = tensor([2, 2, 3], [0, 7, 0, 0, 8, 0, 0, 9, 0, 1, 6, 0]);
    expect(selectedHead(frameOf({}, { alpha: otherAlpha }), { layer: -1, head: 0 })).toEqual({
      ...{ layer: 1, head: 1 },
    });
    expect([...alphaOfKey(frameOf({}, { alpha: otherAlpha }), 1)]).toEqual([7, 8, 9, 6]);
    expect(selectedHead(frameOf(), { layer: 0, head: 9 })).toEqual({ layer: 0, head: 1 });
    const { alpha: _, ...study } = frameOf().tensors;
    expect(selectedHead({ ...frameOf(), tensors: study }, { layer: -1, head: -1 })).toEqual({
      layer: 0,
      head: 0,
    });
    expect(selectedHead(frameOf(), { layer: 0, head: 0 })).toEqual({ layer: 0, head: 0 });
    expect(selectedHead(frameOf(), { layer: 0, head: -1 })).toEqual({ layer: 1, head: 0 });
    expect(mean([1, 2, 6])).toBe(3);
    expect(mean([9, 2, 4], 1)).toBe(3);
  });

  it('counts the keys that at least eight queries see, and always the first', () => {
    const keyCountAt = (T: number, kind = 'causal') =>
      comparableKeyCount({ T, architecture: { mask: { kind } } as Frame['architecture'] });
    expect([1, 7, 8, 9, 64].map((T) => keyCountAt(T))).toEqual([1, 1, 1, 2, 57]);
    expect(keyCountAt(64, 'bidirectional')).toBe(64);
  });

  it('hides the cells of a pooled map whose keys come after all of its queries', () => {
    // Five tokens in blocks of two: the last block has one.
    const pooled = { ...frameOf(), T: 5, pooled: 3 };
    expect([...maskHidden(pooled, numbersOfNine)]).toEqual([0, NaN, NaN, 3, 4, NaN, 6, 7, 8]);
    const mask = { kind: 'prefix', prefix: 3 } as Frame['architecture']['mask'];
    const architecture = { ...pooled.architecture, mask };
    expect(
      [...maskHidden({ ...pooled, architecture }, numbersOfNine)].filter(Number.isNaN),
    ).toHaveLength(2);
    const head = { layer: 0, head: 0, tensors: { att: tensor([3, 3], [...numbersOfNine]) } };
    expect(mapsOf({ ...pooled, head })).toMatchObject({ side: 3, block: 2 });
    expect(drawnMap({ ...pooled, head }, { normalize: 'no' })).toBeUndefined();
    expect(attention.says({ ...pooled, head }, head)).toMatchSnapshot();
    expect(attention.numbers({ ...pooled, head }, head)).toMatchObject([
      { name: 'mean_weight', axes: ['query_block', 'key_block'], shape: [3, 3] },
    ]);
  });

  // For each layer, `massive` has the three largest activations and the median, `massive_at` the places of the three.
  const massive = tensor([3, 4], [9, 3, 1, 3, 8, 2, 1, 0.5, 40, 2, 1, 10]);
  const massive_at = tensor([3, 6], [5, 6, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0]);

  it('reads the requested layer, or else the one with the most extreme activation', () => {
    const frame = frameOf({}, { massive, massive_at });
    expect([0, 1, 9].map((layer) => hiddenLayer(frame, layer))).toEqual([1, 2, 2]);
    expect(hiddenLayer(frame)).toBe(1); // 8 / 0.5 exceeds 40 / 10 and 9 / 3
    const otherMassive = tensor([3, 4], [9, 3, 1, 3, 8, 2, 1, 2, 40, 2, 1, 2]);
    const otherFrame = frameOf({}, { massive: otherMassive, massive_at });
    expect([hiddenLayer(otherFrame), hiddenLayer(otherFrame, 0)]).toEqual([2, 1]);
  });

  it('finds the largest number of the stream, in the first layer that has it', () => {
    expect(massiveOf(frameOf({}, { massive, massive_at }))).toEqual({
      layer: 2,
      channel: 7,
      token: 0,
      size: 40,
      median: 10,
    });
    const equalMassive = tensor([2, 4], [4, 0, 0, 1, 4, 0, 0, 2]);
    expect(massiveOf(frameOf({}, { massive: equalMassive, massive_at }))).toMatchObject({
      layer: 0,
      channel: 5,
      token: 6,
      median: 1,
    });
    const deepMassive = tensor(
      [6, 4],
      Array.from({ length: 24 }, (_, i) => Math.floor(i / 4)),
    );
    const places = tensor(
      [6, 6],
      Array.from({ length: 36 }, (_, i) => i),
    );
    expect(massiveOf(frameOf({}, { massive: deepMassive, massive_at: places }))).toEqual({
      ...{ layer: 5, channel: 30, token: 31, size: 5, median: 5 },
    });
    expect([
      largestMagnitude([[9, 1], [2]]),
      largestMagnitude([[-3], [Infinity, NaN]]),
      largestMagnitude([], 2),
      largestMagnitude([[1]], 2),
    ]).toEqual([...[9, 3, 2, 2]]);
    expect(massiveOf(frameOf())).toBeUndefined();
    expect(massiveOf(frameOf({}, { massive: tensor([0, 4], []), massive_at }))).toBeUndefined();
  });

  it('takes the super weight of the layer that writes most, whatever its sign', () => {
    // For each layer: row, column, token, weight, input and output.
    const super_weight = tensor([2, 6], [1, 2, 0, 1, 1, 3, 4, 5, 6, -2, 3, -8]);
    expect(superWeightOf(frameOf({}, { super_weight }))).toEqual({
      layer: 1,
      row: 4,
      column: 5,
      token: 6,
      share: 0.75,
    });
    const threeLayers = tensor([3, 6], [...super_weight.data, 9, 8, 7, 5, 0.5, 2.5]);
    expect(superWeightOf(frameOf({}, { super_weight: threeLayers }))).toMatchObject({ layer: 1 });
    const largestLast = tensor([3, 6], [...threeLayers.data.slice(0, 17), -9]);
    expect(superWeightOf(frameOf({}, { super_weight: largestLast }))).toEqual({
      ...{ layer: 2, row: 9, column: 8, token: 7, share: 2.5 / -9 },
    });
    const undefinedWeights = tensor([2, 6], new Float32Array(12).fill(NaN));
    expect(superWeightOf(frameOf({}, { super_weight: undefinedWeights }))).toBeUndefined();
    expect(superWeightOf(frameOf())).toBeUndefined();
  });
});

describe('formatted numbers', () => {
  it('show a dash for undefined values, and more digits if fixed ones would hide the value', () => {
    expect([
      formatValue(NaN),
      formatPercent(NaN),
      formatValue(0.0004),
      formatValue(0),
      formatPercent(0.6029),
    ]).toEqual(['–', '–', '4.0e-4', '0', '60.3%']);
  });

  it('count heads as integers on one prompt, and in percent for a mean, which has no part of a head', () => {
    const shares = [0, 0.001, 0.2501, 0.6025, 0.99999, 1];
    const amountsOf = (sequences: number) =>
      shares.map((share) => headsWords(frameOf({ sequences }), share).split(' of')[0]);
    expect(amountsOf(1)).toEqual(['none', 'none', '1', '2', '4', '4']);
    expect(amountsOf(8)).toEqual(['none', '<1%', '25%', '60%', '100%', '100%']);
    expect(headsWords(frameOf(), 0.5)).toBe('2 of the 4 heads');
    expect(headsGive(frameOf(), 0.25)).toBe('1 of the 4 heads gives');
    expect(headsGive(frameOf({ sequences: 8 }), 0.25)).toBe('25% of the 4 heads give');
    expect(headsGive(frameOf(), 0)).toMatchSnapshot();
    const architecture = { ...frameOf().architecture, L: 1, H: 1 };
    expect([0, 1].map((share) => headsWords(frameOf({ architecture }), share))).toMatchSnapshot();
  });

  it('show invisible characters of any vocabulary', () => {
    expect(makeReadable(' a\n\t')).toBe('\u00a0a↵⇥');
    expect(makeReadable('')).toBe('∅');
    expect([
      makeReadable(' '),
      makeReadable('  '),
      makeReadable('  a'),
      makeReadable(' \n'),
    ]).toEqual([...['␣', '␣␣', '\u00a0\u00a0a', '\u00a0↵']]);
    expect(makeReadable('\0\x1b\x7f\x9f\ufffe\ud800')).toBe('␀␛␡\ufffd\ufffd\ufffd');
    expect(makeReadable('😀')).toBe('😀');
    expect(quote(frameOf(), 1)).toBe('“a”');
  });

  it('name every condition in the stamp, and never call a counterfactual measured', () => {
    expect(stampWords(frameOf())).toMatchSnapshot();
    expect(stampWords(frameOf({ first: [], sequences: 9 }))).toMatchSnapshot();
    const counterfactualFrame = frameOf({ class: 'counterfactual' });
    expect(stampWords(counterfactualFrame)).toContain('COUNTERFACTUAL');
    expect(classWords(counterfactualFrame)).toMatchSnapshot();
  });
});

describe('findings about a sink', () => {
  it('need enough tokens that uniform attention does not exceed eps', () => {
    const uniformShare = (T: number) =>
      Array.from({ length: T }, (_, t) => 1 / (t + 1)).reduce((a, b) => a + b) / T;
    expect(leastTokens(0.3)).toBe(10);
    expect(uniformShare(10)).toBeLessThanOrEqual(0.3);
    expect(uniformShare(9)).toBeGreaterThan(0.3);
    expect([leastTokens(0), leastTokens(NaN)]).toEqual([Infinity, Infinity]);
    expect(leastTokens(1)).toBe(1);
  });

  it('need fewer tokens where every query sees every token', () => {
    const architecture = { ...frameOf().architecture, mask: { kind: 'bidirectional' as const } };
    expect(verdictOf(frameOf()).least).toBe(10);
    expect(verdictOf(frameOf({ architecture })).least).toBe(4);
  });

  it('use weights where rows need not sum to 1, and count shares beside them', () => {
    const verdictInputs = { eps: 0.3, even: 0.1, sink: 0.4, sinkRaw: 0.1 };
    expect(judge({ ...verdictInputs, normalizes: true })).toMatchObject({
      sink: 0.4,
      of: 'weights',
      conclusive: true,
    });
    // Attention is the weight; the count of shares is a second number.
    expect(judge({ ...verdictInputs, normalizes: false })).toMatchObject({
      sink: 0.1,
      of: 'weights',
      sinkByShares: 0.4,
    });
    const operation = { ...frameOf().operation, normalizes: false };
    const both = frameOf(
      { operation },
      { sink_ratio: tensor([3], [0.5, 0.25, 0]), sink_ratio_raw: tensor([3], [0.25, 0.75, 0]) },
    );
    expect([0, 1].map((key) => verdictOf(both, key).sink)).toEqual([0.25, 0.75]);
    expect([0, 1].map((key) => verdictOf(both, key).sinkByShares)).toEqual([0.5, 0.25]);
    expect(judge({ ...verdictInputs, even: 0.46, normalizes: true }).conclusive).toBe(false);
    expect(judge({ ...verdictInputs, even: 0.3, normalizes: true }).conclusive).toBe(true);
    expect(judge({ ...verdictInputs, even: 0.3001, normalizes: true }).conclusive).toBe(false);
  });

  it('give uniform attention and the mean over all heads as well', () => {
    const at = { layer: 1, head: 0 };
    expect(findingWords(frameOf(), at)).toMatchSnapshot();
    // A model of one head has no count of heads.
    const onlyHeadWords = (sink: number, sequences = 1) =>
      findingWords(
        frameOf(
          { sequences, architecture: { ...frameOf().architecture, L: 1, H: 1, G: 1 } },
          { alpha: tensor([1, 1, 3], [0.9, 0, 0]), sink_ratio: tensor([3], [sink, 0, 0]) },
        ),
        { layer: 0, head: 0 },
      ).replace(/^.*would give 10%\. /, '');
    expect([onlyHeadWords(1), onlyHeadWords(0), onlyHeadWords(0.25, 8)]).toMatchSnapshot();
    const operation = { ...frameOf().operation, normalizes: false };
    expect(findingWords(frameOf({ operation }), at)).toMatchSnapshot();
  });

  it('omit the count of heads if uniform attention alone exceeds eps, but state the share of the shown head', () => {
    const shortFrame = frameOf({ T: 5 }, { alpha_uniform: tensor([5], [0.457, 0, 0, 0, 0]) });
    const sentence =
      /Heads are not counted: in a text of 5 tokens, uniform attention alone gives <s> 46%, above ε = 0\.3; 10 tokens suffice\.$/;
    expect(findingWords(shortFrame, { layer: 1, head: 0 })).toMatch(sentence);
    // The head's share and uniform attention appear at every length; a count only where it means something.
    for (let T = 1; T <= 64; T++) {
      const uniformShare =
        Array.from({ length: T }, (_, t) => 1 / (t + 1)).reduce((a, b) => a + b) / T;
      const finding = findingWords(frameOf({ T }, { alpha_uniform: tensor([1], [uniformShare]) }), {
        layer: 1,
        head: 0,
      });
      expect(finding).toContain('90% of its attention');
      expect(finding).toMatch(RegExp(`uniform attention, .*${formatPercent(uniformShare, 0)}`));
      expect(finding.includes('of the 4 heads give <s>')).toBe(uniformShare <= 0.3);
      expect(finding.includes('Heads are not counted')).toBe(uniformShare > 0.3);
    }
  });
});

it('a map with more tokens than cells is shown in blocks, of which the last may be smaller', () => {
  expect([4, 5, 9, 10].map((T) => pooledSide(T, 4))).toEqual([undefined, 3, 3, 4]);
});
