/** Draws one number per head as a map, layers down and heads across. A click selects the head. */
import { html, nothing, render } from 'lit';
import { layerNumber, modelHead, type Frame } from '../frame';
import { drawChart, type ChartData } from '../plot/chart';
import type { Scale } from '../plot/color';
import { createHeatmap, type Cell } from '../plot/heatmap';
import { drawLegend, drawScale } from '../plot/legend';
import { headName, formatReal, formatValue, modelName } from '../words';
import { addElement, setText, type DrawOptions, type ViewApi, type View } from '../page/view';

interface HeadNumbers {
  /** The value of the quantity for each head, [L, H]. */
  readonly data: ArrayLike<number>;
  readonly scale: Scale;
  readonly symbol: string;
  readonly label: string;
  /** Heads with an outline, and the meaning of the outline. */
  readonly outlined?: { readonly cells: readonly Cell[]; readonly name: string };
  /** Formats a number of the readout; absent: with three digits. */
  readonly print?: (value: number) => string;
  /** Returns words to append to a head's readout. */
  readonly more?: (cell: Cell) => string;
}

const indexLabels = (n: number) => Array.from({ length: n }, (_, i) => String(i));

export function createHeadMap(root: HTMLElement, { set, point, pointed, effect }: ViewApi) {
  const legend = addElement(root, 'legend-place');
  let shownFrame: Frame | undefined;
  const outlineLegend = addElement(root, 'hint outline-key', 'p');
  const map = createHeatmap(addElement(root, 'plot head-map'), {
    onPoint: (cell) => point(cell ? { layer: cell.row, head: cell.col } : {}),
    onChoose: (cell) =>
      shownFrame && set(modelHead(shownFrame, { layer: cell.row, head: cell.col })),
  });
  effect(() => {
    const { layer, head = -1 } = pointed.value;
    map.highlight(layer === undefined ? undefined : { row: layer, col: head });
  });
  return (
    frame: Frame,
    { at, frames, isPlain = false, outlined: markedCells }: DrawOptions,
    {
      data,
      scale,
      symbol,
      label,
      outlined,
      print = (value) => formatValue(value, 3),
      more,
    }: HeadNumbers,
  ): void => {
    shownFrame = frame;
    const { L, H } = frame.architecture;
    const digits = scale.low ? (scale.high < 0.1 ? 3 : 1) : 0;
    const [low, high] = [scale.low, scale.high].map((end) => formatReal(end, digits));
    legend.hidden = isPlain;
    // The ends alone would not say where on a square-root scale the numbers are.
    if (scale.isSquareRoot) drawScale(legend, scale);
    else drawLegend(legend, scale, [`${symbol} ${low}`, high!]);
    render(
      outlined?.cells.length ? html`<span class="mark outlined"></span> ${outlined.name}` : nothing,
      outlineLegend,
    );
    map.draw({
      rows: L,
      cols: H,
      data,
      scale,
      rowTitle: 'layer',
      colTitle: 'head',
      rowWords: Array.from({ length: L }, (_, l) => String(layerNumber(frame, l))),
      colWords: indexLabels(H),
      // A plain map stands beside an attention map and is about as high.
      cellShape: isPlain ? Math.max(0.4, (0.42 * L) / H) : Math.max(1, Math.min(2, (1.2 * L) / H)),
      label,
      outlined: outlined?.cells ?? markedCells,
      chosen: { row: at.layer, col: at.head },
      describe: ({ row, col }) =>
        row < 0 || col < 0
          ? ''
          : `${headName({ layer: row, head: col }, frame)}${frames.length > 1 ? ` of ${modelName(frame)}` : ''}: ${isPlain ? '' : `${symbol} = `}${print(data[row * H + col]!)}${more?.({ row, col }) ?? ''}`,
    });
  };
}

/** Returns a view's draw function: a map with a number for each head, and a chart of the chosen head by token. */
export function createHeadsDraw(
  says: View['says'],
  numbersOf: (frame: Frame, options: DrawOptions) => { heads: HeadNumbers; tokenChart: ChartData },
): View['draw'] {
  return (root, api) => {
    const captionElement = addElement(root, 'caption', 'p');
    const drawMap = createHeadMap(root, api);
    const chart = addElement(root, 'chart');
    return (frame, options) => {
      const { heads, tokenChart } = numbersOf(frame, options);
      setText(captionElement, says(frame, options.at));
      drawMap(frame, options, heads);
      drawChart(chart, tokenChart);
    };
  };
}
