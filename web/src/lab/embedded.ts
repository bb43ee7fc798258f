/**
 * The lab as a figure: two models that the reader trains, without the fields of their settings. Training ends at the
 * last step, and its workers end with the figure.
 */
import { html, render } from 'lit';
import { elapsed } from '../page/elapsed';
import { allows } from '../page/controls';
import type { Context, Scope } from '../page/context';
import { addElement, addFold, setText } from '../page/view';
import { createCharts, MAIN_CHARTS } from './charts';
import { addSaveMenu } from './export';
import { createMap } from './map';
import { Pair } from './pair';
import { isFineTune, printSettings } from './settings';
import { claimWords, shortVerdictWords, verdictWords } from './words';

const FRAME_MS = 100;
const TASK_WORDS =
  'Two models learn one task: after a circled digit, repeat the token before it, as in “a ② a”. ';

/**
 * Builds the figure.
 * @param isEmbed whether the figure is on a host's page, where the engine that trains is fetched when Train is pressed;
 * elsewhere it is fetched at once, and the maps are drawn before training
 */
export function build(root: HTMLElement, context: Context, scope: Scope, isEmbed: boolean): void {
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
  const grid = addElement(container, 'lab-grid');
  const numbers = isEmbed ? undefined : addFold(container, 'Numbers');
  const numbersText = numbers && addElement(numbers, '', 'p');
  const footer = addElement(root, 'figure-foot', 'p');
  const pair = new Pair(context, scope, true);
  const maps = ([0, 1] as const).map((side) => createMap(grid, side));
  const charts = addElement(grid, 'lab-charts');
  const drawCharts = createCharts(charts, 0, isEmbed ? MAIN_CHARTS : 1);
  const drawMaps = (theme = context.theme.peek()) => {
    const labs = pair.namedLabs();
    labs.forEach((lab, i) => maps[i]!(lab, theme));
    drawCharts(labs);
  };
  const menu = addSaveMenu(bar, context, () => {
    return { pair: pair.namedLabs(), columns: pair.columns, grid, draw: drawMaps };
  });
  let isEnded = false;
  /** Whether the pair opens as soon as there is an engine. */
  let isOpenRequested = !isEmbed;
  let isOpening = false;
  /** Whether the reader pressed Train, which may happen before the engine is loaded. */
  let isTrainRequested = false;
  scope.onEnd(() => (isEnded = true));

  async function open(): Promise<void> {
    isOpening = true;
    draw();
    try {
      await pair.openEngine(context.engine.peek()!.models);
      if (isEnded) return;
      for (const { problems } of pair.requestedSettings())
        for (const problem of problems) context.fail(`${problem}. The default is used.`);
      follow();
      await pair.reset();
      if (!isEnded && isTrainRequested) pair.train();
    } catch (error) {
      // The page reports a failure only if the reader asked for the engine. Train tries again.
      if (isEmbed || isTrainRequested) context.fail(error);
    }
    isOpening = false;
    draw();
  }

  /** Resets the training when the state's settings change, and redraws after changes. */
  function follow(): void {
    let lastRuns = '';
    scope.effect(() => {
      const { leftRun, rightRun } = context.state.value;
      if (lastRuns && lastRuns !== leftRun + rightRun) void pair.reset();
      lastRuns = `${leftRun}${rightRun}`;
    });
    let redrawTimer = 0;
    scope.onEnd(() => clearTimeout(redrawTimer));
    scope.effect(() => {
      void [context.theme.value, ...pair.labs.map(({ changes }) => changes.value)];
      redrawTimer ||= window.setTimeout(() => {
        redrawTimer = 0;
        draw();
      }, FRAME_MS);
    });
  }

  /** Hides the grid before the first training. In its place is the host's picture or a sentence. */
  function updateVisibility(): void {
    const isWaiting = isEmbed && !pair.isReady;
    if (grid.hidden === isWaiting) return;
    grid.hidden = isWaiting;
    progress.hidden = !isWaiting;
    root.dispatchEvent(new CustomEvent('waits', { detail: isWaiting, bubbles: true }));
  }

  let lastSentence = '';
  /**
   * Dispatches the event `ended` when both models have been trained: with the sentence, and with the numbers of the left
   * and of the right model, each an array with an entry for each step.
   */
  function report(): void {
    const labs = pair.namedLabs();
    const sentence = verdictWords(labs);
    if (!pair.isOver || sentence === lastSentence) return;
    lastSentence = sentence;
    const results = labs.map(({ name, lab }) => ({
      ...{ subject: printSettings(lab.settings, pair.tables), title: name, steps: lab.step },
      numbers: pair.columns.map((column) => ({
        ...{ name: column, axes: ['step'], shape: [lab.log.length] },
        data: lab.log.map((entry) => entry[column] ?? NaN),
      })),
    }));
    const detail = { view: 'lab', says: sentence, results };
    root.dispatchEvent(new CustomEvent('ended', { detail, bubbles: true }));
  }

  function draw(): void {
    updateVisibility();
    const { isRunning } = pair;
    const hasTrained = pair.isReady && pair.step > 0;
    const isText = isFineTune(context.state.peek().leftRun);
    const claim = `${isText ? '' : TASK_WORDS}${claimWords(context.state.peek(), isRunning)}`;
    const wordsOf = isEmbed ? verdictWords : shortVerdictWords;
    setText(finding, hasTrained && !isRunning ? wordsOf(pair.namedLabs()) : claim);
    if (numbers) numbers.hidden = !hasTrained;
    if (numbersText && hasTrained && !isRunning)
      setText(numbersText, verdictWords(pair.namedLabs()));
    finding.hidden = !allows(context.state.peek(), 'finding');
    const trainOrPause = () => {
      if (pair.isReady && !isOpening) return pair.toggle();
      isTrainRequested = true;
      if (isOpening) return draw();
      if (context.engine.peek()) return void open();
      isOpenRequested = true;
      draw();
    };
    const isLoading = isOpening || (isOpenRequested && isTrainRequested);
    render(
      html`<button
          type="button"
          class="primary train"
          ?disabled=${(isLoading && isTrainRequested) || (!isOpening && pair.isReady && !isRunning && !pair.canTrain) || pair.isOver}
          @click=${trainOrPause}
        >
          ${pair.trainWord}
        </button>
        <button
          type="button"
          ?disabled=${!hasTrained || isOpening}
          @click=${() => void pair.reset().catch(context.fail)}
        >
          Reset
        </button>
        <span class="lab-step"
          >${isLoading ? html`loading …${elapsed('')}` : pair.isReady ? `step ${pair.step} of ${pair.steps}${pair.leadWords}` : ''}</span
        >`,
      buttons,
    );
    menu.hidden = !hasTrained || !context.state.peek().controls.includes('save');
    if (!pair.isReady || pair.labs.some(({ picture }) => !picture)) return;
    drawMaps();
    report();
  }

  scope.effect(() => {
    const engine = context.engine.value;
    draw();
    if (!engine || !isOpenRequested) return;
    isOpenRequested = false;
    void open();
  });
  render(
    html`<a
      href=${context.link({ room: 'lab', leftRun: context.state.peek().leftRun })}
      target="_blank"
      rel="noopener"
      part="link"
      >Open in Sinkscope’s lab</a
    >`,
    footer,
  );
}
