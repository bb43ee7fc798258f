/** The page's timelines, whose checkpoints open as models, and those of open series, which are recordings. */
import { openTimeline, type Options, type Timeline } from 'sinkscope';
import { cachedPromise } from '../ask/cached';
import { isRecordingId } from '../ask/recordings';
import { zooAddress, type Card } from '../ask/zoo';
import { decodeInWorker } from './client';
import { nearestStep } from '../ask/steps';
import type { Frame, StepFacts } from '../frame';
import type { Course } from './course';

interface OpenSeries {
  readonly steps: (id: string) => readonly number[];
  /** Returns the course of the series that a frame belongs to; undefined for other frames. */
  readonly course: (frame: Frame) => Promise<Course | undefined>;
}

export class Timelines {
  readonly cards: readonly Card[];
  readonly #timelineById = new Map<string, Promise<Timeline>>();
  readonly #series: OpenSeries;
  readonly seriesCourse: OpenSeries['course'];

  constructor(cards: readonly Card[], series: OpenSeries) {
    this.cards = cards.filter(({ timeline }) => timeline);
    this.#series = series;
    this.seriesCourse = series.course;
  }

  get(id: string): Promise<Timeline> {
    return cachedPromise(this.#timelineById, id, () => {
      const address = zooAddress(`${id}/timeline/index.json`);
      return openTimeline(address).then((timeline) => decodeInWorker(timeline, address));
    });
  }

  async steps(id: string): Promise<readonly number[]> {
    if (isRecordingId(id)) return this.#series.steps(id);
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
    const weights = { bits, measured, stored };
    const facts: StepFacts = { step: storedStep, of: lastStep, weights };
    return { files, facts };
  }

  /** Fetches the next step ahead of time. No caller waits for it, so a failure is not reported. */
  async preload(id: string, step: number): Promise<void> {
    if (isRecordingId(id)) return;
    const timeline = await this.get(id).catch(() => undefined);
    await timeline?.preload(nearestStep(await this.steps(id), step)).catch(() => {});
  }

  /** Frees the weights of the other models. */
  async keepOnly(shownIds: ReadonlySet<string>): Promise<void> {
    const unusedTimelines = [...this.#timelineById].filter(([id]) => !shownIds.has(id));
    for (const [, timeline] of unusedTimelines) (await timeline.catch(() => undefined))?.forget();
  }
}
