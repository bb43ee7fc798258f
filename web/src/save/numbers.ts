/** The numbers of a figure, as views give them. */
import type { Tensor } from 'sinkscope';
import type { Frame } from '../frame';

export interface Quantity {
  readonly name: string;
  /** The names of the axes; empty for a single number. */
  readonly axes: readonly string[];
  readonly shape: readonly number[];
  readonly data: ArrayLike<number>;
  /** The first index of each axis; absent: 0. Hidden states begin at −1, before layer 0. */
  readonly from?: readonly number[];
  /** The places along a single axis if they are not indices, such as steps of training. */
  readonly places?: readonly number[];
  /** The labels of the last axis. */
  readonly labels?: readonly string[];
  /** How many prompts its numbers are of; absent: as many as the file states for the subject. */
  readonly sequences?: number;
}

export function quantity(name: string, axes: readonly string[], tensor: Tensor): Quantity {
  return { name, axes, shape: tensor.shape, data: tensor.data };
}

export function labeledQuantity(
  name: string,
  axis: string,
  numbers: readonly (readonly [label: string, number: number])[],
): Quantity {
  const data = numbers.map(([, number]) => number);
  const labels = numbers.map(([label]) => label);
  return { name, axes: [axis], shape: [data.length], data, labels };
}

/** What a saved file says about the page. */
export interface Facts {
  readonly corpus: Readonly<Record<string, unknown>>;
  readonly version: string;
  readonly link: string;
}

export interface Numbers {
  /** The frame with the conditions of the view. */
  readonly frame: Frame;
  /** How many prompts were measured; absent: as many as the frame states. */
  readonly sequences?: number;
  readonly quantities: readonly Quantity[];
}
