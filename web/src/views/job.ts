/** Runs long measurements of a view. A button starts and stops the job, and the view draws its partial results. */
import { html, nothing, render } from 'lit';
import type { State } from '../ask/state';
import type { Frame } from '../frame';
import { elapsed } from '../page/elapsed';
import { addElement, setText, type DrawOptions, type ViewApi } from '../page/view';

export type Job = { isRunning(): boolean; readonly toggle: () => void; readonly draw: () => void };

interface JobDefinition<T> {
  /** The result of each frame, by the frame's tokens. The view's sentence and saved numbers read it. */
  readonly results: WeakMap<Frame['tokens'], T>;
  /** The settings that a result depends on; changing one discards the result. */
  readonly settings: readonly (keyof State)[];
  /** Computes the result and reports partial ones; the signal stops the computation. */
  readonly run: (
    frame: Frame,
    state: State,
    signal: AbortSignal,
    onResult: (result: T) => void,
  ) => Promise<void>;
  readonly draw: (frame: Frame, options: DrawOptions, job: Job) => void;
}

/** Adds the elements of a job to a view: a button with settings and progress, and a line for the result in words. */
export function createJobParts(root: HTMLElement) {
  const controls = addElement(root, 'unmask-controls');
  const captionElement = addElement(root, 'caption', 'p');
  captionElement.setAttribute('role', 'status');
  const showJob = (
    { isRunning, toggle }: Job,
    label: string,
    sentence: string,
    { settings = nothing, progress = nothing }: { settings?: unknown; progress?: unknown },
  ) => {
    render(
      html`<button type="button" class="primary" @click=${toggle}>
          ${isRunning() ? 'Stop' : label}
        </button>
        ${settings}
        ${isRunning() ? html`<span>${progress}${elapsed(String(progress))}</span>` : nothing}`,
      controls,
    );
    // Screen readers would read a partial sentence out at every step.
    setText(captionElement, isRunning() ? '' : sentence);
  };
  return { controls, showJob };
}

/** Returns the view's draw function, which also stops the job when the frame or a setting changes. */
export function createJobDraw<T>(
  root: HTMLElement,
  { fail }: Pick<ViewApi, 'fail'>,
  { results, settings, run, draw }: JobDefinition<T>,
): (frame: Frame, options: DrawOptions) => void {
  let lastArguments: readonly [Frame, DrawOptions] | undefined;
  let lastSettings: string | undefined;
  let currentRun: AbortController | undefined;
  const stop = () => {
    currentRun?.abort();
    currentRun = undefined;
    delete root.dataset.busy;
  };
  const start = async () => {
    const [frame, { state }] = lastArguments!;
    const controller = (currentRun = new AbortController());
    root.dataset.busy = '';
    results.delete(frame.tokens);
    job.draw();
    try {
      await run(frame, state, controller.signal, (result) => {
        if (controller.signal.aborted) return;
        results.set(frame.tokens, result);
        job.draw();
      });
    } catch (error) {
      if (!controller.signal.aborted) fail(error);
    }
    if (currentRun !== controller) return;
    stop();
    job.draw();
  };
  const job: Job = {
    isRunning: () => currentRun !== undefined,
    toggle: () => {
      if (!currentRun) return void start();
      stop();
      job.draw();
    },
    draw: () => draw(...lastArguments!, job),
  };
  return (frame, options) => {
    const settingsKey = settings.map((name) => options.state[name]).join(' ');
    const isChanged = lastSettings !== undefined && settingsKey !== lastSettings;
    if (isChanged || frame.tokens !== lastArguments?.[0].tokens) stop();
    if (isChanged) results.delete(frame.tokens);
    lastSettings = settingsKey;
    lastArguments = [frame, options];
    job.draw();
  };
}
