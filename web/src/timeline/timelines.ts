/** The timelines that are shipped with the page. Each of their checkpoints can be opened as a model. */
import { openTimeline, type Options, type Timeline } from 'sinkscope';
import { cachedPromise } from '../ask/cached';
import { zooAddress, type Card } from '../ask/zoo';
import { decodeInWorker } from './client';
import { nearestStep } from '../ask/steps';
import type { StepFacts } from '../frame';

export class Timelines {
  readonly cards: readonly Card[];
  readonly #timelineById = new Map<string, Promise<Timeline>>();

  constructor(cards: readonly Card[]) {
    this.cards = cards.filter(({ timeline }) => timeline);
  }

  get(id: string): Promise<Timeline> {
    return cachedPromise(this.#timelineById, id, () => {
      const address = zooAddress(`${id}/timeline/index.json`);
      return openTimeline(address).then((timeline) => decodeInWorker(timeline, address));
    });
  }

  async steps(id: string): Promise<number[]> {
    return (await this.get(id)).checkpoints.map(({ step }) => step);
  }

  /**
   * Returns a checkpoint's facts, and its files for the engine to open.
   * @param step the requested step; the nearest stored one is opened
   */
  async open(id: string, step: number, options: Options) {
    const timeline = await this.get(id);
    const { checkpoints, parameters } = timeline;
    const storedStep = nearestStep(await this.steps(id), step);
    const { bytes, measured, stored } = checkpoints.find(
      (checkpoint) => checkpoint.step === storedStep,
    )!;
    const files = await timeline.open(storedStep, options);
    const [lastStep, bits] = [checkpoints.at(-1)!.step, (8 * bytes) / parameters];
    const facts: StepFacts = { step: storedStep, of: lastStep, bits, measured, stored };
    return { files, facts };
  }

  /** Fetches the next step ahead of time. No caller waits for it, so a failure is not reported. */
  async preload(id: string, step: number): Promise<void> {
    const timeline = await this.get(id).catch(() => undefined);
    await timeline?.preload(nearestStep(await this.steps(id), step)).catch(() => {});
  }

  /** Frees the weights of the other models. */
  async keepOnly(shownIds: ReadonlySet<string>): Promise<void> {
    const unusedTimelines = [...this.#timelineById].filter(([id]) => !shownIds.has(id));
    for (const [, timeline] of unusedTimelines) (await timeline.catch(() => undefined))?.forget();
  }
}
