/** Draws how much each position resembles a first token: the hidden norm divided by token 1's. */
import { firstKey, type Frame } from '../frame';
import { drawChart } from '../plot/chart';
import { quantity } from '../save/numbers';
import { settingName } from './settings';
import { capital, firstPlace, stateWords } from '../words';
import { addElement, setText, type View } from '../page/view';

/** The share of token 1's norm from which a position's norm resembles that of a first token. */
const LIKE = 0.5;

/** Returns the layer after which the hidden norm of the first token is largest relative to the others. */
function layerOf({ tensors }: Frame): number {
  const ratios = tensors.hidden_ratio!.data as Float32Array;
  return ratios.reduce((best, ratio, l) => (ratio > ratios[best]! ? l : best), 0);
}

/** Returns |h_t| / |h_1| after a layer. */
function likenessOf(frame: Frame, layer = layerOf(frame)): Float32Array {
  const { data, shape } = frame.tensors.hidden_norm!;
  const T = shape[1]!;
  const norms = (data as Float32Array).subarray(layer * T, (layer + 1) * T);
  return norms.map((norm) => norm / norms[firstKey(frame)]!);
}

/** Counts the positions after the first token that resemble a first token. */
export function countLikeFirst(frame: Frame, layer?: number): number {
  const key = firstKey(frame);
  return likenessOf(frame, layer).reduce((n, x, t) => n + Number(t > key && x >= LIKE), 0);
}

/** Returns the number of positions after the first token. */
const laterIn = (frame: Frame) => frame.T - 1 - firstKey(frame);

export { layerOf as layerOfFirst };

export const likeness: View = {
  name: 'likeness',
  title: 'Tokens like the first',
  question: 'Which tokens have a hidden norm like the first token’s?',
  how:
    'Hidden norm of each token divided by that of the first token, after the layer where the first token ' +
    `is largest relative to the others on ordinary text. Positions with ${LIKE} or more are counted.`,
  formula: '‖h_t‖ / ‖h₁‖',
  source: 'Gu et al. 2025, section 3.1 (repeated tokens); Yona et al. 2025',
  reads: ['hidden_norm', 'hidden_ratio', 'sink_ratio'],
  drawsAllSettings: true,
  numbers: (frame) => [
    { ...quantity('hidden_norm', ['layer', 'token'], frame.tensors.hidden_norm!), from: [-1, 0] },
  ],
  says: (frame) =>
    `${capital(settingName(frame))}: ${countLikeFirst(frame)} of ${laterIn(frame)} later positions have at least half of the first token’s norm, ${stateWords(layerOf(frame))}.`,
  draw(root) {
    const place = addElement(root, 'chart');
    const words = addElement(root, 'caption', 'p');
    return (frame, { group, frames }) => {
      const members = group.length ? group : [frame];
      const baseline = members.find(({ question }) => question.input !== 'repeat') ?? frame;
      const layer = layerOf(baseline);
      const name = (one: Frame) =>
        one.question.input === 'repeat' ? settingName(one) : 'ordinary text';
      const text = members
        .map((one) => `${name(one)}: ${countLikeFirst(one, layer)} of ${laterIn(one)} positions`)
        .join('; ');
      setText(
        words,
        `${capital(stateWords(layer))}, at least half of the first token’s norm: ${text}.`,
      );
      const maximum = Math.max(
        1.2,
        ...frames.flatMap((one) =>
          Math.min(3, Math.max(...likenessOf(one, Math.min(layer, one.architecture.L)))),
        ),
      );
      drawChart(place, {
        kind: 'lines',
        xLabel: 'token',
        yLabel: `‖h‖ / ‖h${firstPlace(frame)}‖`,
        domain: [0, maximum],
        label: `Hidden norms over the first token’s, ${frame.model.title}. ${text}.`,
        series: members.map((one, i) => ({
          name: name(one),
          color: ['--ink-3', '--query', '--sink'][one === baseline ? 0 : 2 - (i % 2)]!,
          values: likenessOf(one, layer),
        })),
      });
    };
  },
};
