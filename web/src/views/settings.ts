/** The settings of a model in the words of a legend, and their costs. */
import { deviation, mean, type Frame } from '../frame';
import { stateWords } from '../words';

type Given = Readonly<Record<string, string | number | undefined>>;

/** Short legends for some kinds of edits; other kinds have the package's labels. */
const WORDS: Readonly<Record<string, (given: Given, labels: Given) => string>> = {
  evict: ({ policy, budget, first, positions }, labels) => {
    const placed = positions === 'cache' ? ', cache positions' : '';
    if (policy === 'window') return `last ${budget}${placed}`;
    if (policy === 'first')
      return `first ${first} + last ${Number(budget) - Number(first)}${placed}`;
    return `${labels.policy}, ${budget} keys${placed}`;
  },
  quantize: ({ bits, by = 'token', first = 0 }) =>
    `${bits} bits per ${by}${first ? `, first ${first} exact` : ''}`,
  clamp_channel: ({ channel, to = 'zero', value, layer, token }) => {
    const place = token === undefined ? '' : ` of token ${token} ${stateWords(Number(layer))}`;
    return `channel ${channel}${place} to ${to === 'value' ? value : to}`;
  },
  project: ({ direction = 'tag', from = 'stream', layer, head, seed = 1 }) => {
    const place = layer === undefined ? '' : ` of layer ${layer}`;
    const target = head === undefined ? place : `${place}, head ${head}`;
    const removed = direction === 'random' ? `random directions ${seed}` : 'tag';
    return `${removed}${target} out of the ${from}`;
  },
  scale_weight: ({ matrix, row, column, factor = 0 }) =>
    `${matrix} (${row}, ${column}) × ${factor}`,
};

const UNEDITED = 'baseline';

export function givenOf(frame: Frame, kind: string): Given | undefined {
  return frame.edits.find((edit) => edit.kind === kind) as Given | undefined;
}

/** Returns the labels of an edit's choices. */
export function labelsIn(
  { edits, choices }: Frame,
  kind: string,
): Readonly<Record<string, string>> {
  return choices[edits.findIndex((edit) => edit.kind === kind)] ?? {};
}

export function settingName(frame: Frame): string {
  const { window, input, again } = frame.question;
  const edits = frame.edits.map((edit, i) => {
    const format = Object.hasOwn(WORDS, edit.kind) && WORDS[edit.kind];
    return format ? format(edit as unknown as Given, frame.choices[i]!) : frame.labels[i]!;
  });
  const changes = [...edits, ...(window ? [`last ${window}, recomputed`] : [])];
  if (changes.length) return changes.join(' and ');
  if (input !== 'repeat') return UNEDITED;
  const repeated = again ? frame.first.map((text) => `“${text}”`).join(' ') : 'a word';
  return `${repeated}, ${frame.T - frame.first.length} times`;
}

export function isUnedited({ edits, question }: Frame): boolean {
  return !edits.length && !question.window;
}

/** Formats a change of the loss, in nats. */
export function signed(x: number): string {
  if (!Number.isFinite(x)) return '–';
  const size = Math.abs(x).toFixed(3);
  // Prints no sign before a value that rounds to 0.
  return Number(size) ? `${x < 0 ? '−' : '+'}${size}` : size;
}

export interface Cost {
  readonly mean: number;
  /** The standard deviation over the prompts; NaN if the prompts differ in length. */
  readonly deviation: number;
}

/** Returns the loss of a setting minus that of the unedited run, prompt by prompt, in nats per token. */
export function costOf(frame: Frame, whole: Frame): Cost {
  const [own, other] = [frame, whole].map(({ perPrompt }) => perPrompt.loss_mean ?? []) as [
    number[],
    number[],
  ];
  if (frame.T === whole.T && own.length === other.length) {
    const differences = own.map((loss, i) => loss - other[i]!);
    return { mean: mean(differences), deviation: deviation(differences) };
  }
  // Compares only the tokens that both runs have read.
  const ends = Math.min(frame.T, whole.T);
  const at = ({ tensors }: Frame) => mean(tensors.loss_at!.data.subarray(1, ends));
  return { mean: at(frame) - at(whole), deviation: NaN };
}
