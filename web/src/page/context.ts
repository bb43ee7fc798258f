/** The parts of the page that rooms, figures and controls can use. */
import { effect, type ReadonlySignal } from '@preact/signals-core';
import type { DiskFile } from 'sinkscope';
import { headShown, type Frame } from '../frame';
import type { Models } from '../run/models';
import type { LoadProgress } from '../run/progress';
import type { Theme } from '../plot/color';
import type { Queue } from '../run/queue';
import type { Request } from '../run/request';
import { questionOf, type PromptFile } from '../ask/question';
import type { Facts } from '../save/numbers';
import type { State } from '../ask/state';
import { idWithoutStep } from '../ask/steps';
import { withoutEdits } from '../ask/subject';
import type { Card } from '../ask/zoo';
import type { PointerTarget, ViewApi, View } from './view';

/** Exists once the engine runs and the zoo's index has loaded. */
export interface Engine {
  readonly fileVersion: ReadonlySignal<number>;
  readonly models: Models;
  readonly queue: Queue;
}

export interface Context {
  readonly state: ReadonlySignal<State>;
  readonly theme: ReadonlySignal<Theme>;
  readonly pointed: ReadonlySignal<PointerTarget>;
  /** Undefined until the engine runs. */
  readonly engine: ReadonlySignal<Engine | undefined>;
  readonly file: ReadonlySignal<PromptFile | undefined>;
  /** Start's frames that are saved with the page, and the bytes of models that have been fetched, by their ids. */
  readonly saved?: () => readonly Frame[];
  readonly fetched?: ReadonlySignal<Readonly<Record<string, LoadProgress>>>;
  /** @param isStep whether the browser's Back undoes the change, although no link may carry it */
  readonly set: (change: Partial<State>, isStep?: boolean) => void;
  readonly point: (pointed: PointerTarget) => void;
  readonly chooseFile: (file: PromptFile) => void;
  /** Opens the dialog for opening models, with `name` filled in. */
  readonly open: (name?: string) => void;
  readonly pickModels: () => void;
  /** Opens the dialog of a view's embed; `pinned` is the head that the figure shows, if the state names none. */
  readonly embed: (view: string, figure: Context, pinned: Partial<State>) => void;
  /** Opens a model from its files, for example one trained in the lab. */
  readonly openFiles: (files: readonly DiskFile[]) => void;
  /** Lets all checkpoints of a repository open without asking, since the reader steps through them. */
  readonly trust: (repository: string) => void;
  readonly fail: (error: unknown) => void;
  readonly notify: (notice: string) => void;
  /** Returns what a saved file states about the page's state, or about the state with a change. */
  readonly facts: (change?: Partial<State>) => Facts;
  readonly link: (change?: Partial<State>) => string;
}

/** Effects and listeners that end together with a part of the page. */
export class Scope {
  readonly #ends = new Set<() => void>();

  /** Creates a scope that ends with its parent at the latest. */
  constructor(parent?: Scope) {
    if (!parent) return;
    const end = () => this.end();
    parent.#ends.add(end);
    this.#ends.add(() => parent.#ends.delete(end));
  }

  effect(run: () => void): void {
    this.#ends.add(effect(run));
  }

  onEnd(end: () => void): void {
    this.#ends.add(end);
  }

  child(): Scope {
    return new Scope(this);
  }

  end(): void {
    const ends = [...this.#ends];
    this.#ends.clear();
    for (const end of ends) end();
  }
}

/** A room's request to the queue. By default it is for the state's subjects and head. */
interface RoomRequest extends Partial<
  Pick<
    Request,
    'subjects' | 'question' | 'head' | 'studies' | 'isFixed' | 'heads' | 'ahead' | 'writes'
  >
> {
  readonly views: readonly View[];
  readonly more?: readonly string[];
}

/** Requests frames from the queue, and again whenever a signal in the request changes. */
export function requestFrames(
  context: Context,
  scope: Scope,
  roomRequest: (state: State, engine: Engine) => RoomRequest,
): void {
  scope.effect(() => {
    const engine = context.engine.value;
    const state = context.state.value;
    if (!engine) return;
    const {
      views,
      more = [],
      subjects = state.shown,
      question = questionOf(state, engine.fileVersion.value),
      head: { layer, head } = state,
      ...request
    } = roomRequest(state, engine);
    const editedSubjects = views.some(({ needsBaseline }) => needsBaseline)
      ? subjects.filter((subject) => withoutEdits(subject) !== subject)
      : [];
    const editedFrames = editedSubjects.length ? framesOf(entriesOf(context, editedSubjects)) : [];
    // An edited run shows the head that its baseline shows.
    const heads = editedFrames.flatMap((frame) =>
      frame.base ? [[frame.subject, headShown(frame, views, { layer, head })] as const] : [],
    );
    const bases = editedSubjects.map(withoutEdits);
    const followers = editedSubjects
      .map((subject) => [withoutEdits(subject), subject] as const)
      .filter(([base]) => !subjects.includes(base));
    const reads = views.flatMap((view) => [...view.reads, ...(view.optional ?? [])]);
    engine.queue.ask({
      ...{ isFixed: false, heads: Object.fromEntries(heads), studies: [] },
      ...request,
      follows: Object.fromEntries(followers.reverse()),
      subjects: [...new Set([...subjects, ...bases])],
      question,
      reads: [...new Set([...reads, ...more])],
      headReads: [...new Set(views.flatMap(({ headReads = [] }) => headReads))],
      head: { layer, head },
      cells: state.cells,
      zoom: { query: state.zoomQuery, key: state.zoomKey },
    });
  });
}

export function viewApiOf(context: Context, scope: Scope): ViewApi {
  const { set, point, pointed, fail } = context;
  return {
    set,
    point,
    pointed,
    fail,
    effect: (run) => scope.effect(run),
    timelines: () => {
      const engine = context.engine.peek();
      return engine
        ? engine.models.timelines()
        : Promise.reject(new Error('The engine is still loading.'));
    },
    measure: (...args) => context.engine.peek()!.queue.measure(...args),
  };
}

/** `frame` is undefined until measured; `error` says why a measurement failed. */
export interface SubjectEntry {
  readonly subject: string;
  readonly frame?: Frame;
  /** Whether the frame answers an earlier question. */
  readonly isStale: boolean;
  readonly error?: string;
}

const framesWithBase = new WeakMap<Frame, Frame>();

/** Returns a frame with its baseline; the same two frames give the same object. */
function withBase(frame: Frame, base: Frame): Frame {
  const cached = framesWithBase.get(frame);
  if (cached?.base === base) return cached;
  const result = { ...frame, base };
  framesWithBase.set(frame, result);
  return result;
}

export function entriesOf(context: Context, subjects: readonly string[]): SubjectEntry[] {
  const entries = context.engine.value?.queue.entries.value;
  return subjects.map((subject) => {
    const { frame: subjectFrame, isStale = false, error } = entries?.get(subject) ?? {};
    const base = subjectFrame?.edits.length ? entries?.get(withoutEdits(subject)) : undefined;
    const frame =
      subjectFrame && base?.frame && !base.isStale
        ? withBase(subjectFrame, base.frame)
        : subjectFrame;
    return { subject, isStale, frame, error };
  });
}

/** After this many milliseconds a room shows its controls without its pictures. */
const CONTROLS_DELAY_MS = 3000;

/** Shows only a room's heading until its pictures are drawn or failed, so that the layout does not shift. */
export function hideUntilDrawn(
  root: HTMLElement,
  scope: Scope,
  entries: () => SubjectEntry[],
  isReady = () => true,
): void {
  root.classList.add('awaited');
  const appear = () => root.classList.remove('awaited', 'late');
  const timer = setTimeout(() => root.classList.add('late'), CONTROLS_DELAY_MS);
  scope.onEnd(() => clearTimeout(timer));
  scope.effect(() => {
    if (!isReady() || !entries().every(({ frame, error }) => frame ?? error)) return;
    clearTimeout(timer);
    requestAnimationFrame(appear);
  });
}

export const framesOf = (entries: readonly SubjectEntry[]): Frame[] =>
  entries.flatMap(({ frame }) => frame ?? []);

export function cardOf({ model }: Frame, context: Context): Card | undefined {
  const id = idWithoutStep(model.id);
  return context.engine.peek()?.models.zoo.cards.find((card) => card.id === id);
}
