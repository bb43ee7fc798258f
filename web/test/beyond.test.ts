/** Views of measures beyond the paper: their sentences on frames with known numbers. */
import { describe, expect, it } from 'vitest';
import type { Frame } from '../src/frame';
import { logitParts, partsOf } from '../src/views/logit_parts';
import { keysByAttention, secondary } from '../src/views/secondary';
import { sinkTag } from '../src/views/sink_tag';
import { diagonal } from '../src/views/diagonal';
import { compression, valleyOf } from '../src/views/compression';
import { frameOf, tensor } from './fixture';

const at = { layer: 0, head: 0 };

describe('a compression valley', () => {
  const entropyFrame = (all: number[], others: number[]) =>
    frameOf(
      { title: 'A' },
      {
        matrix_entropy: tensor([all.length], all),
        matrix_entropy_others: tensor([others.length], others),
      },
    );

  it('excludes the first and the last layer', () => {
    const { depth, layer } = valleyOf(Float32Array.of(0.75, 0.5, 0.25, 0.5));
    expect([depth, layer]).toEqual([0.25, 1]);
    expect(valleyOf(Float32Array.of(0.5, 0.75, 0.5)).depth).toBe(-0.25);
    expect(valleyOf(Float32Array.of(0.5, 0.75)).depth).toBeNaN();
  });

  it('is reported with its depth with and without the first token', () => {
    expect(
      compression.says(entropyFrame([0.75, 0.25, 0.5], [0.75, 0.75, 0.5]), at),
    ).toMatchSnapshot();
    expect(compression.says(entropyFrame([0.75, 0.25, 0.5], [0.75, 0.375, 0.5]), at)).toMatch(
      /valley is 0.13 deep/,
    );
    expect(compression.says(entropyFrame([0.75, 0.25, 0.5], [0.5, 0.5, 0.5]), at)).toMatch(
      /there is no valley\.$/,
    );
    expect(compression.says(entropyFrame([0.5, 0.75, 0.5], [1, 1, 1]), at)).toMatch(
      /^A: no valley/,
    );
    expect(
      compression.says(entropyFrame([0.75, 0.625, 0.25, 0.5], [1, 1, 1, 1]), at),
    ).toMatchSnapshot();
  });
});

describe('the parts of a logit', () => {
  // Two layers of two heads. The logit of layer 1, head 1 has four parts: embedding, attention of layer 0, its MLP, biases.
  const undefinedParts = [NaN, NaN, NaN, NaN];
  const logit_parts = tensor(
    [2, 2, 6],
    [
      1,
      NaN,
      NaN,
      NaN,
      NaN,
      0.5,
      1,
      NaN,
      NaN,
      NaN,
      NaN,
      0,
      1,
      2,
      3,
      NaN,
      NaN,
      0,
      0.5,
      -2,
      8,
      NaN,
      NaN,
      0.25,
    ],
  );
  const headParts = (...own: number[]) =>
    tensor([2, 2, 2, 2], [...undefinedParts, ...undefinedParts, 0, 0, NaN, NaN, ...own, NaN, NaN]);

  it('are the contributions of the layers below, and of the strongest head', () => {
    const frame = frameOf({}, { logit_parts, logit_parts_heads: headParts(1, -3) });
    expect(partsOf(frame, { layer: 1, head: 1 })).toEqual({
      embedding: 0.5,
      attention: [-2],
      ffn: [8],
      biases: 0.25,
      head: { layer: 0, head: 1, part: -3 },
    });
    expect(logitParts.says(frame, { layer: 1, head: 1 })).toMatchSnapshot();
    // A hybrid model counts layers without attention, too.
    const hybrid = { ...frame, architecture: { ...frame.architecture, layers: [3, 7] } } as never;
    expect(logitParts.says(hybrid, { layer: 1, head: 1 })).toMatch(
      /^L7H1: .* \(layer 3: 8\.00\).* L3H1 adds the most/,
    );
    expect(logitParts.says(frame, at)).toMatchSnapshot();
  });

  it('omit heads that cannot be separated, and are empty if they do not add up', () => {
    const frame = frameOf({}, { logit_parts, logit_parts_heads: headParts(NaN, NaN) });
    expect(logitParts.says(frame, { layer: 1, head: 1 })).not.toContain('Of the heads');
    const undefinedTensor = tensor([2, 2, 6], new Float32Array(24).fill(NaN));
    const edited = frameOf(
      {},
      { logit_parts: undefinedTensor, logit_parts_heads: headParts(NaN, NaN) },
    );
    expect(logitParts.says(edited, { layer: 1, head: 1 })).toMatch(/^L1H1: the stream is no sum/);
  });
});

describe('sinks and diagonals', () => {
  // Two layers of two heads over four tokens. Head L1H0 is a sink; head L0H1 attends to its own key.
  const diagonalFrame = (alphas: number[], ranks: number[]) =>
    frameOf(
      { T: 4, sequences: 1, eps: 0.3 },
      {
        alpha: tensor(
          [2, 2, 4],
          alphas.flatMap((alpha) => [alpha, 0, 0, 0]),
        ),
        diagonal: tensor([2, 2, 3], [0.25, 0.125, 0, 0.75, 0.0625, 0, 0.25, 0.5, 0, 0.5, 0, 0]),
        stable_rank: tensor([2, 2], ranks),
      },
    );

  it('state the first layer with a sink, and what heads with a sink and without do', () => {
    expect(
      diagonal.says(diagonalFrame([0.25, 0.25, 0.75, 0.125], [2, 3, 1.5, 4]), at),
    ).toMatchSnapshot();
  });

  it('leave out a layer without a sink, and ranks that a gate makes undefined', () => {
    expect(
      diagonal.says(diagonalFrame([0.25, 0.25, 0.25, 0.125], [NaN, 3, 1.5, 4]), at),
    ).toMatchSnapshot();
  });
});

it('the sentence about a sink’s tag states the tag of the chosen head, of the strongest one, and of chance', () => {
  const shares = tensor([2, 2], [0.5, 0.25, 0.125, 1]);
  const tagFrame = (...stream: number[]) =>
    frameOf({}, { tag_share: shares, tag_stream: tensor([2, 2], stream) });
  expect(sinkTag.says(tagFrame(0.25, 0.5, 0.125, NaN), { layer: 1, head: 0 })).toMatchSnapshot();
  // A hybrid model counts layers without attention, too.
  const frame = tagFrame(0.25, 0.5, 0.125, NaN);
  const hybrid = { ...frame, architecture: { ...frame.architecture, layers: [3, 7] } } as never;
  expect(sinkTag.says(hybrid, { layer: 1, head: 0 })).toMatch(/^Head L7H0: .* layer 7 .* L3H1\./);
  expect(sinkTag.says(tagFrame(NaN, NaN, NaN, NaN), at)).toMatchSnapshot();
});

describe('secondary sinks', () => {
  // Two layers of two heads, eight tokens: in layer 1 key 2 receives 8 times uniform attention.
  const T = 8;
  const alphas = new Float32Array(2 * 2 * T).fill(0.01);
  for (const head of [0, 1, 2, 3]) alphas[head * T] = 0.5;
  alphas[2 * T + 2] = 1;
  alphas[3 * T + 2] = 0.6;
  // A key that few queries see does not count.
  alphas[3 * T + 6] = 1;
  const alphaFrame = (data: Float32Array): Frame =>
    frameOf(
      {
        T,
        tokens: Array.from({ length: T }, () => ({ text: ' a' })) as unknown as Frame['tokens'],
      },
      {
        alpha: tensor([2, 2, T], data),
        alpha_uniform: tensor([T], new Float32Array(T).fill(0.1)),
        hidden_norm: tensor(
          [3, T],
          [...new Array(T).fill(1), 5, 1, 8, 1, 1, 1, 1, 1, ...new Array(T).fill(1)],
        ),
      },
    );

  it('are keys of the first half, with the layer of birth, lifetime and norm', () => {
    const [first, second] = keysByAttention(alphaFrame(alphas));
    expect(first).toMatchObject({ key: 2, birth: 1, lifetime: 1, norm: 4 });
    expect(first!.multiples[1]).toBeCloseTo(8, 5);
    expect(second).toMatchObject({ birth: -1, lifetime: 0 });
    expect(keysByAttention(alphaFrame(alphas)).map(({ key }) => key)).toEqual([2, 1, 3]);
    // Of seven tokens, keys 0 to 2 have enough queries. If a recording counts key 1 as the first, keys 2 and 3 are left.
    const keysOf = (change: object) =>
      keysByAttention({ ...alphaFrame(alphas), ...change } as Frame).map(({ key }) => key);
    expect(keysOf({ T: 7 }).sort()).toEqual([1, 2]);
    expect(keysOf({ firstAt: { key: 1, isCommon: true } }).sort()).toEqual([2, 3]);
    expect(secondary.says(alphaFrame(alphas), at)).toMatchSnapshot();
  });

  it('may be any key if all queries see all keys, as [SEP] in an encoder', () => {
    const oneWayFrame = alphaFrame(alphas);
    const mask = { kind: 'bidirectional' } as const;
    const bothWaysFrame = { ...oneWayFrame, architecture: { ...oneWayFrame.architecture, mask } };
    expect(keysByAttention(bothWaysFrame)).toHaveLength(T - 1);
    expect(keysByAttention(bothWaysFrame)[1]).toMatchObject({ key: 6, birth: 1, lifetime: 1 });
    expect(secondary.says(bothWaysFrame, at)).toMatch(/^2 secondary sinks: token 2 .*; token 6 /);
  });

  it('are reported as absent if no key receives five times uniform attention', () => {
    const smallAlphas = alphas.map((x) => Math.min(x, 0.5));
    expect(secondary.says(alphaFrame(smallAlphas), at)).toMatch(
      /^No secondary sink: after the first, token 2 “a” receives most, at most 5.0 times/,
    );
    const keyAtLimit = (most: number) => {
      const plain = alphaFrame(alphas.map((x) => Math.min(x, most)));
      const alpha_uniform = tensor([T], new Float32Array(T).fill(0.125));
      return keysByAttention({ ...plain, tensors: { ...plain.tensors, alpha_uniform } })[0];
    };
    expect(keyAtLimit(0.65)!.lifetime).toBe(0);
    alphas[3 * T + 2] = 1;
    expect(keyAtLimit(0.625)).toMatchObject({
      key: 2,
      multiples: [0.08, 5].map(() => expect.anything()),
      lifetime: 0,
    });
    expect(keyAtLimit(0.640625)).toMatchObject({ key: 2, birth: 1, lifetime: 1 });
  });
});
