/** Draws how long each head's cache keeps each key, in a row for each head. */
import { headAt, mean, modelHead, promptCountOf, type Frame } from '../frame';
import { sequential } from '../plot/color';
import { createHeatmap } from '../plot/heatmap';
import { drawLegend } from '../plot/legend';
import { quantity } from '../save/numbers';
import {
  averageWords,
  capitalize,
  firstPromptWords,
  headName,
  formatPercent,
  quote,
  modelName,
} from '../words';
import { editFields, settingName } from './settings';
import { cacheLast, addElement, setText, type View } from '../page/view';

/** Returns for each key the share of its possible queries before its eviction; 1 if it was never evicted. */
function lifetimesOf({ tensors, T }: Frame): Float32Array {
  return Float32Array.from(tensors.evicted!.data, (evictedAt, i) => {
    const key = i % T;
    return Number.isNaN(evictedAt) ? 1 : (evictedAt - key) / (T - key);
  });
}

export const cache: View = {
  name: 'cache',
  title: 'Keys in the cache',
  question: 'Which keys does each head keep?',
  how:
    'Rows are heads, columns the tokens of the first prompt. The stronger the color of a key, the ' +
    'longer the cache keeps it. The first column is the first token.',
  reads: ['evicted', 'keeps_first'],
  fits: (frame) => editFields(frame, 'evict') !== undefined,
  numbers: ({ tensors }) => [
    quantity('evicted', ['layer', 'head', 'token'], tensors.evicted!),
    quantity('keeps_first', ['layer', 'head'], tensors.keeps_first!),
  ],
  says: (frame) => {
    const { evicted, keeps_first } = frame.tensors;
    const keptKeys = Array.from(keeps_first!.data, (_, i) =>
      Number.isNaN(evicted!.data[i * frame.T]),
    );
    const count = keptKeys.filter(Boolean).length;
    const sequences = promptCountOf(frame, 'keeps_first');
    const meanNote =
      sequences > 1
        ? `; ${formatPercent(mean(keeps_first!.data), 0)} do${averageWords({ sequences })}`
        : '';
    return `${capitalize(settingName(frame))}${firstPromptWords(frame)}: ${count} of ${keptKeys.length} heads (${formatPercent(count / keptKeys.length, 0)}) keep the first token, ${quote(frame, 0)}, until the end${meanNote}.`;
  },
  draw(root, { set, point }) {
    const captionElement = addElement(root, 'caption', 'p');
    const legend = addElement(root, 'legend-place');
    let headCount = 1;
    let shownFrame: Frame | undefined;
    const map = createHeatmap(addElement(root, 'plot strips'), {
      onPoint: (cell) => point(cell ? { ...headAt(cell.row, headCount), key: cell.col } : {}),
      onChoose: ({ row }) => shownFrame && set(modelHead(shownFrame, headAt(row, headCount))),
    });
    const cachedLifetimes = cacheLast(lifetimesOf);
    return (frame, { theme, at }) => {
      const { L, H } = frame.architecture;
      headCount = H;
      shownFrame = frame;
      setText(captionElement, cache.says(frame, at));
      const scale = sequential(theme);
      drawLegend(legend, scale, ['evicted at once', 'kept until the end']);
      map.draw({
        rows: L * H,
        cols: frame.T,
        data: cachedLifetimes(frame),
        scale,
        rowTitle: 'layer, head',
        colTitle: 'token',
        cellShape: (Math.max(0.6, 41 / (L * H)) * L * H) / frame.T,
        label: `Keys that the heads of ${modelName(frame)} keep. ${cache.says(frame, at)}`,
        chosen: { row: at.layer * H + at.head, col: -1 },
        describe: ({ row, col }) => {
          if (row < 0 || col < 0) return '';
          const evictedAt = frame.tensors.evicted!.data[row * frame.T + col]!;
          const name = `${headName(headAt(row, H), frame)}: token ${col} ${quote(frame, col)}`;
          return Number.isNaN(evictedAt)
            ? `${name} stays`
            : `${name} is evicted at query ${evictedAt}`;
        },
      });
    };
  },
};
