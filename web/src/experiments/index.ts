/** The table of experiments, in the order of the page’s story. */
import type { Experiment } from './experiment';
import { cache } from './cache';
import { fragility } from './fragility';
import { quantization } from './quantization';
import { streaming } from './streaming';

export const experiments: readonly Experiment[] = [streaming, cache, quantization, fragility];
