import { describe, expect, it } from 'vitest';
import type { Frame } from '../src/frame';
import {
  weightsByExpert,
  expertsOf,
  expertLoads,
  router,
  weightsByLayer,
} from '../src/views/router';

/** The weights in two layers: for each of three tokens those of three experts, two of them in use. */
const WEIGHTS = [
  [0.75, 0.25, 0, 0, 0.5, 0.5, 0.25, 0.75, 0],
  [0, 0.25, 0.75, 0, 0.25, 0.75, 0.5, 0, 0.5],
].flat();

function frameOfTokens(T = 3): Frame {
  const data = Float32Array.from(WEIGHTS);
  return {
    architecture: { L: 2, E: 3, chosen: 2 },
    T,
    tensors: { router: { shape: [2, T, 3], data: T === 3 ? data : data.slice(0, 6) } },
  } as unknown as Frame;
}

describe('the router', () => {
  it('transposes tokens by experts to experts by tokens', () => {
    expect([...weightsByExpert(frameOfTokens(), 0)]).toEqual([
      0.75, 0, 0.25, 0.25, 0.5, 0.75, 0, 0.5, 0,
    ]);
  });

  it('counts a token for every expert that processes it, whatever the weight', () => {
    const shares = [2, 3, 1, 1, 2, 3].map((count) => Math.fround(count / 3));
    expect([...expertLoads(frameOfTokens())]).toEqual(shares);
  });

  it('names the experts of a token, the strongest first', () => {
    expect([expertsOf(frameOfTokens(), 0, 0), expertsOf(frameOfTokens(), 1, 0)]).toEqual([
      [0, 1],
      [2, 1],
    ]);
  });

  it('separates the first token from the others', () => {
    expect([...weightsByLayer(frameOfTokens(), 'first')]).toEqual([0.75, 0.25, 0, 0, 0.25, 0.75]);
    expect([...weightsByLayer(frameOfTokens(), 'others')]).toEqual([
      0.125, 0.625, 0.25, 0.25, 0.125, 0.625,
    ]);
    expect([...weightsByLayer(frameOfTokens(1), 'others')]).toEqual(Array(6).fill(NaN));
  });

  it('applies only to models with experts', () => {
    const denseFrame = { architecture: { L: 2, E: 0 }, tensors: {} } as unknown as Frame;
    expect([router.fits!(frameOfTokens()), router.fits!(denseFrame)]).toEqual([true, false]);
    expect(
      router
        .numbers(frameOfTokens(), { layer: 0, head: 0 })
        .map(({ name, shape }) => [name, shape]),
    ).toEqual([
      ['router_weight', [2, 3, 3]],
      ['load', [2, 3]],
    ]);
  });
});
