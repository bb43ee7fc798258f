/** Draws q·k = ‖q‖‖k‖ cos as a map, to show why the first key wins. */
import { render } from 'lit';
import { segmentedControl } from '../page/controls';
import { firstKey, groupOf, largestMagnitude, mean, visibleKeyEnd, type Frame } from '../frame';
import { diverging, sequential } from '../plot/color';
import { createHeatmap } from '../plot/heatmap';
import { drawLegend } from '../plot/legend';
import { quantity } from '../save/numbers';
import type { State } from '../ask/state';
import {
  firstPromptWords,
  firstTokenSubscript,
  headWords,
  formatValue,
  formatSigned,
  tokenWord,
  modelName,
} from '../words';
import { cacheLast, addElement, setText, type View } from '../page/view';

const MAPS = {
  cos: { title: 'cosine', metric: 'qk_cos', isSigned: true },
  dot: { title: 'q·k', metric: 'qk_dot', isSigned: true },
  norm: { title: '‖q‖‖k‖', metric: 'qk_norm', isSigned: false },
} as const satisfies Record<State['map'], object>;

/**
 * Returns the cosines of all queries with the first key and with the other keys. Like `cos_gap`, counts the first token's
 * own query, which sees no other key.
 */
function cosinesOf(cos: ArrayLike<number>, frame: Pick<Frame, 'T' | 'firstAt' | 'architecture'>) {
  const [first, others]: [number[], number[]] = [[], []];
  const { T } = frame;
  const key = firstKey(frame);
  for (let t = key; t < T; t++)
    for (let j = 0; j < visibleKeyEnd(frame, t); j++)
      if (Number.isFinite(cos[t * T + j]))
        (j === key ? first : others).push(Math.max(-1, Math.min(1, cos[t * T + j]!)));
  return { first, others };
}

const cosOf = (frame: Frame) => frame.head?.tensors.qk_cos;

export const geometry: View = {
  name: 'geometry',
  title: 'Query-key geometry',
  question: 'Why does the first key get the highest scores?',
  how:
    'q·k = ‖q‖‖k‖ cos: direction or norm can make a key win. The map has a cell for every query ' +
    'and key, after positional encoding and before scaling.',
  formula: 'q·k = ‖q‖ ‖k‖ cos(q, k)',
  source: 'Gu et al., ICLR 2025, figure 2',
  reads: [],
  headReads: ['qk_cos', 'qk_dot', 'qk_norm', 'cos_gap', 'key_ratio'],
  numbers: (frame) => {
    const { L, H } = frame.architecture;
    const maps = Object.values(MAPS).flatMap(({ metric }) => {
      const tensor = frame.head?.tensors[metric];
      return tensor ? [quantity(metric.replace('qk_', ''), ['query', 'key'], tensor)] : [];
    });
    const gap = { shape: [L, H], data: frame.head!.tensors.cos_gap!.data };
    return [...maps, quantity('cosine_gap', ['layer', 'head'], gap)];
  },
  says: (frame, at) => {
    const cos = cosOf(frame);
    if (!cos) return '';
    const { G } = frame.architecture;
    const { first, others } = cosinesOf(cos.data, frame);
    const ratio = frame.head!.tensors.key_ratio!.data[at.layer * G + groupOf(frame, at)]!;
    return (
      `Cosine of query and key${firstPromptWords(frame)}: ${formatSigned(mean(first))} with the first key, ${formatSigned(mean(others))} with the ` +
      `others. ‖k${firstTokenSubscript(frame)}‖ is ${formatValue(ratio)}× the mean norm of the others.`
    );
  },
  draw(root, { point, pointed, effect, set }) {
    const captionElement = addElement(root, 'caption', 'p');
    const mapChoice = addElement(root, '');
    const legend = addElement(root, 'legend-place');
    const plot = addElement(root, 'plot');
    const map = createHeatmap(plot, {
      onPoint: (at) => point(at ? { query: at.row, key: at.col } : {}),
    });
    effect(() => {
      const { query = -1, key = -1 } = pointed.value;
      map.highlight(query < 0 && key < 0 ? undefined : { row: query, col: key });
    });
    const wordsOf = cacheLast((tokens: Frame['tokens']) =>
      tokens.map(({ text }) => tokenWord(text)),
    );
    return (frame, { state, theme, ...options }) => {
      // Keeps showing the previous head until the selected head's map is read.
      const at = frame.head ?? options.at;
      const shownMap = MAPS[state.map];
      const tensor = frame.head?.tensors[shownMap.metric];
      if (!tensor || !cosOf(frame)) return;
      setText(captionElement, geometry.says(frame, at));
      render(
        segmentedControl(
          'Quantity of the map',
          Object.entries(MAPS).map(([name, { title }]) => [name, title] as const),
          state.map,
          (name) => set({ map: name as State['map'] }),
          true,
        ),
        mapChoice,
      );
      const maximum = state.map === 'cos' ? 1 : largestMagnitude([tensor.data]);
      const scale = shownMap.isSigned ? diverging(theme, maximum) : sequential(theme, maximum);
      drawLegend(legend, scale, [formatValue(scale.low, 1), formatValue(maximum, 1)]);
      const T = frame.T;
      map.draw({
        rows: T,
        cols: T,
        data: tensor.data,
        scale,
        rowTitle: 'query',
        colTitle: 'key',
        rowWords: wordsOf(frame.tokens),
        colWords: wordsOf(frame.tokens),
        label: `${shownMap.title} of every query and key, ${headWords(at, frame)} of ${modelName(frame)}. ${geometry.says(frame, at)}`,
        describe: ({ row, col }) =>
          row < 0 || col < 0
            ? ''
            : `q ${row}, k ${col}: ${formatValue(tensor.data[row * T + col]!)}`,
      });
    };
  },
};
