/**
 * The table of views, in the order of the story. A new view is a file like these and a row
 * here: rooms, links, exports and embeds read the table.
 */
import type { Frame } from '../frame';
import { arrows } from './arrows';
import { attention } from './attention';
import { bias } from './bias';
import { change } from './change';
import { channels } from './channels';
import { length, threshold } from './curves';
import { domains } from './domains';
import { effects } from './effects';
import { firsts } from './firsts';
import { gate } from './gate';
import { geometry } from './geometry';
import { gives } from './gives';
import { heads } from './heads';
import { kept } from './kept';
import { loss } from './loss';
import { mass } from './mass';
import { next } from './next';
import { norms } from './norms';
import { outputs } from './outputs';
import { parts } from './parts';
import { perturbations } from './perturbations';
import { ratios } from './ratios';
import { reach } from './reach';
import { router } from './router';
import { scores } from './scores';
import { secondary } from './secondary';
import { sinks } from './sinks';
import { suffix } from './suffix';
import { sweep } from './sweep';
import { tags } from './tags';
import { tasks } from './tasks';
import { training } from './training';
import { maskedLoss } from './masked_loss';
import { unmasking } from './unmasking';
import { valley } from './valley';
import type { View } from '../page/view';

export const views: readonly View[] = [
  attention,
  sinks,
  change,
  geometry,
  arrows,
  scores,
  parts,
  threshold,
  length,
  gives,
  outputs,
  tags,
  norms,
  ratios,
  valley,
  channels,
  firsts,
  secondary,
  mass,
  heads,
  effects,
  reach,
  bias,
  gate,
  router,
  loss,
  kept,
  domains,
  sweep,
  perturbations,
  next,
  suffix,
  tasks,
  unmasking,
  maskedLoss,
  training,
];

/** The views of the inspector: the views that Explore always shows are not offered again. */
export const inspectors = views.filter(
  ({ name, isOfMany }) => !isOfMany && !['attention', 'sinks', 'change'].includes(name),
);

/** Those that have something of one of the frames to show. */
export function fitting(all: readonly View[], frames: readonly Frame[]): readonly View[] {
  return all.filter(({ fits }) => !fits || frames.some(fits));
}

/** The lab and an experiment are figures too, though not of frames. */
export const LAB = 'lab';
export const EXPERIMENT = 'experiment';
const WHOLE: Readonly<Record<string, string>> = { [LAB]: 'Lab', [EXPERIMENT]: 'Experiment' };
export const isWholeRoom = (name: string): boolean => Object.hasOwn(WHOLE, name);
/** Of what an embed shows. */
export const titleOf = (name: string): string => WHOLE[name] ?? viewNamed(name).title;

export function viewNamed(name: string, among: readonly View[] = views): View {
  return among.find((view) => view.name === name) ?? among[0]!;
}
