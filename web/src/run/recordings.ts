/** Opens recordings, each checkpoint of a series a subject; their code is fetched with the first one. */
import { SinkscopeError, type Engine, type Options, type Recording } from 'sinkscope';
import type { Series } from 'sinkscope/internal';
import { fetchNamed, InputError } from '../ask/errors';
import { addressOfRecording, fileIdOf, nameOfRecording } from '../ask/recordings';
import { nearestStep, splitStep } from '../ask/steps';
import { loadingProgress, type Choice, type Watch } from './opened';
import { Shelf } from './shelf';

export const NO_WEIGHTS =
  'A recording has no weights: it shows what was measured, and nothing can be typed, generated or replaced.';

export class Recordings {
  readonly #engine: Engine;
  readonly #shelf = new Shelf<Recording>((recording) => recording.close());
  /** For each admitted recording its file on the reader's disk, or undefined if it is fetched from its address. */
  readonly #admittedFiles = new Map<string, Blob | undefined>();
  readonly #titles = new Map<string, string>();
  /** For each open file its series, or undefined for a recording. */
  readonly #series = new Map<string, Series | undefined>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  admit(id: string, file?: Blob): void {
    const fileId = fileIdOf(id);
    this.#admittedFiles.set(fileId, file ?? this.#admittedFiles.get(fileId));
  }

  forget(id: string): void {
    this.#admittedFiles.delete(fileIdOf(id));
    this.#series.delete(fileIdOf(id));
  }

  canOpen(id: string): boolean {
    return this.#admittedFiles.has(fileIdOf(id));
  }

  get choices(): Choice[] {
    return [...this.#admittedFiles.keys()].map((id) => ({
      id,
      title: this.#titles.get(id) ?? nameOfRecording(id),
      source: 'recording' as const,
    }));
  }

  get(id: string, watch: Watch): Promise<Recording> {
    return this.#shelf.get(id, watch, async (shared) => {
      const options = {
        signal: shared.signal,
        onProgress: loadingProgress(shared, nameOfRecording(id)),
      };
      const recording = await this.open(id, options);
      const { titleOf } = await import('./recorded_frame');
      this.#titles.set(fileIdOf(id), titleOf(recording, id, this.steps(id)));
      return recording;
    });
  }

  /** Opens a recording, or a checkpoint of a series: the nearest to the id's step, or else the last one. The caller closes it. */
  async open(id: string, options: Options = {}): Promise<Recording> {
    const { id: fileId, step } = splitStep(id) ?? { id };
    const source = this.#sourceOf(fileId);
    const openSource = () => this.#engine.openRecording(source, options);
    // An address is opened as a recording first, which shows the progress of its download.
    if (source instanceof URL && step === undefined && !this.#series.has(fileId))
      try {
        return await openSource();
      } catch (error) {
        if (!(error instanceof SinkscopeError) || error.where !== 'sinkscope.recording')
          throw error;
      }
    const series = await this.#seriesIn(fileId);
    if (!series && step !== undefined)
      throw new InputError(
        `${nameOfRecording(id)}: expected a series of checkpoints, found one recording.`,
      );
    if (!series) return openSource();
    const storedStep = nearestStep(series.steps, step ?? series.steps.at(-1)!);
    return this.#engine.openRecording(series.part(storedStep), options);
  }

  #sourceOf(fileId: string): Blob | URL {
    const source = this.#admittedFiles.get(fileId) ?? addressOfRecording(fileId);
    if (!source) throw new InputError(`${nameOfRecording(fileId)} is not open: choose its file.`);
    return source;
  }

  async #seriesIn(fileId: string): Promise<Series | undefined> {
    if (!this.#series.has(fileId)) {
      const source = this.#sourceOf(fileId);
      const isFile = source instanceof Blob;
      const file = isFile
        ? source
        : await (await fetchNamed(source, nameOfRecording(fileId))).blob();
      const { openSeries } = await import('./recorded_frame');
      this.#series.set(fileId, await openSeries(file));
    }
    return this.#series.get(fileId);
  }

  /** Returns the steps of an open series; empty for a recording. */
  steps(id: string): readonly number[] {
    return this.#series.get(fileIdOf(id))?.steps ?? [];
  }

  /** Returns the size that the server's headers state; undefined if they state none. */
  async size(id: string, signal: AbortSignal): Promise<number | undefined> {
    const response = await fetch(addressOfRecording(id)!, { method: 'HEAD', signal }).catch(() => {
      signal.throwIfAborted();
    });
    const length = response?.ok ? response.headers.get('content-length') : null;
    return length === null ? undefined : Number(length);
  }

  async bytes(id: string): Promise<Uint8Array<ArrayBuffer>> {
    const series = this.#series.get(fileIdOf(id));
    const step = splitStep(id)?.step ?? series?.steps.at(-1);
    const file = series
      ? series.part(nearestStep(series.steps, step!))
      : this.#admittedFiles.get(id);
    if (file) return new Uint8Array(await file.arrayBuffer());
    const response = await fetchNamed(addressOfRecording(id)!, nameOfRecording(id));
    return new Uint8Array(await response.arrayBuffer());
  }

  release(shownIds: ReadonlySet<string>): Promise<void> {
    return this.#shelf.keepOnly((id) => shownIds.has(id));
  }
}
