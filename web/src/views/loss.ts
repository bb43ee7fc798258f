/** Loss along the text: one line for each setting of a model. */
import type { Frame } from '../frame';
import { isBidirectional, mean } from '../frame';
import { drawChart } from '../plot/chart';
import { quantity } from '../save/numbers';
import { show } from '../words';
import { givenOf, isUnedited, settingName } from './settings';
import { part, say, type View } from './view';

/** Positions over which a point of the line is the mean. */
const SPAN = 16;
const COLORS = ['--ink', '--sink', '--query', '--run-2', '--run-4', '--run-5'];
const DASHES = ['', '', '', '5,3', '2,3', '6,2,2,2'];

/** The mean over so many positions and the last of them; of a short text, over those that there are. */
function running({ tensors, T }: Frame): number[] {
  const losses = tensors.loss_at!.data;
  const span = Math.min(SPAN, Math.ceil(T / 4));
  // Nothing is predicted of the first token.
  return Array.from({ length: T }, (_, t) =>
    t < span ? NaN : mean(losses.subarray(t - span + 1, t + 1)),
  );
}

/** The first position whose query has lost token 1, counted from 1; of a cache that forgets by age. */
export function leaves(frame: Frame): number {
  const { policy, budget } = givenOf(frame, 'evict') ?? {};
  return policy === 'window' && Number(budget) < frame.T ? Number(budget) + 1 : NaN;
}

const said = (frame: Frame) =>
  `${settingName(frame)} ${show(mean(frame.tensors.loss_at!.data, 1), 3)}`;

export const loss: View = {
  name: 'loss',
  title: 'Loss by position',
  question: 'How well is each token predicted?',
  how:
    `The mean of −ln p over the last ${SPAN} tokens, along the text; over prompts where there are ` +
    'several. A cache that keeps the most recent keys alone loses token 1 at the line.',
  formula: 'loss(t) = −ln p(token t | tokens before it)',
  source: 'Xiao et al. 2024 (StreamingLLM), figure 3',
  reads: ['loss_at'],
  isGroup: true,
  fits: (frame) => !isBidirectional(frame),
  numbers: (frame) => [quantity('loss_at', ['token'], frame.tensors.loss_at!)],
  says: (frame) => `Mean loss over the text: ${said(frame)}.`,
  draw(root) {
    const place = part(root, 'chart');
    const words = part(root, 'caption', 'p');
    return (frame, { group, frames }) => {
      const all = group.length ? group : [frame];
      const ends = frames.flatMap(running).filter(Number.isFinite);
      const cursor = all.map(leaves).find(Number.isFinite);
      const text = `Mean loss over the text: ${all.map(said).join('; ')}.`;
      say(words, text);
      drawChart(place, {
        kind: 'lines',
        tight: true,
        xLabel: 'token',
        yLabel: `loss, mean of ${SPAN} tokens, nats`,
        label: `Loss by position of ${frame.model.title}. ${text}`,
        ...(ends.length ? { reach: [Math.min(...ends), Math.max(...ends)] } : {}),
        ...(cursor ? { cursor, cursorWords: 'token 1 leaves' } : {}),
        series: all.map((one, i) => {
          const at = isUnedited(one) ? 0 : i || 1;
          const dash = DASHES[at % DASHES.length];
          return {
            name: settingName(one),
            color: COLORS[at % COLORS.length]!,
            values: running(one),
            ...(dash ? { dash } : {}),
          };
        }),
      });
    };
  },
};
