/** Measures studies, means for many settings of a model, which are swept together and cached by key. */
import { signal } from '@preact/signals-core';
import { SinkscopeError } from 'sinkscope';
import { questionKey, type Prompts } from '../ask/question';
import { expectTokens, editsOf, modelIdOf, parseSubject } from '../ask/subject';
import type { Frame } from '../frame';
import { measureAverages, measureWindowLoss } from './averages';
import type { Dependencies, Loader } from './loading';
import type { OpenModel, Watch } from './opened';
import { contextOf, emptyFrame, canStream } from './reading';
import { studyKey, type Entry, type Request, type Study } from './request';

/** Means of this many studies stay cached, for a slider that returns to earlier settings. */
const MAX_ENTRIES = 1000;

/** Returns the bytes of a streamed run, and those of a run that keeps every key. */
async function bytesOf(
  { model }: OpenModel,
  { tokens: { length } }: Prompts,
  edits: Frame['edits'],
) {
  const options = { fields: ['loss'], edits, capacity: length };
  const [streamedBytes, allBytes] = await Promise.all(
    [true, false].map((streaming) => model.runBytes(length, { ...options, streaming })),
  );
  return { held: streamedBytes!, all: allBytes! };
}

export class Studies {
  readonly #models: Dependencies['models'];
  readonly #loader: Loader;
  readonly #entries = signal<ReadonlyMap<string, Entry>>(new Map());

  constructor({ models }: Dependencies, loader: Loader) {
    this.#models = models;
    this.#loader = loader;
  }

  entry(study: Study): Entry | undefined {
    return this.#entries.value.get(studyKey(study));
  }

  isDone(study: Study): boolean {
    return this.#entries.peek().has(studyKey(study));
  }

  addEntries(entries: readonly (readonly [string, Entry])[]): void {
    this.#entries.value = new Map([...this.#entries.peek(), ...entries].slice(-MAX_ENTRIES));
  }

  retry(): void {
    this.#entries.value = new Map([...this.#entries.peek()].filter(([, { frame }]) => frame));
  }

  /** Measures a study, and the others of the request that belong to its sweep. */
  async measure(study: Study, request: Request, watch: Watch): Promise<void> {
    const group = parseSubject(study.subject) ? this.#sweepOf(study, request) : [study];
    try {
      await this.#sweep(group, request, watch);
    } catch (error) {
      const isLost = error instanceof SinkscopeError && error.code === 'lost';
      if (group.length < 2 || isLost) throw error;
      // The engine refuses a whole sweep if it refuses one of its settings, so this measures the study alone.
      await this.#sweep([study], request, watch);
    }
  }

  /** Returns the unmeasured studies of this model, question and turn; of studies with a window this one alone. */
  #sweepOf(study: Study, request: Request): Study[] {
    const sweepKey = ({ subject, question, measures, turn }: Study) =>
      [modelIdOf(parseSubject(subject)!), questionKey(question), measures.join(), turn].join();
    const unmeasuredStudies = request.studies!.filter((other) => !this.isDone(other));
    const sweepGroup = unmeasuredStudies.filter(
      (other) => parseSubject(other.subject) && sweepKey(other) === sweepKey(study),
    );
    return study.question.window ? sweepGroup.slice(0, 1) : sweepGroup;
  }

  async #sweep(studies: readonly Study[], request: Request, watch: Watch): Promise<void> {
    const [firstStudy] = studies as [Study];
    const { signal } = watch;
    const startTime = performance.now();
    const { describe } = this.#models;
    const allStudies = request.studies!;
    const { openModel } = await this.#loader.open(firstStudy.subject, watch);
    const { architecture } = openModel.model;
    const { eps, window, T } = firstStudy.question;
    const studyInputs = studies.map((study) => {
      const parsedSubject = parseSubject(study.subject)!;
      const edits = editsOf(parsedSubject, describe);
      const context = contextOf(architecture, edits, window);
      const length = Math.min(T, context);
      const streaming = canStream(describe, architecture, edits, study.measures, length);
      return { study, parsedSubject, edits, context, streaming };
    });
    // A run beyond the context has other prompts, and no run can begin from a streamed one.
    const [{ context, streaming }] = studyInputs as [(typeof studyInputs)[number]];
    const sweptInputs = studyInputs.filter(
      (input) => input.context === context && input.streaming === streaming,
    );
    const prompts = await this.#loader.prompts(openModel, firstStudy.question, context);
    const doneCount = allStudies.filter((study) => this.isDone(study)).length;
    const sweepWatch: Watch = {
      signal,
      onProgress: (_, done, total) =>
        watch.onProgress(
          `${openModel.title}, ${doneCount + 1} of ${allStudies.length} settings`,
          doneCount + (sweptInputs.length * done) / total,
          allStudies.length,
        ),
    };
    const cases = sweptInputs.map(({ edits }) => edits);
    for (const edits of cases) expectTokens(edits, prompts.tokens.length, describe);
    const options = { eps, metrics: firstStudy.measures, streaming };
    const bytes = streaming
      ? await Promise.all(cases.map((edits) => bytesOf(openModel, prompts, edits)))
      : [];
    const emptyFrames = await Promise.all(
      sweptInputs.map(({ study, parsedSubject }) =>
        emptyFrame(describe, parsedSubject, study.subject, openModel, study.question, prompts),
      ),
    );
    // The measurement is the last wait: it fails if it is stopped, so that nothing is added.
    const means = window
      ? [await measureWindowLoss(openModel, prompts, window, { edits: cases[0]!, eps }, sweepWatch)]
      : await measureAverages(openModel, prompts, cases, options, sweepWatch);
    const milliseconds = performance.now() - startTime;
    this.addEntries(
      sweptInputs.map(({ study }, i) => [
        studyKey(study),
        { frame: { ...emptyFrames[i]!, ...means[i]!, milliseconds, bytes: bytes[i] } },
      ]),
    );
  }
}
