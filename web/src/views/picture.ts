/** Draws the picture of a prompt, in which each patch is covered the more, the less it receives. */
import type { Tensor } from 'sinkscope';
import { largestMagnitude } from '../frame';
import { addElement } from '../page/view';

/** How much a patch that receives nothing is covered; the cover falls with the square root of what it receives. */
const COVER = 0.75;

type Grid = { readonly rows: number; readonly cols: number; readonly data: ArrayLike<number> };

function paintPixels(
  canvas: HTMLCanvasElement,
  [height, width]: readonly number[],
  rgba: Uint8ClampedArray,
) {
  Object.assign(canvas, { width, height });
  const context = canvas.getContext('2d');
  const image = context?.createImageData(width!, height!);
  image?.data.set(rgba);
  if (image) context!.putImageData(image, 0, 0);
}

/** @returns a function that draws a picture [height, width, 3] under its cover, or removes it */
export function createPicture(root: HTMLElement) {
  const figure = Object.assign(document.createElement('div'), { className: 'picture' });
  const [photo, cover] = [addElement(figure, '', 'canvas'), addElement(figure, '', 'canvas')];
  // The map beside the picture says the same to a screen reader.
  figure.setAttribute('aria-hidden', 'true');
  return (picture: Tensor | undefined, { rows, cols, data }: Grid) => {
    if (!picture) return figure.remove();
    root.append(figure);
    const pixels = Array.from({ length: picture.data.length / 3 }, (_, i) => [
      ...picture.data.subarray(3 * i, 3 * i + 3),
      255,
    ]);
    paintPixels(photo as HTMLCanvasElement, picture.shape, Uint8ClampedArray.from(pixels.flat()));
    const largest = largestMagnitude([data]);
    const covers = Array.from(data, (weight) => [
      ...[128, 128, 128],
      255 * COVER * (1 - Math.sqrt((weight > 0 ? weight : 0) / largest)),
    ]);
    paintPixels(cover as HTMLCanvasElement, [rows, cols], Uint8ClampedArray.from(covers.flat()));
    figure.style.aspectRatio = `${cols} / ${rows}`;
  };
}
