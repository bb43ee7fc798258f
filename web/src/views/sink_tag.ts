/**
 * Draws which share of each head's output for the other tokens is parallel to the first token's value ("catch, tag,
 * release").
 */
import { headAt, indexOfMax, layerNumber, type Frame, type Head } from '../frame';
import { sequential } from '../plot/color';
import { addElement, setText, type View } from '../page/view';
import { quantity } from '../save/numbers';
import { capitalize, headName, headWords, formatPercent } from '../words';
import { createHeadMap } from './head_map';

const dataOf = (frame: Frame, name: string) => frame.tensors[name]!.data as Float32Array;

function sentence(frame: Frame, at: Head): string {
  const { H, D } = frame.architecture;
  const [mixtureShares, streamShares] = [dataOf(frame, 'tag_share'), dataOf(frame, 'tag_stream')];
  const i = at.layer * H + at.head;
  const finiteShares = Array.from(streamShares, (x) => (Number.isFinite(x) ? x : -1));
  const indexOfLargest = indexOfMax(finiteShares);
  const headSentence =
    `${capitalize(headWords(at, frame))}: ${formatPercent(mixtureShares[i]!)} of what the head mixes for the other tokens lies along the first ` +
    'token’s value';
  if (finiteShares[indexOfLargest]! < 0) return `${headSentence}.`;
  const name = headName(headAt(indexOfLargest, H), frame);
  return (
    `${headSentence}, and ${formatPercent(streamShares[i]!)} of the variance of their hidden states after layer ${layerNumber(frame, at.layer)} along what W_O makes ` +
    `of it; most of all heads: ${formatPercent(streamShares[indexOfLargest]!)}, ${name}. A random direction of ${D} would ` +
    `have ${formatPercent(1 / D!)} on average.`
  );
}

export const sinkTag: View = {
  name: 'sink-tag',
  title: 'Tag of the sink',
  question: 'Does the sink write one vector on every token?',
  how:
    'A head that gives the first token attention adds a multiple of W_O v₁ to each other token, a tag. Each cell is a ' +
    'head; its color is the share of what it mixes for the other tokens along v₁. Where the ' +
    'first value is small, there is hardly a tag. What the tag is good for: Why it matters, Fragility, projects it out.',
  formula: 'Σₜ ((hₜ − h̄) · u)² / Σₜ ‖hₜ − h̄‖²,  u = W_O v₁ / ‖W_O v₁‖,  t > 1',
  source: 'arXiv 2502.00919 (catch, tag, release), of the first key',
  reads: ['tag_stream', 'tag_share'],
  fits: ({ T }) => T > 2,
  numbers: ({ tensors }) =>
    ['tag_share', 'tag_stream'].map((name) => quantity(name, ['layer', 'head'], tensors[name]!)),
  says: sentence,
  draw(root, api) {
    const drawMap = createHeadMap(root, api);
    const captionElement = addElement(root, 'caption', 'p');
    return (frame, options) => {
      const caption = sentence(frame, options.at);
      setText(captionElement, caption);
      drawMap(frame, options, {
        data: dataOf(frame, 'tag_share'),
        scale: sequential(options.theme),
        symbol: 'share along v₁',
        label: `Share of what a head mixes along v₁ by layer and head, ${frame.title}: ${caption}`,
      });
    };
  },
};
