/**
 * Searches for tokens that move the sink or raise the loss when they are between the halves of the text. Draws the
 * course of the search, with random suffixes of the same length as controls.
 */
import { html } from 'lit';
import type { SuffixResult, SuffixGoal } from 'sinkscope';
import { segmentedControl } from '../page/controls';
import { numberField } from '../page/room_controls';
import { predictsNext, type Frame } from '../frame';
import { createJobDraw, createJobParts } from './job';
import { addElement, type View } from '../page/view';
import { drawChart } from '../plot/chart';
import { labeledQuantity } from '../save/numbers';
import { formatPercent } from '../words';

const STEPS = 12;
const WIDTH = 32;

const GOALS = [
  ['loss', 'raise the loss'],
  ['away', 'weaken the sink'],
  ['steal', 'attract attention'],
] as const satisfies readonly (readonly [SuffixGoal, string])[];

/** The best score after each step of a search, and the complete result at its end. */
export interface Search {
  readonly goal: SuffixGoal;
  readonly scores: readonly number[];
  readonly text?: string;
  readonly found?: SuffixResult;
}

const searches = new WeakMap<Frame['tokens'], Search>();

/** Returns the conversion of a goal's score to a loss or a weight: the score of `away` is a negative weight. */
const converterOf = (goal: SuffixGoal) => (score: number) => (goal === 'away' ? -score : score);

export function sentence({ goal, text, found }: Search): string {
  if (!found) return '';
  const { score, none, random, evaluated, shuffled } = found;
  const toValue = converterOf(goal);
  const valueWords = (score: number) =>
    goal === 'loss' ? toValue(score).toFixed(2) : formatPercent(toValue(score));
  const count = evaluated.toLocaleString('en');
  const effect = {
    loss: `raises the loss of the second half from ${valueWords(none ?? NaN)} to ${valueWords(score)} nats`,
    away: `changes the first key’s share of the second half’s attention from ${valueWords(none ?? NaN)} to ${valueWords(score)}`,
    steal: `receives, at its strongest token, ${valueWords(score)} of the second half’s attention`,
  }[goal];
  return (
    `“${text}” between the halves of the text ${effect}. ` +
    `100 random suffixes of ${found.suffix.length} tokens: ${valueWords(random.mean)} on average; ` +
    `the best of ${count}, as many as the search tried: ${valueWords(random.best)}. ` +
    `The found tokens in another order: ${valueWords(shuffled)}.`
  );
}

export const suffix: View = {
  name: 'suffix',
  title: 'Adversarial suffix',
  question: 'Can a few tokens move the sink, or spoil what follows?',
  how:
    `Tokens are put between the halves of the text. Each of ${STEPS} steps tries ${WIDTH} suffixes that differ by ` +
    'one token and keeps the best. A search always finds something: compare it with the best of as many random suffixes.',
  source:
    'search after GCG (Zou et al. 2023, arXiv 2307.15043), with random instead of gradient candidates',
  reads: ['loss'],
  fits: (frame) => !frame.recording && predictsNext(frame) && frame.T >= 4,
  numbers: (frame) => {
    const search = searches.get(frame.tokens);
    if (!search?.found) return [];
    const { found, scores, goal } = search;
    const { none, random, shuffled } = found;
    const toValue = converterOf(goal);
    return [
      { name: goal, axes: ['step'], shape: [scores.length], data: scores.map(toValue) },
      labeledQuantity(`${goal}_by_suffix`, 'suffix', [
        ['none', toValue(none ?? NaN)],
        ['random', toValue(random.mean)],
        ['best', toValue(random.best)],
        ['shuffled', toValue(shuffled)],
        ['found', toValue(found.score)],
      ]),
    ];
  },
  says: (frame) => sentence(searches.get(frame.tokens) ?? { goal: 'loss', scores: [] }),
  draw(root, api) {
    const { showJob } = createJobParts(root);
    const chart = addElement(root, 'plot');
    return createJobDraw(root, api, {
      results: searches,
      settings: ['goal', 'suffix'],
      async run(frame, { goal, suffix: length }, signal, onResult) {
        const ids = frame.tokens.map(({ id }) => id);
        const middle = Math.ceil(ids.length / 2);
        const pair = { prompt: ids.slice(0, middle), continuation: ids.slice(middle) };
        const scores: number[] = [];
        const onStep = ({ score }: { readonly score: number }) => {
          scores.push(score);
          onResult({ goal, scores: [...scores] });
        };
        const options = { pair, goal, length, steps: STEPS, width: WIDTH, seed: 1, onStep };
        const { result, text } = await api.measure('suffix', { frame, signal }, options);
        const finalScores = [result.start, ...result.path.map(({ score }) => score)];
        onResult({ goal, scores: finalScores, found: result, text });
      },
      draw(frame, options, job) {
        const { state } = options;
        const context = { state: { value: state }, set: api.set };
        const search = searches.get(frame.tokens);
        const limit = Math.max(1, frame.architecture.context - frame.T);
        showJob(job, 'Search', suffix.says(frame, options.at), {
          settings: html`${segmentedControl('goal', GOALS, state.goal, (goal) => api.set({ goal }))}
          ${numberField('tokens', 'suffix', context, limit)}`,
          progress: `step ${search?.scores.length ?? 0} of ${STEPS}`,
        });
        chart.hidden = !search;
        if (!search) return;
        const { goal, scores, found } = search;
        const toValue = converterOf(goal);
        const levelSeries = (name: string, score: number, dash: string) => ({
          name,
          color: '--ink-2',
          dash,
          values: scores.map(() => toValue(score)),
        });
        drawChart(chart, {
          kind: 'lines',
          xLabel: 'step of the search',
          yLabel: { loss: 'loss, nats', away: 'first key’s weight', steal: 'suffix’s weight' }[
            goal
          ],
          percent: goal !== 'loss',
          tight: true,
          dots: false,
          label: suffix.says(frame, options.at) || 'The search so far.',
          series: [
            { name: 'found', color: '--sink', values: scores.map(toValue) },
            ...(found
              ? [
                  ...(found.none === null ? [] : [levelSeries('no suffix', found.none, '1,3')]),
                  levelSeries('random, mean of 100', found.random.mean, '3,3'),
                  levelSeries(`random, best of ${found.evaluated}`, found.random.best, '7,3'),
                ]
              : []),
          ],
        });
      },
    });
  },
};
