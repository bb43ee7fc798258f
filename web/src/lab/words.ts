/** Sentences about a lab's numbers, computed so that they hold for any numbers. */
import type { LogEntry, Operation } from 'sinkscope';
import { defaults } from '../ask/state';
import { headAt } from '../frame';
import { headName, percent, show } from '../words';
import type { Lab } from './lab';
import { isFineTune, type Settings } from './settings';

/** The number of steps over which sentences average, since a batch is noisy. */
const RECENT = 20;
const EPS = defaults.eps;

function meanOf(log: readonly LogEntry[], name: string): number {
  const values = log.map((entry) => entry[name]).filter((value) => typeof value === 'number');
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : NaN;
}

/** Returns the mean of a column over the last steps. */
export function recent({ log }: Pick<Lab, 'log'>, name: string): number {
  return meanOf(log.slice(-RECENT), name);
}

/** Returns the step since which a running mean has stayed above ε; undefined without a sink. */
export function sinceStep(log: readonly LogEntry[]): number | undefined {
  let since: number | undefined;
  let sum = 0;
  log.forEach((entry, i) => {
    sum += (entry.first_most ?? 0) - (log[i - RECENT]?.first_most ?? 0);
    const isAbove = sum / Math.min(RECENT, i + 1) > EPS;
    since = isAbove ? (since ?? entry.step) : undefined;
  });
  return since;
}

/** Returns the later tokens' attention on the first one under uniform attention. */
function evenOf({ length }: Settings): number {
  const T = Number(length);
  let sum = 0;
  for (let t = 1; t < T; t++) sum += 1 / (t + 1);
  return sum / (T - 1);
}

interface HeadSeen {
  readonly layer: number;
  readonly head: number;
  readonly weights: Float32Array;
  /** The weights divided by their row's sum. */
  readonly shares: Float32Array;
  /** The first token's share of a row, averaged over the sample's positions without trigger. */
  readonly share: number;
  /** The first token's weight, averaged over the same positions as `share`. */
  readonly weight: number;
}

/** Returns the head that the settings name, or else the head that gives the first token the largest weight. */
export function headSeen({ picture, sample, settings }: Lab): HeadSeen | undefined {
  if (!picture) return undefined;
  const [L, H, T] = picture.shape as [number, number, number, number];
  const headIndex = Number(settings.head ?? -1);
  const elsewhere = sample.flatMap((id, t) =>
    t > 0 && !(id >= 1 && id <= Number(settings.triggers)) ? [t] : [],
  );
  let best: HeadSeen | undefined;
  for (let i = 0; i < L * H; i++) {
    if (headIndex >= 0 && i !== Math.min(headIndex, L * H - 1)) continue;
    const weights = picture.data.slice(i * T * T, (i + 1) * T * T);
    const shares = new Float32Array(T * T).fill(NaN);
    for (let t = 0; t < T; t++) {
      const row = weights.subarray(t * T, t * T + t + 1);
      const sum = row.reduce((all, weight) => all + Math.abs(weight), 0);
      row.forEach((weight, s) => (shares[t * T + s] = sum > 0 ? weight / sum : 0));
      weights.fill(NaN, t * T + t + 1, (t + 1) * T);
    }
    const mean = (numbers: Float32Array) =>
      elsewhere.reduce((sum, t) => sum + numbers[t * T]!, 0) / elsewhere.length;
    const candidate = { weights, shares, share: mean(shares), weight: mean(weights) };
    // Compares weights, since a row with a tiny sum may give all of that to one token.
    if (!best || candidate.weight > best.weight) best = { ...headAt(i, H), ...candidate };
  }
  return best;
}

export interface NamedLab {
  readonly name: string;
  readonly lab: Lab;
  readonly operation: Operation | undefined;
  /** The command that repeats the run. */
  readonly command: string;
}

/** Whether a lab's model has a sink: the first token's weight, and its share of the row, exceed ε. */
function hasSink({ lab, operation }: NamedLab): boolean {
  const share = operation?.normalizes ? 1 : (headSeen(lab)?.share ?? 0);
  return recent(lab, 'first_most') > EPS && share > EPS;
}

/** Formats a share of attention, or, if rows need not sum to 1, a weight and its share of the row. */
function amountWords({ operation }: NamedLab, weight: number, share: number): string {
  if (operation?.normalizes) return `${percent(weight, 0)} of its attention`;
  return `a weight of ${show(weight)} (${percent(share, 0)} of its row)`;
}

/** States how much attention the first token gets. */
function firstAmountWords(named: NamedLab): string {
  return amountWords(named, recent(named.lab, 'first_most'), headSeen(named.lab)?.share ?? NaN);
}

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** States how much attention a head gives the first token. */
function headWords(named: NamedLab, { layer, head, share, weight }: HeadSeen): string {
  const portion = amountWords(named, named.operation?.normalizes ? share : weight, share);
  return `head ${headName({ layer, head })} gives the first token ${portion}`;
}

/** Returns the caption under a map during training. */
export function caption(named: NamedLab): string {
  const { lab } = named;
  const headShown = headSeen(lab);
  if (isFineTune(lab.settings)) return headShown ? headWords(named, headShown) : '';
  if (!lab.log.length) return 'untrained';
  const [L, H] = lab.picture?.shape ?? [];
  const headNote = headShown && L! * H! > 1 ? `; map: head ${headName(headShown)}` : '';
  return `gives the first token ${firstAmountWords(named)} outside triggers${headNote}`;
}

/** States how much attention a model gives the first token, and since which step. */
function modelWords(named: NamedLab, side: number): string {
  const { lab, name, operation } = named;
  const place = side ? '' : ' at positions without a trigger';
  if (!hasSink(named)) {
    const uniformNote = operation?.normalizes
      ? ` (uniform attention: ${percent(evenOf(lab.settings), 0)})`
      : '';
    return `${capital(name)} gives the first token ${firstAmountWords(named)}${place}${uniformNote}`;
  }
  const since = sinceStep(lab.log);
  const thresholdWords = operation?.normalizes ? percent(EPS, 0) : show(EPS);
  return (
    `${capital(name)} gives the first token ${firstAmountWords(named)}${place}` +
    `${since === undefined ? '' : ` (above ${thresholdWords} since step ${since})`}; the first token’s value norm is ` +
    `${show(recent(lab, 'value_ratio'))}× that of the others`
  );
}

/** Compares means over all heads before and after fine-tuning. */
function fineTuneWords({ name, lab, operation }: NamedLab): string {
  const words = operation?.normalizes ? (value: number) => percent(value, 0) : show;
  const quantity = operation?.normalizes
    ? `attention on the first token (uniform: ${percent(evenOf(lab.settings), 0)})`
    : 'weight on the first token';
  const change = (column: string, print: (value: number) => string) =>
    `${print(lab.log[0]?.[column] ?? NaN)} → ${print(recent(lab, column))}`;
  const nats = (value: number) => value.toFixed(2);
  const planted =
    Number(lab.settings.planted) > 0
      ? `; after the planted trigger: loss ${change('loss_triggers', show)}, attention on the first token ` +
        change('first_triggers', words)
      : '';
  const heldLosses = lab.log.flatMap(({ loss_held: loss }) => loss ?? []);
  const oldText = heldLosses.length
    ? `, loss on the old kind of text ${nats(heldLosses[0]!)} → ${nats(heldLosses.at(-1)!)}`
    : '';
  return (
    `${capital(name)}: ${quantity} ${change('first_elsewhere', words)}, its value norm relative to the others ` +
    `${change('value_ratio', show)}, loss ${oldText && 'on the new text '}${change('loss', nats)}${oldText}${planted}`
  );
}

/** States by how much both losses exceed the best possible loss. */
function lossWords(pair: readonly [NamedLab, NamedLab]): string {
  const above = (where: string) =>
    pair
      .map(({ lab }) => recent(lab, `loss_${where}`) - recent(lab, `optimum_${where}`))
      .map((nats) => (Number.isFinite(nats) ? nats.toFixed(2) : '–'))
      .join(' and ');
  return `Loss above the best possible: ${above('elsewhere')} nats outside triggers, ${above('triggers')} at triggers.`;
}

/** States which models have a sink, since which step, and with what loss. */
export function verdict(pair: readonly [NamedLab, NamedLab]): string {
  if (pair.some(({ lab }) => !lab.log.length)) return '';
  if (isFineTune(pair[0].lab.settings)) return `${pair.map(fineTuneWords).join('. ')}.`;
  const summary = `${pair.map(modelWords).join('. ')}. ${lossWords(pair)}`;
  const shortSettings = pair.find(({ lab }) => evenOf(lab.settings) > EPS / 2)?.lab.settings;
  if (!shortSettings) return summary;
  return (
    `Short sequences (${shortSettings.length} tokens): uniform attention alone gives the first token ` +
    `${percent(evenOf(shortSettings), 0)}. ${summary}`
  );
}
