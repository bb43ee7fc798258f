/** The table of contents: every view of the page, in the order in which it tells its story. */
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
import type { ViewKind } from './view';

export const views: readonly ViewKind[] = [
  sinks,
  bias,
  gate,
  attention,
  scores,
  heads,
  geometry,
  norms,
  mass,
  router,
  next,
];
