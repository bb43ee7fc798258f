import { expect, it } from 'vitest';
import type { Frame } from '../src/frame';
import { ratios } from '../src/views/ratios';

/** Returns a frame with these norm ratios at the embedding and after two layers. */
const frameOf = (...values: number[]) =>
  ({
    title: 'A model',
    tensors: { hidden_ratio: { shape: [values.length], data: Float32Array.from(values) } },
  }) as unknown as Frame;
const at = { layer: 0, head: 0 };

it('the sentence names the largest ratio and its layer, counted from 0', () => {
  expect(ratios.says(frameOf(1, 2, 8), at)).toMatchSnapshot();
  expect(ratios.says(frameOf(1.5, 0.5, 0.25), at)).toMatchSnapshot();
});

it('the saved numbers begin with the embedding, before layer 0', () => {
  const [number] = ratios.numbers(frameOf(1, 2, 8), at);
  expect(number).toMatchObject({ name: 'hidden_ratio', from: [-1], shape: [3] });
});
