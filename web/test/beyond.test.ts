/** Views of measures beyond the paper: their sentences on frames with known numbers. */
import { describe, expect, it } from 'vitest';
import { logitParts, partsOf } from '../src/views/logit_parts';
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
      [1, ...undefinedParts, 0.5],
      [1, ...undefinedParts, 0],
      [1, 2, 3, NaN, NaN, 0],
      [0.5, -2, 8, NaN, NaN, 0.25],
    ].flat(),
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
    expect(logitParts.says(edited, { layer: 1, head: 1 })).toMatchSnapshot();
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
