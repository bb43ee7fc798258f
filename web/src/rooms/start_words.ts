/** Sentences about frames that the first screen and the story below it share. */
import { idWithoutStep } from '../ask/steps';
import { seedsOf } from '../ask/zoo';
import type { Frame } from '../frame';
import { cardOf, type Context } from '../page/context';
import { listWords } from '../words';

/** Whether two models differ only in the attention operation: both are trained, or both at one step of training. */
export function areTwins(frame: Frame, otherFrame: Frame): boolean {
  const ids = [frame, otherFrame].map(({ model: { id } }) => idWithoutStep(id));
  const [step, otherStep] = [frame, otherFrame].map(({ model: { step } }) => step?.step);
  return ids.join() === 'softmax,sigmoid' && step === otherStep;
}

export function seedWords([frame, twinFrame]: readonly Frame[], context: Context): string {
  const [shares, twinShares] = [frame, twinFrame].map((shownFrame) => {
    const card = shownFrame && cardOf(shownFrame, context);
    return card ? seedsOf(card).all.map(({ sink_1 }) => sink_1) : [];
  });
  if (!shares || shares.length < 2) return '';
  const percentages = shares.map((share) => `${share.toFixed(0)}%`);
  const twinWords =
    twinShares && twinShares.length > 1
      ? `; in its sigmoid twin, on these passages, at most ${Math.max(...twinShares).toFixed(1)}%, even by shares of the row`
      : '';
  return (
    `The strength of the sink depends on the seed: with ${shares.length} random seeds, over 100 passages, ${listWords(percentages)} ` +
    `of the heads end up giving the start token more than 30%${twinWords}. The first seed is shown.`
  );
}
