/**
 * The definition of a view, a row of the table in views/index.ts. A view names its question and the metrics that it
 * reads, draws one subject's frame into an element, and reports where the reader points. It knows neither other views
 * nor the engine nor the room.
 */
import type { ReadonlySignal } from '@preact/signals-core';
import type { Describe } from 'sinkscope';
import { promptCountOf, type Frame, type Head } from '../frame';
import type { Measure } from '../run/started';
import type { Theme } from '../plot/color';
import type { Cell } from '../plot/heatmap';
import type { Quantity } from '../save/numbers';
import type { State } from '../ask/state';
import type { Timelines } from '../timeline/timelines';

/** The cell, head or token under the pointer, anywhere on the page. It is not part of a link. */
export interface PointerTarget {
  readonly layer?: number;
  readonly head?: number;
  readonly query?: number;
  readonly key?: number;
}

export interface DrawOptions {
  readonly state: State;
  readonly theme: Theme;
  readonly at: Head;
  /** All frames of the figure, which share scales. */
  readonly frames: readonly Frame[];
  /** The frames of all settings of the model, the leading one first, for views that draw them into one picture. */
  readonly group: readonly Frame[];
  /** Whether to draw for readers who know none of the terms. */
  readonly isPlain?: boolean;
  /** Whether a plain map has titles at its axes. */
  readonly isTitled?: boolean;
  /** Whether the room's heading is the plain answer, so that the caption is left with the numbers. */
  readonly isAnswered?: boolean;
  /** The height of the chart in CSS pixels, if the room has room for a tall one. */
  readonly height?: number;
  /** The row of the map that the room reads, which has a frame in place of the selected cell. */
  readonly readRow?: number | undefined;
  /** Cells, rows and columns of the map that have a frame. */
  readonly outlined?: readonly Cell[];
  /** A remark beside the column of the map that it describes; `kind` is a CSS class. */
  readonly remark?: { readonly text: string; readonly kind: string };
}

export interface ViewApi {
  readonly set: (change: Partial<State>) => void;
  readonly point: (pointed: PointerTarget) => void;
  readonly pointed: ReadonlySignal<PointerTarget>;
  /** Runs `run` again when a signal that it reads changes, until the view is removed. */
  readonly effect: (run: () => void) => void;
  readonly fail: (error: unknown) => void;
  readonly timelines: () => Promise<Timelines>;
  /** Takes a measurement that needs further runs of a frame's model with its edits, and reports partial results. */
  readonly measure: Measure<{ readonly frame: Frame; readonly signal: AbortSignal }>;
}

export type Update = (frame: Frame, options: DrawOptions) => void;

export interface View {
  /** The view's name in links and in data-view. */
  readonly name: string;
  readonly title: string;
  readonly question: string;
  readonly how: string;
  readonly formula?: string;
  readonly source?: string;
  /**
   * The names in describe of the metrics and fields that the view reads. If the first one is averaged over the prompts,
   * the view's numbers are means over all prompts; otherwise they are those of the first prompt.
   */
  readonly reads: readonly string[];
  /** Metrics and fields that the view also draws if a frame has them. */
  readonly optional?: readonly string[];
  /**
   * Metrics and fields that the view reads of the first prompt: only those of the chosen head, if they can be read so.
   * Means over the prompts, which `reads` gives, must not be combined with these.
   */
  readonly headReads?: readonly string[];
  /** Whether all shown subjects are lines of one picture. */
  readonly drawsAllSubjects?: boolean;
  /** Whether one picture shows all settings of a model, that is the model with different edits. */
  readonly drawsAllSettings?: boolean;
  /** Whether there is a picture only for several settings. */
  readonly needsSeveralSettings?: boolean;
  /** Whether the view compares an edited frame with `base`, the frame of the same subject without edits. */
  readonly needsBaseline?: boolean;
  /** Whether the view applies to a frame; absent: to all. */
  readonly fits?: (frame: Frame) => boolean;
  /** For views whose own settings change the run: the conditions that differ from the frame's. */
  readonly conditions?: (
    frame: Frame,
    state: State,
  ) => Partial<Pick<Frame, 'class' | 'T' | 'title' | 'sequences' | 'eps' | 'setting' | 'model'>>;
  readonly numbers: (frame: Frame, at: Head) => readonly Quantity[];
  /** Returns the sentence that is caption and alternative text; without `state` that of the defaults. */
  readonly says: (frame: Frame, at: Head, state?: State) => string;
  /** Whether the sentence still waits for data other than the frame. Reads signals. */
  readonly isPending?: (frame: Frame) => boolean;
  readonly draw: (root: HTMLElement, api: ViewApi) => Update;
}

/** Whether a frame has all numbers of this view that its model has. The frame may have been read for another view. */
export function hasNumbersOf(
  { reads, headReads = [] }: View,
  { tensors, head, architecture }: Frame,
  { fields }: Pick<Describe, 'fields'>,
): boolean {
  const isInModel = (name: string) => {
    const needs = fields.find((field) => field.name === name)?.needs;
    return !needs || Boolean(architecture[needs]);
  };
  return (
    reads.every((name) => name in tensors || !isInModel(name)) &&
    headReads.every((name) => head && name in head.tensors)
  );
}

/** Returns how many prompts a view's numbers are of, unless a quantity has a number of its own. */
export const sequencesOf = ({ conditions, reads }: View, frame: Frame, state: State): number =>
  conditions?.(frame, state).sequences ?? promptCountOf(frame, reads[0] ?? '');

/** Returns the view's numbers; a quantity states how many prompts it is of if that is not `sequences`. */
export function numbersOf(
  view: View,
  frame: Frame,
  {
    at,
    state,
    sequences,
  }: { readonly at: Head; readonly state: State; readonly sequences: number },
): Quantity[] {
  const { tensors } = frame;
  return view.numbers(frame, at).map(({ sequences: stated, ...numbers }) => {
    const name = Object.keys(tensors).find((key) => tensors[key]!.data === numbers.data);
    const own = stated ?? (name ? promptCountOf(frame, name) : sequencesOf(view, frame, state));
    return own === sequences ? numbers : { ...numbers, sequences: own };
  });
}

/** Returns a sentence with the first reason why the frame lacks numbers of the view; empty if it lacks none. */
export function lackWords({ title, reads, headReads = [], fits }: View, frame: Frame): string {
  const { recording, lacks } = frame;
  const reasons = [...reads, ...headReads].flatMap((name) => lacks?.[name] ?? []);
  if (!reasons.length || (fits && !fits(frame))) return '';
  const prefix = recording ? `Not in the recording of ${frame.title}: ` : '';
  return `${prefix}“${title}” ${reasons[0]}.`;
}

export function addElement(root: Element, name: string, tag = 'div'): HTMLElement {
  const element = document.createElement(tag);
  if (name) element.className = name;
  root.append(element);
  return element;
}

export function addFold(root: Element, title: string): HTMLDetailsElement {
  const details = addElement(root, 'more', 'details') as HTMLDetailsElement;
  addElement(details, '', 'summary').textContent = title;
  return details;
}

/** Sets an element's text only if it changes, since a screen reader would read it again. */
export function setText(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Returns a version of `make` that caches its last result, so that the same input gives the same object. */
export function cacheLast<Input, Result>(make: (input: Input) => Result): (input: Input) => Result {
  let last: { input: Input; result: Result } | undefined;
  return (input) => {
    if (last?.input !== input) last = { input, result: make(input) };
    return last.result;
  };
}
