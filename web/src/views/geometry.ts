/**
 * Draws q·k = ‖q‖‖k‖ cos of queries and keys as a map, and their angles as a histogram, to show why the first key wins.
 */
import { html, render } from 'lit';
import { segmentedControl } from '../page/controls';
import { firstKey, groupOf, largestMagnitude, mean, visibleKeyEnd, type Frame } from '../frame';
import { diverging, sequential } from '../plot/color';
import { createHeatmap } from '../plot/heatmap';
import { drawLegend } from '../plot/legend';
import { drawRose } from '../plot/rose';
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
  cos: { metric: 'qk_cos', isSigned: true },
  dot: { metric: 'qk_dot', isSigned: true },
  norm: { metric: 'qk_norm', isSigned: false },
} as const;
const KINDS = { cos: 'cosine', dot: 'q·k', norm: '‖q‖‖k‖', angle: 'angles' } as const;

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

/** Returns the angles of queries with the first key and with the other keys, in radians. */
export function anglesOf(...args: Parameters<typeof cosinesOf>) {
  const { first, others } = cosinesOf(...args);
  return { first: first.map(Math.acos), others: others.map(Math.acos) };
}

const formatDegrees = (radians: number) =>
  Number.isFinite(radians) ? `${((radians * 180) / Math.PI).toFixed(0)}°` : '–';
const cosOf = (frame: Frame) => frame.head?.tensors.qk_cos;

export const geometry: View = {
  name: 'geometry',
  title: 'Query-key geometry',
  question: 'Why does the first key get the highest scores?',
  how:
    'q·k = ‖q‖‖k‖ cos: direction or norm can make a key win. The map has a cell for every query ' +
    'and key, after positional encoding and before scaling. Angles: how often each occurs between a query and ' +
    'the first key (colored) or any other key (gray).',
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
    const rose = addElement(root, 'rose');
    const angleLegend = addElement(root, 'chart-key', 'p');
    const wordsOf = cacheLast((tokens: Frame['tokens']) =>
      tokens.map(({ text }) => tokenWord(text)),
    );
    let drawnCosines: unknown;
    return (frame, { state, theme, ...options }) => {
      // Keeps showing the previous head until the selected head's map is read.
      const at = frame.head ?? options.at;
      const shownMap = state.map === 'angle' ? undefined : MAPS[state.map];
      const tensor = frame.head?.tensors[shownMap?.metric ?? 'qk_cos'];
      if (!tensor || !cosOf(frame)) return;
      setText(captionElement, geometry.says(frame, at));
      render(
        segmentedControl(
          'Quantity of the map',
          Object.entries(KINDS) as [State['map'], string][],
          state.map,
          (map) => set({ map }),
          true,
        ),
        mapChoice,
      );
      for (const element of [plot, legend]) element.hidden = !shownMap;
      for (const element of [rose, angleLegend]) element.hidden = !!shownMap;
      if (shownMap) {
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
          label: `${KINDS[state.map]} of every query and key, ${headWords(at, frame)} of ${modelName(frame)}. ${geometry.says(frame, at)}`,
          describe: ({ row, col }) =>
            row < 0 || col < 0
              ? ''
              : `q ${row}, k ${col}: ${formatValue(tensor.data[row * T + col]!)}`,
        });
        return;
      }
      if (drawnCosines === cosOf(frame)) return;
      drawnCosines = cosOf(frame);
      const { first, others } = anglesOf(cosOf(frame)!.data, frame);
      const [firstMean, othersMean] = [formatDegrees(mean(first)), formatDegrees(mean(others))];
      drawRose(
        rose,
        [
          { angles: others, name: 'others' },
          { angles: first, name: 'sink' },
        ],
        `Angles between queries and keys: ${firstMean} on average with the first key, ${othersMean} with the others.`,
      );
      render(
        html`<span style="--swatch: var(--sink)">first key, mean ${firstMean}</span
          ><span style="--swatch: var(--ink-3)">other keys, mean ${othersMean}</span>`,
        angleLegend,
      );
    };
  },
};
