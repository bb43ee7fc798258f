/** The attention map of the chosen head: queries down, keys across. */
import { drawnMap, mapsOf, massOfRow, seenBy, type Frame, type Maps } from '../frame';
import { diverging, sequential } from '../plot/color';
import { createHeatmap, type Cell } from '../plot/heatmap';
import { drawLegend } from '../plot/legend';
import { quantity } from '../save/numbers';
import { alphaOf, headWords, judged, percent, quote, shortWords, show, word } from '../words';
import { lastOf, part, say, type DrawOptions, type View } from '../page/view';

export function weightScale({
  frames,
  state,
  theme,
}: Pick<DrawOptions, 'frames' | 'state' | 'theme'>) {
  const isSigned = frames.some(({ operation }) => operation.proxy === 'share_abs');
  return isSigned ? diverging(theme, 1) : sequential(theme, 1, state.scale === 'root');
}

function sayCell(
  frame: Frame,
  { weights, shares }: Maps,
  { row, col }: Cell,
  isPlain = false,
): string {
  if (row < 0 && col < 0) return '';
  if (row >= 0 && col < 0)
    return isPlain ? `${quote(frame, row)} attends to` : `query ${row} ${quote(frame, row)}`;
  if (row < 0)
    return isPlain ? `attention on ${quote(frame, col)}` : `key ${col} ${quote(frame, col)}`;
  const share = percent(shares[row * frame.T + col]!, 1);
  if (isPlain) {
    const [who, what] = [quote(frame, row), quote(frame, col)];
    if (col >= seenBy(frame, row)) return `${who} cannot attend to ${what}, a later token`;
    return `${who} attends to ${what}: ${percent(weights[row * frame.T + col]!)}`;
  }
  const names = `query ${row} ${quote(frame, row)} → key ${col} ${quote(frame, col)}`;
  if (col >= seenBy(frame, row)) return `${names}: not visible (later token)`;
  if (Number.isNaN(shares[row * frame.T + col])) return `${names}: forgotten (not in the cache)`;
  const weight = show(weights[row * frame.T + col]!, 4);
  if (frame.operation.normalises) return `${names}: ${weight}`;
  return `${names}: ${share} of the row, weight ${weight} of row sum ${show(massOfRow(weights, frame.T, row), 3)}`;
}

export const attention: View = {
  name: 'attention',
  title: 'Attention map',
  question: 'Which tokens does each token attend to?',
  how:
    'Row: query. Column: key. A sink is a column that nearly every row attends to. Point at a cell, or use ' +
    'the arrow keys, to read its weight. Colors are raw weights: where rows need not sum to 1, a row may be ' +
    'nearly empty.',
  formula: 'A = softmax(q·k / √K), or what the operation says',
  source: 'Vaswani et al., 2017, section 3.2.1',
  reads: [],
  headReads: ['att'],
  numbers: (frame) => {
    const { T } = frame;
    const maps = mapsOf(frame);
    if (!maps) return [];
    const masses = Float32Array.from({ length: T }, (_, t) => massOfRow(maps.weights, T, t));
    return [
      quantity('weight', ['query', 'key'], { shape: [T, T], data: maps.weights }),
      quantity('row_mass', ['query'], { shape: [T], data: masses }),
    ];
  },
  says: (frame, at) => {
    const { T, eps, title, operation } = frame;
    const verdict = judged(frame);
    const what = operation.normalises ? 'on average' : 'of what its rows carry, on average';
    const short = verdict.tells ? '' : ` ${shortWords(verdict, T, eps)}`;
    return (
      `Attention weights of ${headWords(at)} of ${title}: ${T} queries by ${T} keys. The first token, ` +
      `${quote(frame, 0)}, receives ${percent(alphaOf(frame, at), 0)} ${what}; uniform attention would give it ` +
      `${percent(verdict.even, 0)}.${short}`
    );
  },
  draw(root, { set, point, pointed, effect }) {
    const head = part(root, 'map-head');
    const title = part(head, 'subtitle', 'p');
    const legend = part(head, 'legend-place');
    const heatmap = createHeatmap(part(root, 'plot'), {
      onPoint: (cell) => point(cell ? { query: cell.row, key: cell.col } : {}),
      onChoose: (cell) => set({ query: cell.row, key: cell.col }),
    });
    effect(() => {
      const { query = -1, key = -1 } = pointed.value;
      heatmap.light(query < 0 && key < 0 ? undefined : { row: query, col: key });
    });
    const wordsOf = lastOf((tokens: Frame['tokens']) => tokens.map(({ text }) => word(text)));
    return (frame, options) => {
      const maps = mapsOf(frame);
      if (!maps) return;
      const { state, at, isPlain } = options;
      const scale = weightScale(options);
      say(title, `${headWords(at)} · ${frame.operation.label}`);
      title.hidden = legend.hidden = Boolean(isPlain);
      drawLegend(legend, scale, [`weight ${show(scale.low, 0)}`, '1']);
      const words = wordsOf(frame.tokens);
      heatmap.draw({
        rows: frame.T,
        cols: frame.T,
        data: drawnMap(frame)!,
        scale,
        rowTitle: isPlain ? '' : 'query',
        colTitle: isPlain ? '' : 'key',
        rowWords: words,
        colWords: words,
        rowBars: options.rowBars,
        colBars: options.colBars,
        remark: options.remark,
        label: attention.says(frame, at),
        chosen:
          state.query >= 0 || state.key >= 0 ? { row: state.query, col: state.key } : undefined,
        describe: (cell) => sayCell(frame, maps, cell, isPlain),
      });
    };
  },
};
