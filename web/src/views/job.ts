/** A job that a view's button starts and stops, one at a time, with partial results that are drawn. */
import { html, nothing, render } from 'lit';
import type { State } from '../ask/state';
import type { Frame } from '../frame';
import { addElement, setText, type DrawOptions, type ViewApi } from '../page/view';

export interface Job {
  isRunning(): boolean;
  /** Stops the running job, or restarts it. */
  readonly toggle: () => void;
  /** Redraws the last result. */
  readonly draw: () => void;
}

interface Work<T> {
  /** The result for each frame, by the frame's tokens, which the view's sentence and files also read. */
  readonly made: WeakMap<Frame['tokens'], T>;
  /** The settings on which a result depends, so that a change of one makes the result invalid. */
  readonly settings: readonly (keyof State)[];
  /** Computes the result and reports its parts; the signal ends it. */
  readonly run: (
    frame: Frame,
    state: State,
    signal: AbortSignal,
    onMade: (one: T) => void,
  ) => Promise<void>;
  readonly draw: (frame: Frame, options: DrawOptions, job: Job) => void;
}

/** Adds the places of a job to a view: button, settings and progress, and the finding below. */
export function jobParts(root: HTMLElement) {
  const controls = addElement(root, 'unmask-controls');
  const words = addElement(root, 'caption', 'p');
  words.setAttribute('role', 'status');
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
        ${isRunning() && progress !== nothing ? html`<span>${progress}</span>` : nothing}`,
      controls,
    );
    // Shows no sentence while the job runs, since screen readers would read it out at every step.
    setText(words, isRunning() ? '' : sentence);
  };
  return { controls, showJob };
}

/** Returns a function that draws a frame of the view, and stops a job of another frame. */
export function createJob<T>(
  root: HTMLElement,
  { fail }: Pick<ViewApi, 'fail'>,
  { made, settings, run, draw }: Work<T>,
): (frame: Frame, options: DrawOptions) => void {
  let lastDrawn: readonly [Frame, DrawOptions] | undefined;
  let setting: string | undefined;
  let running: AbortController | undefined;
  const stop = () => {
    running?.abort();
    running = undefined;
    delete root.dataset.busy;
  };
  const start = async () => {
    const [frame, { state }] = lastDrawn!;
    const controller = (running = new AbortController());
    root.dataset.busy = '';
    made.delete(frame.tokens);
    job.draw();
    try {
      await run(frame, state, controller.signal, (one) => {
        if (controller.signal.aborted) return;
        made.set(frame.tokens, one);
        job.draw();
      });
    } catch (error) {
      if (!controller.signal.aborted) fail(error);
    }
    if (running !== controller) return;
    stop();
    job.draw();
  };
  const job: Job = {
    isRunning: () => running !== undefined,
    toggle: () => {
      if (!running) return void start();
      stop();
      job.draw();
    },
    draw: () => draw(...lastDrawn!, job),
  };
  return (frame, options) => {
    const key = settings.map((name) => options.state[name]).join(' ');
    const isOther = setting !== undefined && key !== setting;
    if (isOther || frame.tokens !== lastDrawn?.[0].tokens) stop();
    if (isOther) made.delete(frame.tokens);
    setting = key;
    lastDrawn = [frame, options];
    job.draw();
  };
}
