/** Draws the influence of one token: how later tokens change when it is exchanged, with and without the start token. */
import type { Tensor } from 'sinkscope';
import { largest, mean, type Frame } from '../frame';
import { sequential, type Scale } from '../plot/color';
import { createHeatmap } from '../plot/heatmap';
import { drawLegend } from '../plot/legend';
import { exchangeOf } from '../run/measurements';
import { quantity } from '../save/numbers';
import { capital, percent, quote, show, stateWords, word } from '../words';
import { cacheLast, addElement, setText, type View } from '../page/view';

/** Returns the exchanged token of the first prompt. */
function exchanged({ tokens, first }: Frame) {
  const ids = tokens.map(({ id }) => id);
  return exchangeOf(ids, first.length);
}

interface Side {
  readonly words: string;
  readonly rows: number;
  /** [L+1, T] for all tokens of the prompt; NaN for omitted ones. */
  readonly data: Float32Array;
}

/** Pads a tensor, so that a token has the same column in the maps with and without the start token. */
function padded({ shape, data }: Tensor, T: number): Float32Array {
  const [rows, own] = shape as [number, number];
  const sums = new Float32Array(rows * T).fill(NaN);
  for (let l = 0; l < rows; l++)
    sums.set((data as Float32Array).subarray(l * own, (l + 1) * own), l * T + T - own);
  return sums;
}

/** Returns the numbers of the text with and without its start token. */
function sidesOf({ tensors, first, T }: Frame): Side[] {
  const startTokens = first.map((text) => `“${word(text)}”`).join(' ');
  const variants = [
    [startTokens ? `with ${startTokens} first` : 'in the baseline', tensors.reach!],
    [`without ${startTokens}`, tensors.reach_bare!],
  ] as const;
  return variants.flatMap(([words, tensor]) =>
    tensor.data.length ? [{ words, rows: tensor.shape[0]!, data: padded(tensor, T) }] : [],
  );
}

/** Returns the mean change of the tokens after the exchanged one, after the last layer. */
function meanOfLater({ rows, data }: Side, at: number): number {
  return mean(data.subarray(((rows - 1) * data.length) / rows + at + 1));
}

function sentence(frame: Frame): string {
  const change = exchanged(frame);
  const sides = sidesOf(frame);
  if (!change || !sides.length)
    return `${frame.title}: the text is too short, or has only one kind of token, so no token can be replaced.`;
  const { tensors, architecture } = frame;
  const replacement = frame.tokens.find(({ id }) => id === change.token)!.text;
  const moved = sides.map(
    (one) => `${percent(meanOfLater(one, change.at))} of its norm ${one.words}`,
  );
  const lastMixing = tensors.mixing_bare!.data[architecture.L];
  const difference =
    lastMixing === undefined
      ? ''
      : ` The mean distance of a token from the mean over tokens is ${show(tensors.mixing!.data[architecture.L]!, 1)}, and ${show(lastMixing, 1)} without the first token.`;
  return (
    `Replacing token ${change.at}, ${quote(frame, change.at)}, by “${word(replacement)}”${frame.sequences > 1 ? ' in the first prompt' : ''}: after the last layer the residual stream of a later ` +
    `token changes on average by ${moved.join(', ')}.${difference}`
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
  numbers: ({ tensors }) => [
    ...(['reach', 'reach_bare'] as const).flatMap((name) =>
      tensors[name]!.data.length
        ? [{ ...quantity(name, ['layer', 'token'], tensors[name]!), from: [-1, 0] }]
        : [],
    ),
    ...(['mixing', 'mixing_bare'] as const).flatMap((name) =>
      tensors[name]!.data.length
        ? [{ ...quantity(name, ['layer'], tensors[name]!), from: [-1] }]
        : [],
    ),
  ],
  says: sentence,
  draw(root, { set }) {
    const words = addElement(root, 'caption', 'p');
    const legend = addElement(root, 'legend-place');
    const maps = [0, 1].map(() => {
      const title = addElement(root, 'subtitle', 'p');
      const place = addElement(root, 'plot');
      const map = createHeatmap(place, { onChoose: ({ col }) => set({ query: col, key: -1 }) });
      return (frame: Frame, side: Side | undefined, scale: Scale) => {
        title.hidden = place.hidden = !side;
        if (!side) return;
        const { rows, data } = side;
        const { T } = frame;
        setText(title, capital(side.words));
        map.draw({
          rows,
          cols: T,
          data,
          scale,
          rowTitle: 'after layer',
          colTitle: 'token',
          cellShape: (3 * rows) / T,
          label: `How far each token of ${frame.title} moves, ${side.words}. ${sentence(frame)}`,
          chosen: { row: -1, col: exchanged(frame)!.at },
          describe: ({ row, col }) =>
            row < 0 || col < 0
              ? ''
              : `${stateWords(row)}, token ${col} ${quote(frame, col)}: ${percent(data[row * T + col]!)}`,
        });
      };
    });
    const sidesFor = cacheLast(sidesOf);
    return (frame, { theme, frames }) => {
      const sides = sidesFor(frame);
      const all = frames.flatMap(({ tensors }) => [tensors.reach!.data, tensors.reach_bare!.data]);
      const maximum = largest(all);
      const scale = sequential(theme, Math.min(1, maximum), true);
      setText(words, sentence(frame));
      drawLegend(legend, scale, ['0', maximum > 1 ? '100% or more' : percent(maximum, 0)]);
      maps.forEach((draw, i) => draw(frame, sides[i], scale));
    };
  },
};
