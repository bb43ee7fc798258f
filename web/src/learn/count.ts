/** Counts the heads that the reader opens in a figure, and how many of these have a sink. */
import type { HeadScore } from './values';

export class HeadCount {
  readonly #place: HTMLElement;
  readonly #opened = new Set<string>();
  #scores: readonly HeadScore[] = [];
  #eps = 0.3;

  constructor(place: HTMLElement) {
    this.#place = place;
    this.#update();
  }

  /** Takes the scores of another text; the heads stay open. */
  setScores(scores: readonly HeadScore[], eps: number): void {
    this.#scores = scores;
    this.#eps = eps;
    this.#update();
  }

  open({ layer, head }: { readonly layer: number; readonly head: number }): void {
    if (layer < 0 || head < 0) return;
    this.#opened.add(`${layer} ${head}`);
    this.#update();
  }

  #update(): void {
    const opened = this.#scores.filter(({ layer, head }) => this.#opened.has(`${layer} ${head}`));
    const sinks = opened.filter(({ alpha }) => alpha > this.#eps).length;
    const all = this.#scores.length;
    const isDone = all > 0 && opened.length === all;
    this.#place.textContent = opened.length
      ? `You have opened ${opened.length} of ${all} heads: ${sinks} give the first token more than ` +
        `${Math.round(100 * this.#eps)}%.${isDone ? ` That is ${Math.round((100 * sinks) / all)}% of all heads: Sink₁.` : ''}`
      : 'Open heads in the picture: this line counts those with a sink.';
  }
}
