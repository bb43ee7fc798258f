// @vitest-environment happy-dom
/** Start's saved picture: it is what the core computes with the shipped weights, and it is shown only where it is true. */
import type { Tensor } from 'sinkscope';
import { describe, expect, it } from 'vitest';
import type { Frame } from '../src/frame';
import { attention } from '../src/views/attention';
import { isBuilt, UNBUILT } from './fixture';
import { openPage, stubScreen } from './engine';

/** Keeps what the picture says of other heads, their attention to the first token; three quarters of the numbers are left out. */
function trimmed(frame: Frame): Frame {
  const { layer, head } = frame.head!;
  const trim = ({ shape, data }: Tensor): Tensor => {
    const [, H, T] = shape as [number, number, number];
    const isKept = (i: number) => i % T === 0 || Math.floor(i / T) === layer * H + head;
    return { shape, data: Float32Array.from(data, (value, i) => (isKept(i) ? value : NaN)) };
  };
  const { alpha, alpha_raw, ...tensors } = frame.tensors;
  return {
    ...{ ...frame, milliseconds: 0 },
    tensors: { alpha: trim(alpha!), alpha_raw: trim(alpha_raw!), ...tensors },
  };
}

const toBase64 = (data: Float32Array) =>
  Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64');

describe.skipIf(!isBuilt)(`the saved picture of Start (${UNBUILT})`, () => {
  it('has the bits that the core computes of the default text', async () => {
    stubScreen();
    const page = await openPage();
    const frames = await page.framesOf(['softmax', 'sigmoid'], {}, [attention]);
    const text = JSON.stringify(frames.map(trimmed), (_, value) =>
      value instanceof Float32Array ? toBase64(value) : value,
    );
    // `npm --prefix web test -- saved_start -u` draws it again.
    await expect(`${text}\n`).toMatchFileSnapshot('../lessons/pictures/start.json');
    await page.close();
  });
});
