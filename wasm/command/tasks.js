/** Measures how evicting the first key changes the accuracy of tasks, compared with another key. */
import { copyTask, measureTask, recallTask, textTask } from '../index.js';

/** @typedef {import('../sinkscope.js').Task} Task */
/** @typedef {import('../sinkscope.js').TaskFound} TaskFound */
/** @typedef {import('../sinkscope.js').TaskScores} TaskScores */

/**
 * Makes the tasks that need a tokenizer or the vocabulary.
 * @param {{ copied: number, between: readonly number[], prompts: number, seed: number }} options
 * @param {import('../sinkscope.js').Model} model
 * @param {import('../sinkscope.js').AnyTokenizer} tokenizer
 * @param {import('./command.js').Special} special
 * @returns {Promise<Task[]>}
 */
export async function makeTasks({ copied, between, prompts, seed }, model, tokenizer, special) {
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

/**
 * @param {Omit<import('./command.js').OpenedModel, 'made'> & { made: readonly Task[] }} opened
 * @param {number} seed
 */
export async function measureTasks({ id, model, sequences, edits, made }, seed) {
  const tasks = [];
  for (const task of [await textTask(sequences), ...made])
    tasks.push(await measureTask(model, task, { edits, seed }));
  return { model: id, edits, tasks };
}

/** @param {TaskFound} task */
function nameOf({ name, distance = NaN }) {
  if (name === 'next') return 'next token';
  if (name === 'copy') return 'copy of random tokens';
  return `name recalled over ${distance.toFixed(0)} tokens`;
}

export const percent = (/** @type {number} */ x) => `${(100 * x).toFixed(1)}%`;

/** @param {import('../sinkscope.js').TaskMean} score */
function withError({ mean, error }) {
  return `${percent(mean)}${error === null ? '' : ` ± ${percent(error)}`}`;
}

/** @param {{ model: string, tasks: readonly TaskFound[] }} found */
export function tasksText({ model, tasks }) {
  const lines = tasks.flatMap((task) => {
    const { prompts, predicted, chance, can, baseline, first, other, unseen } = task;
    const row = (
      /** @type {string} */ name,
      /** @type {TaskScores} */ { accuracy, loss, choice },
    ) =>
      `  ${name.padEnd(22)}${withError(accuracy).padEnd(16)}` +
      `${(choice ? withError(choice) : '').padEnd(16)}${loss.mean.toFixed(3)}`;
    return [
      `${nameOf(task)}: ${predicted} tokens of ${prompts} prompts; by chance ${percent(chance)}` +
        (can ? '' : '; the model cannot do this task'),
      `  ${''.padEnd(22)}${'accuracy'.padEnd(16)}${(baseline.choice ? 'among names' : '').padEnd(16)}loss, nats`,
      row('every key', baseline),
      row('first key evicted', first),
      row('another evicted', other),
      row('first key never seen', unseen),
    ];
  });
  return `${[`${model}: mean ± standard error over prompts`, ...lines].join('\n')}\n`;
}
