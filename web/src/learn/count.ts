/** Counts the heads that the reader opens in a figure, and how many of these have a sink. */
import { uniformAlphas } from 'sinkscope/internal';
import type { HeadScore, Result } from './values';

export class HeadCount {
  readonly #place: HTMLElement;
  readonly #openedKeys = new Set<string>();
  #scores: readonly HeadScore[] = [];
  #eps = 0.3;
  #isShort = false;

  constructor(place: HTMLElement) {
    this.#place = place;
    this.#update();
  }

  /** Takes the scores of another text; the heads that the reader opened still count. */
  setScores(scores: readonly HeadScore[], { T, eps }: Pick<Result, 'T' | 'eps'>): void {
    this.#scores = scores;
    this.#eps = eps;
    this.#isShort = uniformAlphas(T)[0]! > eps;
    this.#update();
  }

  open({ layer, head }: { readonly layer: number; readonly head: number }): void {
    if (layer < 0 || head < 0) return;
    this.#openedKeys.add(`${layer} ${head}`);
    this.#update();
  }

  #update(): void {
    const openedHeads = this.#scores.filter(({ layer, head }) =>
      this.#openedKeys.has(`${layer} ${head}`),
    );
    const sinkCount = openedHeads.filter(({ alpha }) => alpha > this.#eps).length;
    const headCount = this.#scores.length;
    const isDone = headCount > 0 && openedHeads.length === headCount;
    this.#place.textContent = openedHeads.length
      ? `You have opened ${openedHeads.length} of ${headCount} heads: ${sinkCount} give the first token more than ` +
        `${Math.round(100 * this.#eps)}%.${isDone ? ` That is ${Math.round((100 * sinkCount) / headCount)}% of all heads: Sink₁.` : ''}${this.#isShort ? ' On so short a text uniform attention alone gives as much.' : ''}`
      : 'Open heads in the picture: this line counts those with a sink.';
  }
}
