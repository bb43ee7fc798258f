/** One number of every head as a picture: layers down, heads across. A click opens the head. */
import type { Frame } from '../frame';
import type { Scale } from '../plot/color';
import { createHeatmap } from '../plot/heatmap';
import { drawLegend } from '../plot/legend';
import { show } from '../words';
import { part, type Context, type Reach } from './view';

export interface HeadNumbers {
  /** [L, H] */
  readonly data: ArrayLike<number>;
  readonly scale: Scale;
  /** The letter of the quantity: α₁. */
  readonly symbol: string;
  /** One sentence that stands for the picture. */
  readonly label: string;
}

const counted = (n: number) => Array.from({ length: n }, (_, i) => String(i + 1));

export function createHeadMap(root: HTMLElement, { set, point, pointed, effect }: Reach) {
  const legend = part(root, 'legend-place');
  const map = createHeatmap(part(root, 'plot head-map'), {
    onPoint: (cell) => point(cell ? { layer: cell.row, head: cell.col } : {}),
    onChoose: (cell) => set({ layer: cell.row, head: cell.col }),
  });
  effect(() => {
    const { layer, head = -1 } = pointed.value;
    map.light(layer === undefined ? undefined : { row: layer, col: head });
  });
  return (frame: Frame, { at }: Context, { data, scale, symbol, label }: HeadNumbers): void => {
    const { L, H } = frame.architecture;
    drawLegend(legend, scale, [
      `${symbol} ${show(scale.low, scale.low ? 1 : 0)}`,
      show(scale.high, scale.low ? 1 : 0),
    ]);
    map.draw({
      rows: L,
      cols: H,
      data,
      scale,
      rowTitle: 'layer',
      colTitle: 'head',
      rowWords: counted(L),
      colWords: counted(H),
      cellShape: Math.max(1, Math.min(2, (1.2 * L) / H)),
      label,
      chosen: { row: at.layer, col: at.head },
      describe: ({ row, col }) =>
        row < 0 || col < 0
          ? ''
          : `layer ${row + 1}, head ${col + 1}: ${symbol} = ${show(data[row * H + col]!, 3)}`,
    });
  };
}
