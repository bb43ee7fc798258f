/** The numbers of all runs as CSV or JSON, with how they were measured. */
import { field } from '../save/numbers';
import type { Course } from './course';
import { LOGGED_ON, MEASURED_ON } from './steps';

export interface FileFacts {
  readonly version: string;
  /** The page's address in this state. */
  readonly link: string;
}

const HOW = {
  class: 'MEASURED',
  source: 'on weights trained here',
  eps: MEASURED_ON.eps,
  T: MEASURED_ON.T,
  first_token: 'BOS',
  sequences_of: {
    log: LOGGED_ON,
    measured: MEASURED_ON.sequences,
    stored: MEASURED_ON.sequences,
  },
  meaning: {
    log: 'during the run, exact weights',
    measured: 'at a checkpoint, exact weights',
    stored: 'at a checkpoint, weights as they are stored and drawn',
  },
} as const;

export function toJson(courses: readonly Course[], { version, link }: FileFacts): string {
  const runs = courses.map(({ id, title, timeline }) => ({
    id,
    title,
    seed: timeline.seed,
    parameters: timeline.parameters,
    log: timeline.log,
    checkpoints: timeline.checkpoints,
  }));
  const said = { figure: 'training', ...HOW, measured_by: `Sinkscope ${version}`, link };
  return `${JSON.stringify({ ...said, runs }, null, 1)}\n`;
}

/** One number a line. */
export function toCsv(courses: readonly Course[], { version, link }: FileFacts): string {
  const said = { ...HOW, measured_by: `Sinkscope ${version}`, link };
  const lines = [
    ...Object.entries(said).map(([name, value]) => `# ${name}: ${JSON.stringify(value)}`),
    'run,seed,source,step,quantity,value',
  ];
  for (const { title, timeline } of courses) {
    const add = (source: string, step: number, numbers: Readonly<Record<string, number>>) => {
      for (const [name, value] of Object.entries(numbers))
        if (name !== 'step')
          lines.push([field(title), timeline.seed, source, step, field(name), value].join());
    };
    for (const line of timeline.log) add('log', line.step, line);
    for (const { step, measured, stored } of timeline.checkpoints) {
      add('measured', step, measured);
      add('stored', step, stored);
    }
  }
  return `${lines.join('\n')}\n`;
}
