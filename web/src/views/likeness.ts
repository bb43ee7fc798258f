/** Draws the hidden norm of each token relative to the first token's, to show which tokens resemble a first token. */
import { firstKey, type Frame } from '../frame';
import { drawChart } from '../plot/chart';
import { quantity } from '../save/numbers';
import { settingName } from './settings';
import { capitalize, stateWords } from '../words';
import { addElement, setText, type View } from '../page/view';

/** A token resembles the first one if its hidden norm is at least this share of the first token's. */
const MIN_LIKENESS = 0.5;

/** Returns the layer after which the hidden norm of the first token is largest relative to the others. */
function peakLayerOfFirst({ tensors }: Frame): number {
  const ratios = tensors.hidden_ratio!.data as Float32Array;
  return ratios.reduce((best, ratio, l) => (ratio > ratios[best]! ? l : best), 0);
}

/** Returns ‖h_t‖ / ‖h₁‖ after a layer. */
function likenessOf(frame: Frame, layer = peakLayerOfFirst(frame)): Float32Array {
  const { data, shape } = frame.tensors.hidden_norm!;
  const T = shape[1]!;
  const norms = (data as Float32Array).subarray(layer * T, (layer + 1) * T);
  return norms.map((norm) => norm / norms[firstKey(frame)]!);
}

function countLikeFirst(frame: Frame, layer?: number): number {
  const key = firstKey(frame);
  return likenessOf(frame, layer).reduce((n, x, t) => n + Number(t > key && x >= MIN_LIKENESS), 0);
}

const laterCount = (frame: Frame) => frame.T - 1 - firstKey(frame);

export const likeness: View = {
  name: 'likeness',
  title: 'Tokens like the first',
  question: 'Which tokens are like the first?',
  how:
    'Hidden norm of each token divided by that of the first token, after the layer where the first token ' +
    `is largest relative to the others on ordinary text. Positions with ${MIN_LIKENESS} or more are counted.`,
  formula: '‖h_t‖ / ‖h₁‖',
  source: 'Gu et al. 2025, section 3.1 (repeated tokens); Yona et al. 2025',
  reads: ['hidden_norm', 'hidden_ratio', 'sink_ratio'],
  drawsAllSettings: true,
  numbers: (frame) => [
    { ...quantity('hidden_norm', ['layer', 'token'], frame.tensors.hidden_norm!), from: [-1, 0] },
  ],
  says: (frame) =>
    `${capitalize(settingName(frame))}: ${countLikeFirst(frame)} of ${laterCount(frame)} later positions have at least half of the first token’s norm, ${stateWords(peakLayerOfFirst(frame))}.`,
  draw(root) {
    const chart = addElement(root, 'chart');
    const captionElement = addElement(root, 'caption', 'p');
    return (frame, { group, frames, height }) => {
      const members = group.length ? group : [frame];
      const baseline = members.find(({ question }) => question.input !== 'repeat') ?? frame;
      const layer = peakLayerOfFirst(baseline);
      const nameOf = (member: Frame) =>
        member.question.input === 'repeat' ? settingName(member) : 'ordinary text';
      const countsText = members
        .map(
          (member) =>
            `${nameOf(member)}: ${countLikeFirst(member, layer)} of ${laterCount(member)} positions`,
        )
        .join('; ');
      setText(
        captionElement,
        `${capitalize(stateWords(layer))}, at least half of the first token’s norm: ${countsText}.`,
      );
      const maximum = Math.max(
        1.2,
        ...frames.flatMap((shownFrame) =>
          Math.min(
            3,
            Math.max(...likenessOf(shownFrame, Math.min(layer, shownFrame.architecture.L))),
          ),
        ),
      );
      drawChart(chart, {
        kind: 'lines',
        height,
        named: true,
        xLabel: 'token',
        yLabel: 'length of the hidden state; first token: 1',
        domain: [0, maximum],
        label: `Hidden norms over the first token’s, ${frame.model.title}. ${countsText}.`,
        series: members.map((member, i) => ({
          name: nameOf(member),
          color: ['--ink-3', '--query', '--sink'][member === baseline ? 0 : 2 - (i % 2)]!,
          values: likenessOf(member, layer),
        })),
      });
    };
  },
};
