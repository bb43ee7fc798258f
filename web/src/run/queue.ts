/**
 * The queue turns subjects into frames. A room requests subjects, a question, and names of metrics and fields. The
 * queue opens the models, runs one subject after the other and publishes a frame of each. It reuses cached results, and
 * closes models that no room shows. A new request waits for a quick run but stops a long one. If the engine is lost,
 * the queue runs the subject once more.
 */
import { signal, type ReadonlySignal } from '@preact/signals-core';
import { SinkscopeError, type Progress } from 'sinkscope';
import { InputError, errorSentence } from '../ask/errors';
import { questionKey, type Question } from '../ask/question';
import { isOutsideZoo } from '../ask/ids';
import { isRecordingId } from '../ask/recordings';
import {
  editsOf,
  expectTokens,
  modelIdOf,
  parseSubject,
  withoutEdits,
  type Subject,
} from '../ask/subject';
import { predictsNext, selectedHead, type Frame, type Head } from '../frame';
import {
  canGenerate,
  canWrite,
  generateFrames,
  writeAfter,
  type Generation,
  type Sampling,
} from './generation';
import { Loader, type Dependencies } from './loading';
import { EFFECT, withEffect } from './effect';
import type { OpenModel, Watch } from './opened';
import { loadWords, stageWords } from './progress';
import { completeFrame, contextOf, isAnswered, fieldsToRecord, recordedRequest } from './reading';
import { studyKey, type Entry, type Request, type Study, type Work } from './request';
import {
  CachedRuns,
  canUpdate,
  idsOf,
  hasTokens,
  QUICK_MS,
  runSubject,
  type CachedRun,
} from './runs';
import type { Measure } from './started';
import { Studies } from './studies';

/** A new frame waits this many milliseconds for those of other subjects, so that their picture is drawn once. */
const PUBLISH_DELAY_MS = 120;
/** Models with plans stay in memory together up to this size; beyond it only one is open at a time. */
const MAX_MODEL_BYTES = 2 ** 30;

interface Job {
  readonly controller: AbortController;
  readonly task: Task;
  readonly key: string;
  readonly since: number;
  /** Set while the job ablates heads, which takes a run for each. */
  isAblating?: boolean;
}

/** A subject to measure, a study, or text to generate. */
type Task = string | Study | Generation;

const isGeneration = (task: Task): task is Generation =>
  typeof task === 'object' && 'subjects' in task;

/** Returns the subject that a task opens; undefined for a generation, which extends open runs. */
const subjectOf = (task: Task): string | undefined =>
  typeof task === 'string' ? task : isGeneration(task) ? undefined : task.subject;

const needsWriting = (frame: Frame, { writes }: Request): boolean =>
  writes !== undefined && frame.writes === undefined && canWrite(frame);

/** A subject's last frame, with the key of the subject and question that it answers, and the model that was measured. */
type Answer = { readonly key: string; readonly frame: Frame; readonly openModel: OpenModel };

export class Queue {
  readonly #models: Dependencies['models'];
  readonly #loader: Loader;
  readonly #takeTurn: () => Promise<() => void>;
  readonly #release: (kept: ReadonlySet<string>) => Promise<void>;
  readonly #runs = new CachedRuns();
  readonly #studies: Studies;
  /** The answers of the requested subjects. */
  readonly #answers = new Map<string, Answer>();
  /** The frames that end with generated tokens, by the requested subjects that read their text. */
  readonly #texts = new Map<string, Frame>();
  readonly #entries = signal<ReadonlyMap<string, Entry>>(new Map());
  readonly entries: ReadonlySignal<ReadonlyMap<string, Entry>> = this.#entries;
  #publishTimer: ReturnType<typeof setTimeout> | undefined;
  readonly #work = signal<Work | undefined>(undefined);
  /** Undefined if the queue is idle. */
  readonly work: ReadonlySignal<Work | undefined> = this.#work;
  readonly #generation = signal<Generation | undefined>(undefined);
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
  }

  studyEntry(study: Study): Entry | undefined {
    return this.#studies.entry(study);
  }

  /** Whether text is being generated. An effect that reads this runs again when generation begins or ends. */
  get isGenerating(): boolean {
    return this.#generation.value !== undefined;
  }

  ask(request: Request): void {
    const lastRequest = this.#request;
    this.#request = request;
    const isNewQuestion =
      lastRequest !== undefined &&
      questionKey(lastRequest.question) !== questionKey(request.question);
    if (isNewQuestion) this.stopGenerating();
    this.#inheritTexts(isNewQuestion ? [] : (lastRequest?.subjects ?? []));
    for (const subject of this.#answers.keys())
      if (!request.subjects.includes(subject)) this.#answers.delete(subject);
    // If the request reads other numbers, retries failed subjects that have a frame: only numbers may have failed.
    if (lastRequest?.reads.join() !== request.reads.join())
      for (const subject of request.subjects)
        if (this.#isCurrent(subject)) this.#errors.delete(this.#key(subject));
    const job = this.#job;
    if (job && !this.#isWanted(job, isNewQuestion)) {
      job.controller.abort();
      this.#stopDownload(job, [
        ...request.subjects,
        ...(request.studies ?? []).map((s) => s.subject),
      ]);
    }
    this.#publish();
    void this.#loop();
  }

  /**
   * Decides which text each subject of the request reads. A subject that joins reads the text that a shown subject of
   * the same model has generated, so that an intervention is measured on the text that the reader sees. A baseline reads
   * the text of its edited subject.
   * @param lastSubjects the subjects that were shown with the same question
   */
  #inheritTexts(lastSubjects: readonly string[]): void {
    const { subjects, follows = {} } = this.#request!;
    const lastTexts = new Map(lastSubjects.map((subject) => [subject, this.#texts.get(subject)]));
    this.#texts.clear();
    const setText = (subject: string, frame: Frame | undefined) =>
      frame && this.#texts.set(subject, frame);
    for (const subject of subjects) {
      const model = withoutEdits(subject);
      const relative = lastSubjects.find(
        (last) => withoutEdits(last) === model && lastTexts.get(last),
      );
      setText(subject, lastTexts.get(lastTexts.has(subject) ? subject : (relative ?? '')));
    }
    for (const [base, edited] of Object.entries(follows)) {
      this.#texts.delete(base);
      setText(base, this.#texts.get(edited));
    }
  }

  /** Whether the job is still requested, or so quick that the queue waits for it. */
  #isWanted({ task, since, isAblating }: Job, isNewQuestion: boolean): boolean {
    const { subjects, reads, studies = [] } = this.#request!;
    if (typeof task === 'object')
      return isGeneration(task)
        ? task.subjects.every((one) => subjects.includes(one))
        : studies.some((study) => studyKey(study) === studyKey(task));
    if (isAblating && !reads.includes(EFFECT)) return false;
    return subjects.includes(task) && !(isNewQuestion && performance.now() - since > QUICK_MS);
  }

  retry(): void {
    this.#errors.clear();
    this.#lostKeys.clear();
    // There is nothing to retry before the first request.
    if (!this.#request) return;
    this.#studies.retry();
    this.#publish();
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
    this.#publish();
  }

  /** Stops the download of a stopped job's model, unless it is needed, or small, as those of the zoo. */
  #stopDownload({ task }: Job, neededSubjects: readonly string[]): void {
    const idOf = (subject: string) => {
      const parsedSubject = parseSubject(subject);
      return parsedSubject && modelIdOf(parsedSubject);
    };
    const id = idOf(subjectOf(task) ?? '');
    if (id === undefined || !isOutsideZoo(id) || neededSubjects.map(idOf).includes(id)) return;
    this.#models.stopOpening(id);
  }

  /** Measures a subject again, and returns a recording with the run of its first prompt. */
  async record(subject: string, source: string): Promise<Uint8Array<ArrayBuffer>> {
    const answer = this.#answers.get(subject);
    if (!answer) throw new InputError(`${subject} is not measured yet.`);
    const { makeRecording } = await import('./recording_made');
    return makeRecording(answer.frame, answer.openModel, source, this.#models);
  }

  /**
   * Adds at most `count` tokens to the text of each subject, and publishes a frame after each token. Text is generated
   * before all else, so a long measurement stops, and is taken again afterwards.
   */
  async generate(subjects: readonly string[], sampling: Sampling): Promise<void> {
    this.stopGenerating();
    const job = this.#job;
    if (job && (job.isAblating || performance.now() - job.since > QUICK_MS)) job.controller.abort();
    await new Promise<void>((resolve, reject) => {
      this.#generation.value = { subjects, sampling, resolve, reject };
      void this.#loop();
    });
  }

  stopGenerating(): void {
    const generation = this.#generation.peek();
    this.#generation.value = undefined;
    if (this.#job?.task === generation) this.#job?.controller.abort();
    generation?.resolve();
  }

  /** Takes a measurement that the reader starts on a shown model, whose view shows the progress. */
  readonly measure: Measure<{ frame: Frame; signal: AbortSignal }> = (name, input, options) => {
    const { openModel } = this.#answers.get(input.frame.subject) ?? {};
    if (!openModel) throw new InputError('The model is no longer open.');
    const watch = { signal: input.signal, onProgress: () => {} };
    const baseline = () => this.#models.baselineOf(input.frame.model.id, watch);
    return import('./started').then(({ takeMeasurement }) =>
      takeMeasurement(name, { ...input, openModel, baseline }, options),
    );
  };

  #keyOf(subject: string, question: Question): string {
    const { isFixed, reads } = this.#request!;
    return `${subject} ${questionKey(question)}${isFixed ? ` ${reads.join()}` : ''}`;
  }

  #key(subject: string): string {
    return this.#keyOf(subject, this.#questionOf(subject));
  }

  /** Returns the question of a subject: that of the request, or, for a generated text, one with its tokens. */
  #questionOf(subject: string): Question {
    return this.#texts.get(subject)?.question ?? this.#request!.question;
  }

  /** Whether a subject's frame answers the present question. */
  #isCurrent(subject: string): boolean {
    return this.#answers.get(subject)?.key === this.#key(subject);
  }

  /**
   * Keeps an answer and publishes it. All that a job finds out reaches the page here: nothing if the job was stopped, and
   * as stale if it answers another question than the present one.
   * @param isText whether the frame ends with a generated token, which the subject's baselines read too
   */
  #answerWith({ controller }: Job, answer: Answer, isText = false): void {
    controller.signal.throwIfAborted();
    const { frame } = answer;
    this.#answers.set(frame.subject, answer);
    if (isText) {
      this.#texts.set(frame.subject, frame);
      for (const [base, edited] of Object.entries(this.#request!.follows ?? {}))
        if (edited === frame.subject) this.#texts.set(base, frame);
    }
    this.#publish();
  }

  /** Publishes the entries; only stale ones at once if the next subject is about to change them again. */
  #publish(): void {
    const publishedEntries = this.#entries.peek();
    const entries = this.#currentEntries();
    const areSubjectsSame = [...publishedEntries.keys()].join() === [...entries.keys()].join();
    const canWait =
      areSubjectsSame &&
      typeof this.#nextTask === 'string' &&
      [...entries].every(([subject, { frame, isStale, error }]) => {
        const published = publishedEntries.get(subject)!;
        const isSameAge = published.isStale || !isStale;
        return published.error === error && (published.frame || !frame) && isSameAge;
      });
    if (canWait) {
      this.#publishTimer ??= setTimeout(() => this.#publishNow(), PUBLISH_DELAY_MS);
      return;
    }
    this.#publishNow();
  }

  #publishNow(): void {
    clearTimeout(this.#publishTimer);
    this.#publishTimer = undefined;
    const publishedEntries = [...this.#entries.peek()];
    const entries = [...this.#currentEntries()];
    const isSame =
      entries.length === publishedEntries.length &&
      entries.every(([subject, { frame, isStale, error }], i) => {
        const [publishedSubject, entry] = publishedEntries[i]!;
        return (
          subject === publishedSubject &&
          frame === entry.frame &&
          isStale === entry.isStale &&
          error === entry.error
        );
      });
    if (!isSame) this.#entries.value = new Map(entries);
  }

  /** Returns the entries in the order of the request. A frame that answers another question is stale. */
  #currentEntries(): ReadonlyMap<string, Entry> {
    const { subjects = [] } = this.#request ?? {};
    return new Map(
      subjects.map((subject): [string, Entry] => {
        const frame = this.#answers.get(subject)?.frame;
        const isStale = frame !== undefined && !this.#isCurrent(subject);
        return [subject, { frame, isStale, error: this.#errors.get(this.#key(subject)) }];
      }),
    );
  }

  #isDone(subject: string): boolean {
    const answer = this.#answers.get(subject);
    if (!answer || !this.#isCurrent(subject)) return false;
    const { frame } = answer;
    const shownHead = this.#headOf(frame, this.#request!);
    return (
      isAnswered(frame, this.#models.describe, this.#request!, shownHead) &&
      !this.#needsEffect(frame) &&
      !needsWriting(frame, this.#request!)
    );
  }

  #headOf(frame: Frame, { head, heads }: Request): Head {
    return heads?.[frame.subject] ?? selectedHead(frame, head);
  }

  #needsEffect(frame: Frame): boolean {
    const isMissing = this.#request!.reads.includes(EFFECT) && !(EFFECT in frame.tensors);
    return isMissing && !frame.recording && predictsNext(frame);
  }

  get #nextTask(): Task | undefined {
    const { subjects = [], studies = [] } = this.#request ?? {};
    const isFailed = (subject: string) => this.#errors.has(this.#key(subject));
    const generation = this.#generation.peek();
    if (generation) {
      const isOutdated = (subject: string) =>
        generation.subjects.includes(subject) && !this.#isCurrent(subject) && !isFailed(subject);
      return subjects.find(isOutdated) ?? generation;
    }
    return (
      subjects.find((subject) => !this.#isDone(subject) && !isFailed(subject)) ??
      studies.find((study) => !this.#studies.isDone(study))
    );
  }

  async #loop(): Promise<void> {
    if (this.#isLooping) return;
    this.#closeUnused();
    this.#isLooping = true;
    while (this.#nextTask !== undefined) {
      const endTurn = await this.#takeTurn();
      // The request may have changed while the queue waited for its turn.
      const task = this.#nextTask;
      if (task !== undefined) await this.#perform(task);
      endTurn();
      this.#closeUnused();
    }
    this.#isLooping = false;
    this.#work.value = undefined;
    this.#publish();
  }

  async #perform(task: Task): Promise<void> {
    const controller = new AbortController();
    const { signal } = controller;
    const key =
      typeof task === 'string' ? this.#key(task) : isGeneration(task) ? '' : studyKey(task);
    const job = (this.#job = { controller, task, key, since: performance.now() });
    const work = this.#work.peek();
    const isQuiet = typeof task === 'string' && this.#request!.ahead?.includes(task);
    const begin = (text: string) =>
      (this.#work.value = { text, share: NaN, since: performance.now() });
    if (typeof task === 'object' && isGeneration(task)) begin('Generating');
    else if (isQuiet) begin('');
    else if (!work?.text) begin('Running');
    try {
      if (typeof task === 'string') await this.#answer(task, job);
      else if (isGeneration(task)) await this.#generate(task, job);
      else await this.#studies.measure(task, this.#request!, this.#makeWatch(signal));
    } catch (error) {
      if (!signal.aborted) this.#fail(job, error);
    }
    this.#job = undefined;
    if (typeof task !== 'object' || !isGeneration(task)) return;
    if (this.#generation.peek() === task) this.#generation.value = undefined;
    task.resolve();
  }

  #fail({ task, key }: Job, error: unknown): void {
    if (typeof task === 'object' && isGeneration(task)) return task.reject(error);
    // The next call restarts a lost engine, so tries once more; a second loss is an error.
    const isLost = error instanceof SinkscopeError && error.code === 'lost';
    if (isLost && !this.#lostKeys.has(key)) {
      this.#lostKeys.add(key);
      return;
    }
    // The dialog may stop the opening of a model that the queue waits for.
    const isStopped = error instanceof DOMException && error.name === 'AbortError';
    const sentence = isStopped ? 'Stopped.' : errorSentence(error);
    if (typeof task === 'object') return this.#studies.addEntries([[key, { error: sentence }]]);
    this.#errors.set(key, sentence);
    this.#publish();
  }

  #makeWatch(signal: AbortSignal, subject = ''): Watch {
    return {
      signal,
      onProgress: (what, done, total, more?: Progress) => {
        if (signal.aborted || !this.#isLooping || this.#request!.ahead?.includes(subject)) return;
        const progress = more && { ...more, done, total };
        const isLoading = progress && (progress.stage === 'read' || stageWords(progress));
        const text = isLoading ? `${what}: ${loadWords(progress)}` : what;
        const since = this.#work.peek()?.since ?? performance.now();
        const hasSteps = total > 0 && !(progress && stageWords(progress));
        this.#work.value = { text, share: hasSteps ? done / total : NaN, since };
      },
    };
  }

  /** Returns a subject's run if it has read the tokens of its answer. */
  #runOf({ frame, openModel }: Answer): CachedRun | undefined {
    const cachedRun = this.#runs.get(frame.subject);
    const isOfFrame =
      cachedRun?.openModel.model === openModel.model &&
      (frame.recording || hasTokens(cachedRun.run, idsOf(frame.tokens)));
    return isOfFrame ? cachedRun : undefined;
  }

  async #answer(subject: string, job: Job): Promise<void> {
    const textFrame = this.#texts.get(subject);
    const request = { ...this.#request!, question: this.#questionOf(subject) };
    const { signal } = job.controller;
    const watch = this.#makeWatch(signal, subject);
    const answer = this.#answers.get(subject);
    if (answer?.key === job.key) {
      const cachedRun = this.#runOf(answer);
      const neededFields = fieldsToRecord(this.#models.describe, request, answer.frame);
      if (cachedRun && neededFields.every((name) => cachedRun.fields.has(name)))
        return this.#readMissing(job, answer, cachedRun, request, watch);
    }
    const requestedSubject = parseSubject(subject);
    if (requestedSubject && isRecordingId(requestedSubject.id))
      return this.#answerRecording(job, requestedSubject, request, watch);
    const { parsedSubject, openModel } = await this.#loader.open(subject, watch);
    // The other models load while this one runs.
    for (const other of request.subjects)
      this.#loader.prefetch(other, this.#makeWatch(new AbortController().signal, other));
    signal.throwIfAborted();
    const { architecture, describe } = openModel.model;
    const edits = editsOf(parsedSubject, describe);
    const context = contextOf(architecture, edits);
    const prompts = textFrame ?? (await this.#loader.prompts(openModel, request.question, context));
    const T = prompts.tokens.length;
    // Before a cached run is taken.
    expectTokens(edits, T, describe);
    const fields = fieldsToRecord(describe, request, { architecture, T });
    const lastRun = this.#runs.take(subject, (run) => canUpdate(run, openModel, T, fields));
    const base = this.#runs.baseOf(openModel, prompts.ids[0]!);
    const args = {
      ...{ subject: parsedSubject, text: subject, openModel, prompts, request },
      ...{ fields, lastFrame: answer?.frame, lastRun, base },
    };
    const { frame, cachedRun } = await runSubject(args, watch).catch((error: unknown) => {
      // Keeps a stopped run for the next question.
      if (signal.aborted && lastRun) this.#runs.set(subject, lastRun);
      throw error;
    });
    if (cachedRun) this.#runs.set(subject, cachedRun);
    try {
      const fullFrame = await this.#completeFrame(frame, openModel, cachedRun, request);
      this.#answerWith(job, { key: job.key, frame: fullFrame, openModel });
    } catch (error) {
      if (!signal.aborted) this.#runs.take(subject, () => false);
      throw error;
    }
  }

  /** Publishes a recording's frame, which is the same for every question. */
  async #answerRecording(job: Job, parsed: Subject, request: Request, watch: Watch): Promise<void> {
    const [recording, { recordedFrame, recordedRun }] = await Promise.all([
      this.#loader.openRecording(parsed, watch),
      import('./recorded_frame'),
    ]);
    const { describe } = this.#models;
    const subject = job.task as string;
    const id = modelIdOf(parsed);
    const steps = this.#models.recordings.steps(id);
    const frame = await recordedFrame(describe, subject, id, recording, request.question, steps);
    const cachedRun = recordedRun(id, recording, describe);
    const { openModel } = cachedRun;
    const fullFrame = await this.#completeFrame(frame, openModel, cachedRun, request);
    this.#runs.set(subject, cachedRun);
    this.#answerWith(job, { key: job.key, frame: fullFrame, openModel });
  }

  /** Reads missing numbers from the open run, and then ablates heads if their effect is requested. */
  async #readMissing(
    job: Job,
    answer: Answer,
    cachedRun: CachedRun,
    request: Request,
    watch: Watch,
  ): Promise<void> {
    const { openModel } = answer;
    const frame = await this.#completeFrame(answer.frame, openModel, cachedRun, request);
    this.#answerWith(job, { ...answer, frame });
    if (!this.#needsEffect(frame)) return;
    job.isAblating = true;
    const results = await withEffect(frame, openModel, watch);
    this.#answerWith(job, { ...answer, frame: { ...frame, ...results } });
  }

  async #generate({ subjects, sampling }: Generation, job: Job): Promise<void> {
    for (const subject of subjects) {
      const answer = this.#answers.get(subject);
      // A baseline reads the text of its edited subject. A shown subject may become one meanwhile.
      const isBaseline = () => subject in (this.#request!.follows ?? {});
      if (!answer || isBaseline()) continue;
      if (!this.#isCurrent(subject) || !canGenerate(answer.frame)) continue;
      const { openModel } = answer;
      const { describe } = this.#models;
      const { signal } = job.controller;
      const fields = fieldsToRecord(describe, this.#request!, answer.frame);
      const frames = generateFrames(answer, this.#runs, { ...sampling, fields, signal });
      for await (const { frame, cachedRun } of frames) {
        // A view that opened meanwhile may need a further field, for which the text runs again afterwards.
        const request = recordedRequest(describe, this.#request!, cachedRun.fields);
        const fullFrame = await this.#completeFrame(frame, openModel, cachedRun, request);
        if (isBaseline()) break;
        const key = this.#keyOf(subject, frame.question);
        this.#answerWith(job, { key, frame: fullFrame, openModel }, true);
      }
    }
  }

  async #completeFrame(
    frame: Frame,
    openModel: OpenModel,
    cachedRun: CachedRun | undefined,
    request: Request,
  ): Promise<Frame> {
    const source = { openModel, run: cachedRun?.run };
    const fullFrame = await completeFrame(this.#models.describe, frame, source, request, {
      previousFrame: this.#answers.get(frame.subject)?.frame,
      headOf: (subjectFrame) => this.#headOf(subjectFrame, request),
    });
    const writing = needsWriting(fullFrame, request)
      ? { writes: await writeAfter(fullFrame, openModel, request.writes!) }
      : {};
    const lacks = cachedRun?.lacks ? { lacks: { ...cachedRun.lacks } } : {};
    return { ...fullFrame, ...writing, ...lacks };
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
    const nextSubject = task && subjectOf(task);
    const keptIds = new Set(
      isMemoryFull ? [...ids].filter((id) => !this.#models.bytesOf(id)) : ids,
    );
    if (nextSubject !== undefined && parseSubject(nextSubject)) keptIds.add(idOf(nextSubject));
    this.#runs.keepOnly(requestedSubjects);
    void this.#release(keptIds).catch(() => {});
  }
}
