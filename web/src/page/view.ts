/**
 * The definition of a view, a row of the table in index.ts. A row names the question that it answers and the metrics
 * that it reads; it draws one subject's frame into a place and reports the reader's pointing. Views do not know each
 * other, the engine, or the room that shows them.
 */
import type { ReadonlySignal } from '@preact/signals-core';
import type { Describe } from 'sinkscope';
import type { Frame, Head } from '../frame';
import type { Measure } from '../run/started';
import type { Theme } from '../plot/color';
import type { Quantity } from '../save/numbers';
import type { State } from '../ask/state';
import type { Timelines } from '../timeline/timelines';

/** The cell, head or token under the pointer, anywhere on the page; not part of a link. */
export interface Pointed {
  readonly layer?: number;
  readonly head?: number;
  readonly query?: number;
  readonly key?: number;
}

export interface DrawOptions {
  readonly state: State;
  readonly theme: Theme;
  /** The chosen head of this subject. */
  readonly at: Head;
  /** All frames of the figure, for shared scales. */
  readonly frames: readonly Frame[];
  /** For a view that draws the settings of a model into one picture: those settings, the frame first. */
  readonly group: readonly Frame[];
  /** For readers who know none of the terms yet. */
  readonly isPlain?: boolean;
  /** The room's heading is the plain answer: the caption follows it with the numbers. */
  readonly isAnswered?: boolean;
  /** A remark on the picture. */
  readonly remark?: { readonly text: string; readonly kind: string };
}

export interface ViewApi {
  readonly set: (change: Partial<State>) => void;
  readonly point: (pointed: Pointed) => void;
  readonly pointed: ReadonlySignal<Pointed>;
  /** Runs again when a signal that it reads changes, until the view is removed. */
  readonly effect: (run: () => void) => void;
  readonly fail: (error: unknown) => void;
  /** For views that need more than a frame. */
  readonly timelines: () => Promise<Timelines>;
  /** Takes a measurement with runs of its own, of a frame's model under its edits; results arrive in parts. */
  readonly measure: Measure<{ readonly frame: Frame; readonly signal: AbortSignal }>;
}

export type Update = (frame: Frame, options: DrawOptions) => void;

export interface View {
  /** The name in links, and in data-view. */
  readonly name: string;
  readonly title: string;
  /** The question in plain words. */
  readonly question: string;
  /** Explains in a sentence or two how to read it. */
  readonly how: string;
  readonly formula?: string;
  readonly source?: string;
  /** Metrics and fields by their names in describe; the first decides whether the view covers all prompts. */
  readonly reads: readonly string[];
  /** Names that it draws if they are available. */
  readonly optional?: readonly string[];
  /** The same for the chosen head alone, of the first prompt. */
  readonly headReads?: readonly string[];
  /** Whether one picture has the lines of all that are shown. */
  readonly isOfAll?: boolean;
  /** Whether one picture shows all settings of a model, which differ in their edits. */
  readonly isGroup?: boolean;
  /** Whether a single setting shows nothing. */
  readonly isOfMany?: boolean;
  /** Needs the frame without what-ifs for each frame with some, as its `base`. */
  readonly compares?: boolean;
  /** Whether the view applies to a frame; absent: to any. */
  readonly fits?: (frame: Frame) => boolean;
  /** The conditions that differ from the frame's, if settings of the view change the run. */
  readonly conditions?: (
    frame: Frame,
    state: State,
  ) => Partial<Pick<Frame, 'class' | 'T' | 'title' | 'sequences' | 'eps' | 'setting'>>;
  /** Returns its numbers. */
  readonly numbers: (frame: Frame, at: Head) => readonly Quantity[];
  /**
   * Returns its sentence: a caption, and the picture's alternative text.
   * @param state of the page; absent: the defaults
   */
  readonly says: (frame: Frame, at: Head, state?: State) => string;
  /** Whether its sentence waits for more than the answer; it reads signals. */
  readonly isComing?: (frame: Frame) => boolean;
  readonly draw: (root: HTMLElement, api: ViewApi) => Update;
}

/** Whether the frame has every name that the view reads and the model has; it may be another view's frame. */
export function isRead(
  { reads, headReads = [] }: View,
  { tensors, head, architecture }: Frame,
  { fields }: Pick<Describe, 'fields'>,
): boolean {
  const isOwn = (name: string) => {
    const needs = fields.find((field) => field.name === name)?.needs;
    return !needs || Boolean(architecture[needs]);
  };
  return (
    reads.every((name) => name in tensors || !isOwn(name)) &&
    headReads.every((name) => head && name in head.tensors)
  );
}

/** Names in a sentence the view's numbers that a frame cannot have; empty if none is missing. */
export function lackWords({ title, reads, headReads = [], fits }: View, frame: Frame): string {
  const { recording, lacks } = frame;
  const reasons = [...reads, ...headReads].flatMap((name) => lacks?.[name] ?? []);
  if (!reasons.length || (fits && !fits(frame))) return '';
  const prefix = recording ? `Not in the recording of ${frame.title}: ` : '';
  return `${prefix}“${title}” ${reasons[0]}.`;
}

export function part(root: Element, name: string, tag = 'div'): HTMLElement {
  const element = document.createElement(tag);
  if (name) element.className = name;
  root.append(element);
  return element;
}

/** Sets a text only if it changes, so that a screen reader does not read it twice. */
export function say(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Caches the last result of `make`: the same input gives the same object, so that `===` detects a change. */
export function lastOf<Of, Made>(make: (of: Of) => Made): (of: Of) => Made {
  let last: { of: Of; made: Made } | undefined;
  return (of) => {
    if (last?.of !== of) last = { of, made: make(of) };
    return last.made;
  };
}
