/** Draws the effect of edits: the numbers of a model's run with edits minus those of its run without. */
import {
  alphaOfKey,
  blockWords,
  firstTokenWeights,
  gridOf,
  indexOfMax,
  largestMagnitude,
  mean,
  mapsOf,
  predictsNext,
  type Frame,
  type Head,
} from '../frame';
import { drawChart } from '../plot/chart';
import { diverging } from '../plot/color';
import { createHeatmap } from '../plot/heatmap';
import { drawLegend } from '../plot/legend';
import { quantity } from '../save/numbers';
import {
  commonQuote,
  headWords,
  formatPercent,
  quote,
  formatSigned,
  tokenWord,
  modelName,
  firstName,
} from '../words';
import { axesOf } from './attention';
import { createHeadMap } from './head_map';
import { addElement, setText, type View } from '../page/view';

const subtract = (a: ArrayLike<number>, b: ArrayLike<number>) =>
  Float32Array.from({ length: a.length }, (_, i) => a[i]! - b[i]!);

const hasBase = ({ base }: Frame): boolean => base?.tensors.loss_at !== undefined;

/** Returns the run without edits, if it read the same tokens. */
export function baseOf(frame: Frame): Frame | undefined {
  const { base, tokens } = frame;
  const hasSameTokens =
    base?.tokens.length === tokens.length && tokens.every(({ id }, t) => id === base.tokens[t]!.id);
  return hasBase(frame) && hasSameTokens ? base : undefined;
}

function missingWords(frame: Frame): string {
  if (!frame.edits.length) return 'No intervention yet.';
  if (!hasBase(frame)) return 'The run without the intervention is not measured yet.';
  const isGenerated = frame.generated || frame.base!.generated;
  return `There is nothing to compare: the run without the intervention read other tokens${isGenerated ? ', since each model generates its own text' : ''}.`;
}

/** Returns the loss of each token with the edits minus the loss without; NaN for the first token. */
export const lossChange = (frame: Frame, base: Frame): Float32Array =>
  subtract(frame.tensors.loss_at!.data, base.tensors.loss_at!.data);

/** Returns the difference of the chosen head's maps; undefined while only one of the runs has this head's map. */
function mapChange(frame: Frame, base: Frame): Float32Array | undefined {
  const [after, before] = [mapsOf(frame), mapsOf(base)];
  const isSameHead = frame.head?.layer === base.head?.layer && frame.head?.head === base.head?.head;
  if (!after || !before || !isSameHead || after.side !== before.side) return undefined;
  return subtract(after.weights, before.weights);
}

function sentence(frame: Frame, base: Frame, at: Head): string {
  const change = lossChange(frame, base);
  const finiteChanges = change.filter((x) => Number.isFinite(x));
  const sizes = Array.from(change, (x) => (Number.isFinite(x) ? Math.abs(x) : -1));
  const largestAt = indexOfMax(sizes);
  const [before, after] = [base, frame].map(
    (run) => firstTokenWeights(run)[at.layer * run.architecture.H + at.head]!,
  );
  const lossWords = finiteChanges.length
    ? `The loss changes by ${formatSigned(mean(finiteChanges), 3)} nats per token, most at token ${largestAt}` +
      `${commonQuote(frame, largestAt)}: ${formatSigned(change[largestAt]!)}. `
    : '';
  return `${lossWords}The mean weight of ${firstName(frame)} in ${headWords(at, frame)} is ${formatPercent(after!, 0)}; in the baseline it is ${formatPercent(before!, 0)}.`;
}

export const change: View = {
  name: 'change',
  title: 'What changes',
  question: 'What does the intervention change?',
  how:
    'Intervention minus baseline, same model, same text: one color for increases, ' +
    'the other for decreases. The bars above the tokens show how much the loss of each token rises.',
  reads: ['loss_at', 'alpha'],
  headReads: ['att'],
  needsBaseline: true,
  fits: hasBase,
  numbers: (frame) => {
    const base = baseOf(frame);
    if (!base) return [];
    const { T, architecture } = frame;
    const { L, H } = architecture;
    const { side } = gridOf(frame);
    const [name, ...axes] = axesOf(frame);
    const map = mapChange(frame, base);
    const alpha = subtract(alphaOfKey(frame, 0), alphaOfKey(base, 0));
    return [
      ...(predictsNext(frame)
        ? [quantity('loss_change_at', ['token'], { shape: [T], data: lossChange(frame, base) })]
        : []),
      quantity('alpha_1_change', ['layer', 'head'], { shape: [L, H], data: alpha }),
      ...(map
        ? [
            {
              ...quantity(`${name}_change`, axes, { shape: [side, side], data: map }),
              sequences: 1,
            },
          ]
        : []),
    ];
  },
  says: (frame, at) => {
    const base = baseOf(frame);
    return base ? sentence(frame, base, at) : missingWords(frame);
  },
  draw(root, api) {
    const captionElement = addElement(root, 'caption', 'p');
    const lossChart = addElement(root, 'chart');
    const columns = addElement(root, 'change-maps');
    const mapColumn = addElement(columns, 'change-map');
    const mapTitle = addElement(mapColumn, 'subtitle', 'p');
    const legend = addElement(mapColumn, 'legend-place');
    let blockSize = 1;
    const heatmap = createHeatmap(addElement(mapColumn, 'plot'), {
      onPoint: (cell) =>
        api.point(cell ? { query: cell.row * blockSize, key: cell.col * blockSize } : {}),
      onChoose: (cell) =>
        api.set({ query: cell.row * blockSize, key: cell.col * blockSize, lastKey: -1 }),
    });
    const headsColumn = addElement(columns, 'change-map');
    setText(addElement(headsColumn, 'subtitle', 'p'), 'α₁ of all heads');
    const drawHeads = createHeadMap(headsColumn, api);
    return (frame, options) => {
      const base = baseOf(frame);
      columns.hidden = !base;
      if (!base) {
        lossChart.hidden = true;
        return setText(captionElement, missingWords(frame));
      }
      const { at, theme } = options;
      const caption = sentence(frame, base, at);
      setText(captionElement, caption);
      const tokenChanges = lossChange(frame, base);
      lossChart.hidden = tokenChanges.every((x) => Number.isNaN(x));
      drawChart(lossChart, {
        kind: 'lines',
        xLabel: 'token',
        yLabel: 'loss, nat',
        label: `Loss by token with the intervention and without, ${frame.title}: ${caption}`,
        ...(options.state.query >= 0 ? { cursor: options.state.query } : {}),
        onChoose: (place) => api.set({ query: Math.round(place) - 1, key: -1 }),
        series: [
          { name: 'without', color: '--ink-3', values: base.tensors.loss_at!.data, dash: '3 3' },
          { name: 'with', color: '--ink-2', values: frame.tensors.loss_at!.data },
          { name: 'difference', color: '--sink', values: tokenChanges },
        ],
      });
      const map = mapChange(frame, base);
      mapColumn.hidden = !map;
      if (map) {
        const scale = diverging(theme, largestMagnitude([map], 0.01));
        setText(mapTitle, `Attention of ${headWords(at, frame)}`);
        drawLegend(legend, scale, [formatSigned(scale.low), formatSigned(scale.high)]);
        const { side, block } = gridOf(frame);
        blockSize = block;
        const labels = frame.pooled ? undefined : frame.tokens.map(({ text }) => tokenWord(text));
        const nameOf = (place: number) =>
          frame.pooled ? blockWords(frame, place) : `${place} ${quote(frame, place)}`;
        heatmap.draw({
          rows: side,
          cols: side,
          data: map,
          scale,
          rowTitle: 'query',
          colTitle: 'key',
          rowWords: labels,
          colWords: labels,
          label: `Attention of ${headWords(at, frame)} of ${modelName(frame)} minus baseline: ${caption}`,
          describe: ({ row, col }) =>
            row < 0 || col < 0
              ? ''
              : `query ${nameOf(row)} → key ${nameOf(col)}: ${formatSigned(map[row * side + col]!, 3)}`,
        });
      }
      const alpha = subtract(alphaOfKey(frame, 0), alphaOfKey(base, 0));
      drawHeads(frame, options, {
        data: alpha,
        scale: diverging(theme, largestMagnitude([alpha], 0.01)),
        symbol: 'Δα₁',
        label: `Change of α₁ by layer and head, ${frame.title}`,
      });
    };
  },
};
