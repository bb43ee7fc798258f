/** Names the settings of a model's runs for legends, and computes by how much a setting raises the loss. */
import { deviation, mean, type Frame } from '../frame';
import { stateWords } from '../words';

type EditFields = Readonly<Record<string, string | number | undefined>>;

export const lastWords = (count: number): string => `last ${count} tokens`;
export const firstAndLastWords = (first: number, last: number): string =>
  `first ${first} + last ${last}`;

/** What each eviction policy is called at its line, in its menu, over its map and in sentences, and what it keeps. */
const POLICIES: Readonly<Record<string, readonly [name: string, keeps: string]>> = {
  window: ['last tokens', 'the most recent'],
  first: ['first + last', 'the first and the most recent'],
  h2o: ['most attended', 'what got most attention so far (H2O)'],
  tova: ['attended now', 'what the last word attends to (TOVA)'],
  lru: ['recently attended', 'what lately got above-average attention (LRU)'],
};

/** Returns a policy's name, which is the package's label for rare ones, and what it keeps. */
export const policyWords = (policy: string, label = policy): readonly [string, string] =>
  POLICIES[policy] ?? [label.replace('keys', 'tokens'), ''];

/** Short names of some kinds of edits; other kinds have the package's labels. */
const EDIT_LEGENDS: Readonly<Record<string, (fields: EditFields, labels: EditFields) => string>> = {
  evict: ({ policy, budget, first, positions }, labels) => {
    const positionsNote = positions === 'cache' ? ', cache positions' : '';
    if (policy === 'window') return `${lastWords(Number(budget))}${positionsNote}`;
    if (policy === 'first')
      return `${firstAndLastWords(Number(first), Number(budget) - Number(first))}${positionsNote}`;
    return `${policyWords(String(policy), labels.policy as string)[0]}, ${budget} tokens${positionsNote}`;
  },
  quantize: ({ bits, by = 'token', first = 0 }) =>
    `${bits} bits${by === 'tensor' ? '' : ` per ${by}`}${first ? `, first ${first} exact` : ''}`,
  clamp_channel: ({ channel, to = 'zero', value, layer, token }) => {
    const location = token === undefined ? '' : ` of token ${token} ${stateWords(Number(layer))}`;
    return `channel ${channel}${location} to ${to === 'value' ? value : to}`;
  },
  project: ({ direction = 'tag', from = 'stream', layer, head, seed = 1 }) => {
    const location = layer === undefined ? '' : ` of layer ${layer}`;
    const fullLocation = head === undefined ? location : `${location}, head ${head}`;
    const directionWords = direction === 'random' ? `random directions ${seed}` : 'the tag';
    return `without ${directionWords}${fullLocation}${from === 'stream' ? '' : ` in the ${from}`}`;
  },
  scale_weight: ({ matrix, row, column, factor = 0 }) =>
    `${matrix} (${row}, ${column}) × ${factor}`,
};

export const editFields = (frame: Frame, kind: string): EditFields | undefined =>
  frame.edits.find((edit) => edit.kind === kind) as EditFields | undefined;

export function choiceLabels(
  { edits, choices }: Frame,
  kind: string,
): Readonly<Record<string, string>> {
  return choices[edits.findIndex((edit) => edit.kind === kind)] ?? {};
}

export const policyName = (frame: Frame): string =>
  policyWords(String(editFields(frame, 'evict')!.policy), choiceLabels(frame, 'evict').policy)[0];

export function settingName(frame: Frame): string {
  const { window, input, repeatedToken } = frame.question;
  const edits = frame.edits.map((edit, i) => {
    const format = Object.hasOwn(EDIT_LEGENDS, edit.kind) && EDIT_LEGENDS[edit.kind];
    return format ? format(edit as unknown as EditFields, frame.choices[i]!) : frame.labels[i]!;
  });
  const changes = [...edits, ...(window ? [`last ${window}, recomputed`] : [])];
  if (changes.length) return changes.join(' and ');
  if (input !== 'repeat') return 'baseline';
  const repeatedWords = repeatedToken ? frame.first.map((text) => `“${text}”`).join(' ') : 'a word';
  return `${repeatedWords}, ${frame.T - frame.first.length} times`;
}

export const isUnedited = ({ edits, question }: Frame): boolean =>
  !edits.length && !question.window;

/** Returns how far above a run's loss a model is that holds all tokens of the vocabulary equally likely. */
export const blindRise = ({ tensors, architecture: { V } }: Frame): number =>
  Math.log(V!) - tensors.loss_mean!.data[0]!;

/** A change of the loss below this, in nats per token, is small. */
export const SMALL_CHANGE = 0.01;

export function formatLossChange(x: number): string {
  if (!Number.isFinite(x)) return '–';
  const digits = Math.abs(x).toFixed(3);
  // A value that rounds to 0 has no sign.
  return Number(digits) ? `${x < 0 ? '−' : '+'}${digits}` : digits;
}

/** Returns by how many percent a rise of the loss raises the perplexity: among how many more tokens a model guesses. */
export function percentWorse(rise: number): string {
  const percent = Math.abs(100 * Math.expm1(rise));
  const digits = percent < 9.95 ? percent.toFixed(1) : Math.round(percent).toLocaleString('en');
  return `${digits.replace(/^0\.0$/, '0')}%`;
}

export const worseWords = (rise: number): string =>
  Number.isFinite(rise)
    ? `${percentWorse(rise)} ${rise < 0 && percentWorse(rise) !== '0%' ? 'better' : 'worse'}`
    : '–';

/** The smallest scale of a chart of bars: 2% worse. */
export const SMALLEST_WORSE = Math.log(1.02);
/** The smallest scale of a chart of rises, up to 50% worse, so that settings leave it as it is. */
export const WORSE_DOMAIN = [0, Math.log(1.5)] as const;
export const WORSE_LABEL = 'worse: rise of perplexity';

export function costWords({ mean, deviation }: Cost): string {
  const spread = Number.isFinite(deviation) ? ` ± ${deviation.toFixed(3)}` : '';
  return `${formatLossChange(mean)}${spread}`;
}

export interface Cost {
  readonly mean: number;
  /** The standard deviation over the prompts; NaN if the prompts differ in length. */
  readonly deviation: number;
}

/** Returns the mean difference, in nats per token, from the loss of the unedited run on the same prompts. */
export function costOf(frame: Frame, baseline: Frame): Cost {
  const losses = frame.perPrompt.loss_mean ?? [];
  const baselineLosses = baseline.perPrompt.loss_mean ?? [];
  if (frame.T === baseline.T && losses.length === baselineLosses.length) {
    const differences = losses.map((loss, i) => loss - baselineLosses[i]!);
    return { mean: mean(differences), deviation: deviation(differences) };
  }
  // Compares only the tokens that both runs have read.
  const commonLength = Math.min(frame.T, baseline.T);
  const meanLoss = ({ tensors }: Frame) => mean(tensors.loss_at!.data.subarray(1, commonLength));
  return { mean: meanLoss(frame) - meanLoss(baseline), deviation: NaN };
}
