/**
 * What a view is: one row of the table in index.ts. It says which question it answers and what it reads;
 * it draws one subject's frame into a place and passes on what the reader points at. Views do not
 * know each other, the engine, or the room that shows them.
 */
import type { ReadonlySignal } from '@preact/signals-core';
import type { Describe } from 'sinkscope';
import type { Frame, Head } from '../frame';
import type { Measure } from '../run/started';
import type { Theme } from '../plot/color';
import type { Quantity } from '../save/numbers';
import type { State } from '../ask/state';
import type { Timelines } from '../timeline/timelines';

/** What is pointed at right now, anywhere on the page; not part of a link. */
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
  /** Of a view that draws the settings of a model into one picture: those, the frame first. */
  readonly group: readonly Frame[];
  /** For readers who know no word of this yet. */
  readonly isPlain?: boolean;
  /** The room's heading is the plain answer: the caption follows it with the numbers. */
  readonly isAnswered?: boolean;
  /** Something said on the picture. */
  readonly remark?: { readonly text: string; readonly kind: string };
}

export interface ViewApi {
  readonly set: (change: Partial<State>) => void;
  readonly point: (pointed: Pointed) => void;
  readonly pointed: ReadonlySignal<Pointed>;
  /** Runs again when a signal that it reads changes, until the view is removed. */
  readonly effect: (run: () => void) => void;
  readonly fail: (error: unknown) => void;
  /** For views that show more than a frame has. */
  readonly timelines: () => Promise<Timelines>;
  /** Takes a measurement with runs of its own, of a frame's model under its edits; what it finds comes in parts. */
  readonly measure: Measure<{ readonly frame: Frame; readonly signal: AbortSignal }>;
}

export type Update = (frame: Frame, options: DrawOptions) => void;

export interface View {
  /** The name in links, and in data-view. */
  readonly name: string;
  readonly title: string;
  /** In plain words. */
  readonly question: string;
  /** How to read it, in a sentence or two. */
  readonly how: string;
  readonly formula?: string;
  readonly source?: string;
  /** Metrics and fields by their names in describe; the first decides whether it is of all prompts. */
  readonly reads: readonly string[];
  /** Names that it draws where they are there, and does without elsewhere. */
  readonly optional?: readonly string[];
  /** The same of the chosen head alone, of the first prompt. */
  readonly headReads?: readonly string[];
  /** Whether one picture has the lines of all that are shown. */
  readonly isOfAll?: boolean;
  /** Whether one picture shows all settings of a model, which differ in their edits. */
  readonly isGroup?: boolean;
  /** Whether one setting alone says nothing. */
  readonly isOfMany?: boolean;
  /** Needs the frame without what-ifs beside each that has some, as its `base`. */
  readonly compares?: boolean;
  /** Whether there is anything of a frame to show; absent: of any. */
  readonly fits?: (frame: Frame) => boolean;
  /** What the line of conditions says otherwise than of the frame, where settings of the view change what is run. */
  readonly conditions?: (
    frame: Frame,
    state: State,
  ) => Partial<Pick<Frame, 'class' | 'T' | 'title' | 'sequences' | 'eps' | 'setting'>>;
  /** What it shows, as numbers. */
  readonly numbers: (frame: Frame, at: Head) => readonly Quantity[];
  /** What it shows, as a sentence: a caption, and the picture's alternative. @param state of the page; absent: as usual */
  readonly says: (frame: Frame, at: Head, state?: State) => string;
  /** Whether what it says waits for more than the answer; it reads signals. */
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

/** Which of a view's numbers a frame cannot have, in a sentence; empty where there is nothing to say. */
export function lackWords({ title, reads, headReads = [], fits }: View, frame: Frame): string {
  const { recording, lacks } = frame;
  const reasons = [...reads, ...headReads].flatMap((name) => lacks?.[name] ?? []);
  if (!reasons.length || (fits && !fits(frame))) return '';
  const where = recording ? `Not in the recording of ${frame.title}: ` : '';
  return `${where}“${title}” ${reasons[0]}.`;
}

export function part(root: Element, name: string, tag = 'div'): HTMLElement {
  const made = document.createElement(tag);
  if (name) made.className = name;
  root.append(made);
  return made;
}

/** Sets a text only where it changes, so that a screen reader does not read it twice. */
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
