/**
 * A model of the zoo at a step of its training: softmax@1400. No name of the zoo contains an @. A hub's checkpoints are
 * models of their own, named by revisions.
 */

/** The conditions of a checkpoint's numbers, as in models/train/measure.py. */
export const MEASURED_ON = { sequences: 100, T: 64, eps: 0.3 } as const;
/** Sequences behind a line of the log. */
export const LOGGED_ON = 20;

export function stepOf(id: string): { readonly id: string; readonly step: number } | undefined {
  const [, name, step] = /^([\w-]{1,64})@(\d{1,9})$/.exec(id) ?? [];
  return name ? { id: name, step: Number(step) } : undefined;
}

/** Returns the stored step that is nearest by ratio; a link may name any step. */
export function nearestStep(steps: readonly number[], step: number): number {
  const distance = (one: number) => Math.abs(Math.log((one + 1) / (step + 1)));
  return steps.reduce((best, one) => (distance(one) < distance(best) ? one : best));
}

export function stepWords(step: number, of: number): string {
  return `step ${step.toLocaleString('en')} of ${of.toLocaleString('en')}`;
}

/** Steps at which Pythia's checkpoints were saved: 0, powers of two, then every thousand. */
export const PYTHIA_STEPS: readonly number[] = [
  0,
  ...Array.from({ length: 10 }, (_, i) => 2 ** i),
  ...Array.from({ length: 143 }, (_, i) => 1000 * (i + 1)),
];

interface Checkpoint {
  readonly repository: string;
  readonly step: number;
}

/** Returns the checkpoint of a model's id; undefined unless it is a Pythia of the hub. */
export function checkpointOf(id: string): Checkpoint | undefined {
  const [, repository, revision = 'main'] =
    /^hub:(EleutherAI\/pythia-[\w.-]+)(?:@([^:]+))?$/.exec(id) ?? [];
  if (!repository) return undefined;
  // The main branch is the end of the training.
  const step = revision === 'main' ? 143000 : Number(/^step(\d+)$/.exec(revision)?.[1] ?? NaN);
  return PYTHIA_STEPS.includes(step) ? { repository, step } : undefined;
}

export function checkpointId({ repository, step }: Checkpoint): string {
  return `hub:${repository}@step${step}`;
}
