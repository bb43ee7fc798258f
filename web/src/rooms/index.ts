/**
 * The table of rooms. A room is a layout of views with its controls; its code is fetched when the reader
 * enters it.
 */
import type { Desk, Scope } from '../page/context';

export type Build = (root: HTMLElement, desk: Desk, scope: Scope) => void;

export interface Room {
  /** The name in links, and in data-room. */
  readonly name: string;
  readonly title: string;
  readonly load: () => Promise<{ readonly build: Build }>;
}

export const rooms: readonly Room[] = [
  { name: 'start', title: 'Start', load: () => import('./start') },
  { name: 'explore', title: 'Explore', load: () => import('./explore') },
  { name: 'compare', title: 'Compare', load: () => import('./compare') },
  { name: 'training', title: 'Training', load: () => import('./training') },
  { name: 'purpose', title: 'Why it matters', load: () => import('./purpose') },
  { name: 'lab', title: 'Lab', load: () => import('./lab') },
];
