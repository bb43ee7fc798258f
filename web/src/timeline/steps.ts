/**
 * A model of the zoo at a step of its training: softmax@1400. No name of the zoo holds an @. Those of
 * a hub are models of their own, by their revisions.
 */

/** What is known of a checkpoint beside its weights. */
export interface StepFacts {
  readonly step: number;
  /** The last step of the run. */
  readonly of: number;
  /** In which a weight is stored, on average. */
  readonly bits: number;
  /** Of the run's exact weights, and of these, over the same sequences. */
  readonly measured: Readonly<Record<string, number>>;
  readonly stored: Readonly<Record<string, number>>;
}

/** How the numbers of a checkpoint were measured, as models/train/measure.py does. */
export const MEASURED_ON = { sequences: 100, T: 64, eps: 0.3 } as const;
/** Sequences of a line of the log. */
export const LOGGED_ON = 20;

export function stepOf(id: string): { readonly id: string; readonly step: number } | undefined {
  const [, name, step] = /^([\w-]{1,64})@(\d{1,9})$/.exec(id) ?? [];
  return name ? { id: name, step: Number(step) } : undefined;
}

/** The stored step that is nearest by its ratio; a link may name any. */
export function nearestStep(steps: readonly number[], step: number): number {
  const distance = (one: number) => Math.abs(Math.log((one + 1) / (step + 1)));
  return steps.reduce((best, one) => (distance(one) < distance(best) ? one : best));
}

export function stepWords(step: number, of: number): string {
  return `step ${step.toLocaleString('en')} of ${of.toLocaleString('en')}`;
}
