/** Draws the loss along the text, with a line for each setting of a model. */
import { mean, predictsNext, type Frame } from '../frame';
import { quantity } from '../save/numbers';
import { formatValue, modelName } from '../words';
import { editFields, isUnedited, settingName, WORSE_DOMAIN, WORSE_LABEL } from './settings';
import type { View } from '../page/view';
import { createChartDraw } from './chart_draw';

const MIN_SPAN = 16;
const COLORS = ['--ink', '--sink', '--query', '--run-2', '--run-4', '--run-5'];
const DASHES = [undefined, undefined, undefined, '5,3', '2,3', '6,2,2,2'];

/** The largest number of points of a line: a long text has more positions than the picture has pixels. */
const MAX_POINTS = 512;

const spanOf = (T: number) => Math.max(MIN_SPAN, Math.ceil(T / 16));

/** Returns the unedited run of a model's settings if all of them read as many tokens. */
const baselineOf = (members: readonly Frame[]): Frame | undefined =>
  members.length > 1 && members.every(({ T }) => T === members[0]!.T)
    ? members.find(isUnedited)
    : undefined;

/** Returns the mean loss of `span` positions up to each drawn one; with a baseline, by how much it is above that. */
function movingAverage({ tensors, T }: Frame, span: number, baseline?: Frame) {
  const zero = baseline?.tensors.loss_at!.data;
  const losses = Float32Array.from(tensors.loss_at!.data, (x, t) => x - (zero?.[t] ?? 0));
  const start = Math.min(MIN_SPAN, Math.ceil(T / 4));
  const step = Math.ceil(T / MAX_POINTS);
  const places: number[] = [];
  const values: number[] = [];
  // Steps backward, so that the last token always has a point.
  for (let t = T - 1; t >= start; t -= step) {
    places.unshift(t);
    values.unshift(mean(losses.subarray(Math.max(1, t - span + 1), t + 1)));
  }
  return { places, values };
}

/** Returns the first query that cannot see the first token, if the cache evicts by age. */
export function queryWithoutFirst(frame: Frame): number {
  const { policy, budget } = editFields(frame, 'evict') ?? {};
  return policy === 'window' && Number(budget) < frame.T ? Number(budget) : NaN;
}

const meanLossWords = (frame: Frame) =>
  `${settingName(frame)} ${formatValue(mean(frame.tensors.loss_at!.data, 1), 3)}`;

/** States the loss of a model that knows nothing; '' if the size of the vocabulary is unknown. */
const blindNote = ({ architecture: { V } }: Frame): string =>
  V ? ` (a blind guess: ${Math.log(V).toFixed(1)})` : '';

function lossWords(frames: readonly Frame[]): string {
  const maxLength = Math.max(...frames.map(({ T }) => T));
  const phrases = frames.map(
    (frame) =>
      meanLossWords(frame) + (frame.T < maxLength ? ` over its first ${frame.T} tokens` : ''),
  );
  return `Mean loss over the text: ${phrases.join('; ')}.`;
}

export const loss: View = {
  name: 'loss',
  title: 'Loss by position',
  question: 'How well is each token predicted?',
  how:
    `Mean of −ln p over the last ${MIN_SPAN} tokens (a 16th of the text if it is long), along the text, averaged over ` +
    'prompts; beside a run with all keys, how far it is above that run’s. At the line, a cache of only the most recent ' +
    'keys loses the first token.',
  formula: 'loss(t) = −ln p(token t | tokens before it)',
  source: 'Xiao et al. 2024 (StreamingLLM), figure 3',
  reads: ['loss_at'],
  drawsAllSettings: true,
  fits: predictsNext,
  numbers: (frame) => [quantity('loss_at', ['token'], frame.tensors.loss_at!)],
  says: (frame) => `Mean loss over the text: ${meanLossWords(frame)}.`,
  draw: createChartDraw(
    (frame, { group }) => lossWords(group.length ? group : [frame]),
    (frame, { group, frames, height, isPlain }, caption) => {
      const members = group.length ? group : [frame];
      const span = spanOf(Math.max(...frames.map(({ T }) => T)));
      const baseline = baselineOf(members);
      const averages = frames
        .flatMap((shown) => {
          const zero = baselineOf(frames.filter(({ model }) => model.id === shown.model.id));
          return Boolean(zero) === Boolean(baseline) ? movingAverage(shown, span, zero).values : [];
        })
        .filter(Number.isFinite);
      const worse = Boolean(isPlain && baseline);
      if (worse) averages.push(...WORSE_DOMAIN);
      const cursor = members.map(queryWithoutFirst).find(Number.isFinite);
      return {
        kind: 'lines',
        tight: !baseline,
        named: true,
        height,
        worse,
        xLabel: 'position in the text',
        yLabel: worse
          ? `${WORSE_LABEL}, smoothed`
          : `${baseline ? 'extra loss' : 'loss'} in nats, smoothed${baseline ? '' : blindNote(frame)}`,
        label: `Loss by position of ${modelName(frame.model)}. ${caption}`,
        ...(averages.length ? { domain: [Math.min(...averages), Math.max(...averages)] } : {}),
        ...(cursor ? { cursor, cursorWords: 'first token leaves' } : {}),
        series: members.map((member, i) => {
          const index = isUnedited(member) ? 0 : i || 1;
          return {
            name: isUnedited(member) ? 'all tokens' : settingName(member),
            color: COLORS[index % COLORS.length]!,
            ...movingAverage(member, span, baseline),
            dash: DASHES[index % DASHES.length],
          };
        }),
      };
    },
  ),
};
