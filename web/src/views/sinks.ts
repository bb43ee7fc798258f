/** The sink map: alpha of token 1 in every head, before any threshold. */
import { alphaOfKey, type Frame } from '../frame';
import { sequential } from '../plot/color';
import { createHeatmap } from '../plot/heatmap';
import { drawLegend } from '../plot/legend';
import { quantity } from '../save/numbers';
import { CLASS_WORDS, conditions, massOf, percent, show, sinkOf } from '../words';
import { part, type Context, type ViewKind } from './view';

function bigNumber(frame: Frame): string {
  const raw = frame.tensors.sink_ratio_raw.data[0];
  const own = frame.operation.normalises
    ? ''
    : ` · from raw weights ${percent(raw)} · mean row mass ${show(massOf(frame))}`;
  const near = frame.tensors.near_eps.data[0];
  const close = near ? ` · ${near} within 0.002 of ε` : '';
  return own + close;
}

function numbers(frame: Frame, figure: HTMLElement, small: HTMLElement): void {
  const star = frame.operation.normalises ? '' : '*';
  figure.textContent = `${percent(sinkOf(frame))}${star}`;
  small.textContent = `${CLASS_WORDS[frame.class]} · ${conditions(frame)}${bigNumber(frame)}`;
}

export const sinks: ViewKind = {
  name: 'sinks',
  title: 'Sink map',
  stamped: true,
  how:
    'A cell is a head, its colour α₁: the mean attention that token 1 receives. Sink₁ is the share ' +
    'of heads with α₁ > ε; * marks shares of rows that need not sum to 1. Click a head to open it.',
  numbers: (frame) => {
    const { L, H } = frame.architecture;
    const alpha = { shape: [L, H], data: alphaOfKey(frame, 0) };
    return [
      quantity('sink_1', [], { shape: [], data: frame.tensors.sink_ratio.data.slice(0, 1) }),
      quantity('alpha_1', ['layer', 'head'], alpha),
    ];
  },
  create(root, { set, point }) {
    const head = part(root, 'number');
    const figure = part(head, 'figure', 'strong');
    part(head, 'unit', 'span').textContent = 'Sink₁';
    const small = part(root, 'conditions', 'p');
    const legend = part(root, 'legend-place');
    const plot = part(root, 'plot');
    const map = createHeatmap(plot, {
      onPoint: (cell) => point(cell ? { layer: cell.row, head: cell.col } : {}),
      onChoose: (cell) => set({ layer: cell.row, head: cell.col }),
    });
    let alpha: { of: Frame; data: Float32Array } | undefined;
    let scale = { theme: '', of: sequential('light') };
    return {
      update(frame: Frame, { theme, pointed, layer, head: h }: Context) {
        if (alpha?.of !== frame) alpha = { of: frame, data: alphaOfKey(frame, 0) };
        if (scale.theme !== theme) scale = { theme, of: sequential(theme) };
        const { L, H } = frame.architecture;
        const { data } = alpha;
        numbers(frame, figure, small);
        drawLegend(legend, scale.of, 0, 1, ['α₁ = 0', '1']);
        const lit = pointed.layer !== undefined && pointed.layer < L;
        map.draw({
          rows: L,
          cols: H,
          data,
          scale: scale.of,
          rowTitle: 'layer',
          cellShape: 1.7,
          colTitle: 'head',
          label:
            `Sink score of token 1 for ${L} layers by ${H} heads of ${frame.model.title}; ` +
            `${percent(sinkOf(frame))} exceed ${frame.eps}.`,
          chosen: { row: layer, col: h },
          lit: lit ? { row: pointed.layer!, col: pointed.head ?? -1 } : undefined,
          describe: ({ row, col }) =>
            row < 0 || col < 0
              ? ''
              : `layer ${row + 1}, head ${col + 1}: α₁ = ${show(data[row * H + col], 3)}`,
        });
      },
    };
  },
};
