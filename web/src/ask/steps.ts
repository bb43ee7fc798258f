/**
 * How ids name checkpoints: softmax@1400 is the zoo's model softmax after 1,400 training steps, and recording:URL@1400 the
 * recording of that step in a series. On a hub each checkpoint is a model of its own, named by its revision.
 */

/** The conditions under which models/train/measure.py measured each checkpoint. */
export const MEASURING_CONDITIONS = { sequences: 100, T: 64, eps: 0.3 } as const;
/** The number of sequences that each line of a training's log averages. */
export const LOG_SEQUENCES = 20;

export function splitStep(id: string): { readonly id: string; readonly step: number } | undefined {
  const [, name, step] = /^([\w-]{1,64}|recording:.+)@(\d{1,9})$/s.exec(id) ?? [];
  return name ? { id: name, step: Number(step) } : undefined;
}

export const idWithoutStep = (id: string): string => splitStep(id)?.id ?? id;

/** Returns the stored step nearest to `step` on a log scale, since a link may name any step. */
export function nearestStep(steps: readonly number[], step: number): number {
  const distance = (other: number) => Math.abs(Math.log((other + 1) / (step + 1)));
  return steps.reduce((best, other) => (distance(other) < distance(best) ? other : best));
}

export function stepWords(step: number, last: number): string {
  return `step ${step.toLocaleString('en')} of ${last.toLocaleString('en')}`;
}

/** Steps at which Pythia's checkpoints were saved: 0, powers of two, then every thousand. */
export const PYTHIA_STEPS: readonly number[] = [
  0,
  ...Array.from({ length: 10 }, (_, i) => 2 ** i),
  ...Array.from({ length: 143 }, (_, i) => 1000 * (i + 1)),
];

type Checkpoint = { readonly repository: string; readonly step: number };

/** Returns the checkpoint that an id names; undefined unless the model is a Pythia on the hub. */
export function checkpointOf(id: string): Checkpoint | undefined {
  const [, repository, revision = 'main'] =
    /^hub:(EleutherAI\/pythia-[\w.-]+)(?:@([^:]+))?$/.exec(id) ?? [];
  if (!repository) return undefined;
  // The main branch has the weights of the last step.
  const step = revision === 'main' ? 143000 : Number(/^step(\d+)$/.exec(revision)?.[1] ?? NaN);
  return PYTHIA_STEPS.includes(step) ? { repository, step } : undefined;
}

export function checkpointId({ repository, step }: Checkpoint): string {
  return `hub:${repository}@step${step}`;
}
