/**
 * Measurements that need further runs over the same prompts. Views read them by name, like the metrics and fields of
 * describe. The queue takes them after the numbers of a single run are shown.
 */
import type { Edit } from 'sinkscope';
import { headEffects } from 'sinkscope/internal';
import { predictsNext, type Frame } from '../frame';
import { averagesOf } from './averages';
import type { OpenModel } from './opened';

type MeasuredTensors = Pick<Frame, 'tensors' | 'spread'>;

interface MeasurementInput {
  readonly openModel: OpenModel;
  readonly ids: readonly (readonly number[])[];
  readonly edits: readonly Edit[];
  readonly eps: number;
  readonly signal: AbortSignal;
  readonly onProgress: (done: number, total: number) => void;
}

export interface Measurement {
  readonly names: readonly string[];
  readonly progressUnit: string;
  readonly fits: (frame: Pick<Frame, 'architecture'>) => boolean;
  readonly measure: (input: MeasurementInput) => Promise<MeasuredTensors>;
}

const effects: Measurement = {
  names: ['effect'],
  progressUnit: 'heads ablated',
  fits: predictsNext,
  measure: async ({ openModel, ids, eps: _, onProgress, ...options }) => {
    const effect = await headEffects(openModel.model, ids, {
      ...options,
      onProgress: ({ done, total }) => onProgress(done, total),
    });
    return averagesOf({ effect });
  },
};

export const measurements: readonly Measurement[] = [effects];

export function isMeasurement(name: string): boolean {
  return measurements.some(({ names }) => names.includes(name));
}
