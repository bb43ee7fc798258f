/** Draws the accuracy in tasks with every key, without the first key, and without another key. */
import type { TaskResult, TaskScore, TaskScores } from 'sinkscope';
import { predictsNext, type Frame } from '../frame';
import { addElement, type View } from '../page/view';
import { drawChart } from '../plot/chart';
import { labeledQuantity } from '../save/numbers';
import { capitalize, formatPercent } from '../words';
import { createJobDraw, createJobParts } from './job';

/** The tasks measured so far, and the finished share of the work. */
type Measurement = { readonly results: readonly TaskResult[]; readonly share: number };

const results = new WeakMap<Frame['tokens'], Measurement>();

const resultsOf = (frame: Frame) => results.get(frame.tokens)?.results ?? [];

/** The conditions, each with its name in files and on the axis. */
const CONDITIONS = [
  ['baseline', 'every key', 'all keys'],
  ['first', 'first evicted', 'first gone'],
  ['other', 'another evicted', 'other gone'],
  ['unseen', 'first never seen', 'first hidden'],
] as const satisfies readonly (readonly [keyof TaskResult, string, string])[];
const COLORS = ['--sink', '--query', '--run-2', '--run-4'];

function taskName({ name, distance = NaN }: Pick<TaskResult, 'name' | 'distance'>): string {
  if (name === 'next') return 'next token';
  if (name === 'copy') return 'copying random tokens';
  return `recalling a name over ${distance.toFixed(0)} tokens`;
}

/** Returns the accuracy of the best choice, among the names for recall and among all tokens for other tasks. */
const scoreOf = ({ choice, accuracy }: TaskScores): TaskScore => choice ?? accuracy;

const formatWithError = ({ mean, error }: TaskScore['change']) =>
  formatPercent(mean) + (error === null ? '' : ` ± ${formatPercent(error)}`);

/** States the change of a score, as unclear within twice its standard error, which one prompt does not have. */
function changeWords(score: TaskScore): string {
  const { mean, error } = score.change;
  const scoreText = formatWithError(score);
  if (mean !== 0 && (error === null || Math.abs(mean) <= 2 * error))
    return `does not change clearly (${scoreText})`;
  return `${['falls to', 'stays at', 'rises to'][Math.sign(mean) + 1]} ${scoreText}`;
}

function sentenceOf(task: TaskResult): string {
  const { baseline, first, other, unseen, chance, can, prompts } = task;
  const name = taskName(task);
  const opening = `${capitalize(name)} (${prompts} prompt${prompts === 1 ? '' : 's'}): `;
  const baselineScore = formatWithError(scoreOf(baseline));
  if (!can)
    return `${opening}the model cannot do this, its accuracy is ${baselineScore}, by chance ${formatPercent(chance)}.`;
  return (
    `${opening}accuracy is ${baselineScore}, by chance ${formatPercent(chance)}. With the first key evicted it ` +
    `${changeWords(scoreOf(first))}, with another key evicted it ${changeWords(scoreOf(other))}, with the first key hidden from ` +
    `the start it ${changeWords(scoreOf(unseen))}.`
  );
}

export const sentence = (results: readonly TaskResult[]): string =>
  results.map(sentenceOf).join(' ');

export const tasks: View = {
  name: 'tasks',
  title: 'Tasks',
  question: 'What does the sink do for tasks?',
  how:
    'Accuracy with every key; with the first key, or another one drawn for each prompt, evicted once the prompt was read; ' +
    'and with the first key hidden from the start, where another token may become the sink. ' +
    'Next token: in the second half of each prompt. Copying: the second copy of different random tokens. ' +
    'Recall: a name that an earlier sentence gave, among up to 8 names. Bars: standard error over prompts.',
  source: 'prompts of this project; attention knock-out of a key',
  reads: ['loss'],
  fits: (frame) => !frame.recording && predictsNext(frame) && frame.T >= 5,
  conditions: ({ title, sequences }) => ({
    class: 'counterfactual',
    title: `${title}, with and without a key`,
    // All prompts count, unlike in the loss by token, which is that of the first prompt.
    sequences,
    setting: 'prompts of its own for each task, counted in its sentence',
  }),
  numbers: (frame) =>
    resultsOf(frame).flatMap((task) => {
      const name = task.name === 'recall' ? `recall_${task.distance!.toFixed(0)}` : task.name;
      const quantityOf = (quantity: string, value: (scores: TaskScores) => number) =>
        labeledQuantity(
          `${name}_${quantity}`,
          'condition',
          CONDITIONS.map(([key, label]) => [label, value(task[key])]),
        );
      return [
        quantityOf('accuracy', (scores) => scoreOf(scores).mean),
        quantityOf('error', (scores) => scoreOf(scores).error ?? NaN),
        quantityOf('loss', ({ loss }) => loss.mean),
      ];
    }),
  says: (frame) => sentence(resultsOf(frame)),
  draw(root, api) {
    const { showJob } = createJobParts(root);
    const chart = addElement(root, 'plot');
    return createJobDraw(root, api, {
      results,
      settings: [],
      run: async (frame, _, signal, onResult) => {
        let progress: Measurement = { results: [], share: 0 };
        const report = (change: Partial<Measurement>) =>
          onResult((progress = { ...progress, ...change }));
        const onTask = (task: TaskResult) => report({ results: [...progress.results, task] });
        const onShare = (share: number) => report({ share });
        await api.measure('tasks', { frame, signal }, { onTask, onShare });
      },
      draw(frame, options, job) {
        const taskResults = resultsOf(frame);
        showJob(job, 'Measure', tasks.says(frame, options.at), {
          progress: formatPercent(results.get(frame.tokens)?.share ?? 0, 0),
        });
        chart.hidden = !taskResults.length;
        if (!taskResults.length) return;
        drawChart(chart, {
          kind: 'points',
          xLabel: '',
          xNames: CONDITIONS.map(([, , short]) => short),
          yLabel: 'accuracy',
          percent: true,
          domain: [0, 0.1],
          label: tasks.says(frame, options.at) || 'The tasks so far.',
          series: taskResults.map((task, i) => {
            const scores = CONDITIONS.map(([key]) => scoreOf(task[key]));
            return {
              name: taskName(task) + (task.can ? '' : ' (cannot)'),
              color: COLORS[i % COLORS.length]!,
              values: scores.map(({ mean }) => mean),
              spread: scores.map(({ error }) => error ?? NaN),
            };
          }),
        });
      },
    });
  },
};
