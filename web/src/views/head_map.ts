/** One number of every head as a picture: layers down, heads across. A click opens the head. */
import type { Frame } from '../frame';
import { sequential } from '../plot/color';
import { createHeatmap } from '../plot/heatmap';
import { drawLegend } from '../plot/legend';
import { show } from '../words';
import { part, type Context, type Reach } from './view';

export interface HeadNumbers {
  /** [L, H], from 0 to 1. */
  readonly data: ArrayLike<number>;
  /** The letter of the quantity: α₁. */
  readonly symbol: string;
  /** One sentence that stands for the picture. */
  readonly label: string;
}

export interface HeadMap {
  draw(frame: Frame, context: Context, numbers: HeadNumbers): void;
}

export function createHeadMap(root: HTMLElement, { set, point }: Reach): HeadMap {
  const legend = part(root, 'legend-place');
  const map = createHeatmap(part(root, 'plot head-map'), {
    onPoint: (cell) => point(cell ? { layer: cell.row, head: cell.col } : {}),
    onChoose: (cell) => set({ layer: cell.row, head: cell.col }),
  });
  let scale = { theme: '', of: sequential('light') };
  return {
    draw(frame, { theme, pointed, layer, head }, { data, symbol, label }) {
      const { L, H } = frame.architecture;
      if (scale.theme !== theme) scale = { theme, of: sequential(theme) };
      drawLegend(legend, scale.of, 0, 1, [`${symbol} = 0`, '1']);
      const lit = pointed.layer !== undefined && pointed.layer < L;
      map.draw({
        rows: L,
        cols: H,
        data,
        scale: scale.of,
        rowTitle: 'layer',
        cellShape: 1.7,
        colTitle: 'head',
        label,
        chosen: { row: layer, col: head },
        lit: lit ? { row: pointed.layer!, col: pointed.head ?? -1 } : undefined,
        describe: ({ row, col }) =>
          row < 0 || col < 0
            ? ''
            : `layer ${row + 1}, head ${col + 1}: ${symbol} = ${show(data[row * H + col], 3)}`,
      });
    },
  };
}
