/**
 * What a view is: it draws one side's frame into its place, and tells the state what the reader
 * points at. Views do not know each other, the engine, or the other side beyond its frame.
 */
import type { Frame } from '../frame';
import type { Quantity } from '../save/numbers';
import type { Theme } from '../plot/color';
import type { State } from '../state';

/** What is pointed at right now, anywhere on the page; not part of a link. */
export interface Pointed {
  readonly layer?: number;
  readonly head?: number;
  readonly query?: number;
  readonly key?: number;
}

export interface Context {
  readonly state: State;
  readonly theme: Theme;
  readonly pointed: Pointed;
  /** The selected head of this side. */
  readonly layer: number;
  readonly head: number;
  /** Both sides' frames, for scales that must be shared. */
  readonly frames: readonly Frame[];
}

export interface Reach {
  readonly set: (change: Partial<State>) => void;
  readonly point: (pointed: Pointed) => void;
}

export interface View {
  update(frame: Frame, context: Context): void;
}

export interface ViewKind {
  /** The name in links: embed.html#view=<name>. */
  readonly name: string;
  readonly title: string;
  /** How to read it, in a sentence or two. */
  readonly how: string;
  /** It says its conditions itself. */
  readonly stamped?: boolean;
  /** Its numbers are means over all sequences; absent: those of the first one. */
  readonly averaged?: boolean;
  /** Whether there is anything of a frame to show, and what is said where not; absent: of any. */
  readonly fits?: (frame: Frame) => boolean;
  readonly lacks?: string;
  /** What it shows, as numbers: for the head that is selected, where it shows one. */
  readonly numbers: (frame: Frame, layer: number, head: number) => readonly Quantity[];
  readonly create: (root: HTMLElement, reach: Reach) => View;
}

export function part(root: Element, name: string, tag = 'div'): HTMLElement {
  const made = document.createElement(tag);
  made.className = name;
  root.append(made);
  return made;
}

/** A large number with its unit, and a line for what it depends on. */
export function numberPlace(root: Element, unit: string) {
  const head = part(root, 'number');
  const figure = part(head, 'figure', 'strong');
  part(head, 'unit', 'span').textContent = unit;
  return { figure, small: part(root, 'conditions', 'p') };
}

/** Largest absolute finite value over some arrays, at least `least`. */
export function largest(arrays: readonly ArrayLike<number>[], least = 1e-9): number {
  let size = least;
  for (const array of arrays)
    for (let i = 0; i < array.length; i++) {
      const value = Math.abs(array[i]);
      if (value > size && value < Infinity) size = value;
    }
  return size;
}
