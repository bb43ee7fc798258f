/** The numbers of a figure as CSV or JSON, with all that is needed to get them again. */
import type { Tensor } from 'sinkscope';
import type { Frame } from '../frame';
import type { State } from '../state';
import { CLASS_WORDS, stampWords } from '../words';

/** What a figure shows, under one name: an array with named axes. */
export interface Quantity {
  readonly name: string;
  /** One name for each axis; none for a single number. */
  readonly axes: readonly string[];
  readonly shape: readonly number[];
  readonly data: ArrayLike<number>;
  /** Counted from 1, as on the page, where nothing else is said: hidden states begin before layer 1. */
  readonly from?: readonly number[];
  /** What the places of the last axis stand for. */
  readonly labels?: readonly string[];
}

export function quantity(name: string, axes: readonly string[], tensor: Tensor): Quantity {
  return { name, axes, shape: tensor.shape, data: tensor.data };
}

/** Where and how the numbers were measured. */
export interface Facts {
  readonly figure: string;
  readonly frame: Frame;
  readonly state: State;
  readonly layer: number;
  readonly head: number;
  readonly version: string;
  /** The page's address in this state. */
  readonly link: string;
}

function factsOf({ figure, frame, state, layer, head, version, link }: Facts) {
  const { model, architecture, operation, edits, tokens, T, eps, first, sequences } = frame;
  return {
    figure,
    class: CLASS_WORDS[frame.class],
    model: model.title,
    ...(model.commit ? { commit: model.commit } : {}),
    ...(model.step ? { checkpoint: model.step } : {}),
    source: model.source,
    family: architecture.family,
    parameters: architecture.parameters,
    trained_with: architecture.attention.operation,
    operation: operation.name,
    edits,
    eps,
    T,
    first_tokens: first,
    sequences,
    input: state.input,
    seed: state.seed,
    layer: layer + 1,
    head: head + 1,
    indices: 'counted from 1',
    tokens: tokens.map(({ id, text }) => ({ id, text })),
    measured_by: `Sinkscope ${version}`,
    link,
  };
}

/** NaN, which is undefined, is null. */
export function plain(data: ArrayLike<number>): (number | null)[] {
  return Array.from(data, (value) => (Number.isFinite(value) ? value : null));
}

export function toJson(quantities: readonly Quantity[], facts: Facts): string {
  const arrays = quantities.map(({ name, axes, shape, data, from, labels }) => ({
    name,
    axes,
    shape,
    ...(from ? { from } : {}),
    ...(labels ? { labels } : {}),
    data: plain(data),
  }));
  return `${JSON.stringify({ ...factsOf(facts), quantities: arrays }, null, 1)}\n`;
}

/** A text as one field. A sheet would take what begins with = + - @ for a formula. */
export function field(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r']/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** The indices of element i of an array, by its axes. */
export function placesOf(i: number, { shape, from }: Quantity): number[] {
  const places = shape.map(() => 0);
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    places[axis] = (i % shape[axis]) + (from?.[axis] ?? 1);
    i = Math.floor(i / shape[axis]);
  }
  return places;
}

/**
 * One value a line, with a column for each axis that any of the quantities has; what is undefined
 * is left out. Lines with # in front say how it was measured.
 */
export function toCsv(quantities: readonly Quantity[], facts: Facts): string {
  const axes = [...new Set(quantities.flatMap((one) => one.axes))];
  const hasLabels = quantities.some(({ labels }) => labels);
  const { tokens, ...said } = factsOf(facts);
  const lines = [
    `# ${stampWords(facts.frame)}`,
    ...Object.entries(said).map(([name, value]) => `# ${name}: ${JSON.stringify(value)}`),
    `# tokens: ${JSON.stringify(tokens.map(({ text }) => text))}`,
    ['quantity', ...axes, ...(hasLabels ? ['label'] : []), 'value'].join(),
  ];
  for (const one of quantities) {
    for (let i = 0; i < one.data.length; i++) {
      if (!Number.isFinite(one.data[i])) continue;
      const places = placesOf(i, one);
      const columns = axes.map((axis) => places[one.axes.indexOf(axis)] ?? '');
      const label = one.labels ? field(one.labels[i % one.labels.length]) : '';
      lines.push([one.name, ...columns, ...(hasLabels ? [label] : []), one.data[i]].join());
    }
  }
  return `${lines.join('\n')}\n`;
}
