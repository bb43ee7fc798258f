/**
 * The lab as a figure: two models that the reader trains, without the fields of their settings. Training ends at the
 * last step, and its workers end with the figure.
 */
import { html, render } from 'lit';
import { elapsed } from '../page/elapsed';
import { allows } from '../page/controls';
import type { Context, Scope } from '../page/context';
import { addElement, addFold, setText } from '../page/view';
import { Pair } from './pair';
import { createPictures, redrawAfterChanges } from './pictures';
import { isFineTune, printSettings } from './settings';
import { claimWords, shortVerdictWords, verdictWords } from './words';

const TASK_WORDS = 'The task: after “copy”, repeat the token before it, as in “a copy a”. ';

/** Adds the figure's elements, from top to bottom. */
function addPlaces(root: HTMLElement, context: Context, pair: Pair, isEmbed: boolean) {
  const container = addElement(root, 'lab-embedded');
  container.dataset.view = 'lab';
  const finding = addElement(container, 'lead', 'p');
  finding.dataset.finding = '';
  finding.setAttribute('role', 'status');
  const bar = addElement(container, 'lab-bar');
  const buttons = addElement(bar, 'lab-buttons');
  const progress = addElement(container, 'hint', 'p');
  progress.hidden = !isEmbed;
  progress.textContent = 'Attention maps and curves of both models appear here while they train.';
  // The attention, and the error of either kind of training.
  const chartCount = isEmbed ? 3 : 1;
  const pictures = createPictures(container, context, pair, chartCount);
  const menu = pictures.addSave(bar);
  const numbers = isEmbed ? undefined : addElement(addFold(container, 'Numbers'), '', 'p');
  const linkTemplate = html`<a
    href=${context.link({ room: 'lab', leftRun: context.state.peek().leftRun })}
    target="_blank"
    rel="noopener"
    part="link"
    >Open in Sinkscope’s lab</a
  >`;
  render(linkTemplate, addElement(root, 'figure-foot', 'p'));
  return { finding, buttons, progress, menu, numbers, ...pictures };
}

/**
 * Builds the figure.
 * @param isEmbed whether the figure is on a host's page, where the engine that trains is fetched when Train is pressed;
 * elsewhere it is fetched at once, and the maps are drawn before training
 */
export function build(root: HTMLElement, context: Context, scope: Scope, isEmbed: boolean): void {
  new EmbeddedLab(root, context, scope, isEmbed);
}

class EmbeddedLab {
  readonly #root;
  readonly #context;
  readonly #scope;
  readonly #isEmbed;
  readonly #pair;
  readonly #places;
  #isEnded = false;
  /** Whether the pair opens as soon as there is an engine. */
  #isOpenRequested;
  #isOpening = false;
  /** Whether the reader pressed Train, which may happen before the engine is loaded. */
  #isTrainRequested = false;
  #reportedSentence = '';

  constructor(root: HTMLElement, context: Context, scope: Scope, isEmbed: boolean) {
    this.#root = root;
    this.#context = context;
    this.#scope = scope;
    this.#isEmbed = isEmbed;
    this.#isOpenRequested = !isEmbed;
    this.#pair = new Pair(context, scope, true);
    this.#places = addPlaces(root, context, this.#pair, isEmbed);
    scope.onEnd(() => (this.#isEnded = true));
    scope.effect(() => {
      const engine = context.engine.value;
      this.#draw();
      if (!engine || !this.#isOpenRequested) return;
      this.#isOpenRequested = false;
      void this.#open();
    });
  }

  async #open(): Promise<void> {
    const { fail, engine } = this.#context;
    const pair = this.#pair;
    this.#isOpening = true;
    this.#draw();
    try {
      await pair.openEngine(engine.peek()!.models);
      if (this.#isEnded) return;
      for (const { problems } of pair.requestedSettings())
        for (const problem of problems) fail(`${problem}. The default is used.`);
      this.#follow();
      await pair.reset();
      if (!this.#isEnded && this.#isTrainRequested) pair.train();
    } catch (error) {
      // The page reports a failure only if the reader asked for the engine. Train tries again.
      if (this.#isEmbed || this.#isTrainRequested) fail(error);
    }
    this.#isOpening = false;
    this.#draw();
  }

  /** Resets the training when the state's settings change, and redraws after changes. */
  #follow(): void {
    let lastRuns = '';
    this.#scope.effect(() => {
      const { leftRun, rightRun } = this.#context.state.value;
      if (lastRuns && lastRuns !== leftRun + rightRun) void this.#pair.reset();
      lastRuns = `${leftRun}${rightRun}`;
    });
    redrawAfterChanges(this.#context, this.#pair, this.#scope, () => this.#draw());
  }

  /** Hides the pictures before the first training. In their place is the host's picture or a sentence. */
  #updateVisibility(): void {
    const { grid, progress } = this.#places;
    const isWaiting = this.#isEmbed && !this.#pair.isReady;
    if (grid.hidden === isWaiting) return;
    grid.hidden = isWaiting;
    progress.hidden = !isWaiting;
    this.#root.dispatchEvent(new CustomEvent('waits', { detail: isWaiting, bubbles: true }));
  }

  /**
   * Dispatches the event `ended` when both models have been trained: with the sentence, and with the numbers of the left
   * and of the right model, each an array with an entry for each step.
   */
  #report(): void {
    const { columns, isOver, tables } = this.#pair;
    const labs = this.#pair.namedLabs();
    const sentence = verdictWords(labs);
    if (!isOver || sentence === this.#reportedSentence) return;
    this.#reportedSentence = sentence;
    const results = labs.map(({ name, lab }) => ({
      ...{ subject: printSettings(lab.settings, tables), title: name, steps: lab.step },
      numbers: columns.map((column) => ({
        ...{ name: column, axes: ['step'], shape: [lab.log.length] },
        data: lab.log.map((entry) => entry[column] ?? NaN),
      })),
    }));
    const detail = { view: 'lab', says: sentence, results };
    this.#root.dispatchEvent(new CustomEvent('ended', { detail, bubbles: true }));
  }

  readonly #trainOrPause = () => {
    if (this.#pair.isReady && !this.#isOpening) return this.#pair.toggle();
    this.#isTrainRequested = true;
    if (this.#isOpening) return this.#draw();
    if (this.#context.engine.peek()) return void this.#open();
    this.#isOpenRequested = true;
    this.#draw();
  };

  #drawButtons(hasTrained: boolean): void {
    const { isRunning, isReady, canTrain, isOver, step, steps, trainWord } = this.#pair;
    const isWaiting = this.#isOpening || this.#isOpenRequested;
    const isLoading = this.#isOpening || (this.#isOpenRequested && this.#isTrainRequested);
    const cannotTrain = !this.#isOpening && isReady && !isRunning && !canTrain;
    const progress = isReady ? `step ${step} of ${steps}` : '';
    render(
      html`<button
          type="button"
          class="primary train"
          ?disabled=${(isWaiting && this.#isTrainRequested) || cannotTrain || isOver}
          @click=${this.#trainOrPause}
        >
          ${trainWord}
        </button>
        <button
          type="button"
          ?disabled=${!hasTrained || this.#isOpening}
          @click=${() => void this.#pair.reset().catch(this.#context.fail)}
        >
          Reset
        </button>
        <span class="lab-step">${isLoading ? html`loading …${elapsed('')}` : progress}</span>`,
      this.#places.buttons,
    );
  }

  #draw(): void {
    this.#updateVisibility();
    const { finding, numbers, menu, draw } = this.#places;
    const pair = this.#pair;
    const state = this.#context.state.peek();
    const hasTrained = pair.isReady && pair.step > 0;
    const hasResult = hasTrained && !pair.isRunning;
    const claim = `${isFineTune(state.leftRun) ? '' : TASK_WORDS}${claimWords(state)}`;
    const resultWords = () =>
      this.#isEmbed ? verdictWords(pair.namedLabs()) : shortVerdictWords(pair.namedLabs(), state);
    setText(finding, hasResult ? resultWords() : claim);
    finding.hidden = !allows(state, 'finding');
    if (numbers) numbers.parentElement!.hidden = !hasTrained;
    if (numbers && hasResult) setText(numbers, verdictWords(pair.namedLabs()));
    this.#drawButtons(hasTrained);
    menu.hidden = !hasTrained || !state.controls.includes('save');
    if (!pair.isReady || pair.labs.some(({ picture }) => !picture)) return;
    draw();
    this.#report();
  }
}
