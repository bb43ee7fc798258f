/** Draws how much later tokens change when one token is replaced, with and without the start token. */
import type { Tensor } from 'sinkscope';
import { isCommonToken, largestMagnitude, mean, type Frame } from '../frame';
import { sequential, type Scale } from '../plot/color';
import { createHeatmap } from '../plot/heatmap';
import { drawLegend } from '../plot/legend';
import { exchangeOf } from '../run/measurements';
import { quantity } from '../save/numbers';
import {
  capitalize,
  commonQuote,
  formatPercent,
  meanWords,
  quote,
  formatValue,
  stateWords,
  tokenWord,
  modelName,
} from '../words';
import { cacheLast, addElement, setText, type View } from '../page/view';

/** Returns which token of the first prompt is replaced, and by which one. */
function exchangedToken({ tokens, first }: Frame) {
  const ids = tokens.map(({ id }) => id);
  return exchangeOf(ids, first.length);
}

interface Variant {
  /** Says whether the text begins with a start token. */
  readonly condition: string;
  readonly rows: number;
  /** The relative change of each token after each layer, [L+1, T]; NaN for the start token where it is left out. */
  readonly data: Float32Array;
}

/** Pads a tensor with NaN on the left, so that a token has the same column with and without the start token. */
function padTensor({ shape, data }: Tensor, T: number): Float32Array {
  const [rows, columns] = shape as [number, number];
  const out = new Float32Array(rows * T).fill(NaN);
  for (let l = 0; l < rows; l++)
    out.set((data as Float32Array).subarray(l * columns, (l + 1) * columns), l * T + T - columns);
  return out;
}

function variantsOf({ tensors, first, T }: Frame): Variant[] {
  const startTokens = first.map((text) => `“${tokenWord(text)}”`).join(' ');
  const labeledTensors = [
    [startTokens ? `with ${startTokens} first` : 'in the baseline', tensors.reach!],
    [`without ${startTokens}`, tensors.reach_bare!],
  ] as const;
  return labeledTensors.flatMap(([condition, tensor]) =>
    tensor.data.length ? [{ condition, rows: tensor.shape[0]!, data: padTensor(tensor, T) }] : [],
  );
}

function meanLaterChange({ rows, data }: Variant, at: number): number {
  return mean(data.subarray(((rows - 1) * data.length) / rows + at + 1));
}

function sentence(frame: Frame): string {
  const exchange = exchangedToken(frame);
  const variants = variantsOf(frame);
  if (!exchange || !variants.length)
    return `${frame.title}: the text is too short, or has only one kind of token, so no token can be replaced.`;
  const { tensors, architecture } = frame;
  const replacement = frame.tokens.find(({ id }) => id === exchange.token)!.text;
  const changePhrases = variants.map(
    (variant) =>
      `${formatPercent(meanLaterChange(variant, exchange.at))} of its norm ${variant.condition}`,
  );
  const lastBareMixing = tensors.mixing_bare!.data[architecture.L];
  const mixingNote =
    lastBareMixing === undefined
      ? ''
      : ` The root-mean-square distance of a token from the mean over tokens is ${formatValue(tensors.mixing!.data[architecture.L]!, 1)}, and ${formatValue(lastBareMixing, 1)} without the first token.`;
  // Each prompt has one of its own tokens replaced by another one of its own.
  const exchangeWords =
    frame.sequences > 1
      ? `token ${exchange.at}${isCommonToken(frame, exchange.at) ? `, ${quote(frame, exchange.at)},` : ''} of each prompt by another of its tokens`
      : `token ${exchange.at}, ${quote(frame, exchange.at)}, by “${tokenWord(replacement)}”`;
  return (
    `Replacing ${exchangeWords}: after the last layer the residual stream of a later ` +
    `token changes${meanWords(frame)} by ${changePhrases.join(', ')}.${mixingNote}`
  );
}

export const reach: View = {
  name: 'reach',
  title: 'Influence of one token',
  question: 'How far does one changed token spread?',
  how:
    'An early token is replaced by another token of the text. Rows are layers, columns tokens; the ' +
    'color is the change of the token’s residual stream relative to its norm. Attention on ' +
    'a first token with a small value mixes tokens less, so a change spreads less. Without ' +
    'the first token, the model sees a kind of text it was not trained on.',
  formula: '‖h − h′‖ / ‖h′‖;  distance from the mean: ‖h − mean h‖ over √T',
  source: 'Barbero et al. 2025 (why LLMs attend to the first token)',
  reads: ['reach', 'reach_bare', 'mixing', 'mixing_bare'],
  numbers: ({ tensors }) =>
    ['reach', 'reach_bare', 'mixing', 'mixing_bare']
      .filter((name) => tensors[name]!.data.length)
      .map((name) =>
        name.startsWith('reach')
          ? { ...quantity(name, ['layer', 'token'], tensors[name]!), from: [-1, 0] }
          : { ...quantity(name, ['layer'], tensors[name]!), from: [-1] },
      ),
  says: sentence,
  draw(root, { set }) {
    const captionElement = addElement(root, 'caption', 'p');
    const legend = addElement(root, 'legend-place');
    const drawMaps = [0, 1].map(() => {
      const title = addElement(root, 'subtitle', 'p');
      const plot = addElement(root, 'plot');
      const map = createHeatmap(plot, { onChoose: ({ col }) => set({ query: col, key: -1 }) });
      return (frame: Frame, variant: Variant | undefined, scale: Scale) => {
        title.hidden = plot.hidden = !variant;
        if (!variant) return;
        const { rows, data } = variant;
        const { T } = frame;
        setText(title, capitalize(variant.condition));
        map.draw({
          rows,
          cols: T,
          data,
          scale,
          rowTitle: 'after layer',
          colTitle: 'token',
          cellShape: (3 * rows) / T,
          label: `How far each token of ${modelName(frame)} moves, ${variant.condition}. ${sentence(frame)}`,
          chosen: { row: -1, col: exchangedToken(frame)!.at },
          describe: ({ row, col }) =>
            row < 0 || col < 0
              ? ''
              : `${stateWords(row)}, token ${col}${commonQuote(frame, col)}: ${formatPercent(data[row * T + col]!)}`,
        });
      };
    });
    const cachedVariants = cacheLast(variantsOf);
    return (frame, { theme, frames }) => {
      const variants = cachedVariants(frame);
      const changes = frames.flatMap(({ tensors }) => [tensors.reach!, tensors.reach_bare!]);
      const maximum = largestMagnitude(changes.map(({ data }) => data));
      const scale = sequential(theme, Math.min(1, maximum), true);
      setText(captionElement, sentence(frame));
      drawLegend(legend, scale, ['0', maximum > 1 ? '100% or more' : formatPercent(maximum, 0)]);
      drawMaps.forEach((draw, i) => draw(frame, variants[i], scale));
    };
  },
};
