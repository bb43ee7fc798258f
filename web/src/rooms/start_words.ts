/** Sentences about frames that the first screen and the story below it share. */
import { idWithoutStep, LOG_SEQUENCES } from '../ask/steps';
import { seedsOf } from '../ask/zoo';
import type { RowClaim } from '../claims';
import { firstKey, type Frame } from '../frame';
import { cardOf, type Context } from '../page/context';
import { firstName, listWords, quoteQuery, sumWords, weightBeside } from '../words';

/** Whether two models differ only in the attention operation: both are trained, or both at one step of training. */
export function areTwins(frame: Frame, otherFrame: Frame): boolean {
  const ids = [frame, otherFrame].map(({ model: { id } }) => idWithoutStep(id));
  const [step, otherStep] = [frame, otherFrame].map(({ model: { step } }) => step?.step);
  return ids.join() === 'softmax,sigmoid' && step === otherStep;
}

/** Returns the widths of the parts of a row in a frame of 100%, as styles. What is beyond 100% is cut off. */
export function partStyles(shares: readonly number[]): string[] {
  let start = 0;
  return shares.map((share) => {
    const end = Math.min(1, start + share);
    const width = end - start;
    start = end;
    return `--share: ${100 * width}%`;
  });
}

/** Whether a row sums to more than 100%, so that its strip ends before its parts do. */
export const isCut = (sum: number): boolean => sum > 1.0005;

/** Reads one row of a map: the words before its number, the number, and those after it. */
export function rowWords(frame: Frame, { query, attention, sum }: RowClaim) {
  const isOwn = query === firstKey(frame) && !frame.queries;
  const on = isOwn ? 'itself' : firstName(frame);
  return [
    `${quoteQuery(frame, query)} spends`,
    weightBeside(attention, sum),
    `on ${on}${frame.operation.normalizes ? '' : `, ${sumWords(sum)} in all`}`,
  ] as const;
}

/** Says what begins the passages on which the numbers of a model's card are measured; empty if nothing does. */
export function startedWords(frame: Frame | undefined, context: Context): string {
  const { front = [] } = (frame && cardOf(frame, context))?.training ?? {};
  return front.length ? `, each after ${front.join(' ')}` : '';
}

const seedShares = (frame: Frame | undefined, context: Context): readonly number[] => {
  const card = frame && cardOf(frame, context);
  return card ? seedsOf(card).all.map(({ sink_1 }) => sink_1) : [];
};

const percentList = (shares: readonly number[]): string =>
  listWords(shares.map((share) => `${share.toFixed(0)}%`));

/** States the share of heads with a sink in further seeds, after that of the first one; empty without further seeds. */
export function otherSeeds(frame: Frame, context: Context): string {
  const [, ...others] = seedShares(frame, context);
  return others.length ? ` (other seeds: ${percentList(others)})` : '';
}

/** Says what the chart of the first model is of, and how its further seeds differ. */
export function seedWords([frame, twinFrame]: readonly Frame[], context: Context): string {
  const [shares, twinShares] = [frame, twinFrame].map((shown) => seedShares(shown, context)) as [
    readonly number[],
    readonly number[],
  ];
  const texts = `Over ${LOG_SEQUENCES} other passages${startedWords(frame, context)}.`;
  if (shares.length < 2) return texts;
  const twinNote =
    twinShares.length > 1
      ? `; their sigmoid twins at most at ${Math.max(...twinShares).toFixed(1)}%, by shares of the row`
      : '';
  return `${texts} The first of ${shares.length} random seeds: over 100 passages they end at ${percentList(shares)}${twinNote}.`;
}
