/** Draws the diagonal share of every head, with sinks outlined, and in how many directions each writes. */
import {
  alphaOfKey,
  firstKey,
  headAt,
  layerNumber,
  mean,
  visibleKeyEnd,
  type Frame,
  type Head,
} from '../frame';
import { sequential } from '../plot/color';
import { addElement, setText, type View } from '../page/view';
import { quantity } from '../save/numbers';
import { capitalize, firstTokenSubscript, formatPercent, formatValue, headWords } from '../words';
import { createHeadMap } from './head_map';

const sharesAt = ({ tensors }: Frame, distance: number): Float32Array =>
  Float32Array.from(
    { length: tensors.diagonal!.data.length / 3 },
    (_, i) => tensors.diagonal!.data[3 * i + distance]!,
  );

const uniformShare = (frame: Frame): number =>
  mean(Array.from({ length: frame.T }, (_, query) => 1 / visibleKeyEnd(frame, query)));

const isSink = (frame: Frame): boolean[] =>
  Array.from(alphaOfKey(frame, firstKey(frame)), (alpha) => alpha > Math.fround(frame.eps));

function sentence(frame: Frame, at: Head): string {
  const { H } = frame.architecture;
  const sinks = isSink(frame);
  const own = sharesAt(frame, 0);
  const ranks = frame.tensors.stable_rank!.data;
  const i = at.layer * H + at.head;
  const first = sinks.indexOf(true);
  const averages = (values: ArrayLike<number>, format: (x: number) => string) => {
    const [among, others] = [true, false].map((kind) =>
      Array.from(values).filter((_, j) => sinks[j] === kind),
    );
    if (!among!.length || !others!.length) return `${format(mean(values))} on average`;
    return `${format(mean(among!))} in these heads and ${format(mean(others!))} in the others`;
  };
  const rankWords = Array.from(ranks).every(Number.isFinite)
    ? ` Stable rank of what a head writes: ${averages(ranks, (x) => formatValue(x))}.`
    : '';
  return (
    `${sinks.filter(Boolean).length} of ${sinks.length} heads have α${firstTokenSubscript(frame)} > ${frame.eps}` +
    `${first < 0 ? '' : `, the first of them in layer ${layerNumber(frame, headAt(first, H).layer)}`}. ` +
    `Attention on the query’s own key: ${averages(own, (x) => formatPercent(x))}; uniform attention has ${formatPercent(uniformShare(frame))}.${rankWords} ` +
    `${capitalize(headWords(at, frame))}: ${formatPercent(own[i]!)} on its own key, ${formatPercent(sharesAt(frame, 1)[i]!)} on the one before.`
  );
}

export const diagonal: View = {
  name: 'diagonal',
  title: 'Sinks and diagonals',
  question: 'Which heads attend to the first token, and which to themselves?',
  how:
    'Each cell is a head; its color is the share of attention that queries give to their own key. Outlined: heads with ' +
    'a sink at the first token. The stable rank says in how many directions a head writes: 1 if it adds one vector to ' +
    'every token. The first layer with a sink moves during training; choose a step to see it.',
  formula: 'd = meanₜ P[t, t];  rank = ‖O‖²_F / ‖O‖²₂,  O = A V W_O, t > 1',
  source: 'arXiv 2605.08453 (diagonals), 2606.08105 (rank), 2603.06591 (first layer)',
  reads: ['alpha', 'diagonal', 'stable_rank'],
  fits: ({ T }) => T > 2,
  numbers: ({ tensors }) => [
    quantity('diagonal', ['layer', 'head', 'distance'], tensors.diagonal!),
    quantity('stable_rank', ['layer', 'head'], tensors.stable_rank!),
  ],
  says: sentence,
  draw(root, api) {
    const drawMap = createHeadMap(root, api);
    const captionElement = addElement(root, 'caption', 'p');
    return (frame, options) => {
      const { H } = frame.architecture;
      const caption = sentence(frame, options.at);
      const alphas = alphaOfKey(frame, firstKey(frame));
      const ranks = frame.tensors.stable_rank!.data;
      setText(captionElement, caption);
      drawMap(frame, options, {
        data: sharesAt(frame, 0),
        scale: sequential(options.theme),
        symbol: 'share of its own key',
        label: `Diagonal share by layer and head, ${frame.title}: ${caption}`,
        outlined: {
          cells: isSink(frame).flatMap((sink, i) => {
            const { layer, head } = headAt(i, H);
            return sink ? [{ row: layer, col: head }] : [];
          }),
          name: `α${firstTokenSubscript(frame)} > ${frame.eps}`,
        },
        more: ({ row, col }) =>
          `, α${firstTokenSubscript(frame)} = ${formatValue(alphas[row * H + col]!, 3)}, stable rank ${formatValue(ranks[row * H + col]!)}`,
      });
    };
  },
};
