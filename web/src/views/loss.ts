/** Draws the loss along the text, with a line for each setting of a model. */
import type { Frame } from '../frame';
import { isBidirectional, mean } from '../frame';
import { drawChart } from '../plot/chart';
import { quantity } from '../save/numbers';
import { show } from '../words';
import { givenOf, isUnedited, settingName } from './settings';
import { addElement, setText, type View } from '../page/view';

/** The number of positions in the moving average. */
const SPAN = 16;
const COLORS = ['--ink', '--sink', '--query', '--run-2', '--run-4', '--run-5'];
const DASHES = ['', '', '', '5,3', '2,3', '6,2,2,2'];

/** The most points of a line: a long text has more positions than the picture has pixels. */
const POINTS = 512;

/** The divisor of a long line's length that gives the positions in its moving average. */
const spanOf = (T: number) => Math.max(SPAN, Math.ceil(T / 16));

/** Returns the moving average of the loss over the `span` positions up to each one; fewer near the beginning. */
function movingAverage(
  { tensors, T }: Frame,
  span: number,
): { places: number[]; values: number[] } {
  const losses = tensors.loss_at!.data;
  const least = Math.min(SPAN, Math.ceil(T / 4));
  const step = Math.ceil(T / POINTS);
  const places: number[] = [];
  const values: number[] = [];
  // Leaves out the first token, which has no loss, and always keeps the last one.
  for (let t = T - 1; t >= least; t -= step) {
    places.unshift(t);
    values.unshift(mean(losses.subarray(Math.max(1, t - span + 1), t + 1)));
  }
  return { places, values };
}

/** Returns the first query that cannot see the first token, if the cache evicts by age. */
export function leaves(frame: Frame): number {
  const { policy, budget } = givenOf(frame, 'evict') ?? {};
  return policy === 'window' && Number(budget) < frame.T ? Number(budget) : NaN;
}

const meanLoss = (frame: Frame) =>
  `${settingName(frame)} ${show(mean(frame.tensors.loss_at!.data, 1), 3)}`;

/** Explains a line that ends before the others, at the model's context. */
function endWords(all: readonly Frame[]): string {
  const ends = Math.max(...all.map(({ T }) => T));
  const lines = all.map(
    (one) => meanLoss(one) + (one.T < ends ? ` over its first ${one.T} tokens` : ''),
  );
  return `Mean loss over the text: ${lines.join('; ')}.`;
}

export const loss: View = {
  name: 'loss',
  title: 'Loss by position',
  question: 'How well is each token predicted?',
  how:
    `Mean of −ln p over the last ${SPAN} tokens (a 16th of the text if it is long), along the text, averaged over ` +
    'prompts. At the line, a cache of only the most recent keys loses the first token.',
  formula: 'loss(t) = −ln p(token t | tokens before it)',
  source: 'Xiao et al. 2024 (StreamingLLM), figure 3',
  reads: ['loss_at'],
  drawsAllSettings: true,
  fits: (frame) => !isBidirectional(frame),
  numbers: (frame) => [quantity('loss_at', ['token'], frame.tensors.loss_at!)],
  says: (frame) => `Mean loss over the text: ${meanLoss(frame)}.`,
  draw(root) {
    const place = addElement(root, 'chart');
    const words = addElement(root, 'caption', 'p');
    return (frame, { group, frames }) => {
      const members = group.length ? group : [frame];
      const span = spanOf(Math.max(...frames.map(({ T }) => T)));
      const ends = frames.flatMap((one) => movingAverage(one, span).values).filter(Number.isFinite);
      const cursor = members.map(leaves).find(Number.isFinite);
      const text = endWords(members);
      setText(words, text);
      drawChart(place, {
        kind: 'lines',
        tight: true,
        xLabel: 'token',
        yLabel: `loss, mean of ${span} tokens, nats`,
        label: `Loss by position of ${frame.model.title}. ${text}`,
        ...(ends.length ? { domain: [Math.min(...ends), Math.max(...ends)] } : {}),
        ...(cursor ? { cursor, cursorWords: 'first token leaves' } : {}),
        series: members.map((one, i) => {
          const at = isUnedited(one) ? 0 : i || 1;
          const dash = DASHES[at % DASHES.length];
          return {
            name: settingName(one),
            color: COLORS[at % COLORS.length]!,
            ...movingAverage(one, span),
            ...(dash ? { dash } : {}),
          };
        }),
      });
    };
  },
};
