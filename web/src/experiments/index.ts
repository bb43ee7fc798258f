/** The table of benches, in the order of the page’s story. */
import type { Bench } from './experiment';
import { cache } from './cache';
import { fragility } from './fragility';
import { quantisation } from './quantisation';
import { streaming } from './streaming';

export const benches: readonly Bench[] = [streaming, cache, quantisation, fragility];
