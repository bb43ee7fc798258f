/** Writes a figure's numbers as CSV or JSON, for all subjects, with all that reproduces them. */
import { csvOf } from 'sinkscope/internal';
import { layerNumber, promptCountOf, type Frame } from '../frame';
import { CLASS_WORDS, verdictOf, stampWords } from '../words';
import type { Facts, Numbers, Quantity } from './numbers';

/** Returns the verdict, with its number of prompts if that is not the file's. */
function verdictFacts(frame: Frame, sequences: number) {
  // The verdict is about all prompts, also beside numbers of the first one.
  const measuredFrame = { ...frame, sequences };
  const { sink, of, even, conclusive, least } = verdictOf(measuredFrame);
  const counted = promptCountOf(measuredFrame, 'sink_ratio');
  const facts = counted === frame.sequences ? {} : { sequences: counted };
  return { sink_1: sink, of, uniform_alpha_1: even, conclusive, least_tokens: least, ...facts };
}

/** Returns what repeats a measurement, and facts about it; a view of the first prompt may have other `sequences`. */
export function factsOf(frame: Frame, sequences = frame.sequences) {
  const { model, architecture, operation, tokens, head } = frame;
  return {
    subject: frame.subject,
    title: frame.title,
    class: CLASS_WORDS[frame.class],
    model: model.id,
    source: model.source,
    commit: model.commit,
    sha256: model.sha256,
    checkpoint: model.step,
    family: architecture.family,
    parameters: architecture.parameters,
    trained_with: architecture.attention.operation,
    operation: operation.name,
    layers: architecture.layers && architecture.blocks,
    layers_with_attention: architecture.layers,
    edits: frame.edits,
    eps: frame.eps,
    T: frame.T,
    first_tokens: frame.first,
    sequences: frame.sequences,
    // A study of other metrics has no verdict.
    verdict: 'alpha_uniform' in frame.tensors ? verdictFacts(frame, sequences) : undefined,
    layer: head && layerNumber(frame, head.layer),
    head: head?.head,
    tokens_of_first_prompt: tokens.map(({ id, text }) => ({ id, text })),
  };
}

/** Replaces NaN, which JSON lacks, by null. */
export const nullForNaN = (data: ArrayLike<number>): (number | null)[] =>
  Array.from(data, (value) => (Number.isFinite(value) ? value : null));

export function placesOf(i: number, { shape, from, places }: Quantity): number[] {
  if (places) return [places[i]!];
  const indices = shape.map(() => 0);
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    indices[axis] = (i % shape[axis]!) + (from?.[axis] ?? 0);
    i = Math.floor(i / shape[axis]!);
  }
  return indices;
}

export function csvNotes(
  subjects: readonly Pick<Numbers, 'frame' | 'sequences'>[],
  { corpus, version, link }: Facts,
) {
  return [
    ['corpus', corpus],
    ['indices', 'counted from 0'],
    ['measured_by', `Sinkscope ${version}`],
    ['link', link],
    ...subjects.map(({ frame }) => [frame.subject, stampWords(frame)] as const),
    ...subjects.map(({ frame, sequences }) => ['subject', factsOf(frame, sequences)] as const),
  ] as const satisfies readonly (readonly [string, unknown])[];
}

/** Whether an axis counts the layers with attention; a hybrid model also has others. */
const countsAttentionLayers = (
  { axes, shape, from }: Quantity,
  axis: number,
  frame: Frame,
): boolean => axes[axis] === 'layer' && shape[axis] === frame.architecture.L && !from?.[axis];

/** Axes whose places are positions of tokens. */
const TOKEN_AXES = ['query', 'key', 'token'];

/**
 * Returns CSV with one value per line, and columns for each axis and for the texts of tokens. Undefined values are left
 * out; so are texts if the values are means over several prompts. A quantity whose number of prompts is not its
 * subject's has a fact that states it.
 */
export function toCsv(numbers: readonly Numbers[], facts: Facts): string {
  const quantities = numbers.flatMap((subjectNumbers) => subjectNumbers.quantities);
  const axes = [...new Set(quantities.flatMap((quantity) => quantity.axes))];
  const tokenAxes = axes.filter((axis) => TOKEN_AXES.includes(axis));
  const hasLabels = quantities.some(({ labels }) => labels);
  const records: (string | number)[][] = [];
  for (const { frame, quantities: subjectQuantities } of numbers)
    for (const quantity of subjectQuantities)
      for (let i = 0; i < quantity.data.length; i++) {
        if (!Number.isFinite(quantity.data[i])) continue;
        const places = placesOf(i, quantity).map((place, axis) =>
          countsAttentionLayers(quantity, axis, frame) ? layerNumber(frame, place) : place,
        );
        const indices = axes.map((axis) => places[quantity.axes.indexOf(axis)] ?? '');
        const texts = tokenAxes.map((axis) => {
          const { sequences = frame.sequences } = quantity;
          const place = sequences === 1 ? places[quantity.axes.indexOf(axis)] : undefined;
          return frame.tokens[place ?? -1]?.text ?? '';
        });
        const label = hasLabels ? [quantity.labels?.[i % quantity.labels.length] ?? ''] : [];
        const cells = [...indices, ...texts, ...label];
        records.push([frame.subject, quantity.name, ...cells, quantity.data[i]!]);
      }
  const texts = tokenAxes.map((axis) => `${axis}_text`);
  const head = ['subject', 'quantity', ...axes, ...texts, ...(hasLabels ? ['label'] : []), 'value'];
  const counts = numbers.flatMap(({ frame: { subject }, quantities: subjectQuantities }) =>
    subjectQuantities.flatMap(({ name, sequences }) =>
      sequences === undefined ? [] : [['quantity', { subject, name, sequences }] as const],
    ),
  );
  return csvOf([...csvNotes(numbers, facts), ...counts], head, records);
}

export function toJson(figure: string, numbers: readonly Numbers[], facts: Facts): string {
  const subjects = numbers.map(({ frame, sequences, quantities }) => ({
    ...factsOf(frame, sequences),
    quantities: quantities.map((quantity) => ({ ...quantity, data: nullForNaN(quantity.data) })),
  }));
  const { corpus, version, link } = facts;
  const output = {
    ...{ figure, corpus, indices: 'counted from 0', measured_by: `Sinkscope ${version}`, link },
    subjects,
  };
  return `${JSON.stringify(output, null, 1)}\n`;
}
