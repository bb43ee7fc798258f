/**
 * The table of views, in the order in which it tells its story. A new view is a file like these and a row
 * here: rooms, links, exports and embeds read the table.
 */
import type { Frame } from '../frame';
import { attention } from './attention';
import { bias } from './bias';
import { gate } from './gate';
import { geometry } from './geometry';
import { heads } from './heads';
import { mass } from './mass';
import { next } from './next';
import { norms } from './norms';
import { router } from './router';
import { scores } from './scores';
import { sinks } from './sinks';
import { training } from './training';
import { unmasking } from './unmasking';
import type { View } from './view';

export const views: readonly View[] = [
  attention,
  sinks,
  geometry,
  scores,
  norms,
  mass,
  heads,
  bias,
  gate,
  router,
  next,
  unmasking,
  training,
];

/** Those that can stand beside the map: what is always there is not offered again. */
export const inspectors = views.filter(({ name }) => !['attention', 'sinks'].includes(name));

/** Those that have something of one of the frames to show. */
export function fitting(all: readonly View[], frames: readonly Frame[]): readonly View[] {
  return all.filter(({ fits }) => !fits || frames.some(fits));
}

export function viewNamed(name: string, among: readonly View[] = views): View {
  return among.find((view) => view.name === name) ?? among[0]!;
}
