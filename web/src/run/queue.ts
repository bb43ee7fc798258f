/**
 * The queue turns subjects into frames. A room requests subjects, a question, and names of metrics and fields. The
 * queue opens the models, runs one subject after the other and publishes a frame of each. It reuses cached results, and
 * closes models that no room shows. A new request waits for a quick run but stops a long one. If the engine is lost,
 * the queue runs the subject once more.
 */
import { batch, signal, type ReadonlySignal } from '@preact/signals-core';
import { SinkscopeError, type Progress } from 'sinkscope';
import { InputError, errorSentence } from '../ask/errors';
import { questionKey, type Question } from '../ask/question';
import { isOutsideZoo } from '../ask/ids';
import { isRecordingId } from '../ask/recordings';
import { editsOf, modelIdOf, parseSubject, type Subject } from '../ask/subject';
import { selectedHead, type Frame, type Head } from '../frame';
import { Generation } from './generation';
import { Loader, type Dependencies } from './loading';
import { measurements, type Measurement } from './measurements';
import { previewId } from './models';
import type { Watch } from './opened';
import { downloadWords } from './progress';
import { recordedFrame, recordedRun } from './recordings';
import { completeFrame, contextOf, isAnswered, fieldsToRecord } from './reading';
import { studyKey, type Entry, type Request, type Study, type Work } from './request';
import {
  CachedRuns,
  canUpdate,
  idsOf,
  hasTokens,
  isOpen,
  withMeasurement,
  QUICK_MS,
  runSubject,
  type CachedRun,
  type OpenRun,
} from './runs';
import { takeMeasurement, type Measure } from './started';
import { Studies } from './studies';

/** A new frame waits this many milliseconds for those of other subjects, so that their picture is drawn once. */
const PUBLISH_DELAY_MS = 120;
/** Models with plans stay in memory together up to this size; beyond it only one is open at a time. */
const MAX_MODEL_BYTES = 2 ** 30;
/** A stopped call has this many milliseconds to end before the queue begins the next one. */
const STOP_MS = 30;

interface Job {
  readonly controller: AbortController;
  readonly task: string | Study;
  readonly since: number;
  /** Set while the job takes a measurement with runs of its own. */
  measurement?: Measurement;
}

export class Queue {
  readonly #models: Dependencies['models'];
  readonly #loader: Loader;
  readonly #takeTurn: () => Promise<() => void>;
  readonly #release: (kept: ReadonlySet<string>) => Promise<void>;
  readonly #runs = new CachedRuns();
  readonly #studies: Studies;
  readonly #generation: Generation;
  #entries: ReadonlyMap<string, Entry> = new Map();
  readonly #publishedEntries = signal(this.#entries);
  readonly entries: ReadonlySignal<ReadonlyMap<string, Entry>> = this.#publishedEntries;
  #publishTimer: ReturnType<typeof setTimeout> | undefined;
  readonly #work = signal<Work | undefined>(undefined);
  /** Undefined if the queue is idle. */
  readonly work: ReadonlySignal<Work | undefined> = this.#work;
  /** The error of each failed subject, by the key of the subject and its question. */
  readonly #errors = new Map<string, string>();
  /** Keys of the tasks that were in progress when the engine was lost. */
  readonly #lostKeys = new Set<string>();
  #request: Request | undefined;
  #job: Job | undefined;
  #isLooping = false;

  constructor(dependencies: Dependencies) {
    this.#models = dependencies.models;
    this.#takeTurn = dependencies.turn ?? (async () => () => {});
    this.#release = dependencies.release ?? ((kept) => this.#models.release(kept));
    this.#loader = new Loader(dependencies);
    this.#studies = new Studies(dependencies, this.#loader);
    this.#generation = new Generation(this.#runs, {
      entry: (subject) => this.#entries.get(subject),
      set: (subject, change) => this.#setEntry(subject, change),
      complete: (frame, cached) => this.#completeFrame(frame, cached, this.#request!),
    });
  }

  studyEntry(study: Study): Entry | undefined {
    return this.#studies.entry(study);
  }

  get isGenerating(): boolean {
    return this.#generation.isRunning;
  }

  ask(request: Request): void {
    const lastRequest = this.#request;
    this.#request = request;
    const isNewQuestion =
      lastRequest && questionKey(lastRequest.question) !== questionKey(request.question);
    if (isNewQuestion) this.stopGenerating();
    // If the request reads other numbers, retries failed subjects with an open run: only numbers may have failed.
    if (lastRequest?.reads.join() !== request.reads.join())
      for (const subject of request.subjects)
        if (this.#runs.get(subject)?.key === this.#key(subject))
          this.#errors.delete(this.#key(subject));
    const job = this.#job;
    if (job && !this.#isWanted(job, Boolean(isNewQuestion))) {
      job.controller.abort();
      this.#stopDownload(job, [
        ...request.subjects,
        ...(request.studies ?? []).map((s) => s.subject),
      ]);
    }
    this.#rebuildEntries();
    void this.#loop();
  }

  /** Whether the job is still requested, or so quick that the queue waits for it. */
  #isWanted({ task, since, measurement }: Job, isNewQuestion: boolean): boolean {
    const { subjects, reads, studies = [] } = this.#request!;
    if (typeof task === 'object')
      return studies.some((study) => studyKey(study) === studyKey(task));
    if (measurement && !measurement.names.some((name) => reads.includes(name))) return false;
    return subjects.includes(task) && !(isNewQuestion && performance.now() - since > QUICK_MS);
  }

  retry(): void {
    this.#errors.clear();
    this.#lostKeys.clear();
    // There is nothing to retry before the first request.
    if (!this.#request) return;
    this.#studies.retry();
    this.#rebuildEntries();
    void this.#loop();
  }

  /** Stops all work. The remaining subjects wait for another question or for `retry`. */
  stop(): void {
    this.stopGenerating();
    const request = this.#request;
    if (!request) return;
    for (const subject of request.subjects)
      if (!this.#isDone(subject)) this.#errors.set(this.#key(subject), 'Stopped.');
    const remainingStudies = (request.studies ?? []).filter(
      (study) => !this.#studies.isDone(study),
    );
    this.#studies.addEntries(
      remainingStudies.map((study) => [studyKey(study), { error: 'Stopped.' }]),
    );
    if (this.#job) {
      this.#job.controller.abort();
      this.#stopDownload(this.#job, []);
    }
    this.#rebuildEntries();
  }

  /**
   * Stops the download of a stopped job's model, which the job would wait for. A model of the zoo is small, and the next
   * job may need it.
   * @param neededSubjects subjects whose models are still needed
   */
  #stopDownload({ task }: Job, neededSubjects: readonly string[]): void {
    const idOf = (subject: string) => {
      const parsedSubject = parseSubject(subject);
      return parsedSubject && modelIdOf(parsedSubject);
    };
    const id = idOf(typeof task === 'object' ? task.subject : task);
    if (id === undefined || !isOutsideZoo(id) || neededSubjects.map(idOf).includes(id)) return;
    this.#models.stopOpening(id);
  }

  stopGenerating(): void {
    this.#generation.stop();
  }

  /** Measures a subject again, and returns a recording with the run of its first prompt. */
  async record(subject: string, source: string): Promise<Uint8Array<ArrayBuffer>> {
    const frame = this.#entries.get(subject)?.frame;
    const cachedRun = this.#runs.get(subject);
    if (!frame || !cachedRun) throw new InputError(`${subject} is not measured yet.`);
    const { makeRecording } = await import('./recording_made');
    return makeRecording(frame, cachedRun.openModel, source, this.#models);
  }

  async generate(...args: Parameters<Generation['generate']>): Promise<void> {
    this.#work.value = { text: 'Generating', share: NaN, since: performance.now() };
    try {
      await this.#generation.generate(...args);
    } finally {
      if (!this.#isLooping) this.#work.value = undefined;
      // Takes the measurements that waited for the last token.
      void this.#loop();
    }
  }

  /** Takes a measurement that the reader starts on a shown model, whose view shows the progress. */
  readonly measure: Measure<{ frame: Frame; signal: AbortSignal }> = (name, input, options) => {
    const { openModel } = this.#runs.get(input.frame.subject) ?? {};
    if (!openModel) throw new InputError('The model is no longer open.');
    const watch = { signal: input.signal, onProgress: () => {} };
    const baseline = () => this.#models.baselineOf(input.frame.model.id, watch);
    return takeMeasurement(name, { ...input, openModel, baseline }, options);
  };

  #key(subject: string): string {
    const { isFixed, reads, follows = {} } = this.#request!;
    // A baseline reads the generated tokens once they are all there.
    const isWaiting = subject in follows && this.#generation.isRunningUntracked;
    const cachedKey = isWaiting && this.#runs.get(subject)?.key;
    if (cachedKey) return cachedKey;
    return `${subject} ${questionKey(this.#questionOf(subject))}${isFixed ? ` ${reads.join()}` : ''}`;
  }

  /** Returns the question of a subject: that of the request, or, for a baseline, one with the edited subject's tokens. */
  #questionOf(subject: string): Question {
    const { question, follows = {} } = this.#request!;
    const edited = follows[subject];
    if (edited === undefined || this.#runs.get(edited)?.key !== this.#key(edited)) return question;
    const [frame, base] = [edited, subject].map((name) => this.#entries.get(name)?.frame);
    const isGenerated = frame && (frame.generated || base?.generated);
    return isGenerated ? { ...question, ids: idsOf(frame.tokens) } : question;
  }

  #setEntry(subject: string, change: Entry): void {
    const entries = new Map(this.#entries);
    entries.set(subject, { ...entries.get(subject), ...change });
    this.#entries = entries;
    this.#publish();
  }

  /** Publishes the entries, later if the next subject is about to change them again. */
  #publish(): void {
    const publishedEntries = this.#publishedEntries.peek();
    const canWait =
      this.#nextTask !== undefined &&
      [...publishedEntries.keys()].join() === [...this.#entries.keys()].join() &&
      [...this.#entries].every(([subject, { frame, error }]) => {
        const publishedEntry = publishedEntries.get(subject)!;
        return publishedEntry.error === error && (publishedEntry.frame || !frame);
      });
    const publish = () => {
      clearTimeout(this.#publishTimer);
      this.#publishTimer = undefined;
      this.#publishedEntries.value = this.#entries;
    };
    if (canWait) this.#publishTimer ??= setTimeout(publish, PUBLISH_DELAY_MS);
    else publish();
  }

  /** Rebuilds the entries in the order of the request. A frame that answers another question becomes stale. */
  #rebuildEntries(): void {
    const oldEntries = this.#entries;
    const { subjects } = this.#request!;
    const entries = subjects.map((subject): [string, Entry] => {
      const { frame } = oldEntries.get(subject) ?? {};
      const isStale = frame && this.#runs.get(subject)?.key !== this.#key(subject);
      const error = this.#errors.get(this.#key(subject));
      return [subject, { frame, isStale, error }];
    });
    const isSame =
      entries.length === oldEntries.size &&
      entries.every(([subject, entry], i) => {
        const oldEntry = oldEntries.get(subject);
        return (
          [...oldEntries.keys()][i] === subject &&
          Boolean(oldEntry?.isStale) === Boolean(entry.isStale) &&
          oldEntry?.error === entry.error
        );
      });
    if (isSame) return;
    this.#entries = new Map(entries);
    this.#publish();
  }

  #isDone(subject: string): boolean {
    const frame = this.#entries.get(subject)?.frame;
    const cachedRun = this.#runs.get(subject);
    if (
      !frame ||
      cachedRun?.key !== this.#key(subject) ||
      this.#needsExactWeights(frame, cachedRun)
    )
      return false;
    const shownHead = this.#headOf(frame, this.#request!);
    return (
      isAnswered(frame, this.#models.describe, this.#request!, shownHead) &&
      !this.#measurementFor(frame)
    );
  }

  #headOf(frame: Frame, { head, heads }: Request): Head {
    return heads?.[frame.subject] ?? selectedHead(frame, head);
  }

  /**
   * Whether to replace a preview's frame by one of the exact weights. False after generation, since the new frame would
   * lose the generated tokens.
   */
  #needsExactWeights({ generated }: Frame, { openModel }: CachedRun): boolean {
    return Boolean(
      openModel.isPreview &&
      !generated &&
      !this.#generation.isRunningUntracked &&
      (!this.#request!.isPreview || this.#models.isOpen(openModel.id)),
    );
  }

  #measurementFor(frame: Frame): Measurement | undefined {
    const isMissing = (name: string) =>
      this.#request!.reads.includes(name) && !(name in frame.tensors);
    if (this.#generation.isRunningUntracked || frame.recording) return undefined;
    return measurements.find(({ names, fits }) => fits(frame) && names.some(isMissing));
  }

  get #nextTask(): string | Study | undefined {
    const { subjects = [], studies = [] } = this.#request ?? {};
    return (
      subjects.find((subject) => !this.#isDone(subject) && !this.#errors.has(this.#key(subject))) ??
      studies.find((study) => !this.#studies.isDone(study))
    );
  }

  async #loop(): Promise<void> {
    if (this.#isLooping) return;
    this.#closeUnused();
    this.#isLooping = true;
    for (let task = this.#nextTask; task !== undefined; task = this.#nextTask) {
      const endTurn = await this.#takeTurn();
      // The request may have changed while the queue waited for its turn.
      task = this.#nextTask;
      if (task === undefined) {
        endTurn();
        break;
      }
      const controller = new AbortController();
      const { signal } = controller;
      this.#job = { controller, task, since: performance.now() };
      if (!this.#work.peek()?.text)
        this.#work.value = { text: 'Running', share: NaN, since: performance.now() };
      const key = typeof task === 'object' ? studyKey(task) : this.#key(task);
      try {
        if (typeof task === 'object')
          await this.#studies.measure(task, this.#request!, this.#makeWatch(signal));
        else {
          const request = { ...this.#request!, question: this.#questionOf(task) };
          await this.#answer(task, key, request, signal);
        }
      } catch (error) {
        const isStopped = error instanceof DOMException && error.name === 'AbortError';
        if (!signal.aborted && isStopped) await new Promise((done) => setTimeout(done, STOP_MS));
        else if (!signal.aborted) this.#fail(task, key, error);
      }
      this.#job = undefined;
      endTurn();
      this.#closeUnused();
    }
    this.#isLooping = false;
    if (!this.#generation.isRunningUntracked) this.#work.value = undefined;
  }

  #fail(task: string | Study, key: string, error: unknown): void {
    // The next call restarts a lost engine, so tries once more; a second loss is an error.
    const isLost = error instanceof SinkscopeError && error.code === 'lost';
    if (isLost && !this.#lostKeys.has(key)) {
      this.#lostKeys.add(key);
      return;
    }
    const sentence = errorSentence(error);
    if (typeof task === 'object') return this.#studies.addEntries([[key, { error: sentence }]]);
    this.#errors.set(key, sentence);
    this.#rebuildEntries();
    if (this.#entries.has(task)) this.#setEntry(task, { error: sentence });
  }

  #makeWatch(signal: AbortSignal): Watch {
    return {
      signal,
      onProgress: (what, done, total, more?: Progress) => {
        if (signal.aborted) return;
        const isReading = more?.stage === 'read';
        const text = isReading ? `${what}: ${downloadWords({ ...more, done, total })}` : what;
        const since = this.#work.peek()?.since ?? performance.now();
        this.#work.value = { text, share: total > 0 ? done / total : NaN, since };
      },
    };
  }

  async #answer(
    subject: string,
    key: string,
    request: Request,
    signal: AbortSignal,
  ): Promise<void> {
    const watch = this.#makeWatch(signal);
    const cachedRun = this.#runs.get(subject);
    const frame = this.#entries.get(subject)?.frame;
    const hasFields =
      isOpen(cachedRun) &&
      frame &&
      fieldsToRecord(this.#models.describe, request, frame).every((name) =>
        cachedRun.fields.has(name),
      );
    if (hasFields && cachedRun.key === key && !this.#needsExactWeights(frame, cachedRun))
      return this.#readMissing(subject, frame, cachedRun, request, watch);
    const requestedSubject = parseSubject(subject);
    if (requestedSubject && isRecordingId(requestedSubject.id))
      return this.#answerRecording(subject, key, requestedSubject, request, watch);
    const { parsedSubject, openModel } = await this.#loader.open(subject, request, watch);
    // The other models load while this one runs.
    const detachedWatch = this.#makeWatch(new AbortController().signal);
    for (const other of request.subjects) this.#loader.prefetch(other, request, detachedWatch);
    signal.throwIfAborted();
    const { architecture, describe } = openModel.model;
    const context = contextOf(architecture, editsOf(parsedSubject, describe));
    const lastFrame = this.#entries.get(subject)?.frame;
    // A further field needs a new run, which must not lose the generated tokens.
    const prompts =
      lastFrame?.generated && this.#runs.get(subject)?.key === key
        ? lastFrame
        : await this.#loader.prompts(openModel, request.question, context);
    if (isOpen(this.#runs.get(subject))) this.stopGenerating();
    const T = prompts.tokens.length;
    const fields = fieldsToRecord(describe, request, { architecture, T });
    const lastRun = this.#runs.take(subject, (run) => canUpdate(run, openModel, T, fields));
    const base = this.#runs.baseOf(openModel, prompts.ids[0]!);
    const args = {
      ...{ subject: parsedSubject, text: subject, key, openModel, prompts, request },
      ...{ fields, lastFrame, lastRun, base },
    };
    const result = await runSubject(args, watch).catch((error: unknown) => {
      // Keeps a stopped run for the next question; it keeps its key only if it has the tokens of its frame.
      const hasFrameTokens =
        lastFrame && lastRun && hasTokens(lastRun.run, idsOf(lastFrame.tokens));
      if (signal.aborted && lastRun)
        this.#runs.set(subject, hasFrameTokens ? lastRun : { ...lastRun, key: '' });
      throw error;
    });
    try {
      const fullFrame = await this.#completeFrame(result.frame, result.cachedRun, request);
      signal.throwIfAborted();
      this.#runs.set(subject, result.cachedRun);
      this.#publishFrame(subject, fullFrame);
    } catch (error) {
      if (signal.aborted) this.#runs.set(subject, { ...result.cachedRun, key: '' });
      else await result.cachedRun.run?.close().catch(() => {});
      throw error;
    }
  }

  /** Publishes a frame. Rebuilding the entries marks it stale if the question has changed meanwhile. */
  #publishFrame(subject: string, frame: Frame): void {
    batch(() => {
      this.#setEntry(subject, { frame, isStale: false, error: undefined });
      this.#rebuildEntries();
    });
  }

  /** Publishes a recording's frame, which is the same for every question. */
  async #answerRecording(
    subject: string,
    key: string,
    parsed: Subject,
    request: Request,
    watch: Watch,
  ): Promise<void> {
    const recording = await this.#loader.openRecording(parsed, watch);
    const { describe } = this.#models;
    const frame = await recordedFrame(describe, subject, parsed.id, recording, request.question);
    const cachedRun = recordedRun(key, parsed.id, recording, describe);
    const fullFrame = await this.#completeFrame(frame, cachedRun, request);
    watch.signal.throwIfAborted();
    this.#runs.set(subject, cachedRun);
    this.#publishFrame(subject, fullFrame);
  }

  /** Reads missing numbers from the open run, and takes the next measurement that needs further runs. */
  async #readMissing(
    subject: string,
    lastFrame: Frame,
    cachedRun: OpenRun,
    request: Request,
    watch: Watch,
  ): Promise<void> {
    const frame = await this.#completeFrame(lastFrame, cachedRun, request);
    if (this.#runs.get(subject) !== cachedRun) return;
    this.#setEntry(subject, { frame, isStale: false, error: undefined });
    const measurement = this.#measurementFor(frame);
    if (!measurement) return;
    this.#job!.measurement = measurement;
    const { openModel } = cachedRun;
    const context = contextOf(openModel.model.architecture, frame.edits);
    const ids = frame.generated
      ? [idsOf(frame.tokens)]
      : (await this.#loader.prompts(openModel, frame.question, context)).ids;
    const results = await withMeasurement(measurement, frame, openModel, ids, watch);
    // Tokens may have been added meanwhile, which makes the result void.
    if (this.#entries.get(subject)?.frame === frame)
      this.#setEntry(subject, { frame: { ...frame, ...results } });
  }

  async #completeFrame(frame: Frame, cachedRun: CachedRun, request: Request): Promise<Frame> {
    const fullFrame = await completeFrame(this.#models.describe, frame, cachedRun, request, {
      previousFrame: this.#entries.get(frame.subject)?.frame,
      headOf: (subjectFrame) => this.#headOf(subjectFrame, request),
    });
    return cachedRun.lacks ? { ...fullFrame, lacks: { ...cachedRun.lacks } } : fullFrame;
  }

  /** Closes runs and models that no room requests, and large models whose measurements are done. */
  #closeUnused(): void {
    const requestedSubjects = new Set(this.#request?.subjects);
    const studiedSubjects = (this.#request?.studies ?? []).map(({ subject }) => subject);
    const idOf = (subject: string) => modelIdOf(parseSubject(subject)!);
    const ids = new Set([...requestedSubjects, ...studiedSubjects].filter(parseSubject).map(idOf));
    const sizes = [...ids].flatMap((id) => this.#models.bytesOf(id) ?? []);
    const isMemoryFull = sizes.reduce((a, b) => a + b, 0) > MAX_MODEL_BYTES && ids.size > 1;
    const task = this.#nextTask;
    const nextSubject = typeof task === 'object' ? task.subject : task;
    const keptIds = new Set(
      isMemoryFull ? [...ids].filter((id) => !this.#models.bytesOf(id)) : ids,
    );
    if (nextSubject !== undefined && parseSubject(nextSubject)) keptIds.add(idOf(nextSubject));
    const previews = this.#runs.previews;
    for (const id of ids)
      if (previews.includes(id) || (this.#request?.isPreview && !this.#models.isOpen(id)))
        keptIds.add(previewId(id));
    this.#runs.keepOnly(requestedSubjects);
    void this.#release(keptIds).catch(() => {});
  }
}
