/** Measures how evicting the first key changes the accuracy of tasks, compared with another key. */
import { copyTask, measureTask, recallTask, textTask } from '../study/tasks.ts';
import { openModel } from './open.ts';
import { parseCount, parsePositive, type CommandInput, type SpecialTokens } from './values.ts';
import type { Model } from '../engine/types.ts';
import type { Task, TaskResult, TaskScores, TaskMean } from '../study/types.ts';
import type { AnyTokenizer } from '../text/types.ts';
import type { Engine } from '../load/types.ts';

export async function makeTasks(
  options: { copied: number; between: readonly number[]; prompts: number; seed: number },
  model: Model,
  tokenizer: AnyTokenizer,
  special: SpecialTokens,
): Promise<Task[]> {
  const { copied, between, prompts, seed } = options;
  const first = (await tokenizer.encode('', { special })).map(({ id }) => id);
  const never = tokenizer.special;
  const { V } = model.architecture;
  const tasks = [await copyTask(V, { first, never, length: copied, prompts, seed })];
  for (const count of between) {
    const task = await recallTask(tokenizer, { between: count, prompts, special });
    if (task) tasks.push(task);
  }
  return tasks;
}

function taskTitle({ name, distance = NaN }: TaskResult) {
  if (name === 'next') return 'next token';
  if (name === 'copy') return 'copy of random tokens';
  return `name recalled over ${distance.toFixed(0)} tokens`;
}

export const percentText = (share: number | null) =>
  share === null ? '-' : `${(100 * share).toFixed(1)}%`;

function taskMeanText({ mean, error }: TaskMean) {
  return `${percentText(mean)}${error === null ? '' : ` ± ${percentText(error)}`}`;
}

export function tasksText({ model, tasks }: { model: string; tasks: readonly TaskResult[] }) {
  const lines = tasks.flatMap((task) => {
    const { prompts, predicted, chance, can, baseline, first, other, unseen } = task;
    const formatRow = (name: string, { accuracy, loss, choice }: TaskScores) =>
      `  ${name.padEnd(22)}${taskMeanText(accuracy).padEnd(16)}` +
      `${(choice ? taskMeanText(choice) : '').padEnd(16)}${loss.mean.toFixed(3)}`;
    return [
      `${taskTitle(task)}: ${predicted} tokens of ${prompts} prompts; by chance ${percentText(chance)}` +
        (can ? '' : '; the model cannot do this task'),
      `  ${''.padEnd(22)}${'accuracy'.padEnd(16)}${(baseline.choice ? 'among names' : '').padEnd(16)}loss, nats`,
      formatRow('every key', baseline),
      formatRow('first key evicted', first),
      formatRow('another evicted', other),
      formatRow('first key never seen', unseen),
    ];
  });
  return `${[`${model}: mean ± standard error over prompts`, ...lines].join('\n')}\n`;
}

export async function runTasks(engine: Engine, { names: [name], values }: CommandInput) {
  const options = {
    copied: parsePositive(values.copied, '--copied'),
    between: values.between.split(',').map((count) => parseCount(count, '--between')),
    prompts: parsePositive(values.prompts, '--prompts'),
    seed: parseCount(values.seed, '--seed'),
  };
  const openedModel = await openModel(engine, name, values, (...args) =>
    makeTasks(options, ...args),
  );
  const { id, model, sequences, edits, cut } = openedModel;
  const tasks = [];
  for (const task of [await textTask(sequences), ...openedModel.tasks])
    tasks.push(await measureTask(model, task, { edits, seed: options.seed }));
  return { model: id, edits, cut, T: sequences[0]!.length, tasks };
}
