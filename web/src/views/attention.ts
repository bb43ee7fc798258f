/** The attention map of the chosen head: queries down, keys across. */
import { mapOf, seenBy, type Frame } from '../frame';
import { diverging, sequential, type Scale } from '../plot/color';
import { createHeatmap, type Cell } from '../plot/heatmap';
import { drawLegend } from '../plot/legend';
import { quantity } from '../save/numbers';
import { readable, show } from '../words';
import { largest, part, type Context, type ViewKind } from './view';

/** Weights of most operations lie in 0..1; others get the range that both sides need. */
function range(frames: readonly Frame[]): { high: number; signed: boolean } {
  const signed = frames.some((frame) => frame.operation.proxy === 'share_abs');
  const bounded = frames.every((f) => !['elu1', 'identity', 'relu'].includes(f.operation.name));
  const high = bounded ? 1 : largest(frames.map((frame) => frame.tensors.att.data));
  return { high, signed };
}

export function weightScale(context: Context): { scale: Scale; low: number; high: number } {
  const { high, signed } = range(context.frames);
  if (signed) return { scale: diverging(context.theme, high), low: -high, high };
  return { scale: sequential(context.theme, high, context.state.scale === 'root'), low: 0, high };
}

/** What a query attends in all, in this map. */
function massOfRow({ T }: Frame, weights: Float32Array, query: number): number {
  const row = weights.subarray(query * T, (query + 1) * T);
  return row.reduce((sum, weight) => sum + (Number.isNaN(weight) ? 0 : weight), 0);
}

function sayCell(frame: Frame, weights: Float32Array, { row, col }: Cell) {
  if (row < 0 && col < 0) return '';
  if (row >= 0 && col < 0) return `query ${row + 1} ${quote(frame, row)}`;
  if (row < 0) return `key ${col + 1} ${quote(frame, col)}`;
  const names = `query ${row + 1} ${quote(frame, row)} → key ${col + 1} ${quote(frame, col)}`;
  if (col >= seenBy(frame, row)) return `${names}: not visible (later token)`;
  const rowMass = frame.operation.normalises
    ? ''
    : ` of row mass ${show(massOfRow(frame, weights, row), 3)}`;
  return `${names}: ${show(weights[row * frame.T + col], 4)}${rowMass}`;
}

function quote(frame: Frame, t: number): string {
  return `“${readable(frame.tokens[t]?.text ?? '')}”`;
}

export const attention: ViewKind = {
  name: 'attention',
  title: 'Attention map',
  how:
    'Row: the token that looks (query). Column: the token it looks at (key). A sink is a bright ' +
    'first column. Point at a cell or move with the arrow keys to read its weight.',
  numbers: (frame, layer, head) => {
    const { T } = frame;
    const map = { shape: [T, T], data: mapOf(frame, layer, head) };
    const masses = Float32Array.from({ length: T }, (_, t) => massOfRow(frame, map.data, t));
    const mass = { shape: [T], data: masses };
    return [quantity('weight', ['query', 'key'], map), quantity('row_mass', ['query'], mass)];
  },
  create(root, { set, point }) {
    const title = part(root, 'subtitle', 'p');
    const legend = part(root, 'legend-place');
    const plot = part(root, 'plot');
    const heatmap = createHeatmap(plot, {
      onPoint: (cell) => point(cell ? { query: cell.row, key: cell.col } : {}),
      onChoose: (cell) => set({ query: cell.row, key: cell.col }),
    });
    let drawn = '';
    let map: { of: unknown; data: Float32Array } | undefined;
    let scale: ReturnType<typeof weightScale> | undefined;
    return {
      update(frame, context) {
        const { layer, head, state, pointed, theme } = context;
        const { high, signed } = range(context.frames);
        const wanted = [theme, state.scale, high, signed].join();
        if (drawn !== wanted || !scale) scale = weightScale(context);
        drawn = wanted;
        const of = [frame.tensors.att, layer, head];
        if (!map || of.some((part, i) => part !== (map!.of as unknown[])[i]))
          map = { of, data: mapOf(frame, layer, head) };
        const weights = map.data;
        title.textContent = `layer ${layer + 1}, head ${head + 1} · ${frame.operation.label}`;
        drawLegend(legend, scale.scale, scale.low, scale.high, [
          `weight ${show(scale.low, 0)}`,
          show(scale.high, scale.high === 1 ? 0 : 2),
        ]);
        const lit = pointed.query !== undefined || pointed.key !== undefined;
        heatmap.draw({
          rows: frame.T,
          cols: frame.T,
          data: weights,
          scale: scale.scale,
          rowTitle: 'query',
          colTitle: 'key',
          label:
            `Attention weights of layer ${layer + 1}, head ${head + 1} of ${frame.model.title}: ` +
            `${frame.T} queries by ${frame.T} keys.`,
          chosen:
            state.query >= 0 || state.key >= 0 ? { row: state.query, col: state.key } : undefined,
          lit: lit ? { row: pointed.query ?? -1, col: pointed.key ?? -1 } : undefined,
          describe: (cell) => sayCell(frame, weights, cell),
        });
      },
    };
  },
};
