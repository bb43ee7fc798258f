/**
 * The one way from subjects to frames. Whoever shows something says what: subjects, a question, the
 * names of metrics and fields. The queue opens the models, runs one subject after the other, and gives
 * each its frame; what is there is not measured again.
 *
 * It owns what goes on: a new request lets a quick run end and stops a long one; models that nobody
 * shows are closed; an engine that is lost is started anew.
 */
import { batch, signal, type ReadonlySignal } from '@preact/signals-core';
import { SinkscopeError, unmask, type Progress, type Run, type UnmaskStep } from 'sinkscope';
import { allAverages, averages, recomputed } from './averages';
import { isBidirectional, selectedHead, type Frame, type Head } from '../frame';
import { InputError, roundedId, type Models, type OpenModel, type Watch } from './models';
import { probes, type Probe } from './measurements';
import { isOfHub, loadedWords, nameOfId, sentence } from '../open/words';
import { keyOf, promptsOf, type Prompts, type Question } from '../ask/question';
import { completed, contextOf, emptyFrame, isStreamed, namesFor, recordedFor } from './reading';
import { isOfDisk } from '../ask/state';
import { editsOf, modelIdOf, parseSubject, type Subject } from '../ask/subject';

/** A setting of which means alone are wanted: no run of it is kept. */
export interface Study {
  readonly subject: string;
  readonly question: Question;
  /** Names of metrics that are averaged. */
  readonly measures: readonly string[];
  /** Those of one model and turn are measured in one go; what is done is drawn. */
  readonly turn?: number;
}

export interface Request {
  readonly subjects: readonly string[];
  readonly question: Question;
  /** Names of metrics and fields, of describe; of probes. */
  readonly reads: readonly string[];
  /** The same of one head. */
  readonly headReads: readonly string[];
  readonly head: Head;
  /** Heads of single subjects, in place of `head`. */
  readonly heads?: Readonly<Record<string, Head>>;
  /** Rounded weights do until the exact ones are there. */
  readonly isHasty?: boolean;
  /** Measured behind the subjects, one after the other. */
  readonly studies?: readonly Study[];
}

/** What takes time right now. */
export interface Work {
  /** Nobody need be told of it where that is empty. */
  readonly text: string;
  /** 0 to 1; NaN while nobody knows. */
  readonly share: number;
  readonly since: number;
}

/** What is known of a subject. */
export interface Entry {
  readonly frame?: Frame;
  /** Whether the frame answers another question than is asked now. */
  readonly isStale?: boolean;
  readonly error?: string;
}

/** What the queue reaches of the page. */
export interface Around {
  readonly models: Models;
  /** Prompts of the inputs that are made of texts. */
  readonly texts: (question: Question) => Promise<readonly string[]>;
  /** Whether a model may be opened now; if not, the reader is asked, and `retry` follows. */
  readonly admit: (id: string, signal: AbortSignal) => Promise<boolean>;
}

/** A run that takes longer is stopped by the next request. */
const QUICK_MS = 300;
/** What replaces something waits so long for what stands beside it: a picture is drawn once. */
const TOGETHER_MS = 120;
/** Weights of models opened by a plan that stay in memory together; beyond it, one at a time. */
const KEPT_BYTES = 2 ** 30;
/** Studies whose means are kept: a slider that goes back finds them. */
const KEPT_STUDIES = 1000;

/** Tokens that a run that goes on writing is given room for at once. */
const ROOM = 64;

/** What is kept of a subject beside its entry. */
interface Held {
  readonly key: string;
  /** Absent where it made room for the next: a frame has its own numbers. */
  readonly run?: Run | undefined;
  /** Tokens that it has room for. */
  readonly capacity: number;
  readonly opened: OpenModel;
  /** What it recorded. */
  readonly fields: ReadonlySet<string>;
}

/** One that can be read. */
type Reading = Held & { readonly run: Run };
const canBeRead = (held: Held | undefined): held is Reading => held?.run !== undefined;

const idsOf = (tokens: Frame['tokens']) => tokens.map(({ id }) => id);

/** What is under way: a subject, or a study. */
interface Job {
  readonly abort: AbortController;
  readonly what: string | Study;
  readonly since: number;
  /** What is measured beside the run itself. */
  probe?: Probe;
}

function studyKey({ subject, question, measures }: Study): string {
  return `${subject} ${keyOf(question)} ${measures.join()}`;
}

/** What a run holds beside the model, and what it would hold if it kept all. */
async function bytesOf(
  { model }: OpenModel,
  { tokens: { length } }: Prompts,
  edits: Frame['edits'],
) {
  const options = { fields: ['loss'], edits, capacity: length };
  const [held, all] = await Promise.all(
    [true, false].map((streaming) => model.runBytes(length, { ...options, streaming })),
  );
  return { held: held!, all: all! };
}

export class Queue {
  readonly #around: Around;
  #entries: ReadonlyMap<string, Entry> = new Map();
  /** The same, as the page was told last. */
  readonly #told = signal(this.#entries);
  #telling: ReturnType<typeof setTimeout> | undefined;
  readonly #work = signal<Work | undefined>(undefined);
  readonly #held = new Map<string, Held>();
  readonly #studied = signal<ReadonlyMap<string, Entry>>(new Map());
  /** The prompts that were cut last: many studies have the same. */
  #cut:
    | {
        readonly key: string;
        readonly of: OpenModel['tokenizer'];
        readonly prompts: Promise<Prompts>;
      }
    | undefined;
  /** Why a subject has no answer to a question. */
  readonly #failed = new Map<string, string>();
  /** Questions that were under way when the engine was lost. */
  readonly #lost = new Set<string>();
  #request: Request | undefined;
  #job: Job | undefined;
  #isLooping = false;
  readonly #generation = signal<AbortController | undefined>(undefined);

  constructor(around: Around) {
    this.#around = around;
  }

  /** By the texts of the subjects that are asked for. */
  get entries(): ReadonlySignal<ReadonlyMap<string, Entry>> {
    return this.#told;
  }

  /** What is known of a study; nothing before its turn has come. */
  studied(study: Study): Entry | undefined {
    return this.#studied.value.get(studyKey(study));
  }

  /** Undefined where nothing is going on. */
  get work(): ReadonlySignal<Work | undefined> {
    return this.#work;
  }

  get isGenerating(): boolean {
    return this.#generation.value !== undefined;
  }

  ask(request: Request): void {
    const before = this.#request;
    this.#request = request;
    const isNew = before && keyOf(before.question) !== keyOf(request.question);
    if (isNew) this.stopGenerating();
    // What failed of a run that is there was something that one view reads.
    if (before?.reads.join() !== request.reads.join())
      for (const subject of request.subjects)
        if (this.#held.get(subject)?.key === this.#key(subject))
          this.#failed.delete(this.#key(subject));
    const job = this.#job;
    if (job && !this.#isWanted(job, Boolean(isNew)))
      job.abort.abort(new DOMException('', 'AbortError'));
    this.#mark();
    void this.#loop();
  }

  /** Whether what is under way is still asked for, or done so soon that its end is waited for. */
  #isWanted({ what, since, probe }: Job, isNew: boolean): boolean {
    const { subjects, reads, studies = [] } = this.#request!;
    if (typeof what === 'object')
      return studies.some((study) => studyKey(study) === studyKey(what));
    if (probe && !probe.names.some((name) => reads.includes(name))) return false;
    return subjects.includes(what) && !(isNew && performance.now() - since > QUICK_MS);
  }

  /** What failed may go now: a model was opened, or the reader wants to try again. */
  retry(): void {
    this.#failed.clear();
    this.#lost.clear();
    // A room may have asked for nothing yet.
    if (!this.#request) return;
    this.#studied.value = new Map([...this.#studied.peek()].filter(([, { frame }]) => frame));
    this.#mark();
    void this.#loop();
  }

  /** The reader had enough: what is asked for and not there stays so until something else is asked. */
  stop(): void {
    this.stopGenerating();
    const request = this.#request;
    if (!request) return;
    for (const subject of request.subjects)
      if (!this.#isDone(subject)) this.#failed.set(this.#key(subject), 'Stopped.');
    const left = (request.studies ?? []).map(studyKey);
    const studied = this.#studied.peek();
    this.#studied.value = new Map([
      ...studied,
      ...left
        .filter((key) => !studied.has(key))
        .map((key): [string, Entry] => [key, { error: 'Stopped.' }]),
    ]);
    this.#job?.abort.abort(new DOMException('', 'AbortError'));
    this.#mark();
  }

  /** Of one subject: the question and nothing of the look. */
  #key(subject: string): string {
    return `${subject} ${keyOf(this.#request!.question)}`;
  }

  #set(subject: string, change: Entry): void {
    const entries = new Map(this.#entries);
    entries.set(subject, { ...entries.get(subject), ...change });
    this.#entries = entries;
    this.#tell();
  }

  /** Tells the page at once, but for what is about to change again. */
  #tell(): void {
    const told = this.#told.peek();
    const isPatient =
      this.#next !== undefined &&
      [...told.keys()].join() === [...this.#entries.keys()].join() &&
      [...this.#entries].every(([subject, { frame, error }]) => {
        const old = told.get(subject)!;
        return old.error === error && (old.frame || !frame);
      });
    const tell = () => {
      clearTimeout(this.#telling);
      this.#telling = undefined;
      this.#told.value = this.#entries;
    };
    if (isPatient) this.#telling ??= setTimeout(tell, TOGETHER_MS);
    else tell();
  }

  /** Entries of what is asked for, in its order; those of other questions are marked. */
  #mark(): void {
    const before = this.#entries;
    const { subjects } = this.#request!;
    const all = subjects.map((subject): [string, Entry] => {
      const { frame } = before.get(subject) ?? {};
      const isStale = frame && this.#held.get(subject)?.key !== this.#key(subject);
      const error = this.#failed.get(this.#key(subject));
      return [subject, { ...(frame ? { frame } : {}), isStale, error }];
    });
    const isSame =
      all.length === before.size &&
      all.every(([subject, entry], i) => {
        const old = before.get(subject);
        return (
          [...before.keys()][i] === subject &&
          old?.frame === entry.frame &&
          Boolean(old?.isStale) === Boolean(entry.isStale) &&
          old?.error === entry.error
        );
      });
    if (isSame) return;
    this.#entries = new Map(all);
    this.#tell();
  }

  #isDone(subject: string): boolean {
    const frame = this.#entries.get(subject)?.frame;
    const held = this.#held.get(subject);
    if (!frame || held?.key !== this.#key(subject) || this.#isToBeExact(frame, held)) return false;
    const { headReads } = this.#request!;
    const at = this.#headOf(frame, this.#request!);
    const isHead = frame.head?.layer === at.layer && frame.head.head === at.head;
    return (
      namesFor(this.#around.models.describe, frame, this.#request!.reads).every(
        (name) => name in frame.tensors,
      ) &&
      !this.#probeFor(frame) &&
      (!headReads.length || (isHead && headReads.every((name) => name in frame.head!.tensors)))
    );
  }

  /** Which head is looked at. */
  #headOf(frame: Frame, { head, heads }: Request): Head {
    return selectedHead(frame, heads?.[frame.subject] ?? head);
  }

  /** Whether better weights have come than it was run with. What was generated is not thrown away. */
  #isToBeExact({ generated }: Frame, { opened }: Held): boolean {
    return Boolean(
      opened.isRounded && !generated && !this.#generation.peek() && this.#isThere(opened.id),
    );
  }

  #isThere(id: string): boolean {
    return !this.#request!.isHasty || this.#around.models.isOpen(id);
  }

  /** The exact weights, behind what is shown. */
  async #refine(): Promise<void> {
    const ids = [...this.#held.values()].flatMap(({ opened }) =>
      opened.isRounded ? opened.id : [],
    );
    if (!ids.length) return;
    const work = { text: '', share: NaN, since: performance.now() };
    this.#work.value = work;
    const { signal } = new AbortController();
    const silent = { signal, onProgress: () => {} };
    const all = await Promise.allSettled(ids.map((id) => this.#around.models.get(id, silent)));
    if (this.#work.peek() === work) this.#work.value = undefined;
    if (all.some(({ status }) => status === 'fulfilled')) await this.#loop();
  }

  /** The first that is asked for and not there; while tokens are added, none. */
  #probeFor(frame: Frame): Probe | undefined {
    const isMissing = (name: string) =>
      this.#request!.reads.includes(name) && !(name in frame.tensors);
    if (this.#generation.peek()) return undefined;
    return probes.find(({ names, fits }) => fits(frame) && names.some(isMissing));
  }

  get #next(): string | Study | undefined {
    const { subjects = [], studies = [] } = this.#request ?? {};
    return (
      subjects.find((subject) => !this.#isDone(subject) && !this.#failed.has(this.#key(subject))) ??
      studies.find((study) => !this.#studied.peek().has(studyKey(study)))
    );
  }

  async #loop(): Promise<void> {
    if (this.#isLooping) return;
    this.#isLooping = true;
    this.#forget();
    for (let what = this.#next; what !== undefined; what = this.#next) {
      const abort = new AbortController();
      this.#job = { abort, what, since: performance.now() };
      if (!this.#work.peek()?.text)
        this.#work.value = { text: 'Running', share: NaN, since: performance.now() };
      const key = typeof what === 'object' ? studyKey(what) : this.#key(what);
      try {
        if (typeof what === 'object') await this.#study(what, abort.signal);
        else await this.#answer(what, key, this.#request!, abort.signal);
        this.#failed.delete(key);
      } catch (error) {
        const isStopped = error instanceof DOMException && error.name === 'AbortError';
        if (!isStopped && !abort.signal.aborted) this.#fail(what, key, error);
        else if (isStopped && !abort.signal.aborted)
          await new Promise((done) => setTimeout(done, 30));
      }
      this.#job = undefined;
      this.#forget();
    }
    this.#isLooping = false;
    if (this.#generation.peek()) return;
    this.#work.value = undefined;
    await this.#refine();
  }

  #fail(what: string | Study, key: string, error: unknown): void {
    // The next call starts the engine anew and opens what was open: once more, then it is told.
    const isLost = error instanceof SinkscopeError && error.code === 'lost';
    if (isLost && !this.#lost.has(key)) {
      this.#lost.add(key);
      return;
    }
    if (typeof what === 'object') {
      this.#note([[key, { error: sentence(error) }]]);
      return;
    }
    this.#failed.set(key, sentence(error));
    this.#mark();
    if (!this.#entries.has(what)) return;
    this.#set(what, { error: this.#failed.get(key)! });
  }

  #note(found: readonly (readonly [string, Entry])[]): void {
    this.#studied.value = new Map([...this.#studied.peek(), ...found].slice(-KEPT_STUDIES));
  }

  #watch(signal: AbortSignal): Watch {
    return {
      signal,
      onProgress: (what, done, total, more?: Progress) => {
        if (signal.aborted) return;
        const isRead = more?.stage === 'read';
        const text = isRead ? `${what}: ${loadedWords({ ...more, done, total })}` : what;
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
    const known = this.#held.get(subject);
    const entry = this.#entries.get(subject);
    // What a view asks for beside what is there is read from the run, which is still open.
    const isRecorded =
      canBeRead(known) &&
      recordedFor(this.#around.models.describe, request).every((name) => known.fields.has(name));
    const isGood = isRecorded && entry?.frame && !this.#isToBeExact(entry.frame, known);
    if (known?.key === key && entry?.frame && isGood) {
      const frame = await this.#complete(entry.frame, known, request);
      if (this.#held.get(subject) !== known) return;
      this.#set(subject, { frame, isStale: false, error: undefined });
      const probe = this.#probeFor(frame);
      const more = probe && (await this.#probe(probe, frame, known, signal));
      // Tokens may have been added meanwhile.
      if (more && this.#entries.get(subject)?.frame === frame)
        this.#set(subject, { frame: { ...frame, ...more } });
      return;
    }
    const watch = this.#watch(signal);
    const { parsed, opened } = await this.#open(subject, request, watch);
    // The others are fetched while this one runs.
    for (const other of request.subjects) this.#begin(other, request);
    signal.throwIfAborted();
    const { frame, held } = await this.#run(parsed, subject, key, opened, request, watch);
    const { run } = held;
    try {
      const whole = await this.#complete(frame, held, request);
      signal.throwIfAborted();
      this.#held.set(subject, held);
      batch(() => {
        this.#set(subject, { frame: whole, isStale: false, error: undefined });
        this.#mark();
      });
    } catch (error) {
      await run.close().catch(() => {});
      throw error;
    }
  }

  /** Closes the run that another one replaces: a large model has no memory for both. */
  #makeRoom(subject: string): void {
    const held = this.#held.get(subject);
    if (!held?.run) return;
    this.#held.set(subject, { ...held, run: undefined });
    void held.run.close().catch(() => {});
  }

  /** With the names that are asked for and not there. */
  #complete(frame: Frame, held: Reading, request: Request): Promise<Frame> {
    const before = this.#entries.get(frame.subject)?.frame;
    const headOf = (one: Frame) => this.#headOf(one, request);
    return completed(this.#around.models.describe, frame, held, request, {
      ...(before ? { before } : {}),
      headOf,
    });
  }

  #get(id: string, { isHasty, question }: Request, watch: Watch): Promise<OpenModel> {
    const { models } = this.#around;
    return isHasty && question.n === 1 ? models.getQuick(id, watch) : models.get(id, watch);
  }

  async #open(
    subject: string,
    request: Request,
    watch: Watch,
  ): Promise<{ parsed: Subject; opened: OpenModel }> {
    const parsed = parseSubject(subject);
    if (!parsed) throw new InputError(`“${subject}” names no model.`);
    const id = modelIdOf(parsed);
    if ((isOfHub(id) || isOfDisk(id)) && !(await this.#around.admit(parsed.id, watch.signal)))
      throw new InputError(`${nameOfId(parsed.id)} is not loaded yet. Open it to measure it.`);
    watch.signal.throwIfAborted();
    const opened = await this.#get(id, request, watch);
    watch.signal.throwIfAborted();
    return { parsed, opened };
  }

  /** Studies of the same model that ask the same and are not there, this one first: one sweep. */
  #together(study: Study): Study[] {
    const like = ({ subject, question, measures, turn }: Study) =>
      [modelIdOf(parseSubject(subject)!), keyOf(question), measures.join(), turn].join();
    const left = this.#request!.studies!.filter((one) => !this.#studied.peek().has(studyKey(one)));
    const same = left.filter((one) => parseSubject(one.subject) && like(one) === like(study));
    return study.question.window ? same.slice(0, 1) : same;
  }

  /** Measures one setting, and those that go with it. */
  async #study(study: Study, signal: AbortSignal): Promise<void> {
    const all = parseSubject(study.subject) ? this.#together(study) : [study];
    try {
      await this.#sweep(all, signal);
    } catch (error) {
      const isLost = error instanceof SinkscopeError && error.code === 'lost';
      if (all.length < 2 || signal.aborted || isLost) throw error;
      // It is told of the one that is refused, and the others are measured.
      await this.#sweep([study], signal);
    }
  }

  /** @param studies of one model, which ask the same */
  async #sweep(studies: readonly Study[], signal: AbortSignal): Promise<void> {
    const [study] = studies as [Study];
    const began = performance.now();
    const { describe } = this.#around.models;
    const all = this.#request!.studies!;
    const before = this.#watch(signal);
    const { opened } = await this.#open(
      study.subject,
      { ...this.#request!, isHasty: false },
      before,
    );
    const { architecture } = opened.model;
    const { eps, window, T } = study.question;
    const asked = studies.map((one) => {
      const parsed = parseSubject(one.subject)!;
      const edits = editsOf(parsed, describe);
      const ends = contextOf(architecture, edits, window);
      const streaming = isStreamed(describe, architecture, edits, one.measures, Math.min(T, ends));
      return { one, parsed, edits, ends, streaming };
    });
    // What goes on behind the context has other prompts, and what is forgotten is no beginning of another run.
    const [{ ends, streaming }] = asked as [(typeof asked)[number]];
    const swept = asked.filter((one) => one.ends === ends && one.streaming === streaming);
    const prompts = await this.#prompts(opened, study.question, ends);
    const place = all.filter((one) => this.#studied.peek().has(studyKey(one))).length;
    const watch: Watch = {
      signal,
      onProgress: (_, done, total) =>
        before.onProgress(
          `${opened.title}, ${place + 1} of ${all.length} settings`,
          place + (swept.length * done) / total,
          all.length,
        ),
    };
    const cases = swept.map(({ edits }) => edits);
    const averaged = window
      ? [await recomputed(opened, prompts, window, { edits: cases[0]!, eps }, watch)]
      : await averages(opened, prompts, cases, { eps, metrics: study.measures, streaming }, watch);
    const bytes = streaming
      ? await Promise.all(cases.map((edits) => bytesOf(opened, prompts, edits)))
      : [];
    signal.throwIfAborted();
    const milliseconds = performance.now() - began;
    const made = await Promise.all(
      swept.map(({ one, parsed }) =>
        emptyFrame(describe, parsed, one.subject, opened, one.question, prompts),
      ),
    );
    this.#note(
      swept.map(({ one }, i) => [
        studyKey(one),
        { frame: { ...made[i]!, ...averaged[i]!, milliseconds, bytes: bytes[i] } },
      ]),
    );
  }

  async #prompts({ tokenizer }: OpenModel, question: Question, context: number): Promise<Prompts> {
    const key = `${keyOf({ ...question, window: undefined })} ${context}`;
    if (this.#cut?.key !== key || this.#cut.of !== tokenizer) {
      const texts = await this.#around.texts(question);
      this.#cut = { key, of: tokenizer, prompts: promptsOf(tokenizer, question, context, texts) };
    }
    return this.#cut.prompts;
  }

  /** Begins to open a model of the zoo that will be needed soon. */
  #begin(subject: string, request: Request): void {
    const parsed = parseSubject(subject);
    if (
      !parsed ||
      isOfHub(parsed.id) ||
      isOfDisk(parsed.id) ||
      !this.#around.models.knows(parsed.id)
    )
      return;
    const watch = this.#watch(new AbortController().signal);
    this.#get(modelIdOf(parsed), request, watch).catch(() => {});
  }

  async #run(
    subject: Subject,
    text: string,
    key: string,
    opened: OpenModel,
    request: Request,
    watch: Watch,
  ): Promise<{ frame: Frame; held: Reading }> {
    const began = performance.now();
    const { question } = request;
    const { architecture } = opened.model;
    const edits = editsOf(subject, this.#around.models.describe);
    const context = contextOf(architecture, edits);
    const prompts = await this.#prompts(opened, question, context);
    if (canBeRead(this.#held.get(text))) this.stopGenerating();
    this.#makeRoom(text);
    const averaged =
      prompts.ids.length > 1
        ? await allAverages(
            this.#around.models.describe,
            opened,
            prompts,
            { edits, eps: question.eps },
            watch,
          )
        : {};
    const T = prompts.tokens.length;
    const fields = recordedFor(this.#around.models.describe, request);
    // Of what was quick nobody need hear how far it is: while a text is typed, each message counts.
    const before = this.#entries.get(text)?.frame;
    const isQuick = before && before.milliseconds < QUICK_MS && T < 2 * before.T;
    const onProgress = ({ done, total }: Progress) => watch.onProgress('Running', done, total);
    // An edit may name a token that this text is too short for.
    const capacity = edits.length ? Math.min(context, T + ROOM) : T;
    const run = await opened.model.run(prompts.ids[0]!, {
      edits,
      fields,
      capacity,
      signal: watch.signal,
      ...(isQuick ? {} : { onProgress }),
    });
    const frame = await emptyFrame(
      this.#around.models.describe,
      subject,
      text,
      opened,
      question,
      prompts,
    );
    const milliseconds = performance.now() - began;
    const held = { key, run, capacity, opened, fields: new Set(fields) };
    return { frame: { ...frame, ...averaged, milliseconds }, held };
  }

  async #probe(
    probe: Probe,
    { tensors, spread, title, question, edits, generated, tokens }: Frame,
    { opened }: Held,
    signal: AbortSignal,
  ): Promise<Pick<Frame, 'tensors' | 'spread'>> {
    this.#job!.probe = probe;
    const { onProgress } = this.#watch(signal);
    const context = contextOf(opened.model.architecture, edits);
    const prompts = generated
      ? [idsOf(tokens)]
      : (await this.#prompts(opened, question, context)).ids;
    const found = await probe.measure({
      opened,
      ids: prompts,
      edits,
      signal,
      onProgress: (done, total) =>
        onProgress(`${title}, ${done} of ${total} ${probe.steps}`, done, total),
    });
    signal.throwIfAborted();
    return { tensors: { ...tensors, ...found.tensors }, spread: { ...spread, ...found.spread } };
  }

  /** Closes runs and models that are not asked for; what fills the memory as soon as it is measured. */
  #forget(): void {
    const { models } = this.#around;
    const wanted = new Set(this.#request?.subjects);
    const studied = (this.#request?.studies ?? []).map(({ subject }) => subject);
    const idOf = (subject: string) => modelIdOf(parseSubject(subject)!);
    const ids = new Set([...wanted, ...studied].filter(parseSubject).map(idOf));
    const sizes = [...ids].map((id) => models.bytesOf(id) ?? 0);
    const isFull = sizes.reduce((a, b) => a + b, 0) > KEPT_BYTES && ids.size > 1;
    const what = this.#next;
    const next = typeof what === 'object' ? what.subject : what;
    const kept = new Set(isFull ? [...ids].filter((id) => !models.bytesOf(id)) : ids);
    if (next !== undefined && parseSubject(next)) kept.add(idOf(next));
    for (const id of ids)
      if (this.#isRounded(id) || (this.#request?.isHasty && !models.isOpen(id)))
        kept.add(roundedId(id));
    for (const [subject, { run }] of this.#held) {
      if (wanted.has(subject)) continue;
      this.#held.delete(subject);
      void run?.close().catch(() => {});
    }
    void models.release(kept).catch(() => {});
  }

  #isRounded(id: string): boolean {
    return [...this.#held.values()].some(({ opened }) => opened.isRounded && opened.id === id);
  }

  stopGenerating(): void {
    this.#generation.peek()?.abort();
    this.#generation.value = undefined;
  }

  /** Adds tokens to what stands, one by one; each gives a frame. */
  async generate(
    subjects: readonly string[],
    options: {
      readonly count: number;
      readonly temperature: number;
      readonly topK: number;
      readonly seed: number;
    },
  ): Promise<void> {
    const job = new AbortController();
    this.#generation.value = job;
    this.#work.value = { text: 'Generating', share: NaN, since: performance.now() };
    try {
      for (const subject of subjects) await this.#continue(subject, options, job.signal);
    } finally {
      if (this.#generation.peek() === job) this.#generation.value = undefined;
      if (!this.#isLooping) this.#work.value = undefined;
      // What takes runs of its own waited for the last token.
      void this.#loop();
    }
  }

  async #continue(
    subject: string,
    { count, ...options }: Parameters<Queue['generate']>[1],
    signal: AbortSignal,
  ): Promise<void> {
    const held = this.#held.get(subject);
    const entry = this.#entries.get(subject);
    if (!held || !entry?.frame || isBidirectional(entry.frame) || signal.aborted) return;
    const { context } = held.opened.model.architecture;
    const most = Math.min(count, context - entry.frame.T);
    try {
      if (most < 1) throw new InputError(`${entry.frame.title} has no room for more tokens.`);
      const reading = await this.#extensible(entry.frame, held, most, signal);
      if (!reading) return;
      for await (const { token: id } of reading.run.generate({ ...options, count: most, signal })) {
        const { frame } = this.#entries.get(subject)!;
        if (!frame || signal.aborted) return;
        const token = {
          id,
          text: held.opened.tokenizer.piece(id),
          start: 0,
          end: 0,
          special: false,
        };
        const { head: _, ...rest } = frame;
        const longer: Frame = {
          ...rest,
          tokens: [...frame.tokens, token],
          T: frame.T + 1,
          ids: [[...frame.tokens, token].map(({ id }) => id)],
          generated: frame.generated + 1,
          sequences: 1,
          tensors: {},
          spread: {},
          perPrompt: {},
          next: [],
        };
        const whole = await this.#complete(longer, reading, this.#request!);
        if (signal.aborted) return;
        this.#set(subject, { frame: whole });
      }
    } catch (error) {
      if (!signal.aborted) this.#set(subject, { error: sentence(error) });
    }
  }

  /**
   * The run of what is shown, with room for so many more tokens: where it has none it is made anew, to the same
   * bits. Undefined where another question was answered meanwhile.
   */
  async #extensible(
    { subject, tokens, T }: Frame,
    held: Held,
    more: number,
    signal: AbortSignal,
  ): Promise<Reading | undefined> {
    // A token that was drawn when it was stopped is not shown.
    const isThere = canBeRead(held) && held.run.tokens.length === T;
    if (isThere && T + more <= held.capacity) return held;
    this.#makeRoom(subject);
    const { model } = held.opened;
    const capacity = Math.min(model.architecture.context, T + Math.max(more, ROOM));
    const run = await model.run(idsOf(tokens), {
      edits: editsOf(parseSubject(subject)!, this.#around.models.describe),
      fields: [...held.fields],
      capacity,
      signal,
    });
    const now = this.#held.get(subject);
    if (now?.key !== held.key || now.run) {
      void run.close().catch(() => {});
      return undefined;
    }
    const longer = { ...held, run, capacity };
    this.#held.set(subject, longer);
    return longer;
  }

  /** Fills in what is hidden, for the view that shows the steps. */
  async unmask(
    frame: Frame,
    tokens: readonly number[],
    steps: number,
    signal: AbortSignal,
    onStep: (step: UnmaskStep, index: number, opened: OpenModel) => void,
  ): Promise<void> {
    const held = this.#held.get(frame.subject);
    if (!held) throw new InputError('The model is no longer open.');
    const { opened } = held;
    await unmask(opened.model, tokens, {
      steps,
      // A text holds none of these.
      never: opened.tokenizer.special,
      edits: frame.edits,
      signal,
      onStep: (step, index) => onStep(step, index, opened),
    });
  }
}
