/** Opens the models of subjects, and cuts their prompts. */
import { InputError } from '../ask/errors';
import type { Recording } from 'sinkscope';
import { isOutsideZoo, nameOfId } from '../ask/ids';
import { isRecordingId } from '../ask/recordings';
import { questionKey, promptsOf, type Prompts, type Question } from '../ask/question';
import { modelIdOf, parseSubject, type Subject } from '../ask/subject';
import type { OpenModel, Watch } from './opened';
import { NO_WEIGHTS } from './recordings';
import type { Models } from './models';

export interface Dependencies {
  readonly models: Models;
  readonly texts: (question: Question) => Promise<readonly string[]>;
  /** Returns whether a model may be opened now; if not, the page asks the reader, who agreeing calls `retry`. */
  readonly admit: (id: string, signal: AbortSignal) => Promise<boolean>;
  /** Waits for this queue's turn if several share an engine; the returned function ends the turn. */
  readonly turn?: () => Promise<() => void>;
  /** Gets the ids of the models that this queue still needs. Absent: the queue closes all other models. */
  readonly release?: (ids: ReadonlySet<string>) => Promise<void>;
}

export class Loader {
  readonly #dependencies: Dependencies;
  /** The prompts of the last question, which many studies share. */
  #lastPrompts:
    | {
        readonly key: string;
        readonly tokenizer: OpenModel['tokenizer'];
        readonly prompts: Promise<Prompts>;
      }
    | undefined;

  constructor(dependencies: Dependencies) {
    this.#dependencies = dependencies;
  }

  /** @throws InputError for a text that names no model, or a model that the reader has to open */
  async open(
    subject: string,
    watch: Watch,
  ): Promise<{ readonly parsedSubject: Subject; readonly openModel: OpenModel }> {
    const parsedSubject = parseSubject(subject);
    if (!parsedSubject) throw new InputError(`“${subject}” names no model.`);
    const id = modelIdOf(parsedSubject);
    if (isRecordingId(id)) throw new InputError(NO_WEIGHTS);
    if (isOutsideZoo(id) && !(await this.#dependencies.admit(parsedSubject.id, watch.signal)))
      throw new InputError(
        `${nameOfId(parsedSubject.id)} is not loaded yet. Open it to measure it.`,
      );
    watch.signal.throwIfAborted();
    return { parsedSubject, openModel: await this.#dependencies.models.get(id, watch) };
  }

  /** @throws InputError for a recording with an edit, or one that the reader has to open */
  async openRecording({ edits, ...model }: Subject, watch: Watch): Promise<Recording> {
    const id = modelIdOf(model);
    if (edits.length) throw new InputError(NO_WEIGHTS);
    if (!(await this.#dependencies.admit(id, watch.signal)))
      throw new InputError(`${nameOfId(id)} is not loaded yet. Open it to look at it.`);
    watch.signal.throwIfAborted();
    return this.#dependencies.models.recordings.get(id, watch);
  }

  /** Starts to open a model of the zoo that the queue will need soon. */
  prefetch(subject: string, watch: Watch): void {
    const { models } = this.#dependencies;
    const parsedSubject = parseSubject(subject);
    if (parsedSubject && !isOutsideZoo(parsedSubject.id) && models.canOpen(parsedSubject.id))
      models.get(modelIdOf(parsedSubject), watch).catch(() => {});
  }

  async prompts(
    { tokenizer, model }: OpenModel,
    question: Question,
    context: number,
  ): Promise<Prompts> {
    const { V } = model.architecture;
    const key = `${questionKey({ ...question, window: undefined })} ${context} ${V}`;
    if (this.#lastPrompts?.key !== key || this.#lastPrompts.tokenizer !== tokenizer) {
      const texts = await this.#dependencies.texts(question);
      const prompts = promptsOf(tokenizer, question, context, texts, V);
      this.#lastPrompts = { key, tokenizer, prompts };
    }
    return this.#lastPrompts.prompts;
  }
}
